"""A loop in one kernel: that of `jax.lax.scan`, to rounding. The kernel's operations run on the CPU."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.ppo import PPO
from shoal.core.form import form_for, using
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.ops.kernels.flat import CannotLower
from shoal.ops.kernels.loop import kernel_scan

scan_in_interpreter = partial(kernel_scan, interpret=True)


def step(table, carry, x):
    """A step with a carry of two arrays, a table that it closes over, and results of several shapes."""
    total, row = carry
    total = total + x["a"] * table.reshape(-1).at[row].get(mode="promise_in_bounds")
    row = jnp.where(total > 1, row + 1, row)
    return (total, row), {"total": total, "is_large": total > 1, "sum": jnp.sum(total) + x["t"]}


TABLE = jnp.arange(60, dtype=jnp.float32).reshape(20, 3) / 7
CARRY = (jnp.array([0.1, -0.4, 0.9], jnp.float32), jnp.array([0, 3, 5], jnp.int32))
XS = {"a": jnp.linspace(-1, 1, 15, dtype=jnp.float32).reshape(5, 3), "t": jnp.arange(5, dtype=jnp.float32)}


def test_equals_scan():
    got, want = (scan(partial(step, TABLE), CARRY, XS) for scan in (scan_in_interpreter, jax.lax.scan))
    assert jax.tree.structure(got) == jax.tree.structure(want)
    assert [x.dtype for x in jax.tree.leaves(got)] == [x.dtype for x in jax.tree.leaves(want)]
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), got, want)


def test_members_have_tables_of_their_own():
    tables = jnp.stack([TABLE, -TABLE])

    def loops(scan):
        return jax.vmap(lambda table: scan(partial(step, table), CARRY, XS))(tables)

    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), loops(scan_in_interpreter), loops(jax.lax.scan))


def test_is_one_launch_that_reads_a_table_as_it_is():
    """The table is reshaped before the kernel, and no array of all its rows is loaded inside it."""
    of_members = jax.vmap(lambda table: scan_in_interpreter(partial(step, table), CARRY, XS))
    program = jax.make_jaxpr(of_members)(jnp.stack([TABLE, TABLE]))
    (kernel,) = [e for e in program.eqns if e.primitive.name == "pallas_call"]
    assert kernel.params["grid_mapping"].grid == (2,)
    assert (2, 60) in [x.aval.shape for x in kernel.invars]
    assert "f32[16]" in str(kernel.params["jaxpr"])  # three rows, with padding
    assert "f32[64]" not in str(kernel.params["jaxpr"])  # all rows


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1"])
def test_a_rollout_equals_that_of_scan(env, monkeypatch):
    """The steps of the environment, the policy and the resets are those that the rollout writes for XLA."""
    env, scan = make(env, max_steps=3), jax.lax.scan
    agent = to_arrays(PPO(num_envs=3, num_steps=8, hidden=(16,)).bind(env))

    def rollout(key):
        state = agent.init(key, env)
        noise = 5 * agent.policy_noise(state, key)  # of different actions
        return agent.rollout.collect(env, state.env_states, agent.behavior(state), noise, key)[:2]

    keys = jnp.stack([jax.random.fold_in(make_key(0), m) for m in range(2)])
    with using(form_for("gpu", 2048)):
        want = jax.jit(jax.vmap(rollout))(keys)
        replaced = []

        def scan_of_rollout(step, carry, xs, **how):
            if getattr(step, "__name__", "") != "one_step":
                return scan(step, carry, xs, **how)
            replaced.append(step)
            return scan_in_interpreter(step, carry, xs)

        monkeypatch.setattr(jax.lax, "scan", scan_of_rollout)
        got = jax.jit(lambda keys: jax.vmap(rollout)(keys))(keys)
    assert len(replaced) == 1
    assert want[1].truncated.any()
    assert len(np.unique(want[1].action)) > 1
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), got, want)


def test_a_refusal_names_the_operation():
    with pytest.raises(CannotLower, match="the operation sort"):
        scan_in_interpreter(lambda carry, x: (jnp.sort(carry + x), None), jnp.zeros(3), jnp.ones((4, 3)))


def test_a_table_that_a_step_changes_is_refused():
    def changing(carry, row):
        return carry + carry.at[row].get(mode="promise_in_bounds"), None

    with pytest.raises(CannotLower, match="looks up rows of an array that it computes"):
        scan_in_interpreter(changing, jnp.zeros(3), jnp.zeros((4, 3), jnp.int32))


@pytest.mark.parametrize(
    ("shape", "weights", "warps"), [((4, 64), (64, 64), 1), ((32, 64), (64, 64), 2), ((4, 64), (128, 128), 4)]
)
def test_larger_arrays_have_more_warps(shape, weights, warps):
    weights = jnp.ones(weights, jnp.float32)

    def loop(carry, xs):
        return scan_in_interpreter(lambda carry, x: (carry + x * jnp.sum(weights), None), carry, xs)

    program = jax.make_jaxpr(loop)(jnp.zeros(shape), jnp.zeros(3))
    (kernel,) = [e for e in program.eqns if e.primitive.name == "pallas_call"]
    assert kernel.params["compiler_params"].num_warps == warps
