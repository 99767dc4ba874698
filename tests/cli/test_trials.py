"""`shoal trials`: the table of a study, read from its storage."""

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from commands import refused, say
from shoal.studies.storage import open_study
from shoal.studies.study import SPEC, StudyFolder, StudySpec
from shoal.training.jobs import make_job


def describe(folder, name):
    """Write the description of a study of this name."""
    run = make_job("q-learning", "Blackjack-v1", preset=None).spec
    spec = StudySpec(name, run, {}, trials=4, parallel=4, sampler="tpe", pruner="none", score="mean")
    StudyFolder(folder).write(SPEC, spec.to_json())


@pytest.fixture
def study(tmp_path):
    """A folder of a study with its journal: three complete trials and a pruned one."""
    folder = tmp_path / "mine"
    folder.mkdir()
    describe(folder, "mine")
    study = open_study(f"journal:{folder / 'study.log'}", "mine", {}, ["maximize"])
    spread = {"distributions": {"learning_rate": FloatDistribution(0, 1)}}
    for rate, score in ((0.5, 1.0), (0.25, 3.0), (0.75, 2.0)):
        study.add_trial(create_trial(params={"learning_rate": rate}, value=score, **spread))
    study.add_trial(create_trial(params={"learning_rate": 0.1}, state=TrialState.PRUNED, **spread))
    return folder


def test_the_best_trials_come_first(study, capsys):
    status, out, _ = say(capsys, "trials", study, "--best", "2")
    lines = out.splitlines()
    assert status == 0 and lines[0].split() == [
        *("number", "state", "score", "records", "worker", "group", "seconds", "learning_rate")
    ]
    assert [line.split()[0] for line in lines[2:4]] == ["1", "2"] and len(lines) == 5
    assert lines[-1] == "2 of 4 trials shown (3 complete, 1 pruned)"
    rows = say(capsys, "trials", study, "--sort", "learning-rate")[1].splitlines()[2:-1]
    assert [row.split()[-1] for row in rows] == ["0.1", "0.25", "0.5", "0.75"]


def test_the_table_is_written_and_mistakes_are_refused(study, tmp_path, capsys):
    status, out, _ = say(capsys, "trials", study, "--csv", "all.csv")
    assert status == 0 and out == "all.csv\n" and (tmp_path / "all.csv").read_text().count("\n") == 5
    assert "no column 'scor'. Did you mean score" in refused(capsys, "trials", study, "--sort", "scor")
    assert "is not the folder of a study" in refused(capsys, "trials", tmp_path)
    describe(study, "other")
    assert "has no study 'other'. Its folder says that it has begun" in refused(capsys, "trials", study)
    (study / "study.log").unlink()
    assert "study.log with the trials of the study is gone. Its folder" in refused(capsys, "trials", study)
    assert not (study / "study.log").exists()
    assert optuna.logging.get_verbosity() == optuna.logging.WARNING
