"""Every memory keeps the contract in both forms, and memories that break it are found."""

import jax
import jax.numpy as jnp
import pytest

from memory_check import check_memory
from shoal.core.form import CPU, using
from shoal.core.keys import make_key
from shoal.nn.memory import GRU, MEMORIES, GTrXL, MinGRU


@pytest.mark.parametrize("as_trees", [False, True], ids=["loops", "trees"])
@pytest.mark.parametrize("name", MEMORIES)
@pytest.mark.sampled(6)
def test_every_memory_keeps_the_contract(name, as_trees):
    with using(CPU._replace(linear_recurrences_as_trees=as_trees, late_weight_gradients=as_trees)):
        check_memory(MEMORIES[name](8))


@pytest.mark.parametrize("name", MEMORIES)
def test_weights_outputs_and_carries_have_32_bits_where_jax_has_64(name):
    memory = MEMORIES[name](8)
    with jax.enable_x64(True):
        inputs, never = jnp.zeros((3, 2, 5), jnp.float32), jnp.zeros((3, 2), bool)
        weights, carry = memory.init(make_key(0), inputs), memory.initial_carry((2,))
        found = weights, memory.step(weights, inputs[0], carry), memory.unroll(weights, inputs, never, carry)
    for path, leaf in jax.tree_util.tree_leaves_with_path(found):
        assert leaf.dtype in (jnp.float32, jnp.int32, jnp.complex64), jax.tree_util.keystr(path)


def test_a_window_shorter_than_the_episode_and_several_layers():
    memory = GTrXL(8, window=4, layers=2, heads=2)
    with pytest.raises(AssertionError, match="does not depend on the inputs of all steps"):
        check_memory(memory, steps=9)  # two layers see 2 x 3 steps back, and no further
    check_memory(memory, steps=7)


class Forgetful(GRU):
    """Takes its first carry for that of the whole batch: a reset in the middle does nothing."""

    def unroll(self, weights, inputs, is_first, carry):
        return super().unroll(weights, inputs, jnp.zeros_like(is_first), carry)


class OneTooLate(GRU):
    """Resets one step too late."""

    def unroll(self, weights, inputs, is_first, carry):
        return super().unroll(weights, inputs, jnp.roll(is_first, 1, axis=0), carry)


class Detached(MinGRU):
    """No gradient flows back through its carry."""

    def unroll(self, weights, inputs, is_first, carry):
        outputs, carries = super().unroll(weights, inputs, is_first, carry)
        step = self.step(weights, inputs, jax.lax.stop_gradient(jnp.concatenate([carry[None], carries[:-1]])))[0]
        return jnp.where(is_first[..., None], outputs, step), carries


class Approximate(MinGRU):
    """Reads a sequence a little differently than step by step."""

    def unroll(self, weights, inputs, is_first, carry):
        return super().unroll(weights, 1.01 * inputs, is_first, carry)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (Forgetful, "something before a reset changes what follows it"),
        (OneTooLate, "something before a reset changes what follows it"),
        (Detached, "does not depend on the inputs of all steps"),
        (Approximate, "differs between step and unroll"),
    ],
)
def test_a_memory_that_breaks_the_contract_is_found(broken, reason):
    with pytest.raises(AssertionError, match=reason):
        check_memory(broken(8))


def test_sequences_have_any_leading_axes():
    memory, inputs = GTrXL(8, window=3), jnp.zeros((5, 2, 3, 4))
    weights = memory.init(jax.random.key(0), inputs)
    outputs, carries = memory.unroll(weights, inputs, jnp.zeros((5, 2, 3), bool), memory.initial_carry((2, 3)))
    assert outputs.shape == (5, 2, 3, 8) and carries.past.shape == (5, 2, 3, 1, 2, 8)
