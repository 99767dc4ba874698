"""Slots: trials enter and leave a running program, and are trained as if each had a run of its own."""

import functools
import shutil

import jax
import numpy as np
import pytest

import shoal
from shoal.core.keys import make_key
from shoal.population.slots import Slots, Source, Trial, score_of
from shoal.specs.roster import first_roster
from shoal.specs.selector import REST, Schedule, Standing
from shoal.specs.spec import RunSpec
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.plan import make_plan
from tiny import SILENT

SEEDS, RECORDS = 2, 3  # of a trial
TABLE = {
    "agent": "q-learning",
    "env": "CliffWalking-v1",
    "fields": {"num_steps": 32},
    "steps": RECORDS * 64,
    "evaluations": RECORDS,
    "eval_episodes": 2,
    "eval_max_steps": 10,
}
REPLAY = {
    "agent": "dqn",
    "env": "CartPole-v1",
    "fields": {
        "num_steps": 8,
        "hidden": (4,),
        "buffer_size": 64,
        "learning_starts": 8,
        "batch_size": 8,
        "max_batch_size": 8,  # so that the program is the same whatever the batch sizes of the trials are
    },
    "steps": RECORDS * 32,
    "evaluations": 0,
}
TRIALS = {
    "q-learning": [{"learning_rate": rate, "env.step_reward": -rate} for rate in (0.05, 0.1, 0.2, 0.4, 0.8)],
    "dqn": [{"learning_rate": rate, "batch_size": size} for rate, size in ((1e-3, 4), (1e-2, 8), (1e-1, 2))],
}
CASES = {"q-learning": TABLE, "dqn": REPLAY}


class Script(Source):
    """A source with a list of settings that prunes trials after certain records and notes what it is told."""

    def __init__(self, settings, prune=(), lost=()):
        self.settings, self.prune, self.lost = settings, set(prune), set(lost)
        self.begun, self.events = 0, []

    @property
    def is_exhausted(self):
        return self.begun == len(self.settings)

    def ask(self, count):
        first, self.begun = self.begun, min(self.begun + count, len(self.settings))
        return [Trial(number, self.settings[number]) for number in range(first, self.begun)]

    def report(self, number, record, score):
        self.events.append(("report", number, record, score))
        return number not in self.lost

    def should_prune(self, number):
        record = max(record for kind, n, record, _ in self.events if (kind, n) == ("report", number))
        return (number, record) in self.prune

    def tell(self, number, score, reason=""):
        self.events.append(("tell", number, score, reason))


def planned(case, source=None, **changes):
    with jax.numpy_dtype_promotion("standard"):
        slots = Slots(settings=TRIALS[case], seeds=SEEDS, records=RECORDS)
        slots = slots if source is None else slots.with_source(source)
        spec = RunSpec(**{**CASES[case], "seeds": 2 * SEEDS, "records": RECORDS, "selector": slots, **changes})
        return make_plan(spec, selector=slots)


def stepped(run):
    """Step a run to its end: {trial: the policies of its members after its last record}, with the records of each."""
    found = {}
    while run.step():
        trials = run.records.columns["trial"][-1]
        for trial in set(trials[trials >= 0].tolist()):
            policies = jax.tree.map(lambda x, at=trials == trial: np.asarray(x)[at], run.policies())
            found[trial] = (policies, [*found.get(trial, (None, []))[1], len(run.records) - 1])
    return found


@functools.cache
def fed(case, folder):
    """A run in which trial 0 is pruned after its first record, so that the next ones enter at different records."""
    source = Script(TRIALS[case], prune={(0, 1)})
    run = Run(planned(case, source), RunFolder(folder))
    with jax.numpy_dtype_promotion("standard"):
        run.folder.create()
        run.open()
        return run, stepped(run), source


@pytest.fixture(params=CASES)
def case(request, tmp_path_factory):
    return request.param, *fed(request.param, tmp_path_factory.getbasetemp() / f"slots-{request.param}")


def test_a_trial_has_the_bits_of_a_run_of_its_own(case, tmp_path):
    name, run, found, _ = case
    entered = {trial: records[0] for trial, (_, records) in found.items()}
    assert entered[0] == entered[1] == 0 and entered[2] == 1 and len(found) == len(TRIALS[name])
    for trial in (1, max(found)):  # from the start; late, and in the slots of others
        assert len(found[trial][1]) == RECORDS
        setting, about = TRIALS[name][trial], CASES[name]
        mine, of_env = {}, {}
        for path, value in setting.items():
            (of_env if path.startswith("env.") else mine)[path.removeprefix("env.")] = value
        alone = shoal.train(
            **{**about, "fields": {**about["fields"], **mine}, "env_fields": of_env},
            preset=None,
            seeds=SEEDS,
            records=RECORDS,
            folder=tmp_path / str(trial),
            **SILENT,
        )
        with np.load(checkpoint.newest(alone.folder / "checkpoints") / "policies.npz") as saved:
            weights = [*saved.values()]
        for leaf, expected in zip(jax.tree.leaves(found[trial][0]), weights, strict=True):
            np.testing.assert_array_equal(leaf, expected)
        records, slots = found[trial][1], run.records.columns["trial"][found[trial][1][0]] == trial
        for column in ("train_return", "eval_return"):
            curve = np.stack([run.records.columns[column][record][slots] for record in records])
            np.testing.assert_array_equal(curve, alone.curves[column])


def test_scores_are_reported_by_age_and_every_trial_is_told_once(case):
    name, _, found, source = case
    reported = {n: [record for kind, m, record, _ in source.events if (kind, m) == ("report", n)] for n in found}
    told = [event[1:] for event in source.events if event[0] == "tell"]
    assert sorted(number for number, _, _ in told) == [*range(len(TRIALS[name]))]
    assert (0, None, "") in told and all(score is not None for number, score, _ in told if number)
    if name == "q-learning":  # evaluated in every record
        assert reported[0] == [1] and all(reported[n] == [1, 2, 3] for n in found if n)
        assert dict((number, score) for number, score, _ in told)[4] == pytest.approx(-8)  # 10 steps of -0.8


def test_a_run_resumes_from_its_checkpoint_with_the_same_bits(tmp_path):
    plan = planned("q-learning")
    with jax.numpy_dtype_promotion("standard"):
        whole = Run(plan, RunFolder(tmp_path / "whole"))
        whole.folder.create()
        whole.train()
        cut = RunFolder(shutil.copytree(tmp_path / "whole", tmp_path / "cut"))
        shutil.rmtree(checkpoint.newest(cut.checkpoints))
        resumed = Run(plan, cut)
        resumed.train(resume=True)
    assert len(resumed.records) == len(whole.records) == 3 * RECORDS
    for column, rows in whole.records.arrays().items():
        if column != "wall_seconds":
            np.testing.assert_array_equal(resumed.records.arrays()[column], rows, err_msg=column)
    assert whole.records.columns["trial"][-1].tolist() == [4, 4, -1, -1]  # five trials, two at a time
    for leaf, expected in zip(jax.tree.leaves(resumed.policies()), jax.tree.leaves(whole.policies()), strict=True):
        np.testing.assert_array_equal(leaf, expected)


# Single calls, without a run.

OUTLINE = Schedule(4, (64, 128, 192), (True,) * 3, 0, 8)
SLOTS = Slots(vary={"learning_rate": (0.0, 1.0)}, seeds=2, records=3)


def state_and_standing(score, alive=None, age=0):
    """Trial 7 in slots 0 and 1, trial 5 in slots 2 and 3, with these scores."""
    roster = first_roster({"learning_rate": np.zeros(4, np.float32)}, np.asarray([0, 1, 0, 1]))
    state = SLOTS.begin(roster, make_key(0))[0] | {"trial": np.asarray([7, 5]), "age": np.full(2, age)}
    alive = np.ones(4, bool) if alive is None else np.asarray(alive)
    return state, Standing(0, 2, roster, np.full(4, 2), np.asarray(score, float), alive)


def selected(source, *arguments, **options):
    state, standing = state_and_standing(*arguments, **options)
    return SLOTS.with_source(source).select(state, standing, make_key(0))


def test_a_diverged_trial_is_told_and_the_other_goes_on():
    source = Script([], prune=())
    state, turnover = selected(source, [1, 2, 3, np.inf], alive=[True, True, True, False])
    assert source.events == [("report", 7, 1, 1.5), ("tell", 5, None, "diverged")]
    assert turnover.source.tolist() == [0, 1, REST, REST] and state["trial"].tolist() == [7, -1]
    assert turnover.notes == ("trial 5: diverged after 1 record",) and not turnover.finished


def test_a_trial_that_the_source_gave_away_leaves_without_being_told():
    source = Script([], lost={5})
    state, turnover = selected(source, [1, 2, 3, 4], age=2)
    assert source.events == [("report", 5, 3, 3.5), ("report", 7, 3, 1.5), ("tell", 7, 1.5, "")]
    assert state["trial"].tolist() == [-1, -1] and turnover.finished


def test_a_member_without_an_episode_keeps_its_score_and_a_trial_without_any_is_told_so():
    source = Script([])
    state, _ = selected(source, [1, np.nan, np.nan, np.nan])
    assert source.events == [("report", 7, 1, 1.0)]
    _, standing = state_and_standing([np.nan, 3, np.nan, np.nan])
    state, _ = SLOTS.with_source(source).select(state, standing, make_key(0))
    assert source.events[1:] == [("report", 7, 2, 2.0)]  # of 1 and 3
    SLOTS.with_source(source).select(state, standing, make_key(0))
    assert source.events[2:] == [("report", 7, 3, 2.0), ("tell", 5, None, "unscored"), ("tell", 7, 2.0, "")]


def test_trials_are_found_in_the_slots_and_released():
    """Groups of two members: the trials 7 and 9, and a free group between them."""
    state = {"trial": np.asarray([7, -1, 9]), "age": np.asarray([2, 0, 1])}
    assert SLOTS.trials_in(state) == [7, 9] and SLOTS.trials_in(None) == []
    assert (SLOTS.members_of(state, 9), SLOTS.age_of(state, 9)) == (slice(4, 6), 1)
    released = SLOTS.release(state, 7)
    assert SLOTS.trials_in(released) == [9] and released["age"] is state["age"]
    assert SLOTS.trials_in(state) == [7, 9]  # the state itself is unchanged
    columns = {"trial": [np.asarray([7, 7, 9, 9]), np.asarray([7, 7, -1, -1])]}
    assert SLOTS.is_busy(columns).tolist() == [True, True, False, False]


def test_free_slots_rest_until_a_trial_comes():
    source = Script([{"learning_rate": 0.5}])
    roster = first_roster({"learning_rate": np.zeros(4, np.float32)}, np.asarray([0, 1, 0, 1]))
    slots = SLOTS.with_source(source)
    state, turnover = slots.fill(slots.begin(roster, make_key(0))[0], roster)
    assert turnover.source.tolist() == [-1, -1, REST, REST] and turnover.seed_index.tolist() == [0, 1, 0, 1]
    assert turnover.hyperparameters["learning_rate"].tolist() == [0.5, 0.5, 0, 0]
    idle = roster._replace(occupant=np.asarray([4, 5, -1, -1]))
    assert slots.fill(state, idle)[1] is None and slots.columns(state)["trial"].tolist() == [0, 0, -1, -1]


def test_scores_over_members():
    scores = np.asarray([4.0, 1.0, np.nan, 3.0, 10.0])
    assert [score_of(scores, how) for how in ("mean", "iqm", "min", "q25", "q100")] == [4.5, 3.5, 1.0, 2.5, 10.0]
    assert np.isnan(score_of(np.asarray([np.nan]), "iqm"))


MISTAKES = {
    "5 members cannot be split into trials with 2 seeds each": {"members": 5},
    "every trial needs 3 records, and one of 128 steps has 2": {"steps": (64, 128), "is_evaluated": (True, True)},
    "192 steps are 6 updates, which cannot be split into 4 records of equal length: use 256": {
        "steps": (32, 96, 128, 192),
        "is_evaluated": (True,) * 4,
    },
    "use evaluations=0 or evaluations=3": {"is_evaluated": (False, False, True)},
    "the first gradient step comes after 500 steps": {"learns_from": 500},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_sizes_that_do_not_fit_are_refused(message):
    changes = MISTAKES[message]
    slots = SLOTS.replace(records=4) if "4 records" in message else SLOTS
    if "steps" not in changes:
        slots.with_source(Script([])).check(OUTLINE)
    with pytest.raises(ValueError, match=message):
        slots.with_source(Script([])).check(OUTLINE._replace(**changes))


def test_trials_of_a_study_need_the_study():
    with pytest.raises(ValueError, match="continues with `shoal tune --resume STUDY`"):
        SLOTS.check(OUTLINE)
    for changes, message in (({"score": "q101"}, "score='q101' is unknown"), ({"seeds": 0}, "seeds=0 must be")):
        with pytest.raises(ValueError, match=message):
            Slots(**changes)
