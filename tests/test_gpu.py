"""A GPU computes what the CPU computes, step by step and update by update, in every form of programs.

Skipped where JAX has no GPU. Where it has one: `SHOAL_TEST_PLATFORM=cuda,cpu pytest tests/test_gpu.py`. With
SHOAL_TEST_WITHOUT_GPU=1 the same is tried on a CPU, which then computes the programs in a GPU's forms.
"""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.form import CPU, form_for, using
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, ENVS, make
from shoal.core.struct import to_arrays
from shoal.studies.throughput import HORIZON, make_stepper
from shoal.training.placement import key_words
from shoal.training.program import begin

IS_HERE = jax.default_backend() != "cpu"
pytestmark = pytest.mark.skipif(not (IS_HERE or os.environ.get("SHOAL_TEST_WITHOUT_GPU")), reason="JAX has no GPU here")

NAMES = list({entry.cls: name for name, entry in reversed(list(ENVS.items()))}.values())[::-1]  # one of each class
ON_CPU = {"interpreted_kernels": jax.default_backend() == "cpu"}
FORMS = {
    "one member": form_for("gpu", 1)._replace(**ON_CPU),
    "many members": form_for("gpu", 2048)._replace(q_network_kernels=True, **ON_CPU),
    "without kernels": form_for("gpu", 2048)._replace(gradient_kernels=False, rollout_kernels=False),
    "cpu": CPU,
}


def computed(function, form, device, *arguments):
    """The results of a function that is traced in a form and runs on a device, as NumPy arrays."""
    with using(form):
        program = jax.jit(lambda *args: function(*args)).lower(*jax.device_put(arguments, device))
    options = form.compiler_options if device.platform == "gpu" else {}
    result = program.compile(options)(*jax.device_put(arguments, device))
    return jax.tree.leaves(jax.tree.map(np.asarray, jax.tree.map(key_words, result)))


CASES = [
    ("ppo", "CartPole-v1", {}),
    ("ppo", "MinAtar/Breakout-v1", {"num_envs": 8, "num_steps": 16}),
    ("ppo", "MiniGrid-DoorKey-5x5-v0", {"num_steps": 16}),
    ("ppo", "CartPole-v1", {"memory": "gru", "num_steps": 16}),
    ("a2c", "CartPole-v1", {}),
    ("dqn", "CartPole-v1", {"learning_starts": 64, "train_frequency": 8, "prioritized": True}),
    ("dqn", "CartPole-v1", {"learning_starts": 64, "train_frequency": 8}),
    ("c51", "CartPole-v1", {"learning_starts": 64, "train_frequency": 8}),
    ("pqn", "CartPole-v1", {"num_envs": 8, "num_steps": 16}),
    ("sac", "Pendulum-v1", {"learning_starts": 32}),
    ("td3", "Pendulum-v1", {"learning_starts": 32}),
    ("crossq", "Pendulum-v1", {"learning_starts": 32}),
    ("tqc", "Pendulum-v1", {"learning_starts": 32}),
    ("droq", "Pendulum-v1", {"learning_starts": 32}),
    ("fasttd3", "Pendulum-v1", {"num_envs": 8, "batch_size": 64, "learning_starts": 32, "train_frequency": 8}),
    ("iqn", "CartPole-v1", {"learning_starts": 64, "train_frequency": 8}),
    ("q-learning", "CliffWalking-v1", {}),
    ("es", "CartPole-v1", {"population_size": 16, "episode_steps": 50}),
]


@functools.cache
def policy_and_metrics(case, form):
    """The policies and metrics of two members after an update on the GPU in a form; without a form, on the CPU."""
    agent, name, fields = CASES[case]
    env = make(name)
    agent = to_arrays(AGENTS[agent].build(**fields).bind(env))

    def updated(seeds):
        def one(seed):
            member = begin(agent, env, seed, make_key(0))
            state, metrics = agent.update(member.state, env, jnp.int32(0))
            return agent.policy_state(state), metrics

        return jax.vmap(one)(seeds)

    device = jax.devices("cpu")[0] if form is None else jax.devices()[0]
    with jax.default_matmul_precision("highest"), jax.numpy_dtype_promotion("standard"):
        return computed(updated, CPU if form is None else FORMS[form], device, jnp.arange(2))


@pytest.mark.parametrize(
    ("case", "form"),
    [
        pytest.param(i, form, id=f"{agent}-{name}-{form}")
        for i, (agent, name, _) in enumerate(CASES)
        for form in FORMS
        if agent == "ppo" or form != "without kernels"  # only PPO's are in the usual form
    ],
)
def test_an_update_of_an_agent_is_the_same(case, form):
    for of_cpu, of_gpu in zip(policy_and_metrics(case, None), policy_and_metrics(case, form), strict=True):
        np.testing.assert_allclose(of_gpu, of_cpu, rtol=2e-3, atol=2e-4)


CHAOTIC = {"MFOS/IMP-LOLA-v0": 10}  # steps to compare: on a CPU too, a change of 1e-7 of a policy grows to 0.7 in 100


@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", NAMES)
def test_an_environment_takes_the_same_steps(name):
    env = make(name)
    try:
        stepper = make_stepper(env, 16, trajectory=True)
    except ValueError as error:
        pytest.skip(str(error))
    cpu = computed(stepper.run, CPU, jax.devices("cpu")[0], *stepper.carry)
    for form in ("one member", "cpu"):
        gpu = computed(stepper.run, FORMS[form], jax.devices()[0], *stepper.carry)
        for of_cpu, of_gpu in zip(cpu, gpu, strict=True):
            if name in CHAOTIC and of_cpu.dtype.kind == "f":
                if of_cpu.shape[:2] == (1, HORIZON):  # not what is left at the end
                    some = np.s_[:, : CHAOTIC[name]]
                    np.testing.assert_allclose(of_gpu[some], of_cpu[some], rtol=1e-3, atol=1e-3, err_msg=form)
            elif of_cpu.dtype.kind == "f":
                np.testing.assert_allclose(of_gpu, of_cpu, rtol=1e-3, atol=1e-3, err_msg=form)
            else:
                np.testing.assert_array_equal(of_gpu, of_cpu, err_msg=form)
