"""`shoal.branch`: twins of a run that leave it at a record, and what their changes do."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import shoal
from commands import refused, say
from listeners import Interrupt
from shoal.core.errors import CheckpointError
from shoal.tracking.events import Opened, Sink
from shoal.training.branching import branch_job, columns_of, trunk_of
from shoal.training.checkpoint import saved
from shoal.training.stopping import Stopped
from shoal.viz.curves import _once_before
from tiny import SILENT

RUN = {
    "agent": "q-learning",
    "env": "FrozenLake-v1",
    "fields": {"num_steps": 250},
    "steps": 12_000,
    "records": 6,
    "evaluations": 3,
    "eval_episodes": 5,
    **SILENT,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of three seeds, with checkpoints after records 2, 4 and 5."""
    folder = tmp_path_factory.mktemp("trunk") / "run"
    return shoal.train(**RUN, seeds=3, keep_checkpoints=2, folder=folder).folder


@pytest.fixture(scope="module")
def found(run, tmp_path_factory):
    """Branches of the run with two other learning rates."""
    root = tmp_path_factory.mktemp("branches")
    return shoal.branch(run, 2, {"learning_rate": [0.0, 0.9]}, root=root, name="rates", **SILENT)


def same_curves(one, other, members, records=slice(None)):
    """Whether the curves of some members of a branch are those of all members of a run."""
    names = [name for name in other.curves if name != "wall_seconds"]
    return all(
        np.array_equal(
            one.curves[name][records] if one.curves[name].ndim == 1 else one.curves[name][records, members],
            other.curves[name][records],
            equal_nan=True,
        )
        for name in names
    )


def test_a_twin_without_a_change_has_the_bits_of_the_run_and_others_leave_it(run, found):
    trunk, branch = shoal.load_result(run), found.results[0]
    assert found.has_bits_of_run and branch.spec.members == 9
    assert same_curves(branch, trunk, [0, 1, 2])
    for changed in ([3, 4, 5], [6, 7, 8]):
        assert same_curves(branch, trunk, changed, slice(2))
        assert not same_curves(branch, trunk, changed)
    assert shoal.verify(branch.folder).outcome == "verified"


def test_effects_are_those_of_pairs(found):
    branch = found.results[0]
    last = branch.curves["eval_return"][-1].reshape(3, 3)
    effects = {effect.change: effect for effect in found.effects if effect.score == "last evaluation"}
    assert [*effects] == ["learning_rate=0.0", "learning_rate=0.9"]
    for i, effect in enumerate(effects.values(), 1):
        assert effect.difference == pytest.approx((last[i] - last[0]).mean())
        assert (effect.record, effect.pairs) == (2, 3) and np.isnan(effect.low)
        assert {type(number) for number in effect[3:7]} == {float}


def test_pairs_of_one_member_with_other_keys_are_averaged(tmp_path):
    trunk = shoal.train(**RUN, seeds=6, keep_checkpoints=2, folder=tmp_path / "run").folder
    found = shoal.branch(trunk, 4, {"learning_rate": [0.9]}, keys=2, root=tmp_path, name="b", **SILENT)
    scores = found.results[0].curves["train_return"][4:]  # of 18 unchanged twins and 18 changed ones, six for each key
    of_member = (scores[:, 18:] - scores[:, :18]).mean(axis=0).reshape(3, 6).mean(axis=0)
    drawn = of_member[np.random.default_rng(0).integers(6, size=(2000, 6))].mean(axis=1)
    (effect,) = (effect for effect in found.effects if effect.score == "training")
    expected = (scores[:, 18:].mean(), of_member.mean(), *np.quantile(drawn, (0.025, 0.975)))
    np.testing.assert_allclose(effect[3:7], expected, rtol=1e-5)
    assert effect.pairs == 6
    again = shoal.branch(found.results[0].folder, 5, {"discount": [0.5]}, keys=1, root=tmp_path, **SILENT)
    assert {effect.pairs for effect in again.effects} == {12}  # of two settings; a pair for each of the six seeds


def test_other_keys_make_more_pairs_of_a_single_member(tmp_path):
    trunk = shoal.train(**RUN, seeds=1, folder=tmp_path / "run").folder
    found = shoal.branch(trunk, 5, {"learning_rate": [0.9]}, keys=5, root=tmp_path, **SILENT)
    assert {effect.pairs for effect in found.effects} == {6} and np.isfinite(found.effects[0].low)


def test_twins_with_other_keys_leave_the_others(run, tmp_path):
    found = shoal.branch(run, 4, {"learning_rate": [0.9]}, keys=1, root=tmp_path, **SILENT)
    branch = found.results[0]
    assert found.has_bits_of_run and branch.spec.members == 12
    keys = np.asarray(branch.curves["train_return"][4:])
    unchanged, others = keys[:, :3], keys[:, 3:6]
    assert not np.array_equal(unchanged, others)
    assert {effect.pairs for effect in found.effects} == {3} and np.isnan(found.effects[0].low)
    only_keys = shoal.branch(run, 4, keys=1, root=tmp_path, **SILENT).results[0]
    np.testing.assert_array_equal(only_keys.curves["train_return"], branch.curves["train_return"][:, :6])


def test_the_spread_by_chance_is_that_of_the_twins_of_one_member(run, tmp_path, capsys):
    words = ("branch", run, "--at", "4", "--keys", "3", "--root", tmp_path, "--no-figures", "--no-progress")
    status, out, _ = say(capsys, *words, "--name", "b")
    curves = shoal.load_result(tmp_path / "b").curves
    assert status == 0 and curves["train_return"].shape[1] == 12
    rows = {line.split()[1]: line.split() for line in out.splitlines() if line.startswith("     4")}
    for name, scores in (
        ("training", curves["train_return"][4:].mean(axis=0)),
        ("last", curves["eval_return"][-1]),
    ):
        deviation = np.sqrt(scores.reshape(4, 3).var(axis=0, ddof=1).mean())  # four twins of each of three members
        *_, mean, shown, twins = rows[name]
        assert (mean, shown, twins) == (f"{scores.mean():.4g}", f"{deviation:.4g}", "12")
    _, out, _ = say(capsys, *words, "--name", "c", "--vary", "learning_rate=0.9")
    assert "pairs" in out and rows["training"] in [line.split() for line in out.splitlines()]
    assert shoal.branch(run, 4, {"learning_rate": [0.9]}, root=tmp_path, **SILENT).spreads == []


def test_twins_count_once_before_they_leave_the_run():
    trained = np.array([[1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    evaluated = np.full_like(trained, np.nan)
    once, _ = _once_before(2, trained, evaluated)
    assert np.isnan(once[:2, 2:]).all() and (once[:2, :2] == trained[:2, :2]).all() and (once[2] == trained[2]).all()
    same, _ = _once_before(0, trained, evaluated)
    assert (same == trained).all()


def test_a_branch_can_be_stopped_and_branched_again(run, tmp_path):
    options = {"vary": {"env.success_rate": [0.5]}, "root": tmp_path, "name": "b", **SILENT}
    with pytest.raises(Stopped):
        shoal.branch(run, 2, **options, sinks=[Interrupt(after=1)])
    branch = shoal.branch(run, 2, **options).results[0]
    assert same_curves(branch, shoal.load_result(run), [0, 1, 2]) and branch.is_finished
    assert shoal.branch(run, 2, **options).results[0].summary == branch.summary  # it is not trained again
    again = shoal.branch(branch.folder, 5, {"learning_rate": [0.0]}, root=tmp_path, **SILENT)
    assert again.has_bits_of_run and again.results[0].spec.members == 12
    assert again.lineage == [(branch.folder.resolve(), 5), (run.resolve(), 2)]
    with pytest.raises(FileExistsError, match="already holds a run"):
        shoal.branch(run, 4, **options)


def test_a_branch_goes_on_with_the_options_that_it_was_given(run, tmp_path, monkeypatch):
    heard = []

    class Opening(Sink):
        def receive(self, event):
            if isinstance(event, Opened):
                heard.append(event.notes)

    for module in ("branches", "runs"):
        monkeypatch.setattr(f"shoal.studies.{module}.keep_programs", lambda: heard.append("the cache"))
    options = {"vary": {"env.success_rate": [0.5]}, "root": tmp_path, "name": "b", "figures": False, "cache": False}
    options |= {"memory_limit_gb": 1e-4, "devices": 1}
    with pytest.raises(Stopped):
        shoal.branch(run, 2, **options, progress=False, sinks=[Opening(), Interrupt(after=1)])
    found = shoal.branch(run, 2, **options, progress=False, sinks=[Opening()])
    assert found.results[0].is_finished and len(heard) == 2
    assert heard[0] == heard[1] and "1 CPU core, 6 parts one after another" in heard[0], heard


def test_a_branch_that_goes_on_is_as_silent_as_before(run, tmp_path, capsys):
    options = {"vary": {"env.success_rate": [0.5]}, "root": tmp_path, "name": "b", **SILENT}
    with pytest.raises(Stopped):
        shoal.branch(run, 2, **options, sinks=[Interrupt(after=1)])
    assert shoal.branch(run, 2, **options).results[0].is_finished
    assert "".join(capsys.readouterr()) == ""


def test_a_change_has_its_own_name_in_a_run_of_several_settings(tmp_path):
    folder = shoal.train(**RUN, sweep={"learning_rate": [0.1, 0.9]}, seeds=2, folder=tmp_path / "run").folder
    vary = {"learning_rate": [0.1, 0.9], "env.success_rate": [0.5]}
    found = shoal.branch(folder, 5, vary, root=tmp_path, **SILENT)
    branch = found.results[0]
    assert found.has_bits_of_run and branch.spec.members == 16
    columns = {name: members.tolist() for name, members in columns_of(branch).items()}
    assert columns == {  # of both settings: two twins without a change, then two of each change
        "unchanged": [0, 1, 8, 9],
        "learning_rate=0.1": [2, 3, 10, 11],
        "learning_rate=0.9": [4, 5, 12, 13],
        "env.success_rate=0.5": [6, 7, 14, 15],
    }
    same = shoal.branch(folder, 5, {"env.success_rate": [1 / 3, 0.5]}, root=tmp_path, **SILENT).results[0]
    assert [*columns_of(same)][1:] == ["unchanged (1)", "env.success_rate=0.5"]  # the value that the run has


@pytest.mark.parametrize("keys", [0, 1])
def test_twins_begin_with_the_policies_of_the_members_that_the_run_began_with(keys, run, tmp_path):
    init = {"run": run, "member": "all"}
    folder = shoal.train(**RUN, init=init, seeds=3, folder=tmp_path / "run").folder
    found = shoal.branch(folder, 0, {"learning_rate": [0.0]}, keys=keys, root=tmp_path, name="b", **SILENT)
    branch, trunk = found.results[0], shoal.load_result(folder)
    assert found.has_bits_of_run and branch.spec.members == 6 * (1 + keys)
    assert same_curves(branch, trunk, [0, 1, 2])
    there, here = (shoal.load_result(folder).policies.weights.q for folder in (run, branch.folder))
    still = here[3 * (1 + keys) :]  # with a learning rate of 0 they keep the policies that they began with
    np.testing.assert_array_equal(still, np.concatenate([there] * (1 + keys)))


def test_all_records_show_when_a_change_matters(run, tmp_path):
    options = {"root": tmp_path, "name": "when", "progress": False}
    found = shoal.branch(run, "all", {"learning_rate": [0.0]}, **options)
    assert [effect.record for effect in found.effects if effect.score == "training"] == [0, 2, 4, 5]
    assert found.has_bits_of_run and (tmp_path / "when" / "when.png").stat().st_size > 10_000
    assert (tmp_path / "when" / "record-2" / "figures" / "branches.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("at", "vary", "error", "words"),
    [
        (3, {"learning_rate": [0.1]}, ValueError, "no checkpoint after record 3. Branches can begin at: 0, 2, 4, 5"),
        (6, {"learning_rate": [0.1]}, ValueError, "no checkpoint after record 6"),
        (2, {"num_steps": [50]}, ValueError, "num_steps is a static field.* What can: learning_rate, "),
        (2, {"learning_rat": [0.1]}, TypeError, "Did you mean learning_rate"),
        (2, {"learning_rate": [2.0]}, ValueError, "learning_rate"),
        (2, {"learning_rate": []}, ValueError, "has no values"),
        (2, {}, ValueError, "needs a change"),
        (2, {"learning_rate": [True]}, TypeError, "learning_rate=True is no number: give a number"),
        (2, {"learning_rate": [0.1, np.True_]}, TypeError, "learning_rate=True is no number: give a number"),
        (2, {"learning_rate": ["nan"]}, TypeError, "learning_rate='nan' is no number: give a number"),
        (2, {"learning_rate": [1e-3, 0.001]}, ValueError, "learning_rate=0.001 and learning_rate=0.001 are the same"),
        (2, {"learning_rate": [0, 0.5, 0.0]}, ValueError, "learning_rate=0 and learning_rate=0.0 are the same value"),
        (2, {"learning_rate": [0.1, 0.1 + 1e-12]}, ValueError, "are the same value to the program, which has 32 bits"),
        (2, {"env": [0.1]}, ValueError, "env is a static field"),
        ("2", {"learning_rate": [0.1]}, ValueError, "must be the number of a record, or 'all'"),
    ],
)
def test_what_cannot_be_branched_is_refused(at, vary, error, words, run, tmp_path):
    with pytest.raises(error, match=words):
        shoal.branch(run, at, vary, root=tmp_path / "runs", **SILENT)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("arguments", [{}, {"vary": {"learning_rate": [0.5]}}])
def test_keys_are_not_negative(arguments, run, tmp_path):
    with pytest.raises(ValueError, match="keys=-1 must not be negative"):
        shoal.branch(run, 2, **arguments, keys=-1, root=tmp_path / "runs", **SILENT)
    with pytest.raises(ValueError, match="keys=-1 must not be negative"):
        branch_job(trunk_of(run), 2, arguments.get("vary", {}), keys=-1)
    assert not (tmp_path / "runs").exists()


def test_unfinished_and_damaged_runs_and_policies_are_refused(run, tmp_path):
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    change = {"learning_rate": [0.1]}
    file = saved(copy / "checkpoints")[-1] / "learners.npz"  # of the oldest, after record 2
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(CheckpointError, match="learners.npz has"):
        shoal.branch(copy, 2, change, root=tmp_path, **SILENT)
    (copy / "summary.json").unlink()
    with pytest.raises(ValueError, match="is not finished.*--resume"):
        shoal.branch(copy, 2, change, root=tmp_path, **SILENT)
    with pytest.raises(ValueError, match="holds an exported policy"):
        shoal.branch("zoo:ppo/CartPole-v1", 2, change, root=tmp_path, **SILENT)


def test_the_command_prints_effects(run, tmp_path, capsys):
    words = ("branch", run, "--at", "5", "--root", tmp_path, "--name", "b", "--no-figures", "--no-progress")
    status, out, _ = say(capsys, *words, "--vary", "learning-rate=0..0.9", "--values", "3")
    rows = [line.split()[0] for line in out.splitlines()]
    assert status == 0 and "the twins without a change have the bits of the run" in out
    assert {"learning_rate=0.0", "learning_rate=0.45", "learning_rate=0.9"} <= {*rows}
    assert json.loads((tmp_path / "b" / "spec.json").read_text())["branch"]["record"] == 5
    assert "x is not a whole number" in refused(capsys, *words[:2], "--at", "x", "--vary", "learning-rate=0.1|0.2")
    assert say(capsys, *words[:5], tmp_path, "--name", "one", *words[-2:], "--vary", "learning-rate=0.5")[0] == 0
    assert "one" in {path.name for path in tmp_path.iterdir()}
    whole = ("branch", run, "--at", "4", "--root", tmp_path, "--no-figures", "--no-progress", "--values", "3")
    _, out, _ = say(capsys, *whole, "--name", "whole", "--vary", "env.max-steps=10..17", "--vary", "discount=0.5|0.75")
    changes = [line.split()[0] for line in out.splitlines() if "training" in line]
    assert changes == [f"env.max_steps={n}" for n in (10, 14, 17)] + ["discount=0.5", "discount=0.75"]
    assert "num_steps is a static field" in refused(capsys, *whole, "--vary", "num-steps=10..17")
    assert "the range is empty: write the lower bound" in refused(capsys, *whole, "--vary", "env.max-steps=17..10")
    assert "two finite numbers" in refused(capsys, *whole, "--vary", "learning-rate=0..inf")
    assert "write | between values" in refused(capsys, *whole, "--vary", "learning-rate=0.5,0.7")
    assert "as in `shoal branch runs/ppo" in refused(capsys, "branch", run)
    assert "has no values" in refused(capsys, *words, "--vary", "learning-rate")
