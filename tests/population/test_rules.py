"""The decisions of the selectors on scores that the tests make up; expected values are computed by hand or by NumPy."""

import numpy as np
import pytest

from shoal import ES, FRESH, PPO, REST, SAC, Standing
from shoal.core.keys import make_key
from shoal.core.ranges import Range
from shoal.core.registry import make
from shoal.population.evolve import Evolve
from shoal.population.halving import Halving
from shoal.population.pb2 import PB2, Model, Samples, _numbers, _positions
from shoal.population.pbt import PBT
from shoal.population.random import RandomSearch
from shoal.population.varying import ranked
from shoal.specs.roster import first_roster
from shoal.specs.selector import UserChoices

NAN = float("nan")
RATE = {"learning_rate": (1e-4, 1e-1, "log")}
KEY = make_key(3)


def standing(scores, rates=None, stopped=(), idle=(), record=0):
    members = len(scores)
    rates = np.full(members, 1e-2, np.float32) if rates is None else np.asarray(rates, np.float32)
    roster = first_roster({"learning_rate": rates}, np.arange(members, dtype=np.int32))
    roster.occupant[list(idle)] = -1
    alive = ~np.isin(np.arange(members), [*stopped, *idle])
    return Standing(record, 10 * (record + 1), roster, np.full(members, 10), np.asarray(scores, float), alive)


def test_members_are_ranked_with_missing_scores_last_and_ties_by_slot():
    # 9 in slot 3; then the two 5s of slots 1 and 4; -inf in slot 5; no score in slot 0; stopped ones: 6, then NaN in 7.
    found = ranked(standing([NAN, 5, 70, 9, 5, -np.inf, 100, NAN], stopped=(6, 7), idle=(2,)))
    assert found.tolist() == [3, 1, 4, 0, 5, 6, 7]  # NaN counts as -inf: slots 0 and 5 are equal


def test_truncation_copies_the_best_quarter_over_the_worst_quarter():
    seen = set()
    for seed in range(20):
        scores = [3, 8, 1, 6, 7, 2, 5, 4]
        _, turnover = PBT(vary=RATE, quantile=0.25).select(None, standing(scores), make_key(seed))
        assert np.delete(turnover.source, [2, 5]).tolist() == [0, 1, 3, 4, 6, 7]
        seen |= {tuple(turnover.source[[2, 5]])}
        assert turnover.new_episodes and not turnover.finished
    assert seen == {(1, 1), (1, 4), (4, 1), (4, 4)}  # the scores 8 and 7


def test_truncation_rounds_the_number_of_members_down():
    _, turnover = PBT(vary=RATE, quantile=0.25).select(None, standing(range(7)), KEY)  # 1.75 members
    assert turnover.source.tolist() == [6, 1, 2, 3, 4, 5, 6]
    _, turnover = PBT(vary=RATE, quantile=0.2).select(None, standing(range(5)), KEY)  # 0.2 * 5 is exactly 1
    assert turnover.source.tolist() == [4, 1, 2, 3, 4]


def test_nobody_is_replaced_by_a_member_that_is_not_better():
    for exploit in ("truncation", "tournament"):
        _, turnover = PBT(vary=RATE, exploit=exploit).select(None, standing([2, 2, 2, 2]), KEY)
        assert turnover.source.tolist() == [0, 1, 2, 3] and turnover.notes == ()
        _, turnover = PBT(vary=RATE, exploit=exploit).select(None, standing([NAN] * 4), KEY)
        assert turnover.source.tolist() == [0, 1, 2, 3]


def test_members_that_stopped_are_replaced_even_outside_of_the_quantile():
    scores = [4, 100, 5, 6, 100, 7, 8, 9]
    _, turnover = PBT(vary=RATE, quantile=0.125).select(None, standing(scores, stopped=(1, 4)), KEY)
    assert turnover.source.tolist() == [0, 7, 2, 3, 7, 5, 6, 7]


def test_a_tournament_takes_the_better_of_two():
    opponents = {slot: set() for slot in range(4)}
    for seed in range(60):
        _, turnover = PBT(vary=RATE, exploit="tournament").select(None, standing([1, 3, 2, NAN]), make_key(seed))
        assert turnover.source[1] == 1  # nobody is better
        assert turnover.source[2] in (1, 2)
        for slot, source in enumerate(turnover.source):
            opponents[slot].add(int(source))
    assert opponents == {0: {0, 1, 2}, 1: {1}, 2: {1, 2}, 3: {0, 1, 2}}


def test_copies_inherit_perturbed_values_and_all_others_keep_theirs():
    rates = [1e-3, 2e-3, 4e-3, 8e-3]
    seen = set()
    for seed in range(20):
        _, turnover = PBT(vary=RATE).select(None, standing([0, 1, 2, 3], rates), make_key(seed))
        assert turnover.source.tolist() == [3, 1, 2, 3]
        found = turnover.hyperparameters["learning_rate"]
        np.testing.assert_array_equal(found[1:], np.asarray(rates[1:], np.float32))
        seen.add(f"{found[0]:.5f}")
    assert seen == {"0.01000", "0.00640"}  # 0.008 * 1.25 and 0.008 / 1.25


@pytest.mark.parametrize(
    ("span", "values", "up", "down"),
    [
        (Range(1e-3, 1e-1, scale="log"), [0.01, 0.09, 0.001], [0.012, 0.1, 0.0012], [0.01 / 1.2, 0.075, 0.001]),
        (Range(0.9, 1.0), [0.95, 0.99, 0.9], [0.97, 1.0, 0.92], [0.93, 0.97, 0.9]),  # 0.2 x 0.1 wide
        (
            Range(1, 100, scale="log", is_whole=True),
            [10, 2, 100],
            [12, 3, 100],
            [8, 1, 83],
        ),  # 2.4 -> 2: one more
        (Range(4, 16, values=(4, 16, 8)), [8, 16, 4], [16, 16, 8], [4, 8, 4]),  # neighbors in order of size
        (Range(-3.0, 1.0), [-1.0, 0.9, -2.9], [-0.2, 1.0, -2.1], [-1.8, 0.1, -3.0]),
        (Range(0.9, 0.999, scale="near1"), [0.988, 0.999, 0.9], [0.99, 0.999, 1 - 0.1 / 1.2], [0.9856, 0.9988, 0.9]),
    ],
    ids=["log", "linear", "whole", "choices", "negative", "near 1"],
)
def test_a_perturbation_is_one_step_inside_of_the_range(span, values, up, down):
    np.testing.assert_allclose(span.stepped(np.asarray(values), 1.2, np.ones(3, bool)), up)
    np.testing.assert_allclose(span.stepped(np.asarray(values), 1.2, np.zeros(3, bool)), down)


def test_resampled_values_are_spread_over_the_range():
    rates = np.full(64, 1e-2)
    _, turnover = PBT(vary=RATE, explore="resample", quantile=0.5).select(None, standing(range(64), rates), KEY)
    new = turnover.hyperparameters["learning_rate"][turnover.source != np.arange(64)]
    assert len(new) == 32 and len(set(new.tolist())) > 30
    assert new.min() >= 1e-4 and new.max() <= 1e-1
    assert 8 <= (new < np.sqrt(1e-4 * 1e-1)).sum() <= 24  # log-uniform: half below the geometric mean


def test_the_same_key_decides_the_same():
    for one in (PBT(vary=RATE), Halving(vary=RATE, refill="fresh", eta=2)):
        state = one.begin(standing(range(8)).roster, KEY)[0]
        (_, a), (_, b), (_, c) = (one.select(state, standing(range(8)), make_key(seed)) for seed in (1, 1, 2))
        np.testing.assert_array_equal(a.hyperparameters["learning_rate"], b.hyperparameters["learning_rate"])
        assert not np.array_equal(a.hyperparameters["learning_rate"], c.hyperparameters["learning_rate"])


def play(selector, scores_of, members=9, records=10):
    """Call `select` after each record; return the source of each call, and the state of the run after the last one."""
    from shoal.training.run_state import RunState

    run = RunState.first(standing(np.zeros(members)).roster)
    state, _ = selector.begin(run.roster, KEY)
    sources = []
    for record in range(records):
        scores = np.where(run.roster.is_idle, np.nan, scores_of(record, run.roster))
        now = Standing(record, record + 1, run.roster, np.zeros(members), scores, ~run.roster.is_idle)
        state, turnover = selector.select(state, now, make_key(record))
        sources.append(turnover.source.tolist())
        run = run.replace(updates=record + 1).after(turnover)
    return sources, run


def test_successive_halving_keeps_a_third_at_records_1_3_and_9():
    scores = np.asarray([5, 1, 9, 2, 8, 3, 7, 4, 6])
    sources, run = play(Halving(vary=RATE, eta=3), lambda *_: scores)
    assert sources[0] == [REST, REST, 2, REST, 4, REST, 6, REST, REST]  # the scores 9, 8 and 7 go on
    assert sources[2] == [0, 1, 2, 3, REST, 5, REST, 7, 8]  # of the three, the score 9; idle slots stay idle
    assert [sources[i] for i in (1, *range(3, 10))] == [list(range(9))] * 8  # the last one is not compared
    assert run.roster.occupant.tolist() == [-1, -1, 2, -1, -1, -1, -1, -1, -1]


def test_halving_keeps_exactly_one_of_eta_when_all_are_equal_or_have_no_score():
    for scores in (np.zeros(7), np.full(7, NAN)):
        sources, _ = play(Halving(vary=RATE, eta=2), lambda *_, s=scores: s, members=7, records=1)
        assert sources[0] == [0, 1, 2, REST, REST, REST, REST]  # 7 / 2, rounded down; lower slots go on


def test_rungs_come_where_the_geometric_series_says():
    assert [Halving(eta=3, first=2).rung(n) for n in range(4)] == [2, 6, 18, 54]
    assert [Halving(eta=2.5).rung(n) for n in range(4)] == [1, 2, 6, 16]  # 1, 2.5, 6.25, 15.6


def test_freed_slots_get_new_members_that_are_compared_with_earlier_results():
    def scores(record, roster):
        return np.where(roster.occupant == 6, -1, roster.occupant)

    selector = Halving(vary=RATE, eta=2, refill="fresh")
    sources, run = play(selector, scores, members=4, records=3)
    assert sources[0] == [FRESH, FRESH, 2, 3]  # occupants 4 and 5 begin
    # Record 1: 4 and 5 reach the first rung, with 2 and 3 as earlier results there: the best two of 2, 3, 4, 5 go on.
    # 2 and 3 reach the second rung (2 records): one of two goes on.
    assert sources[1] == [0, 1, FRESH, 3]
    # Record 2: 4 and 5 reach the second rung, with the results 2 and 3 there: both go on. Occupant 6 reaches the first,
    # with the results 4, 5 and 3 there, and scores -1.
    assert sources[2] == [0, 1, FRESH, 3]
    assert run.roster.occupant.tolist() == [4, 5, 7, 3]
    assert run.roster.seed_index.tolist() == [4, 5, 7, 3]  # seeds that no member had before
    assert len(set(run.roster.hyperparameters["learning_rate"].tolist())) == 4


@pytest.mark.parametrize("kind", ["different", "equal", "missing"])
def test_a_third_of_all_new_members_passes_the_first_rung_of_asha(kind):
    random = np.random.default_rng(0)
    draw = {"different": lambda: random.normal(size=27), "equal": lambda: np.zeros(27), "missing": lambda: [NAN] * 27}
    selector = Halving(vary=RATE, eta=3, refill="fresh")
    state, _ = selector.begin(standing(np.zeros(27)).roster, KEY)
    begun, arrived, passed = np.zeros(27, int), 0, 0
    for record in range(200):
        is_first = begun == record
        state, turnover = selector.select(state, standing(draw[kind](), record=record), make_key(record))
        is_dropped = turnover.source == FRESH
        arrived, passed = arrived + is_first.sum(), passed + (is_first & ~is_dropped).sum()
        begun[is_dropped] = record + 1
    assert arrived > 1200 and 0.31 < passed / arrived < 0.36  # with only the last score of each slot kept: 0.04


def test_asha_forgets_only_the_oldest_scores_of_a_rung():
    selector = Halving(vary=RATE, eta=3, refill="fresh", first=2)
    state, _ = selector.begin(standing(np.zeros(3)).roster, KEY)
    for scores in ([1, 2, 3], [4, 5, 6]):
        state, _ = selector.select(state | {"began": np.zeros(3, int)}, standing(scores, record=1), KEY)
    assert sorted(state["reached"][0, 0, -6:].tolist()) == [1, 2, 3, 4, 5, 6]
    full = state | {"began": np.zeros(3, int), "reached": np.arange(24 * 4096.0).reshape(1, 24, 4096)}
    after, _ = selector.select(full, standing([7, 8, 9], record=1), KEY)
    assert after["reached"][0, 0].tolist() == [*range(3, 4096), 7, 8, 9]


def test_brackets_have_hyperbands_sizes_and_later_rungs():
    selector = Halving(vary=RATE, eta=3, brackets=3)
    # Hyperband: 3**2/3 : 3**1/2 : 3**0/1 = 3 : 1.5 : 1 of 22 slots: 12, 6, 4.
    assert selector.sizes(22) == [12, 6, 4] and selector.sizes(23) == [13, 6, 4]
    sources, _ = play(selector, lambda *_: np.arange(22), members=22, records=3)
    assert [i for i, of in enumerate(sources[0]) if of == REST] == list(range(8))  # bracket 0: 4 of 12 go on
    resting = [i for i, of in enumerate(sources[2]) if of == REST]
    assert [i for i in resting if i >= 12] == [12, 13, 14, 15]  # bracket 1 after 3 records: 2 of 6 go on


def test_random_search_begins_new_members_with_new_seeds_and_samples():
    sources, run = play(RandomSearch(vary=RATE), lambda *_: np.zeros(9), records=2)
    assert sources == [[FRESH] * 9] * 2
    assert run.roster.seed_index.tolist() == list(range(18, 27))
    assert len(set(run.roster.hyperparameters["learning_rate"].tolist())) == 9


def test_first_values_are_samples_except_where_the_run_gives_them():
    roster = first_roster({"a": np.ones(50, np.float32), "b": np.ones(50, np.float32)}, np.arange(50))
    selector = PBT(vary={"a": (10.0, 20.0), "b": (0.0, 2.0)}, first_given=("b",))
    _, changes = selector.begin(roster, KEY)
    assert list(changes) == ["a"]
    assert changes["a"].min() >= 10 and changes["a"].max() <= 20 and len(set(changes["a"].tolist())) > 40


INITIAL = [
    (PPO(), "log_std_init"),
    (SAC(), "alpha"),
    (ES(strategy="SNES"), "sigma"),
]


@pytest.mark.parametrize(("agent", "path"), INITIAL, ids=[path for _, path in INITIAL])
def test_pbt_varies_nothing_that_only_a_new_member_reads(agent, path):
    env = make("Pendulum-v1")
    vary = PBT().bind(agent, env, UserChoices()).vary
    assert vary and path not in vary
    assert path in RandomSearch().bind(agent, env, UserChoices()).vary  # its members are new
    with pytest.raises(ValueError, match=f"{path} is read only when a member begins"):
        PBT(vary=[path]).bind(agent, env, UserChoices())
    swept = UserChoices(first={path: [0.5, 0.6], "learning_rate": [1e-3, 1e-2]})
    assert path not in PBT().bind(agent, env, swept).vary


def test_pbt_varies_what_a_member_reads_with_these_settings():
    for agent, path in ((SAC(temperature="fixed"), "alpha"), (ES(strategy="Open_ES"), "sigma")):
        assert path in PBT().bind(agent, make("Pendulum-v1"), UserChoices()).vary


def test_segments_of_an_evolution_vary_nothing_that_only_a_new_member_reads():
    env = make("Pendulum-v1")
    assert Evolve(vary=(("log_std_init",),)).bind(PPO(), env, UserChoices()).vary
    with pytest.raises(ValueError, match="log_std_init is read only when a member begins"):
        Evolve(vary=(("log_std_init",),), segments=2, strategy="PersistentES").bind(PPO(), env, UserChoices())


def test_a_selector_of_an_older_run_is_bound_again():
    old = PBT(vary={"log_std_init": (-3.0, 1.0)}, first_given=())
    assert "log_std_init" in old.bind(PPO(), make("Pendulum-v1"), UserChoices()).vary


def test_copies_have_the_hyperparameters_of_their_original_that_do_not_vary():
    members = standing([1, 5, 3, 2])
    roster = members.roster._replace(
        hyperparameters={
            **members.roster.hyperparameters,
            "log_std_init": np.asarray([0.0, -1.0, -2.0, -3.0]),
            "env.gravity": np.asarray([9.0, 8.0, 7.0, 6.0]),
        }
    )
    _, turnover = PBT(vary=RATE).select(None, members._replace(roster=roster), KEY)
    assert turnover.source.tolist() == [1, 1, 2, 3]
    assert turnover.hyperparameters["log_std_init"].tolist() == [-1, -1, -2, -3]
    assert "env.gravity" not in turnover.hyperparameters


# PB2: where the largest gain is expected.

PB2_RANGES = {"learning_rate": (1e-4, 1e-1, "log")}


def gains_in(selector, gain_of, replacements, members=8, seed=0):
    """Runs the selector on members whose score rises by `gain_of(learning rate, replacement)`; the rates it chose."""
    roster = first_roster({"learning_rate": np.full(members, 1e-2, np.float32)}, np.arange(members, dtype=np.int32))
    state, changes = selector.begin(roster, make_key(seed))
    rates, scores, chosen = np.asarray(changes["learning_rate"]), np.zeros(members), []
    for record in range(replacements):
        scores = scores + gain_of(rates, record)
        state, turnover = selector.select(state, standing(scores, rates, record=record), make_key(1000 * seed + record))
        is_copy = turnover.source != np.arange(members)
        rates, scores = np.asarray(turnover.hyperparameters["learning_rate"]), scores[turnover.source]
        chosen.append(rates[is_copy])
    return chosen


def test_pb2_chooses_the_hyperparameters_with_the_largest_gain():
    def gain(rates, _):
        return 10 - (np.log10(rates) + 2) ** 2 * 10  # largest at 1e-2

    def near(selector):  # share of the late choices within 0.6 of a range that is 3 wide
        chosen = [gains_in(selector, gain, replacements=12, seed=seed)[6:] for seed in range(4)]
        return (np.abs(np.log10(np.concatenate(sum(chosen, []))) + 2) < 0.6).mean()

    assert near(PB2(vary=PB2_RANGES)) > 0.8
    assert near(PBT(vary=PB2_RANGES, explore="resample")) < 0.6  # 0.4 is expected


def test_pb2_follows_a_gain_that_changes_with_time():
    def gain(rates, record):
        return 10 - (np.log10(rates) - (-3.5 if record < 10 else -1.5)) ** 2 * 10

    chosen = gains_in(PB2(vary=PB2_RANGES), gain, replacements=24)
    assert np.median(np.abs(np.log10(np.concatenate(chosen[6:10])) + 3.5)) < 0.5
    assert np.median(np.abs(np.log10(np.concatenate(chosen[18:])) + 1.5)) < 0.5


def test_copies_that_are_chosen_together_differ():
    chosen = gains_in(PB2(vary=PB2_RANGES, quantile=0.5), lambda rates, _: np.log(rates) % 1, replacements=4)
    assert all(len(set(rates.tolist())) == len(rates) > 1 for rates in chosen)


@pytest.mark.parametrize("gain", [0.0, 5.0, NAN], ids=["no gain", "equal gains", "no score"])
def test_pb2_samples_in_the_range_where_gains_say_nothing(gain):
    selector = PB2(vary={"learning_rate": (1e-3, 2e-3)}, memory=3)
    for rates in gains_in(selector, lambda rates, record: gain + np.arange(len(rates)) * (record == 0), replacements=6):
        assert np.all((rates >= 1e-3) & (rates <= 2e-3))


def test_the_process_of_pb2_is_that_of_a_textbook():
    random = np.random.default_rng(0)
    samples = Samples(random.random((12, 2)), random.normal(size=12), random.normal(size=12) * 3 + 7, np.arange(12.0))
    model, pending = Model.most_likely(samples), samples.inputs(random.random((3, 2)), np.zeros(3))
    asked = samples.inputs(random.random((5, 2)), np.ones(5))

    def kernel(a, ta, b, tb):  # one pair at a time
        return np.exp(-sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / (2 * model.length**2)) * (
            1 - model.forgetting
        ) ** (abs(ta - tb) / 2)

    def covariance(points):
        return np.asarray([[kernel(*p, *q) for q in points] for p in points])

    seen = [*zip(samples.inputs(samples.points, samples.before), samples.time, strict=True)]
    later = [*seen, *((x, 13.0) for x in pending)]
    gain = (samples.gain - samples.gain.mean()) / samples.gain.std()
    inverse = np.linalg.inv(covariance(seen) + model.noise * np.eye(12))
    with_pending = np.linalg.inv(covariance(later) + model.noise * np.eye(15))
    expected = []
    for x in asked:
        mean = np.asarray([kernel(x, 13.0, *p) for p in seen]) @ inverse @ gain
        there = np.asarray([kernel(x, 13.0, *p) for p in later])
        variance = gain @ inverse @ gain / 12 * (1 - there @ with_pending @ there)
        expected.append(mean + np.sqrt(0.2 * np.log(0.4 * 12) * variance))
    np.testing.assert_allclose(model.bound(asked, pending, 13.0), expected)


def test_pb2_forgets_the_oldest_gains_and_those_of_stopped_members():
    selector = PB2(vary=PB2_RANGES, memory=2, quantile=0.25)
    state, _ = selector.begin(standing(range(4)).roster, KEY)
    for record, scores in enumerate(([0, 1, 2, 3], [5, 6, 7, 8], [5, 7, 9, NAN])):
        state, turnover = selector.select(state, standing(scores, stopped=(3,) if record == 2 else ()), KEY)
    assert turnover.source.tolist() == [0, 1, 2, 2]
    # Slot 0 was a copy of slot 3 (score 3, then 8): its gains are 5 - 3 and 5 - 8.
    np.testing.assert_array_equal(state["gain"], [[2, 5, 5, 5], [-3, 1, 2, NAN]])
    np.testing.assert_array_equal(state["score"], [5, 7, 9, 9])


@pytest.mark.parametrize(
    ("span", "numbers", "positions"),
    [
        (Range(1e-4, 1e-2, "log"), [1e-4, 1e-3, 1e-2], [0, 0.5, 1]),
        (Range(4, 16, values=(16, 4, 8)), [4, 8, 16], [0, 0.5, 1]),
        (Range(2, 6, is_whole=True), [2, 4, 6], [0, 0.5, 1]),
        (Range(3, 3), [3.0], [0]),
        (Range(3, 3, values=(3,)), [3.0], [0]),
    ],
    ids=["log", "list", "whole", "one number", "one value"],
)
def test_numbers_of_a_range_have_positions(span, numbers, positions):
    np.testing.assert_allclose(_positions(span, np.asarray(numbers)), positions)
    np.testing.assert_allclose(_numbers(span, np.asarray(positions)), numbers)
