"""`stop_at`: members end when an evaluation reaches a return, alone or by their mean; `videos_every`."""

import jax
import numpy as np
import pytest

import shoal
from listeners import Interrupt
from shoal.specs.roster import first_roster
from shoal.specs.spec import RunSpec
from shoal.training.run_state import RunState
from shoal.training.stop_at import reached_goal
from shoal.training.stopping import Stopped
from tiny import SILENT

RUN = {
    "agent": "q-learning",
    "env": "FrozenLake-v1",
    "seeds": 5,
    "steps": 40_000,
    "records": 8,
    "evaluations": 8,
    "eval_episodes": 20,
    **SILENT,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run without `stop_at`."""
    return shoal.train(**RUN, folder=tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The same run, in which members end at 0.7."""
    return shoal.train(**RUN, stop_at=0.7, folder=tmp_path_factory.mktemp("ended") / "run")


def first_at(curves, goal):
    """The record [M] at which an evaluation of each member first reached a return; the number of records if none."""
    reached = curves["eval_return"] >= goal
    return np.where(reached.any(axis=0), reached.argmax(axis=0), len(reached))


@pytest.mark.parametrize(
    ("returns", "before", "alive", "mean", "new", "end"),
    [
        ([0.7, 0.6, 0.9], [0, 0, 0], [1, 1, 1], False, [1, 0, 1], ""),
        ([0.7, 0.6, 0.9], [5, 0, 0], [1, 1, 1], False, [0, 0, 1], ""),  # the first has reached it before
        ([0.1, 0.7, 0.9], [5, 0, 0], [1, 1, 1], False, [0, 1, 1], "no member is left that has not reached 0.7"),
        ([0.1, np.nan, 0.9], [5, 0, 0], [1, 0, 1], False, [0, 0, 1], "no member is left that has not reached 0.7"),
        ([0.1, 1.0, 0.7], [0, 0, 0], [1, 1, 1], True, [0, 0, 0], ""),  # their mean is 0.6
        (
            [0.5, 1.0, 0.75],
            [0, 0, 0],
            [1, 1, 1],
            True,
            [0, 0, 0],
            "the mean return of the members, 0.75, has reached 0.7",
        ),
        ([np.nan, 1.0, 1.0], [0, 0, 0], [1, 1, 1], True, [0, 0, 0], ""),
    ],
)
def test_who_ends_and_whether_the_run_does(returns, before, alive, mean, new, end):
    state = RunState.first(first_roster({}, np.arange(3))).replace(updates=9, reached=np.asarray(before))
    spec = RunSpec("ppo", "CartPole-v1", stop_at=0.7, stop_at_mean=mean)
    found = reached_goal(spec, state, np.asarray(returns), np.asarray(alive, bool))
    assert found.members.tolist() == [bool(x) for x in new] and found.end == end
    assert state.with_reached(found.members).reached.tolist() == np.where(new, 9, before).tolist()


def test_a_run_without_stop_at_ends_nobody():
    state = RunState.first(first_roster({}, np.arange(2)))
    found = reached_goal(RunSpec("ppo", "CartPole-v1"), state, np.asarray([1e9, 0.0]), np.ones(2, bool))
    assert not found.members.any() and found.end == "" and not state.has_reached.any()


def test_a_member_ends_at_its_return_and_the_others_have_the_same_bits(whole, ended):
    reached = first_at(whole.curves, 0.7)
    assert len({*reached}) > 1, "the members end at different records"
    assert len(ended.curves["env_steps"]) == min(reached.max() + 1, 8)
    assert ended.curves["alive"].all()  # a member that has reached its return did not fail
    for m, record in enumerate(reached):
        before = min(record + 1, len(ended.curves["env_steps"]))
        for name in ("eval_return", "train_return"):
            np.testing.assert_array_equal(ended.curves[name][:before, m], whole.curves[name][:before, m])
        assert np.isnan(ended.curves["train_return"][record + 1 :, m]).all()  # no episode is trained any more


def test_steps_that_were_not_trained_are_not_counted(whole, ended):
    reached = np.minimum(first_at(whole.curves, 0.7) + 1, len(ended.curves["env_steps"]))  # records of each member
    summary = ended.summary
    assert summary["steps_per_second"] * summary["train_seconds"] == pytest.approx(reached.sum() * 5_000)


def test_the_weights_of_a_member_that_ended_stay(whole, ended, tmp_path):
    reached = first_at(whole.curves, 0.7)
    m = int(reached.argmin())
    with pytest.raises(Stopped):
        shoal.train(**RUN, folder=tmp_path / "run", sinks=[Interrupt(after=int(reached[m]) + 1)])
    until = shoal.load_result(tmp_path / "run")
    one, other = (jax.tree.leaves(result.policies.weights) for result in (ended, until))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(np.asarray(a)[m], np.asarray(b)[m])


def test_a_run_that_was_stopped_remembers_who_has_ended(ended, tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Stopped):
        shoal.train(**RUN, stop_at=0.7, folder=folder, sinks=[Interrupt(after=2)])
    again = shoal.train(resume=folder, **SILENT)
    for name, column in ended.curves.items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(again.curves[name], column, err_msg=name)
    assert shoal.train(resume=folder, **SILENT).curves["env_steps"].shape == ended.curves["env_steps"].shape


def test_a_mean_ends_the_run(whole, tmp_path):
    means = whole.curves["eval_return"].mean(axis=1)
    goal = float(means[:4].max())
    result = shoal.train(**RUN, stop_at=goal, stop_at_mean=True, folder=tmp_path / "run")
    assert len(result.curves["env_steps"]) == int((means >= goal).argmax()) + 1
    assert result.spec.to_json()["stop_at"] == goal and result.spec.to_json()["stop_at_mean"] is True


def test_a_run_without_these_options_does_not_name_them(whole):
    assert not {"stop_at", "stop_at_mean", "videos_every"} & {*whole.spec.to_json()}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stop_at": float("nan")}, "must be a finite number"),
        ({"stop_at_mean": True}, "give stop_at too"),
        ({"stop_at": 1.0, "evaluations": 0}, "evaluations=0 makes none"),
        ({"stop_at": 1.0, "selector": "random"}, "add stop_at_mean"),
        ({"videos_every": -1}, "must not be negative"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_compiles(options, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        shoal.train(**{**RUN, **options}, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_videos_are_made_while_the_run_trains(tmp_path):
    options = {**RUN, "records": 4, "evaluations": 4, "steps": 4_000, "seeds": 1, "figures": True}
    result = shoal.train(**options, videos_every=2, folder=tmp_path / "run")
    names = sorted(path.name for path in (result.folder / "videos").iterdir())
    assert names == ["best-step-2000.gif", "best-step-4000.gif", "best.gif"]


@pytest.mark.parametrize(
    "changes",
    [
        {"agent": "ppo", "env": "gymnasium/CartPole-v1", "fields": {"num_envs": 2, "num_steps": 16}, "steps": 96},
        {"memory_limit_gb": 0.0002},  # members in waves, one after another
    ],
    ids=["host", "waves"],
)
def test_members_end_wherever_they_are_trained(changes, tmp_path):
    options = {**RUN, "records": 3, "evaluations": 3, "eval_episodes": 2, "seeds": 3, "steps": 3_000, **changes}
    result = shoal.train(**options, stop_at=0.0, folder=tmp_path / "run")  # which every member reaches at once
    assert len(result.curves["env_steps"]) == 1 and result.curves["alive"].all()
