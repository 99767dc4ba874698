"""The results of a study: the table of trials, the best one as a preset, its score on fresh seeds, and figures."""

import csv
import datetime
import json
import math
import sys
import tomllib

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial

import shoal
from shoal.studies import results
from shoal.studies.study import open_trials
from shoal.training.jobs import make_job
from tiny import FIELDS, OPTIONS, SILENT

RATE = FloatDistribution(1e-4, 1e-1, log=True)
CLIP = FloatDistribution(0.1, 0.3)
TRIALS = ((1e-3, 0.1, 12.0), (1e-2, 0.2, 30.0), (2e-2, 0.3, 20.0), (3e-2, 0.15, 30.0))
BEGIN = datetime.datetime(2026, 1, 1)


def study_of(trials=TRIALS, direction="maximize"):
    """A study in memory with these complete trials, a pruned one and one that runs."""
    study = optuna.create_study(direction=direction, study_name="mine")
    common = {"distributions": {"learning_rate": RATE, "clip": CLIP}}
    attributes = {"worker": "w0", "group": "group-0"}
    for rate, clip, score in trials:
        params = {"learning_rate": rate, "clip": clip}
        reports = {0: score / 2, 1: score}
        study.add_trial(
            create_trial(params=params, value=score, user_attrs=attributes, intermediate_values=reports, **common)
        )
    params = {"learning_rate": 5e-2, "clip": 0.2}
    study.add_trial(create_trial(state=TrialState.PRUNED, params=params, intermediate_values={0: 99.0}, **common))
    study.add_trial(create_trial(state=TrialState.RUNNING, params=params, **common))
    return study


@pytest.fixture
def folder(tmp_path):
    """The folder of a study with one group, as a worker writes it."""
    group = tmp_path / "study" / "workers" / "w0" / "group-0"
    group.mkdir(parents=True)
    options = {**OPTIONS, "seed": 5}
    spec = make_job("ppo", "CartPole-v1", preset=None, seeds=2, fields=FIELDS, **options).spec
    (group / "spec.json").write_text(json.dumps(spec.to_json()))
    return tmp_path / "study"


def test_the_table_has_a_row_for_each_trial(tmp_path):
    study = study_of()
    with open(results.write_trials(study, tmp_path / "trials.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:7] == ["number", "state", "score", "records", "worker", "group", "seconds"]
    assert [row["state"] for row in rows] == ["complete"] * 4 + ["pruned", "running"]
    assert rows[1]["learning_rate"] == "0.01" and rows[1]["records"] == "2" and rows[1]["group"] == "group-0"
    assert float(rows[1]["seconds"]) >= 0 and rows[5]["seconds"] == "" and rows[5]["score"] == ""
    assert [row[0] for row in results.sorted_rows(study)] == [1, 3, 2, 0, 4, 5]  # the earlier of equals first
    assert [row[0] for row in results.sorted_rows(study, "clip")] == [0, 3, 1, 4, 5, 2]
    assert [trial.number for trial in results.best_trials(study_of(direction="minimize"), 2)] == [0, 2]
    with pytest.raises(ValueError, match="no column 'clp'. Did you mean clip"):
        results.sorted_rows(study, "clp")


def test_the_best_trial_is_trained_again_on_seeds_that_no_trial_had(folder):
    how = {"seeds": 3, "page": False, "figures": False}
    summary = results.conclude(study_of(), folder, **how)
    best = summary["best"]
    alone = shoal.train(
        "ppo",
        "CartPole-v1",
        preset=None,
        seed=6,  # the study has 5
        seeds=3,
        fields={**FIELDS, "learning_rate": 1e-2, "clip": 0.2},
        folder=folder / "alone",
        **OPTIONS,
        **SILENT,
    )
    scores = results.last_scores(alone.curves)
    np.testing.assert_array_equal(results.last_scores(shoal.load_result(folder / "fresh").curves), scores)
    assert (best["trial"], best["score"], best["fresh_seeds"], best["folder"]) == (1, 30.0, 3, "fresh")
    assert best["fresh_score"] == pytest.approx(scores.mean()) and best["fresh_low"] is None
    table = tomllib.loads((folder / "best.toml").read_text())["CartPole-v1"]
    assert (table["learning_rate"], table["clip"], table["seeds"], table["seed"]) == (1e-2, 0.2, 2, 5)
    spec = make_job(None, None, preset=folder / "best.toml").spec
    trial = results.trial_spec_in(folder, study_of().get_trials()[1])
    assert spec == results.resolved(trial)
    before = (folder / "fresh" / "provenance.json").stat().st_mtime_ns
    assert results.conclude(study_of(), folder, **how)["best"] == best  # nothing is trained twice
    assert (folder / "fresh" / "provenance.json").stat().st_mtime_ns == before


@pytest.fixture
def fresh(monkeypatch):
    """Scores on fresh seeds by learning rate, in the place of training."""
    scores = {1e-2: [1.0, 3.0, 2.0, 2.0]}
    monkeypatch.setattr(results, "retrain", lambda spec, *_: np.asarray(scores[spec.fields["learning_rate"]]))


def test_the_scores_in_the_study_and_on_fresh_seeds_are_both_told(folder, fresh):
    best = results.confirm(study_of(), folder, seeds=4)
    assert (best["fresh_score"], best["score"], best["trial"]) == (2.0, 30.0, 1)  # (1 + 3 + 2 + 2) / 4
    for text in (best["words"], (folder / "best.toml").read_text().replace("\n# ", " ")):
        assert "Trial 1 scored 30 in the study, the best of 6 trials, on 2 seeds, and 2 on 4 fresh seeds" in text
        assert "on 4 fresh seeds; too few for an interval." in text and "this interval" not in text
    least = results.confirm(study_of(), folder, score="min")
    assert least["fresh_score"] == 1.0


def test_enough_fresh_seeds_have_an_interval(folder, monkeypatch):
    monkeypatch.setattr(results, "retrain", lambda spec, *_: np.asarray([1.0, 3.0, 2.0, 2.0, 1.0, 3.0]))
    best = results.confirm(study_of(), folder, seeds=6)
    assert 1.0 <= best["fresh_low"] < 2.0 < best["fresh_high"] <= 3.0
    assert "on 6 fresh seeds, 95 % interval [" in best["words"]
    assert "The score in the study lies above this interval." in best["words"]


def test_a_study_without_a_complete_trial_has_a_table_and_no_best_one(folder):
    summary = results.conclude(study_of(()), folder, page=False)
    assert results.trial_counts(study_of(())) == {"pruned": 1, "running": 1} and summary["best"] == {}
    assert "no trial is complete, so there is no best one" in summary["notes"]
    assert (folder / "trials.csv").exists() and not (folder / "best.toml").exists()
    assert not (folder / "fresh").exists()


def test_a_study_without_plotly_names_the_report_that_needs_none(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    notes = results.conclude(study_of(), folder, seeds=0)["notes"]
    assert notes[0] == (
        f"`shoal report {folder}` makes a page of this study; a page of figures that show values under the mouse "
        f"(study.html) needs the package 'plotly', which is not installed: pip install 'shoal[html]'."
    )
    assert (folder / "figures" / "history.png").exists() and not (folder / "figures" / "study.html").exists()


def test_a_study_of_two_objectives_has_its_pareto_front(folder):
    study = optuna.create_study(directions=["maximize", "minimize"], study_name="two")
    for rate, values in ((1e-3, [1.0, 5.0]), (1e-2, [2.0, 4.0]), (2e-2, [3.0, 6.0])):
        study.add_trial(create_trial(params={"a": rate}, distributions={"a": RATE}, values=values))
    assert "no single best trial" in results.conclude(study, folder, figures=False)["notes"][-1]
    assert [each["trial"] for each in results.pareto_front(study)] == [1, 2]  # 0 is worse than 1 in both
    assert results.trial_columns(study)[2:4] == ["score_0", "score_1"]
    assert next(results.trial_rows(study))[2:4] == [1.0, 5.0]


def test_the_newest_score_of_a_member_counts():
    nan = math.nan
    curves = {
        "eval_return": np.asarray([[nan, nan, nan], [5.0, 6.0, 7.0]]),
        "train_return": np.asarray([[1.0, 2.0, nan], [3.0, nan, nan]]),
    }
    np.testing.assert_array_equal(results.last_scores(curves), [3.0, 2.0, nan])  # not every record was evaluated
    curves["eval_return"][0] = [8.0, 9.0, nan]
    np.testing.assert_array_equal(results.last_scores(curves), [5.0, 6.0, 7.0])
    assert results.statistic_of("q25")(np.asarray([0.0, 4.0])) == 1.0
    with pytest.raises(ValueError, match="score='best' is unknown"):
        results.statistic_of("best")


def test_a_trial_that_was_trained_elsewhere_and_a_folder_without_a_study_are_refused(folder):
    alone = create_trial(params={"clip": 0.1}, distributions={"clip": CLIP}, value=1.0)
    with pytest.raises(FileNotFoundError, match="does not say which worker"):
        results.trial_spec_in(folder, alone)
    with pytest.raises(FileNotFoundError, match="is not the folder of a study: it has no study.json"):
        open_trials(folder)
    (folder / "study.json").write_text("{")
    with pytest.raises(ValueError, match="study.json is damaged"):
        open_trials(folder)


def test_categorical_values_become_fields(folder):
    spread = {"optimizer": CategoricalDistribution(["adam", "sgd"]), "env.gravity": FloatDistribution(1, 20)}
    params = {"optimizer": "sgd", "env.gravity": 5.0}
    where = {"worker": "w0", "group": "group-0"}
    spec = results.trial_spec_in(folder, create_trial(params=params, distributions=spread, value=1.0, user_attrs=where))
    assert (spec.fields["optimizer"], spec.env_fields["gravity"], spec.seeds) == ("sgd", 5.0, 2)
