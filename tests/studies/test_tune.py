"""Studies: trials in slots, one group for each program, stopped and killed at bad moments, and the same bits alone."""

import json
import os
import shutil
import signal
import tomllib

import jax
import numpy as np
import pytest

import shoal
from shoal.studies.errors import StorageError, WorkerError
from shoal.studies.results import trial_spec_in
from shoal.studies.study import StudyResult, slots_in
from shoal.studies.trial_states import FAIL, trials_of
from shoal.studies.tune import tune
from shoal.tracking.events import Searched, Sink
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.plan import make_plan
from shoal.training.stopping import Stopped
from stores import history, runs_in

RATES = [0.05, 0.1, 0.4, 0.8]
OPTIONS = {
    "parallel": 2,
    "seeds": 2,
    "steps": 3 * 64,
    "records": 3,
    "sampler": "grid",
    "pruner": "none",
    "score": "min",
    "fields": {"num_steps": 32},
    "progress": False,
    "fresh_seeds": 0,
    "figures": False,
}


def started(root, name, search, **changes):
    with jax.numpy_dtype_promotion("standard"):
        return tune("q-learning", "Blackjack-v1", search=search, root=root, name=name, **{**OPTIONS, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A grid of 16 trials in two programs, two trials at a time."""
    search = {"learning_rate": RATES, "discount": [0.5, 1.0], "count_visits": None}
    return started(tmp_path_factory.mktemp("whole"), "grid", search, fresh_seeds=3)


def complete(result):
    """{parameters: (value, scores by record)} of all trials, which must be complete."""
    found = {}
    for trial in result.study.get_trials():
        assert trial.state.name == "COMPLETE" and trial.user_attrs["worker"] == "w0"
        values = tuple(trial.params[path] for path in sorted(trial.params))
        assert values not in found, "a setting was trained twice"
        found[values] = trial.value, trial.intermediate_values
    return found


def test_a_grid_is_trained_once_in_one_run_for_each_program(whole):
    trials = whole.study.get_trials()
    assert len(complete(whole)) == 16 == whole.summary["trials"]["complete"]
    for trial in trials:
        assert trial.user_attrs["group"] == f"group-{int(trial.params['count_visits'])}"
        assert [*trial.intermediate_values] == [1, 2, 3] and trial.intermediate_values[3] == trial.value
    runs = [RunFolder(whole.folder / "workers" / "w0" / f"group-{k}") for k in (0, 1)]
    assert [run.read_spec().fields["count_visits"] for run in runs] == [False, True]
    in_slots = [set(run.read_curves(4)["trial"].ravel().tolist()) - {-1} for run in runs]
    assert in_slots[0] | in_slots[1] == {*range(16)} and not in_slots[0] & in_slots[1]
    best = whole.summary["best"]
    assert best["score"] == max(trial.value for trial in trials)


def test_the_best_trial_is_trained_again_and_written_as_a_preset(whole):
    best, fresh = whole.summary["best"], shoal.load_result(whole.folder / "fresh")
    last = fresh.curves["train_return"][-1]
    assert len(last) == 3 and best["fresh_score"] == pytest.approx(last.min())
    assert fresh.spec.seed == whole.spec.run.seed + 1
    chosen = whole.study.get_trials()[best["number"]].params
    preset = tomllib.loads((whole.folder / "best.toml").read_text())["Blackjack-v1"]
    assert {path: preset[path] for path in chosen} == chosen
    assert len((whole.folder / "trials.csv").read_text().splitlines()) == 1 + 16


def test_a_resumed_study_trains_its_best_trial_again_on_as_many_seeds_as_before(whole):
    before = whole.summary["best"]
    with jax.numpy_dtype_promotion("standard"):
        tune(resume=whole.folder, progress=False, figures=False)
    assert whole.summary["best"] == before and before["fresh_seeds"] == 3
    assert not (whole.folder / "fresh-before").exists()


@pytest.mark.filterwarnings("ignore:::mlflow", "ignore:::sqlalchemy", "ignore:::pydantic")
def test_two_workers_share_the_trials_of_a_study_and_a_run_of_a_tracker(root):
    search = {"learning_rate": RATES, "discount": [0.5, 1.0]}
    result = started(root, "shared", search, workers=2, fresh_seeds=2, track="mlflow")
    trials = trials_of(result.study)
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 8
    assert result.summary["trials"] == {"complete": 8}
    assert len({tuple(trial.params.values()) for trial in trials}) == 8
    assert {trial.user_attrs["worker"] for trial in trials} <= {"w0", "w1"}
    assert {"w0", "w1"} == {path.name for path in (result.folder / "workers").iterdir()}
    printed = [(result.folder / "workers" / name / "output.txt").read_text() for name in ("w0", "w1")]
    assert (
        "8/8 trials" in printed[0] + printed[1] and "best: trial" not in printed[0] + printed[1]
    )  # the parent says it
    runs = runs_in(root, "q-learning/Blackjack-v1")
    main = runs.pop("shared")
    scores = [(trial.number, trial.value) for trial in trials]
    assert sorted(history(root, main, "score")) == scores and main.info.status == "FINISHED"
    assert {(int(run.data.tags["trial"]), run.data.metrics["score"]) for run in runs.values()} == {*scores}
    assert len(runs) == 8 and main.data.metrics["fresh_score"] == result.summary["best"]["fresh_score"]


def test_worker_processes_have_the_options_of_the_command(tmp_path, monkeypatch):
    def started_with(commands, *rest):
        seen.update(commands)
        return dict.fromkeys(commands, 0)

    seen: dict[str, list[str]] = {}
    monkeypatch.setattr("shoal.studies.worker.run_workers", started_with)
    with pytest.raises(WorkerError, match="0 of 4 trials have ended"):
        started(tmp_path, "s", {"learning_rate": RATES}, workers=2, devices=1, memory_limit_gb=1.5, grace=9)
    for name in ("w0", "w1"):
        own = {"worker": name, "devices": 1, "memory_limit_gb": 1.5, "grace": 9.0, "resume": str(tmp_path / "s")}
        assert own.items() <= json.loads(seen[name][-1]).items()


def test_workers_that_cannot_share_are_refused(tmp_path):
    with pytest.raises(ValueError, match="storage that all of them see"):
        started(tmp_path, "none", {"learning_rate": RATES}, workers=2, storage="memory")
    with pytest.raises(ValueError, match="1 to 64 workers"):
        started(tmp_path, "none", {"learning_rate": RATES}, workers=65)
    assert not list(tmp_path.iterdir())


def test_a_trial_has_the_bits_of_a_run_of_its_own(whole, tmp_path):
    trial = whole.study.get_trials()[-1]
    with jax.numpy_dtype_promotion("standard"):
        alone = Run(make_plan(trial_spec_in(whole.folder, trial)), RunFolder(tmp_path / "alone"))
        alone.folder.create()
        alone.train()
    scores = alone.records.arrays()["train_return"].min(axis=1)  # over the two seeds
    assert len(set(scores.tolist())) > 1
    np.testing.assert_array_equal([*trial.intermediate_values.values()], scores)


class After(Sink):
    """Calls a function after some chunks."""

    def __init__(self, chunks, then):
        self.left, self.then = chunks, then

    def receive(self, event):
        if isinstance(event, Searched):
            self.left -= 1
            if self.left == 0:
                self.then()


def interrupted(root, monkeypatch):
    sink = After(2, lambda: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr(Run, "_is_time_to_save", lambda run: False)  # only the end of the worker saves
    with pytest.raises(Stopped, match="shoal tune --resume "):
        started(root, "cut", {"learning_rate": RATES}, fields={"num_steps": 32, "discount": 1.0}, sinks=[sink])
    assert len([*(root / "cut").glob("workers/w0/group-0/checkpoints/step-*")]) == 1


def killed_before_the_checkpoint(root, monkeypatch):
    """Fail after the trials of a record were told, and before its checkpoint: the storage is ahead of the run."""
    save, saved = Run._save, []

    def fail_at_last(run):
        saved.append(run)
        if len(saved) == 3:
            raise RuntimeError("killed")
        save(run)

    monkeypatch.setattr(Run, "_save", fail_at_last)
    monkeypatch.setattr(Run, "_is_time_to_save", lambda run: True)
    with pytest.raises(RuntimeError, match="killed"):
        started(root, "cut", {"learning_rate": RATES}, fields={"num_steps": 32, "discount": 1.0})
    monkeypatch.setattr(Run, "_save", save)


def killed_long_after_the_checkpoint(root, monkeypatch):
    """Fail after the fifth chunk, when two trials were told and two had begun; only the first has a checkpoint."""
    step, chunks = Run.step, []

    def fail_at_last(run):
        if len(chunks) == 5:
            raise RuntimeError("killed")
        chunks.append(run)
        return step(run)

    monkeypatch.setattr(Run, "step", fail_at_last)
    monkeypatch.setattr(Run, "_is_time_to_save", lambda run: len(run.records) == 1)
    with pytest.raises(RuntimeError, match="killed"):
        started(root, "cut", {"learning_rate": RATES}, fields={"num_steps": 32, "discount": 1.0})
    monkeypatch.setattr(Run, "step", step)
    assert len([*(root / "cut").glob("workers/w0/group-0/checkpoints/step-*")]) == 1


@pytest.mark.parametrize("cut", [interrupted, killed_before_the_checkpoint, killed_long_after_the_checkpoint])
def test_a_study_that_was_cut_loses_no_trial_and_tells_none_twice(cut, whole, tmp_path, monkeypatch):
    expected = {values[2]: found for values, found in complete(whole).items() if values[:2] == (False, 1.0)}
    cut(tmp_path, monkeypatch)
    before = StudyResult(tmp_path / "cut").study.get_trials()
    begun = [trial for trial in before if trial.state.name != "WAITING"]
    told = [trial.number for trial in before if trial.state.is_finished()]
    sizes = {interrupted: (2, 0), killed_before_the_checkpoint: (2, 2), killed_long_after_the_checkpoint: (4, 2)}
    assert (len(begun), len(told)) == sizes[cut] and len(before) == 4
    with jax.numpy_dtype_promotion("standard"):
        result = tune(resume=tmp_path / "cut", progress=False, fresh_seeds=0, figures=False)
    assert {values[0]: found for values, found in complete(result).items()} == expected
    after = result.study.get_trials()
    assert len(after) == 4 and [after[n].datetime_complete for n in told] == [before[n].datetime_complete for n in told]


@pytest.mark.parametrize("lost", ["missing", "empty"])
def test_a_study_whose_journal_was_lost_does_not_start_over(lost, whole, tmp_path):
    folder = shutil.copytree(whole.folder, tmp_path / "copy")
    (folder / "study.log").unlink()
    if lost == "empty":
        (folder / "study.log").touch()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for call in (lambda: tune(resume=folder, progress=False), lambda: StudyResult(folder).study):
        with pytest.raises(StorageError, match="Its folder says that it has begun, so its trials were lost"):
            call()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_trial_of_the_checkpoint_that_has_failed_is_not_trained_again(tmp_path, monkeypatch):
    interrupted(tmp_path, monkeypatch)
    storage, trial = (study := StudyResult(tmp_path / "cut").study)._storage, study.get_trials()[0]
    storage.set_trial_user_attr(trial._trial_id, "failed", "its worker died 4 times")
    storage.set_trial_state_values(trial._trial_id, FAIL)
    with jax.numpy_dtype_promotion("standard"):
        tune(resume=tmp_path / "cut", progress=False, fresh_seeds=0, figures=False)
    in_slots = RunFolder(tmp_path / "cut" / "workers" / "w0" / "group-0").read_curves(4)["trial"]
    assert 0 in in_slots[:2] and 0 not in in_slots[2:]


def test_a_folder_of_another_study_and_other_arguments_are_refused(whole, tmp_path):
    with pytest.raises(ValueError, match="sampler=tpe is for a new study; resume continues"):
        tune(resume=whole.folder, sampler="tpe")
    with pytest.raises(FileNotFoundError, match=f"{tmp_path} is not the folder of a study: it has no study.json"):
        tune(resume=tmp_path)
    group = whole.folder / "workers" / "w0" / "group-0"
    with pytest.raises(FileNotFoundError, match="it is a run. `shoal report .* `shoal train --resume"):
        tune(resume=group)
    with pytest.raises(FileExistsError, match="already holds a run. .*, or choose another --name"):
        started(group.parent, "group-0", {"learning_rate": RATES})
    (tmp_path / "study.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(ValueError, match=r"study.json is damaged: 'run'. Restore it from a copy."):
        tune(resume=tmp_path)
    (tmp_path / "copy").mkdir()
    storage = f"journal:{whole.folder / 'study.log'}"
    with pytest.raises(ValueError, match="another"):  # a storage with a study of this name that searches something else
        started(tmp_path / "copy", "grid", {"learning_rate": RATES}, storage=storage)
    same = whole.spec.search  # the trials of a study that searches the same have their runs in its own folder
    with pytest.raises(ValueError, match="already has 16 trials of a study 'grid', which has another folder"):
        started(tmp_path / "copy", "grid", same, storage=storage)
    assert not [*(tmp_path / "copy").iterdir()]
    with pytest.raises(ValueError, match="continues with `shoal tune --resume STUDY`"):
        make_plan(RunFolder(group).read_spec())


def test_the_share_of_busy_slots_weighs_chunks_by_their_time(tmp_path):
    path = tmp_path / "slots.csv"
    path.write_text(
        "time,seconds,group,trials,parallel,train_seconds,to_start\n"
        "10,3,group-0,4,4,2,5\n11,1,group-0,2,4,1,1\n15,4,group-1,1,4,1,0\n"
    )
    found = slots_in(path)
    assert found["chunks"] == 3 and found["seconds"] == 8 and found["training"] == 0.5
    assert found["busy"] == pytest.approx((4 * 3 + 2 * 1 + 1 * 4) / (4 * 8))
    assert found["busy_until_last"] == pytest.approx((4 * 3 + 2 * 1) / (4 * 4))
