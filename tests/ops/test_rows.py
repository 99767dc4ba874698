"""Action selection among few actions: ties, exploration, masks; against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.ops.rows import allowed, best_of, epsilon_greedy, mean_of, mean_where_best, one_of, pick, sum_of, with_change

LOTS = (jnp.arange(1200, dtype=jnp.float32) + 0.5) / 1200
LAST = jnp.float32(1 - 2**-24)  # the largest that a uniform draw of 24 bits gives


def row(*values):
    return [jnp.float32(value) for value in values]


def counts(values, explores):
    chosen = jax.vmap(lambda lot: epsilon_greedy(values, jnp.bool_(explores), lot))(LOTS)
    return np.bincount(chosen, minlength=len(values)).tolist()


def test_ties_are_broken_uniformly():
    assert counts(row(2, 1, 2, 2), False) == [400, 0, 400, 400]


def test_exploring_is_uniform_over_all_actions():
    assert counts(row(2, 1, 0), True) == [400, 400, 400]


def test_actions_that_are_not_allowed_are_never_chosen():
    mask = jnp.asarray([False, True, True])
    assert counts(allowed(row(9, 1, 0), mask), False) == [0, 1200, 0]
    assert counts(allowed(row(9, 1, 0), mask), True) == [0, 600, 600]


@pytest.mark.parametrize("actions", range(1, 40))
def test_the_largest_random_number_selects_the_last_action_and_0_the_first(actions):
    values = row(*[0] * actions)
    assert epsilon_greedy(values, jnp.bool_(False), LAST) == actions - 1
    assert epsilon_greedy(values, jnp.bool_(False), jnp.float32(0)) == 0


def test_non_finite_values_select_a_valid_action():
    assert 0 <= epsilon_greedy(row(np.nan, np.nan), jnp.bool_(False), jnp.float32(0.5)) <= 1


def test_means_ignore_forbidden_actions():
    values = allowed(row(3, 7, 5), jnp.asarray([True, False, True]))
    assert (best_of(values), mean_of(values)) == (5, 4)


def test_mean_where_best_averages_the_other_row():
    assert mean_where_best(row(2, 1, 2), row(10, 100, 30)) == 20


def test_reading_setting_and_adding_entries():
    values = row(1, 2, 3)
    assert [pick(values, jnp.int32(a)) for a in range(3)] == [1, 2, 3]
    assert with_change(values, jnp.int32(1), jnp.float32(9)) == [1, 9, 3]
    assert with_change(values, jnp.int32(-4), jnp.float32(9)) == [1, 2, 3]
    assert sum_of([values, values]) == [2, 4, 6]
    assert one_of([values, row(4, 5, 6)], jnp.bool_(True)) == [4, 5, 6]
    assert one_of([values], None) == values
