"""A GPU computes what the CPU computes, step by step and update by update.

Skipped where JAX has no GPU. Where it has one: `SHOAL_TEST_PLATFORM=cuda,cpu pytest tests/test_gpu.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.names import ranges
from shoal.core.registry import AGENTS, ENVS, make
from shoal.core.struct import to_arrays
from shoal.studies.throughput import make_stepper
from shoal.training.placement import key_words
from shoal.training.program import begin

pytestmark = pytest.mark.skipif(jax.default_backend() == "cpu", reason="JAX has no GPU here")

NAMES = [members[0] for members in ranges(ENVS).values()]


def on_both(function, *arguments):
    """The results of a function on the CPU and on the GPU, as NumPy arrays."""

    def run(device):
        result = jax.jit(function)(*jax.device_put(arguments, device))
        return jax.tree.map(np.asarray, jax.tree.map(key_words, result))

    return run(jax.devices("cpu")[0]), run(jax.devices()[0])


@pytest.mark.parametrize("name", NAMES)
def test_an_environment_takes_the_same_steps(name):
    env = make(name)
    try:
        stepper = make_stepper(env, 16, trajectory=True)
    except ValueError as error:
        pytest.skip(str(error))
    (_, cpu), (_, gpu) = on_both(stepper.run, *stepper.carry)
    for of_cpu, of_gpu in zip(jax.tree.leaves(cpu), jax.tree.leaves(gpu), strict=True):
        if of_cpu.dtype.kind == "f":
            np.testing.assert_allclose(of_gpu, of_cpu, rtol=1e-3, atol=1e-3)
        else:
            np.testing.assert_array_equal(of_gpu, of_cpu)


CASES = [
    ("ppo", "CartPole-v1", {}),
    ("ppo", "MinAtar/Breakout-v1", {"num_envs": 8, "num_steps": 16}),
    ("ppo", "MiniGrid-DoorKey-5x5-v0", {"num_steps": 16}),
    ("ppo", "CartPole-v1", {"memory": "gru", "num_steps": 16}),
    ("dqn", "CartPole-v1", {"learning_starts": 64, "train_frequency": 8, "prioritized": True}),
    ("pqn", "CartPole-v1", {"num_envs": 8, "num_steps": 16}),
    ("sac", "Pendulum-v1", {"learning_starts": 32}),
    ("td3", "Pendulum-v1", {"learning_starts": 32}),
    ("q-learning", "CliffWalking-v1", {}),
    ("es", "CartPole-v1", {"population_size": 16, "episode_steps": 50}),
]


@pytest.mark.parametrize(("agent", "name", "fields"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_an_update_of_an_agent_is_the_same(agent, name, fields):
    env = make(name)
    agent = to_arrays(AGENTS[agent].build(**fields).bind(env))

    def updated(key):
        member = begin(agent, env, jnp.int32(0), key)
        state, metrics = agent.update(member.state, env, jnp.int32(0))
        return agent.policy_state(state), metrics

    with jax.default_matmul_precision("highest"), jax.numpy_dtype_promotion("standard"):
        cpu, gpu = on_both(updated, make_key(0))
    for of_cpu, of_gpu in zip(jax.tree.leaves(cpu), jax.tree.leaves(gpu), strict=True):
        np.testing.assert_allclose(of_gpu, of_cpu, rtol=2e-3, atol=2e-4)
