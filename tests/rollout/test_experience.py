"""What off-policy learners share, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.rollout.experience import batch_shares, gradient_steps_due, steps_of
from shoal.rollout.rollout import Rollout
from worlds import Tally


@pytest.mark.parametrize(
    ("starts", "frequency", "iterations", "expected"),
    [
        # After 10, 20, ..., 80 steps: multiples of 25 are passed at 30, 50 and 80; those up to 50 do not count.
        (50, 25, 2, [0, 0, 0, 0, 0, 0, 0, 2]),
        (25, 5, 1, [0, 0, 2, 2, 2, 2, 2, 2]),
        (0, 10, 1.0, [1, 1, 1, 1, 1, 1, 1, 1]),
        (0, 0.5, 1, [10, 10, 10, 10, 10, 10, 10, 10]),  # no more often than every step
    ],
)
def test_gradient_steps_are_due_every_so_many_steps_once_learning_has_started(starts, frequency, iterations, expected):
    numbers = {"starts": starts, "frequency": frequency, "iterations": iterations}
    numbers = {name: jnp.asarray(x) for name, x in numbers.items()}
    assert [int(gradient_steps_due(jnp.int32(age), 2, 5, **numbers)) for age in range(8)] == expected


def test_nothing_is_due_before_a_successor_is_there():
    due = [int(gradient_steps_due(jnp.int32(age), 4, 1, starts=0, frequency=1, iterations=1)) for age in range(3)]
    assert due == [0, 4, 4]


def test_samples_beyond_the_effective_batch_weigh_nothing():
    np.testing.assert_allclose(batch_shares(jnp.float32(4), 6), [0.25] * 4 + [0, 0])
    np.testing.assert_allclose(batch_shares(jnp.float32(9), 3), [1 / 3] * 3)
    np.testing.assert_allclose(batch_shares(jnp.float32(2.4), 3), [0.5, 0.5, 0])


def test_learning_goes_on_beyond_32_bits():
    sizes = {"num_envs": 4096, "num_steps": 64, "starts": 1e4, "frequency": 64.0, "iterations": 2.6}
    assert int(gradient_steps_due(jnp.int32(2**20), **sizes)) == 4096 * 3


def test_a_rollout_is_stored_with_its_masks_and_true_ends():
    env = Tally(max_steps=3)
    rollout = Rollout.for_env(env, 2, 8)
    worlds = rollout.init(env, make_key(0))

    def behave(obs, mask, noise, carry):
        del obs, mask, noise
        return jnp.full(2, 2, jnp.int32), None, carry

    _, seen, _ = rollout.collect(env, worlds, behave, jnp.zeros(8), make_key(1))
    steps = steps_of(seen)
    pairs = [
        (steps.seen.obs, seen.obs),
        (steps.seen.mask, seen.mask),
        (steps.finals.obs, seen.final_obs),
        (steps.finals.mask, seen.final_mask),
        (steps.final_slot, seen.final_slot),
        ((steps.action, steps.reward), (seen.action, seen.reward)),
        ((steps.terminated, steps.truncated), (seen.terminated, seen.truncated)),
    ]
    jax.tree.map(np.testing.assert_array_equal, *zip(*pairs, strict=True))
    assert steps.truncated.any()
