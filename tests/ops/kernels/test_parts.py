"""Parts of a loss that share no weights."""

import jax
import jax.numpy as jnp
import pytest

from shoal.ops.kernels.flat import CannotLower, flatten
from shoal.ops.kernels.parts import apart

WEIGHTS = {name: jnp.ones((2,), jnp.float32) for name in ("actor", "bias", "critic")}
ROWS = jnp.ones((4, 2), jnp.float32)


def parts_of(loss, weights=WEIGHTS):
    program, _ = flatten(jax.grad(loss, has_aux=True), weights, ROWS)
    return program, apart(program, len(weights))


def actor_critic(weights, rows):
    policy = jnp.mean(rows @ weights["actor"] + rows @ weights["bias"])
    value = jnp.mean(jnp.square(rows @ weights["critic"]))
    loss = policy + 0.5 * value - 0.25 * jnp.mean(rows)
    return loss, {"loss": loss, "rows": jnp.mean(rows), "value": value}


def test_weights_that_meet_in_an_array_are_one_part():
    assert [part.leaves for part in parts_of(actor_critic)[1]] == [(0, 1), (2,)]


def test_a_mean_is_computed_by_the_part_of_its_weights():
    program, parts = parts_of(actor_critic)
    _, rows, value = program.outputs[3:]
    assert value in parts[1].means
    assert rows in parts[0].means  # it depends on the minibatch only: the first part computes it
    assert program.outputs[3] not in (*parts[0].means, *parts[1].means)  # the loss is computed from means


def test_a_part_has_only_the_steps_that_it_needs():
    program, parts = parts_of(actor_critic)
    products = [sum(s.primitive.name == "dot_general" for s in part.steps) for part in parts]
    assert products == [4, 2]  # forward and backward, of two networks and of one
    assert all(x is not program.inputs[2] for step in parts[0].steps for x in step.inputs)


def test_a_shared_layer_joins_the_parts():
    def loss(weights, rows):
        hidden = rows * weights["actor"][None]
        value = jnp.mean(hidden @ weights["critic"]) + jnp.mean(hidden @ weights["bias"])
        return value, {"loss": value}

    assert [part.leaves for part in parts_of(loss)[1]] == [(0, 1, 2)]


def test_a_weight_without_effect_is_a_part():
    def loss(weights, rows):
        value = jnp.mean(rows @ weights["actor"])
        return value, {"loss": value}

    assert [part.leaves for part in parts_of(loss)[1]] == [(0,), (1,), (2,)]


@pytest.mark.parametrize("joined", [lambda a, b: a + b * b, lambda a, b: a + jnp.exp(a - b), lambda a, b: a / b])
def test_a_loss_that_is_not_a_sum_is_refused(joined):
    def loss(weights, rows):
        policy, value = jnp.mean(rows @ weights["actor"]), jnp.mean(rows @ weights["critic"])
        return policy + value, {"joined": joined(policy - value, policy + value)}

    with pytest.raises(CannotLower, match="a loss is not a sum of losses with separate weights"):
        parts_of(loss)


def test_a_product_of_means_joins_their_weights():
    """Its gradient has arrays that depend on all of them."""

    def loss(weights, rows):
        value = jnp.mean(rows @ weights["actor"]) * jnp.mean(rows @ weights["critic"])
        return value, {}

    assert [part.leaves for part in parts_of(loss)[1]] == [(0, 2), (1,)]
