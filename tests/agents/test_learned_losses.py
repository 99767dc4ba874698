"""Losses with weights: their values against NumPy, the conditions of a drift, and their life in a population."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from shoal.agents.learned_losses import LearnedDrift, LearnedValueLoss
from shoal.agents.ppo import PPO
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import Struct, static_fields, struct
from shoal.specs.describe import build, describe
from shoal.specs.settings import AgentEnv, hyperparameters, is_static, populate


def random_like(tree, seed, scale=1.0):
    """The tree with normal deviates in place of its arrays; numbers are kept."""
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(scale * random.normal(size=np.shape(x)), jnp.float32), tree)


def drift_of(seed, base="none", scale=1.0):
    drift = LearnedDrift.init(make_key(0), base=base)
    return drift.replace(
        hidden=random_like(drift.hidden, seed, scale), output=random_like(drift.output, seed + 1, scale)
    )


@pytest.mark.parametrize("form", ["network", "residual"])
def test_the_value_loss_is_the_network_of_the_error(form):
    loss = LearnedValueLoss.init(make_key(0), hidden=(5, 3), form=form).replace(scale=2.0)
    loss = loss.replace(layers=random_like(loss.layers, 1))
    value, target = np.float32([[0.5, -3.0, 80.0]]), np.float32([[0.0, 1.0, 0.0]])
    layers = jax.tree.map(np.asarray, loss.layers)

    def network(x):
        for layer in layers[:-1]:
            x = np.tanh(x @ layer["kernel"] + layer["bias"])
        return (x @ layers[-1]["kernel"] + layers[-1]["bias"])[..., 0]

    error = value - target
    expected = 4 * network(error[..., None] / 2)
    if form == "residual":
        expected = expected + error**2 / 2 - 4 * network(np.zeros(1))
    got = loss(jnp.asarray(value), jnp.full_like(value, 9.0), jnp.asarray(target), 0.2)
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-5)


def test_a_residual_begins_as_the_squared_loss():
    error = jnp.float32([-30.0, -0.5, 0.0, 2.0, 100.0])
    loss = LearnedValueLoss.init(make_key(0), form="residual").replace(scale=10.0)
    np.testing.assert_array_equal(loss(error, error, jnp.zeros(5), 0.2), error**2 / 2)


def test_a_clipped_drift_begins_as_the_loss_of_ppo():
    ratio, advantage = (x.ravel() for x in np.meshgrid(np.float32([0.3, 0.75, 0.9, 1, 1.1, 1.5, 4]), [-2.0, 0.5]))
    drift = np.maximum((ratio - np.clip(ratio, 0.8, 1.2)) * advantage, 0)
    loss = LearnedDrift.init(make_key(0), base="clipped")
    got = loss(jnp.asarray(ratio), jnp.asarray(advantage), 0.2)
    np.testing.assert_allclose(got, -ratio * advantage + np.maximum(drift - 1e-4, 0), rtol=1e-5, atol=1e-6)
    assert np.abs(loss.hidden).min() > 0  # a step of the output weights changes the loss


def test_losses_have_as_many_weights_as_the_published_ones():
    value_loss, drift = LearnedValueLoss.init(make_key(0)), LearnedDrift.init(make_key(0))
    assert ravel_pytree(value_loss.layers)[0].size == 4353
    assert drift.hidden.size + drift.output.size == 1152


def test_the_drift_is_that_of_the_authors_code():
    for base in ("none", "clipped"):
        drift = drift_of(3, base)
        ratio, advantage = np.float32([0.3, 0.9, 1.0, 1.4, 6.0]), np.float32([1.2, -0.7, 2.0, 0.4, -1.5])
        log_ratio, rest = np.log(ratio), 1 - ratio
        deltas = np.stack([log_ratio, log_ratio**2, rest, rest**2], -1)
        x = np.concatenate([deltas, advantage[:, None] * deltas], -1)
        f = np.tanh(x @ np.asarray(drift.hidden)) @ np.asarray(drift.output)
        of_ppo = np.maximum((ratio - np.clip(ratio, 0.8, 1.2)) * advantage, 0) if base == "clipped" else 0
        expected = np.maximum(of_ppo + f - 1e-4, 0)
        assert (expected > 0).any()
        got = drift(jnp.asarray(ratio), jnp.asarray(advantage), 0.2)
        np.testing.assert_allclose(got, -ratio * advantage + expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
    base=st.sampled_from(["none", "clipped"]),
    log_ratio=st.floats(-20, 20),
    advantage=st.floats(-1e3, 1e3),
)
def test_the_conditions_of_a_drift_hold_for_any_weights(seed, scale, base, log_ratio, advantage):
    drift = drift_of(seed, base, scale)
    a, one = jnp.float32(advantage), jnp.float32(1)
    assert drift.drift(jnp.exp(jnp.float32(log_ratio)), a, 0.2) >= 0
    value, slope = jax.value_and_grad(drift.drift)(one, a, 0.2)
    assert value == 0 and slope == 0
    assert jax.grad(drift)(one, a, 0.2) == -a  # so a policy begins with the policy gradient


def test_a_field_holds_a_name_or_a_struct_with_leaves():
    loss = LearnedValueLoss.init(make_key(0), hidden=(4,))
    named, learned = PPO(), PPO(value_loss=loss)
    assert {"value_loss", "surrogate"} <= static_fields(named).keys()
    assert "value_loss" not in static_fields(learned) and "surrogate" in static_fields(learned)
    assert len(jax.tree.leaves(learned)) == len(jax.tree.leaves(named)) + len(jax.tree.leaves(loss))
    back = jax.tree.unflatten(jax.tree.structure(learned), jax.tree.leaves(learned))
    assert back.surrogate == "clipped" and back.value_loss.form == "network"
    assert jax.tree.map(lambda x: x, named).value_loss == "clipped"
    assert jax.tree.structure(named) != jax.tree.structure(learned)
    assert not is_static(AgentEnv(learned, make("CartPole-v1")), "value_loss")
    assert is_static(AgentEnv(named, make("CartPole-v1")), "value_loss")
    assert "value_loss.scale" in hyperparameters(AgentEnv(learned, make("CartPole-v1")))


def test_members_can_have_losses_of_their_own():
    losses = [LearnedValueLoss.init(make_key(seed), hidden=(4,)) for seed in range(3)]
    stacked = jax.tree.map(lambda *xs: np.stack(xs), *losses)
    setting = AgentEnv(PPO(value_loss=losses[0]), make("CartPole-v1"))
    agents, _ = populate(setting, {"value_loss": stacked}, 3)
    assert {x.shape[0] for x in jax.tree.leaves(agents)} == {3}
    got = jax.vmap(lambda agent: agent.value_loss(jnp.ones(()), jnp.ones(()), jnp.zeros(()), 0.2))(agents)
    expected = [loss(jnp.ones(()), jnp.ones(()), jnp.zeros(()), 0.2) for loss in losses]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_learned_loss_is_described_with_its_weights():
    loss = LearnedDrift.init(make_key(1), hidden=4, base="clipped")
    back = build(describe(loss))
    assert back.base == "clipped"
    jax.tree.map(np.testing.assert_array_equal, back.hidden, loss.hidden)


def test_a_struct_that_cannot_be_called_is_refused():
    @struct
    class NoLoss(Struct):
        """A struct without `__call__`."""

    with pytest.raises(TypeError, match="surrogate=NoLoss cannot be called"):
        PPO(surrogate=NoLoss()).bind(make("CartPole-v1"))
