"""The programs of every registered agent are lowered for NVIDIA GPUs on a mesh, on a machine without a GPU.

Nothing is compiled: this finds operations that do not exist on a GPU, not wrong results.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh

from learners import VARIANTS
from shoal.agents.bc import BC
from shoal.agents.crossq import CrossQ
from shoal.agents.dqn import DQN
from shoal.agents.droq import DroQ
from shoal.agents.es import ES
from shoal.agents.fast_td3 import FastTD3
from shoal.agents.ppo import PPO
from shoal.agents.pqn import PQN
from shoal.agents.sac import SAC
from shoal.agents.tabular import QTable
from shoal.agents.td3 import TD3
from shoal.agents.tqc import TQC
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import to_arrays
from shoal.rollouts.demonstrations import Demonstrations
from shoal.training.placement import Placement
from shoal.training.program import begin, evaluator, train_chunk

ROLLOUT = {"num_envs": 2, "num_steps": 4, "num_minibatches": 2}
REPLAY = {"num_envs": 2, "num_steps": 4, "buffer_size": 32, "batch_size": 4}
LESSON = Demonstrations(jnp.zeros((8, 4)), jnp.zeros(8, jnp.int32))
SMALL = {
    PPO: ("CartPole-v1", ROLLOUT),
    PQN: ("CartPole-v1", ROLLOUT),
    DQN: ("CartPole-v1", REPLAY),
    SAC: ("Pendulum-v1", REPLAY),
    TD3: ("Pendulum-v1", REPLAY),
    CrossQ: ("Pendulum-v1", REPLAY),
    TQC: ("Pendulum-v1", REPLAY),
    DroQ: ("Pendulum-v1", REPLAY),
    FastTD3: ("Pendulum-v1", REPLAY),
    ES: ("CartPole-v1", {"population_size": 4, "episode_steps": 3}),
    BC: ("CartPole-v1", {"batch_size": 4, "num_batches": 2, "demonstrations": LESSON}),
    QTable: ("FrozenLake-v1", {}),
}
EXTRA = {
    "memory": ("ppo", "Pendulum-v1", ROLLOUT | {"memory": "lstm"}),
    "pictures": ("ppo", "MinAtar/Breakout-v1", ROLLOUT),
    "categories": ("ppo", "MiniGrid-Empty-5x5-v0", ROLLOUT),
    "choices": ("sac", "CartPole-v1", REPLAY),
    "refined": ("dqn", "CartPole-v1", REPLAY | {"prioritized": True, "noisy": True, "dueling": True, "n_step": 3}),
    "sequences": ("dqn", "CartPole-v1", REPLAY | {"memory": "gru", "sequence_length": 4, "burn_in": 3}),
    "sequences of critics": ("sac", "Pendulum-v1", REPLAY | {"memory": "gru", "sequence_length": 4, "burn_in": 3}),
    "eigenvectors": ("es", "CartPole-v1", {"population_size": 4, "episode_steps": 3, "strategy": "CMA_ES"}),
}
CASES = {name: (name, *SMALL[AGENTS[name].cls]) for name in sorted(AGENTS)} | EXTRA
MORE = {"ppo", "dqn", "categories"}  # of which others here are the same and more
ON_EVERY_PLATFORM = {"AllocateBuffer", "LayoutConstraint"}  # XLA's own; what else is called must be NVIDIA's


def on_mesh(devices):
    """Two members on a mesh of accelerators."""
    seen = np.asarray(jax.devices()[:devices])
    return Placement(2, 2, 1, Mesh(seen, ("members",), axis_types=(AxisType.Auto,)))


def lowered(case, placement):
    """The three programs of a run for CUDA, as text, by name."""
    name, env_name, fields = CASES[case]
    env = to_arrays(make(env_name))
    agent = to_arrays(AGENTS[name].build(**fields).bind(env))
    two = jax.tree.map(lambda x: jax.ShapeDtypeStruct((2, *x.shape), x.dtype), (agent, env))
    seeds, clock = jax.ShapeDtypeStruct((2,), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32)
    key = jax.eval_shape(lambda: make_key(0))
    to_begin = placement.over_members(begin, 3)
    members = jax.eval_shape(to_begin, *two, seeds, key)
    programs = {
        "begin": (to_begin, (*two, seeds, key)),
        "train": (placement.over_members(train_chunk, 4), (members, *two, None, clock, clock)),
        "evaluate": (placement.over_members(evaluator(2, 3, greedy=True), 4), (members, *two, seeds, key)),
    }
    return {
        name: jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
        for name, (function, arguments) in programs.items()
    }


def calls(text):
    """What a program calls that is no operation of XLA."""
    return set(re.findall(r"custom_call @([\w$.]+)", text))


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] if case in VARIANTS or case in MORE else []) for case in CASES],
)
@pytest.mark.sampled(4)
def test_every_program_of_an_agent_lowers_for_cuda(case):
    for program, text in lowered(case, on_mesh(1)).items():
        foreign = {call for call in calls(text) - ON_EVERY_PLATFORM if not call.startswith("cu")}
        assert not foreign, f"{program} calls {foreign}"
        if case == "pictures" and program != "begin":  # by the kernels of accelerators, not by products over patches
            assert "stablehlo.convolution" in text
        if case == "eigenvectors" and program == "train":
            assert "cusolver_syevd_ffi" in calls(text)


def test_members_spread_over_two_devices_lower_for_cuda_too():
    for text in lowered("q-learning", on_mesh(2)).values():
        assert "mhlo.num_partitions = 2" in text and not calls(text) - {"Sharding", "SPMDFullToShardShape"}
