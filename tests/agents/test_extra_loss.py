"""A term of the user's own in the loss of PPO."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal import PPO, Number, Struct, make, struct
from shoal.core.keys import make_key
from shoal.core.struct import to_arrays
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def more_entropy(policy, value, rows):
    return -0.02 * jnp.mean(policy.entropy())


def squared_weights_of_errors(policy, value, rows):
    return 0.5 * jnp.mean((value - rows.target) ** 2)


@struct
class KLToOld(Struct):
    """The estimated divergence from the policy that collected the samples, times `coef`."""

    coef: Number = 1.0

    def __call__(self, policy, value, rows):
        log_ratio = policy.log_prob(rows.action) - rows.log_prob
        return self.coef * jnp.mean(jnp.exp(log_ratio) - 1 - log_ratio)


@struct
class NoTerm(Struct):
    coef: Number = 1.0


def updated(env="CartPole-v1", **fields):
    """The weights and losses after an update."""
    env = make(env)
    agent = to_arrays(PPO(**{**FIELDS, "max_grad_norm": 1e9, **fields}).bind(env))
    state, metrics = jax.jit(type(agent).update)(agent, agent.init(make_key(0), env), env, jnp.int32(0))
    return state.weights, metrics.losses


def assert_close(left, right):
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("memory", ["none", "gru"])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_a_term_that_is_the_entropy_acts_as_a_larger_entropy_coef(env, memory):
    weights, losses = updated(env, extra_loss=more_entropy, entropy_coef=0.01, memory=memory)
    expected, plain = updated(env, entropy_coef=0.03, memory=memory)
    assert_close(weights, expected)
    assert losses["extra_loss"] == pytest.approx(-0.02 * float(losses["entropy"]), rel=1e-5)
    assert losses["loss"] == pytest.approx(float(plain["loss"]), rel=1e-4, abs=1e-6) and "extra_loss" not in plain


def test_a_term_that_is_the_value_loss_acts_as_a_larger_value_coef():
    weights, _ = updated(extra_loss=squared_weights_of_errors, value_coef=0.5, value_loss="squared")
    expected, _ = updated(value_coef=1.5, value_loss="squared")
    assert_close(weights, expected)


def test_a_penalty_on_the_divergence_from_the_old_policy_keeps_it_near():
    moved, pulled = (updated(extra_loss=KLToOld(coef), learning_rate=0.01)[1]["approx_kl"] for coef in (0.0, 100.0))
    assert pulled < 0.5 * moved


def test_its_numbers_are_swept_in_one_program_and_kept_in_the_spec(tmp_path):
    sweep = {"extra_loss.coef": [0.0, 10.0]}
    agent = PPO(extra_loss=KLToOld(), **FIELDS)
    run = shoal.train(agent, "CartPole-v1", sweep=sweep, folder=tmp_path / "r", **OPTIONS, **SILENT)
    assert run.spec.fields["extra_loss"].name.endswith("KLToOld")
    assert run.curves["extra_loss"].shape == (4, 2) and (run.curves["extra_loss"][:, 0] == 0).all()
    assert (run.curves["extra_loss"][1:, 1] > 0).all()
    plain = shoal.train(PPO(**FIELDS), "CartPole-v1", folder=tmp_path / "plain", **OPTIONS, **SILENT)
    assert "extra_loss" not in plain.spec.fields and "extra_loss" not in plain.curves


@pytest.mark.parametrize(
    ("term", "error", "words"),
    [
        (lambda policy, value, rows: value, ValueError, r"returns an array \[7\].*returns one number for the whole"),
        (lambda policy, value, rows: None, ValueError, "returns a NoneType"),
        (lambda policy, value, rows: jnp.int32(1), ValueError, "returns a number of int32"),
        (lambda policy, value: 0.0, TypeError, r"write extra_loss\(policy, value, rows\)"),
        (lambda policy, value, rows: rows.nothing, TypeError, "no attribute 'nothing'"),
        (lambda policy, value, rows: value.sum() if value[0] > 0 else 0.0, TypeError, "use jnp.where"),
        (3, TypeError, "extra_loss=3 is no function"),
        (NoTerm(), TypeError, "its class needs `__call__`"),
    ],
)
def test_a_wrong_term_is_refused_in_words_before_the_run(term, error, words):
    with pytest.raises(error, match=words):
        PPO(extra_loss=term).bind(make("CartPole-v1"))


def test_kernels_do_not_compute_it():
    with pytest.raises(ValueError, match="a kernel cannot compute an extra_loss"):
        PPO(extra_loss=more_entropy, kernels="on").bind(make("CartPole-v1"))
