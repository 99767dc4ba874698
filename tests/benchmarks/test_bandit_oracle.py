"""The reference returns with which bandit learners are compared."""

import importlib.util
from pathlib import Path

import pytest

path = Path(__file__).parents[2] / "benchmarks" / "bandit_oracle.py"
spec = importlib.util.spec_from_file_location("bandit_oracle", path)
oracle = importlib.util.module_from_spec(spec)
spec.loader.exec_module(oracle)


def test_the_optimal_policy_for_two_pulls_equals_a_hand_computation():
    # First 1/2. After a success (1/2) the same arm pays 2/3, after a failure the other one 1/2: 1/2 + 1/3 + 1/4.
    assert oracle.best_possible(2, 2) == pytest.approx(13 / 12)


def test_gittins_indices_of_the_last_two_pulls_equal_a_hand_computation():
    table = oracle.gittins_table(2)
    assert table[1, 0, 0] == pytest.approx(1 / 2, abs=2e-3)  # the last pull is worth its mean
    # Two pulls: (1/2 - x) + 1/2 (2/3 - x) = 0 at x = 5/9; after a failure, at 1/3, one stops.
    assert table[2, 0, 0] == pytest.approx(5 / 9, abs=2e-3)
    assert table[1, 1, 0] == pytest.approx(2 / 3, abs=2e-3)


@pytest.mark.parametrize(("arms", "pulls"), [(3, 8), (5, 10)])
def test_the_gittins_index_is_nearly_optimal_and_random_actions_are_not(arms, pulls):
    best = oracle.best_possible(arms, pulls)
    found = oracle.play(oracle.gittins(pulls), arms, pulls, 200_000).mean()
    assert best - 0.02 < found < best + 0.02  # an index that ignores the pulls left is 0.04 or more behind
    assert oracle.play(oracle.chance, arms, pulls, 20_000).mean() == pytest.approx(pulls / 2, abs=0.05)


def test_the_gittins_index_reaches_its_published_return():
    # Duan et al. 2016, table 1: 5 arms, 10 pulls, Gittins 6.6.
    assert oracle.play(oracle.gittins(10), 5, 10, 100_000).mean() == pytest.approx(6.6, abs=0.06)
