"""Linear algebra in a user's network never makes a run hang."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.ops import linear_algebra
from shoal.ops.linear_algebra import can_wait_forever, check_never_waits, one_matrix_at_a_time

SCRIPT = """
import flax.linen as nn, shoal

class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (64, 64):
            x = nn.tanh(nn.Dense(width, kernel_init=nn.initializers.orthogonal())(x))
        return x

agent = shoal.PPO(network=Net(), num_envs=2, num_steps=8, num_minibatches=1, num_epochs=1)
shoal.train(agent, "CartPole-v1", steps=16, seeds=8, records=1, evaluations=0, progress=False, figures=False)
"""


def factors(matrices):
    return jax.vmap(jnp.linalg.qr)(matrices), jnp.linalg.qr(matrices[0]), jnp.linalg.solve(matrices, matrices)


@pytest.fixture
def affected(monkeypatch):
    monkeypatch.setattr(linear_algebra, "_is_affected", lambda: True)


def test_a_network_with_orthogonal_weights_trains_from_python(tmp_path):
    # With jaxlib 0.10.0 to 0.11.0 and two threads this waited forever, in four of four runs.
    # Not with this process's XLA_FLAGS: four devices have a larger pool.
    environment = {**os.environ, "NPROC": "2", "XLA_FLAGS": ""}
    command = [sys.executable, "-c", SCRIPT]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


def test_batches_are_found_at_any_depth(affected):
    @jax.vmap
    def deep(x):
        return jax.lax.scan(lambda q, _: (jnp.linalg.qr(q)[0], None), x, length=3)[0]

    matrices = jnp.ones((2, 3, 3))
    assert can_wait_forever(jax.jit(deep).trace(matrices))
    assert can_wait_forever(jax.jit(factors).trace(matrices))
    assert not can_wait_forever(jax.jit(lambda x: jnp.linalg.qr(x)).trace(matrices[0]))
    assert not can_wait_forever(jax.jit(lambda x: x @ x).trace(matrices))
    with pytest.raises(RuntimeError, match=r"computes .*qr.* of many matrices .* shoal.prepare\(threads=16\)"):
        check_never_waits(jax.jit(factors).trace(matrices))


def test_one_matrix_at_a_time_computes_the_same(affected):
    matrices = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3, 3)), jnp.float32)
    alone = jax.jit(one_matrix_at_a_time(lambda x: jax.vmap(jnp.linalg.qr)(x)))
    assert not can_wait_forever(alone.trace(matrices))
    for one, other in zip(jax.tree.leaves(alone(matrices)), np.linalg.qr(np.asarray(matrices)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
