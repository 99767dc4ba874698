"""Sign-flip tests at fixed looks, against every sign vector by hand, and against scipy."""

import itertools

import numpy as np
import pytest
from scipy.stats import permutation_test

from shoal.ops import sequential
from shoal.ops.sequential import FIRST, NEVER, NO_DIFFERENCE, OPEN, SECOND, Design, interval, path, verdicts

LEVEL = 0.3  # high, so that few seeds decide


def by_hand(differences, looks, level):
    """The first look that rejects, by equations 1 and 2, with all sign vectors as Python tuples; NEVER without one."""
    vectors = [*itertools.product((1, -1), repeat=looks[-1])]
    rejected = set()
    for k, seeds in enumerate(looks):
        sums = {s: round(abs(sum(x * d for x, d in zip(s[:seeds], differences, strict=False))), 9) for s in vectors}
        allowed = int(level * (seeds / looks[-1]) ** sequential.SPENDING * len(vectors) + 1e-9)
        for value in sorted({sums[s] for s in vectors if s not in rejected}, reverse=True):
            more = {s for s in vectors if s not in rejected and sums[s] == value}
            if len(rejected | more) > allowed:
                break
            rejected |= more
        if vectors[0] in rejected:
            return k
    return NEVER


@pytest.mark.parametrize("seed", range(30))
def test_a_test_is_that_of_all_sign_vectors(seed):
    random = np.random.default_rng(seed)
    differences = random.normal(0.6, 1, 9).round(1 if seed % 2 else 9)  # with ties, and without
    design = Design((3, 6, 9))
    found = path(sequential.statistics(differences, design), design.shares, LEVEL)
    assert found.look == by_hand(differences, design.looks, LEVEL)
    first = np.flatnonzero(found.p <= found.bound)
    assert (first[0] if first.size else NEVER) == found.look


def test_p_at_one_look_is_that_of_scipy():
    differences = np.random.default_rng(3).normal(0.3, 1, 10)
    design = Design((10,))
    expected = permutation_test(
        (differences,), lambda x, axis: x.sum(axis), permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert path(sequential.statistics(differences, design), design.shares, 0.05).p == pytest.approx([expected])


@pytest.mark.parametrize("looks", [(2, 4, 6), (4, 5, 8)])
def test_exactly_its_share_of_sign_vectors_is_rejected(looks):
    """Over all signs of the same sizes, so that this is the error under the null hypothesis, and no estimate."""
    sizes = np.random.default_rng(1).exponential(size=looks[-1])
    design = Design(looks)
    signs = np.array([*itertools.product((1, -1), repeat=looks[-1])])
    looks_of = [path(sequential.statistics(sizes * s, design), design.shares, LEVEL).look for s in signs]
    for k, share in enumerate(design.shares):
        rejected = np.mean([look <= k for look in looks_of])
        assert rejected <= LEVEL * share + 1e-12
    assert rejected > LEVEL - 2 / len(signs) - 1e-12  # what earlier looks have left is not lost


def test_more_seeds_than_can_be_tried_keep_the_error():
    random = np.random.default_rng(0)
    design = Design((8, 16, 24), 0.1)
    found = [verdicts([*random.exponential(size=(2, 24))], design)[0, 1] for _ in range(400)]
    assert np.mean([verdict.outcome != OPEN for verdict in found]) < 0.1 + 3 * np.sqrt(0.1 * 0.9 / 400)


def test_the_first_sign_vectors_are_all_there_and_the_data_are_one_of_them():
    signs = sequential.sign_vectors(20)
    assert signs.shape == (2**14, 20) and (signs[0] == 1).all() and set(np.unique(signs)) == {-1, 1}
    assert len(np.unique(signs[:, :14], axis=0)) == 2**14
    assert abs(signs[1:, 14:].mean()) < 0.02
    assert not np.array_equal(signs, sequential.sign_vectors(20, seed=1))


def test_outcomes_name_the_higher_scores():
    high, low = np.arange(8) + 10.0, np.arange(8) % 3 * 1.0
    design = Design((8,))
    assert verdicts([high, low], design)[0, 1].outcome == FIRST
    assert verdicts([low, high], design)[0, 1].outcome == SECOND
    same = verdicts([high, high], design)[0, 1]
    assert same.outcome == OPEN and same.path.p == [1.0] and same.look == NEVER


def test_later_scores_change_no_earlier_decision():
    random = np.random.default_rng(5)
    scores = random.normal([[3.0], [0.0], [2.9]], 0.5, (3, 16))
    design = Design((8, 16))
    early, late = (verdicts([*scores[:, :seeds]], design) for seeds in (8, 16))
    assert early[0, 1].outcome == late[0, 1].outcome == FIRST
    assert early[0, 1].look == late[0, 1].look == 0 and late[0, 1].level == early[0, 1].level
    turned = scores.copy()
    turned[0, 8:] -= 100
    assert verdicts([*turned], design)[0, 1].outcome == FIRST


def test_step_down_frees_the_share_of_decided_pairs():
    """Of the last pair six differences are not 0: p = 2 / 2**6 is below alpha, and above alpha / 3."""
    scores = [np.arange(8.0) % 2 + 10, np.arange(8.0) % 4, np.zeros(8)]
    found = verdicts(scores, Design((8,)))
    assert [verdict.outcome for verdict in found.values()] == [FIRST] * 3
    assert [verdict.level for verdict in found.values()] == pytest.approx([0.05 / 3, 0.05 / 3, 0.05])
    assert found[1, 2].path.p == [2 / 2**6]
    with_margin = verdicts(scores, Design((8,), margin=1e-6))
    assert with_margin[1, 2].level == pytest.approx(0.05 / 3) and with_margin[1, 2].outcome == OPEN


def test_a_margin_finds_that_there_is_no_difference_worth_knowing():
    random = np.random.default_rng(0)
    first = random.normal(0, 1, 16)
    close = first + random.normal(0, 0.05, 16)
    design = Design((8, 16), margin=0.5)
    assert verdicts([first, close], design)[0, 1].outcome == NO_DIFFERENCE
    assert verdicts([first, first + 0.5], design)[0, 1].outcome == SECOND  # exactly the margin
    assert verdicts([first, first + 3 * (-1) ** np.arange(16)], design)[0, 1].outcome == OPEN


def test_scores_that_are_not_finite_are_evidence_for_nothing():
    first, second = np.arange(16.0) + 5, np.arange(16.0)
    first[3] = np.nan
    second[5] = -np.inf
    design = Design((8, 16), margin=100.0)
    found = verdicts([first, second], Design((16,)))[0, 1]
    assert found.outcome == FIRST and found.path.p == [2 / 2**14]
    nothing = verdicts([np.full(16, np.nan), second], design)[0, 1]
    assert nothing.outcome == OPEN and (nothing.path.p == 1).all()


def test_the_interval_excludes_zero_where_the_pair_is_decided():
    differences = np.random.default_rng(2).normal(1.0, 1.0, 24)
    design = Design((8, 16, 24))
    for seeds in design.looks:
        now = differences[:seeds]
        low, high = interval(now, design, 0.05)
        decided = path(sequential.statistics(now, design), design.shares, 0.05).look != NEVER
        assert (low > 0 or high < 0) == decided
        assert low < now.mean() < high
    assert interval(differences[:8], Design((8, 800)), 0.05) == (-np.inf, np.inf)
    assert np.isnan(interval(np.full(4, np.nan), Design((4,)), 0.05)).all()
    assert interval(np.zeros(8), Design((8,)), 0.05) == (0, 0)


def test_looks_end_at_the_largest_number():
    assert sequential.looks_of(64, 8) == (8, 16, 24, 32, 40, 48, 56, 64)
    assert sequential.looks_of(20, 8) == (8, 16, 20) and sequential.looks_of(4, 4) == (4,)
    assert Design((8, 64)).shares[-1] == 1
