"""Between chunks a selector copies members, starts new ones or idles slots; bits are as in an undisturbed run."""

import dataclasses
import shutil
from typing import Any

import jax
import numpy as np
import pytest

import shoal
from shoal.core.struct import static, struct
from shoal.specs.roster import first_roster
from shoal.specs.selector import FRESH, REST, Selector, Standing, Turnover, check_turnover, taken_turnover
from shoal.specs.spec import RunSpec
from shoal.tracking.events import Sink, Turned
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.placement import make_placement
from shoal.training.plan import make_plan
from tiny import SILENT

STEPS = 32  # of an update
SPEC = {
    "agent": "q-learning",
    "env": "CliffWalking-v1",
    "fields": {"num_steps": STEPS, "snapshots": 2},
    "steps": 6 * STEPS,
    "records": 3,
    "evaluations": 1,
    "eval_episodes": 2,
    "eval_max_steps": 10,
}
SAME = (0, 1, 2, 3, 4)  # on four devices the last of which has no member of its own


@struct
class Scripted(Selector):
    """Makes the given turnover after each record."""

    every: int = static(1)
    script: tuple = static(())  # sources of every record
    seeds: tuple = static(SAME)
    rates: tuple = static(())  # learning rates from the first turnover on
    ends: int = static(0)  # record after which the run ends; 0: none

    @property
    def ends_run(self):
        return self.ends > 0

    def ranges(self, agent, env):
        return {"learning_rate": (0.0, 1.0)}

    def begin(self, roster, key):
        return {"visits": np.zeros((), np.int32)}, {}

    def select(self, state, standing, key):
        visits = int(state["visits"])
        source = self.script[visits] if visits < len(self.script) else SAME
        changes: dict[str, Any] = {"learning_rate": np.asarray(self.rates, np.float32)} if self.rates else {}
        is_over = self.ends > 0 and visits + 1 >= self.ends
        turnover = Turnover(np.asarray(source), changes, np.asarray(self.seeds), (f"visit {visits}",), is_over)
        return {"visits": np.asarray(visits + 1, np.int32)}, turnover


@struct
class Rare(Scripted):
    """`Scripted` with a plain field `every`."""

    every: int = 2


class Turns(Sink):
    """A sink that stores the turnovers."""

    def __init__(self):
        self.heard = []

    def receive(self, event):
        if isinstance(event, Turned):
            self.heard.append(event)


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train five members, or those of the changes: (the run, its learners by name)."""

    def run(selector=None, on_mesh=False, memory_limit=0, sinks=(), **changes):
        folder = RunFolder(tmp_path_factory.mktemp("run") / "run")
        folder.create()
        spec = RunSpec(**{"seeds": len(SAME), **SPEC, **changes})
        with jax.numpy_dtype_promotion("standard"):
            plan = make_plan(spec, selector=selector, memory_limit=memory_limit, devices=1 if memory_limit else 0)
            if on_mesh:
                plan = dataclasses.replace(plan, placement=make_placement(plan.members, on_mesh=True))
            made = Run(plan, folder, sinks)
            made.train()
        return made, learners(folder)

    return run


def learners(folder):
    with np.load(checkpoint.file_of(checkpoint.newest(folder.checkpoints), checkpoint.LEARNERS)) as file:
        return dict(file)


def assert_same(left, right, rows=slice(None), others=slice(None)):
    assert left.keys() == right.keys() and len(left) > 4
    for name in left:
        np.testing.assert_array_equal(left[name][rows], right[name][others], err_msg=name)


PLACES = pytest.mark.parametrize("where", [{}, {"block": 2}, {"on_mesh": True}], ids=["alone", "blocks", "mesh"])


@PLACES
def test_a_turnover_that_changes_nothing_changes_no_bit(where, train):
    plain, expected = train(**where)
    visited, found = train(Scripted(), **where)
    assert_same(found, expected)
    for name, curve in plain.records.arrays().items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(visited.records.arrays()[name], curve, err_msg=name)


@PLACES
def test_a_member_that_enters_late_equals_one_that_was_there_from_the_start(where, train):
    _, expected = train(steps=4 * STEPS, records=2, fields={**SPEC["fields"], "horizon": 6.0 * STEPS}, **where)
    # Slots 0, 2 and 4 begin again after the first of three records, with the seeds of others; 1 and 3 go on.
    made, found = train(Scripted(script=((FRESH, 1, FRESH, 3, FRESH),), seeds=(2, 1, 1, 3, 0)), **where)
    assert found["state/age"].tolist() == [4, 6, 4, 6, 4] and found["alive"].all()
    assert_same(found, expected, [0, 2, 4], [2, 1, 0])
    roster = made.state.roster
    assert roster.occupant.tolist() == [5, 1, 6, 3, 7] and roster.parent.tolist() == [-1] * 5
    assert roster.born.tolist() == [2, 0, 2, 0, 2] and roster.seed_index.tolist() == [2, 1, 1, 3, 0]


@PLACES
def test_a_copy_begins_with_the_original_state_and_then_differs(where, train):
    _, before = train(**where, steps=2 * STEPS, records=1, fields={**SPEC["fields"], "horizon": 6.0 * STEPS})
    made, at_once = train(Scripted(script=((0, 0, 2, 3, 1),), ends=1), **where)
    assert_same(at_once, before, [0, 2, 3], [0, 2, 3])
    for copy, original in ((1, 0), (4, 1)):
        differing = [name for name in at_once if not np.array_equal(at_once[name][copy], before[name][original])]
        assert differing == ["state/key"]
    roster = made.state.roster
    assert roster.occupant.tolist() == [0, 5, 2, 3, 6] and roster.parent.tolist() == [-1, 0, -1, -1, 1]
    _, later = train(Scripted(script=((0, 0, 2, 3, 0),)), **where)
    assert len({q.tobytes() for q in later["state/q"]}) == 5
    assert later["state/age"].tolist() == [6] * 5


@PLACES
def test_an_idle_slot_is_not_trained_until_a_member_begins_in_it(where, train):
    made, found = train(Scripted(script=((0, REST, 2, 3, REST), SAME)), **where)
    assert found["state/age"].tolist() == [6, 2, 6, 6, 2]
    assert found["alive"].tolist() == [True, False, True, True, False]
    assert made.state.roster.occupant.tolist() == [0, -1, 2, 3, -1]
    curves = made.records.arrays()
    assert curves["episodes"][1:, [1, 4]].tolist() == [[0, 0]] * 2
    assert curves["occupant"].tolist()[1:] == [[0, -1, 2, 3, -1]] * 2
    _, again = train(Scripted(script=((0, REST, 2, 3, REST), (0, FRESH, 2, 3, FRESH))), **where)
    assert again["state/age"].tolist() == [6, 2, 6, 6, 2] and again["alive"].all()


def test_members_are_exchanged_between_waves(train):
    script = ((1, FRESH, 4, 0, 4), (2, REST, 2, 3, 3))
    made, expected = train(Scripted(script=script))
    limited, found = train(Scripted(script=script), memory_limit=2 * made.plan.member_bytes)
    assert [w.stop - w.start for w in limited.plan.waves] == [2, 2, 1]
    assert_same(found, expected)


def test_hyperparameters_change_without_a_new_program(train):
    rates = (0.0, 0.5, 0.5, 0.5, 0.5)
    made, found = train(Scripted(script=(SAME,), rates=rates))
    _, early = train(steps=2 * STEPS, records=1, fields={**SPEC["fields"], "horizon": 6.0 * STEPS})
    np.testing.assert_array_equal(found["state/q"][0], early["state/q"][0])  # did not train from then on
    assert not np.array_equal(found["state/q"][1], early["state/q"][1])
    assert made.records.arrays()["learning_rate"][1:].tolist() == [list(rates)] * 2


@PLACES
def test_a_run_with_a_selector_resumes_bit_for_bit(where, train):
    selector = Scripted(script=((4, FRESH, 2, 0, 4), (0, 0, REST, 3, 4)), seeds=(0, 7, 2, 3, 4))
    whole, expected = train(selector, **where)
    folder = RunFolder(shutil.copytree(whole.folder.path, whole.folder.path.with_name("cut")))
    shutil.rmtree(checkpoint.newest(folder.checkpoints))
    turns = Turns()
    with jax.numpy_dtype_promotion("standard"):
        resumed = Run(whole.plan, folder, [turns])
        resumed.train(resume=True)
    assert_same(learners(folder), expected)
    assert resumed.state.roster.occupant.tolist() == whole.state.roster.occupant.tolist()
    for name, curve in whole.records.arrays().items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(resumed.records.arrays()[name], curve, err_msg=name)
    assert [event.notes for event in turns.heard] == []  # it had been visited twice before the cut


def test_a_selector_ends_a_run_that_has_no_fixed_end(train):
    turns = Turns()
    made, found = train(Scripted(ends=5), sinks=[turns])
    assert made.plan.updates is None and made.state.finished
    assert found["state/age"].tolist() == [10] * 5 and len(made.records) == 5
    assert [event.notes for event in turns.heard] == [(f"visit {i}",) for i in range(5)]
    assert np.diff([0, *made.records.arrays()["env_steps"]]).tolist() == [2 * STEPS] * 5


def test_a_summary_names_occupants_and_scores_them_together(train):
    made, _ = train(Scripted(script=((0, 0, REST, 3, 4),), rates=(0.1, 0.2, 0.3, 0.4, 0.5)))
    summary = made.folder.read_json("summary.json")
    assert [row["name"] for row in summary["per_member"]] == [
        "occupant=0 learning_rate=0.1",
        "occupant=5 learning_rate=0.2",
        "occupant=-1 learning_rate=0.3",
        "occupant=3 learning_rate=0.4",
        "occupant=4 learning_rate=0.5",
    ]
    assert [row["setting"] for row in summary["settings"]] == [{}]


def test_scores_belong_to_occupants(train):
    made, _ = train(Scripted(script=((0, FRESH, REST, 3, 3),)), evaluations=3)
    assert made.state.best_return[0] > -np.inf
    made, _ = train(Scripted(script=((0, FRESH, REST, 3, 3),), ends=1), evaluations=3)
    assert (made.state.best_return > -np.inf).tolist() == [True, False, False, True, False]


@struct
class EndsAt(Selector):
    """Ends the run when every member has a score of at least `score`; writes `select` only."""

    score: float = -1e9
    as_numpy: bool = static(False)

    def select(self, state, standing, key):
        finished = (standing.score >= self.score).all()
        return state, Turnover.none(standing)._replace(finished=finished if self.as_numpy else bool(finished))


def test_a_selector_that_writes_only_select_ends_a_run(train):
    made, found = train(EndsAt(), evaluations=3)
    assert found["state/age"].tolist() == [2] * 5 and made.state.selector is None
    assert made.plan.updates == 6 and made.is_over  # the run was planned for three records, and ended after one
    made, found = train(EndsAt(score=1e9), evaluations=3)
    assert found["state/age"].tolist() == [6] * 5


OF_A_USER = """
import numpy as np
from shoal import Selector, Turnover, static, struct

@struct
class TakeTheBest(Selector):
    every: int = static(1)

    def ranges(self, agent, env):
        return {"learning_rate": (0.01, 1.0)}

    def begin(self, roster, key):
        return None, {}

    def select(self, state, standing, key):
        best = int(np.argmax(np.nan_to_num(standing.score, nan=-np.inf)))
        rates = standing.roster.hyperparameters["learning_rate"] * np.float32(0.5)
        source = np.where(standing.score < np.median(standing.score), best, np.arange(len(standing.score)))
        return None, Turnover(source, {"learning_rate": rates}, standing.roster.seed_index)
"""


def test_a_user_selector_is_kept_in_the_spec_and_resumes(tmp_path, monkeypatch):
    (tmp_path / "of_a_user.py").write_text(OF_A_USER)
    monkeypatch.syspath_prepend(tmp_path)
    from of_a_user import TakeTheBest  # type: ignore[import-not-found]  # written above

    options = {name: value for name, value in SPEC.items() if name not in ("agent", "env")}
    with jax.numpy_dtype_promotion("standard"):
        whole = shoal.train(
            "q-learning", SPEC["env"], selector=TakeTheBest(), seeds=3, folder=tmp_path / "a", **options, **SILENT
        )
        cut = RunFolder(shutil.copytree(whole.folder, tmp_path / "b"))
        shutil.rmtree(checkpoint.newest(cut.checkpoints))
        (cut.path / "summary.json").unlink()
        shoal.train(resume=cut.path, **SILENT)
    assert_same(learners(cut), learners(RunFolder(whole.folder)))
    assert [policy.actor.learning_rate for policy in whole.policies] == [
        np.float32(0.125)
    ] * 3  # the preset's 0.5, halved twice
    exported = shoal.export(whole.folder, tmp_path / "policy", member=0)
    assert shoal.load_result(exported).spec.fields["learning_rate"] == pytest.approx(0.125)


def test_a_selector_that_no_file_can_hold_is_refused(tmp_path):
    @struct
    class Local(Scripted):
        """A selector class that is local to this function."""

    for selector, message in (
        (Local(), "the class Local .* move the class to a file of its own, .* `from my_selectors import Local`"),
        (
            Scripted(script=lambda: SAME),
            "selector.script cannot be written to spec.json, .* a function that is at the top level",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            shoal.train("q-learning", SPEC["env"], selector=selector, steps=32, folder=tmp_path / "a", **SILENT)


@pytest.mark.parametrize("every", [0, -1, 1.5, True])
def test_records_between_two_calls_are_a_whole_number(every, tmp_path):
    with pytest.raises(ValueError, match=f"every={every} of the selector must be a whole number, 1 or more"):
        shoal.train("q-learning", SPEC["env"], selector=Rare(every=every), folder=tmp_path / "a", **SILENT)


def test_a_plain_field_every_means_what_a_static_one_means(train):
    script = ((1, 1, 2, 3, 4),)
    static_one, plain_one = (train(made(every=2, script=script))[0] for made in (Scripted, Rare))
    curves = plain_one.records.arrays()
    assert curves["occupant"][:, 0].tolist() == [0, 0, 5]  # a column is written before the turnover of its record
    for name, curve in static_one.records.arrays().items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(curves[name], curve, err_msg=name)


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        ((0, 1), {}, "needs a source for each of 3 slots"),
        ((0, 3, 2), {}, "slot 1 cannot become a copy of slot 3: there are slots 0 to 2"),
        ((0, 2, 2), {}, "slot 1 cannot become a copy of slot 2, which is idle"),
        ((0, 1, 2), {"epsilon": np.ones(3)}, "'epsilon' was not declared by the selector's `ranges`.* learning_rate"),
        ((0, 1, 2), {"learning_rate": np.ones(2)}, "learning_rate must have a value for each of 3 slots"),
    ],
)
def test_an_invalid_turnover_is_refused(source, changes, message):
    plan = make_plan(RunSpec(**SPEC, seeds=3), selector=Scripted())
    roster = plan.roster._replace(occupant=np.asarray([0, 1, -1]))
    standing = Standing(0, 2, roster, np.zeros(3), np.zeros(3), np.ones(3, bool))
    with pytest.raises(ValueError, match=message):
        check_turnover(Turnover(np.asarray(source), changes, np.arange(3)), standing.roster)


STANDING = Standing(0, 2, first_roster({}, np.zeros(2, int)), np.zeros(2), np.zeros(2), np.ones(2, bool))


@pytest.mark.parametrize("kind", [bool, np.bool_, np.asarray, jax.numpy.asarray])
def test_finished_of_numpy_and_jax_becomes_a_bool(kind):
    state, turnover = taken_turnover(("state", Turnover.none(STANDING)._replace(finished=kind(True))), STANDING)
    assert state == "state" and turnover.finished is True


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Turnover.none(STANDING), r"select must return \(state, Turnover\), not Turnover"),
        (None, r"select must return \(state, Turnover\), not NoneType"),
        (({}, None), r"select must return \(state, Turnover\), not \(dict, NoneType\)"),
        ((None, Turnover.none(STANDING)._replace(finished=np.ones(2, bool))), r"finished .* True or False, not array"),
        ((None, Turnover.none(STANDING)._replace(finished=1)), "finished of a Turnover must be True or False, not 1"),
        ((None, Turnover.none(STANDING)._replace(finished="no")), "must be True or False, not 'no'"),
    ],
)
def test_another_answer_of_select_is_refused(answer, message):
    with pytest.raises(TypeError, match=message):
        taken_turnover(answer, STANDING)


def test_a_run_ends_with_finished_as_a_bool_of_numpy(train):
    made, _ = train(EndsAt(as_numpy=True), evaluations=3)
    assert made.state.finished is True and made.folder.has("summary.json")
