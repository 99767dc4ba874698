"""Scores of a suite: rows, normalized scores, notes; and suites in comparisons and reports."""

import json
import re

import numpy as np
import pytest
from scipy.stats import trim_mean

import shoal
from folders import write_run
from shoal.core.errors import DamagedError
from shoal.training.suite_folder import SuiteFolder, expanded, is_suite
from shoal.training.suite_scores import as_json, suite_scores

CARTPOLE = np.array([100.0, 200.0, 300.0, 400.0, 450.0, 475.0, 490.0, 500.0])
ACROBOT = np.array([-90.0, -100.0, -80.0, -120.0, -110.0, -95.0, -85.0, -100.0])


def write_suite(folder, scores, agent="ppo", references=None, left_out=None, **options):
    """The folder of a suite whose runs have these scores by environment; None: not begun."""
    runs = {env: {"folder": env, "spec": {"agent": agent, "env": env, "seeds": 8, **options}} for env in scores}
    for env, values in scores.items():
        if values is not None:
            write_run(folder / env, values, agent=agent, env=env, **options)
    folder.mkdir(exist_ok=True)
    about = {"suite": "two", "agent": agent, "left_out": left_out or {}, "references": references or {}}
    (folder / "suite.json").write_text(json.dumps({**about, "runs": runs}))
    return folder


@pytest.fixture
def suite(tmp_path):
    return write_suite(tmp_path / "a", {"CartPole-v1": CARTPOLE, "Acrobot-v1": ACROBOT})


def test_scores_are_normalized_between_random_play_and_target(suite):
    found = suite_scores(suite)
    cartpole, acrobot = found.rows
    assert (cartpole.random, cartpole.target, cartpole.members) == (22.1788, 500, 8)
    assert (acrobot.random, acrobot.target) == (-498.6676, -100)
    a = (CARTPOLE - 22.1788) / (500 - 22.1788)
    b = (ACROBOT + 498.6676) / (-100 + 498.6676)
    assert cartpole.score.value == pytest.approx(trim_mean(CARTPOLE, 0.25))
    assert cartpole.normalized.value == pytest.approx(trim_mean(a, 0.25))
    assert cartpole.normalized.low < cartpole.normalized.value < cartpole.normalized.high
    assert found.normalized["IQM"].value == pytest.approx(trim_mean(np.concatenate([a, b]), 0.25))
    assert found.normalized["mean"].value == pytest.approx((a.mean() + b.mean()) / 2)
    assert found.notes == []


def test_they_are_those_of_a_comparison(suite):
    (of_group,) = shoal.compare(suite).aggregates
    assert {name: of_group[name] for name in ("IQM", "mean")} == suite_scores(suite).normalized


def test_an_environment_without_a_reference_is_in_no_normalized_score(tmp_path):
    write_suite(tmp_path / "a", {"CartPole-v1": CARTPOLE, "GridWorld-v0": np.ones(8)})
    found = suite_scores(tmp_path / "a")
    alone = suite_scores(write_suite(tmp_path / "b", {"CartPole-v1": CARTPOLE}))
    assert found.rows[1].normalized is None and found.rows[1].score.value == 1
    assert found.normalized == alone.normalized
    assert found.notes == ["not in the normalized scores, because random play or a target is not known: GridWorld-v0"]


def test_references_of_the_suites_file_come_first(tmp_path):
    own = {"CartPole-v1": {"random": 0, "target": 1000}, "GridWorld-v0": {"random": 0.5, "target": 1.5}}
    folder = write_suite(tmp_path / "a", {"CartPole-v1": CARTPOLE, "GridWorld-v0": np.ones(8)}, references=own)
    found = suite_scores(folder)
    assert found.rows[0].normalized.value == pytest.approx(trim_mean(CARTPOLE, 0.25) / 1000)
    assert found.rows[1].normalized.value == 0.5
    assert shoal.compare(folder).aggregates[0]["mean"] == found.normalized["mean"]


def test_what_is_missing_is_said(tmp_path):
    scores = {"CartPole-v1": CARTPOLE[:4], "Acrobot-v1": None, "MountainCar-v0": None, "Taxi-v4": None}
    folder = write_suite(tmp_path / "a", scores, left_out={"Pendulum-v1": "the agent cannot."})
    write_run(folder / "MountainCar-v0", np.full(4, np.nan), env="MountainCar-v0", summary=False)
    write_run(folder / "Taxi-v4", np.zeros(4), env="Taxi-v4", summary=False)
    found = suite_scores(folder)
    assert [row.members for row in found.rows] == [4, 0, 0, 4]
    assert np.isnan(found.normalized["IQM"].low)  # of four seeds there is no interval
    assert found.notes == [
        "not in the normalized scores, because it has no evaluation yet: Acrobot-v1, MountainCar-v0",
        "not finished: Taxi-v4",
        "Pendulum-v1 is left out: the agent cannot.",
    ]
    data = as_json(found, programs=2)
    assert data["environments"]["Acrobot-v1"]["score"] is None and data["programs"] == 2
    assert data["normalized"]["IQM"]["low"] is None and json.dumps(data, allow_nan=False)


def test_episodes_that_were_cut_off_are_said(tmp_path):
    folder = write_suite(tmp_path / "a", {"CartPole-v1": None})
    write_run(folder / "CartPole-v1", CARTPOLE, summary={"evaluation_episodes_cut_off": 3})
    assert suite_scores(folder).notes == [
        "evaluation episodes were cut off, so returns are those so far: CartPole-v1 (3)"
    ]


def test_two_suites_are_two_groups_in_the_environments_that_both_have(tmp_path, suite):
    scores = {"CartPole-v1": CARTPOLE - 50, "Acrobot-v1": ACROBOT, "MountainCar-v0": np.full(8, -150.0)}
    other = write_suite(tmp_path / "b", scores, agent="dqn")
    found = shoal.compare(suite, other)
    assert [group.name for group in found.groups] == [str(suite), str(other)]
    assert [env.name for env in found.environments] == ["Acrobot-v1", "CartPole-v1"]
    assert found.notes == ("left out, because not all suites have it: MountainCar-v0",)
    expected = 50 / (500 - 22.1788) / 2  # of two environments, one is 50 higher
    assert found.against(0, 1).difference.value == pytest.approx(expected)
    labelled = shoal.compare(label={"ours": [suite], "theirs": [other / "CartPole-v1", other / "Acrobot-v1"]})
    assert labelled.against(0, 1).difference == found.against(0, 1).difference
    grouped = shoal.compare(suite, other / "CartPole-v1", other / "Acrobot-v1", group="agent")
    assert [group.name for group in grouped.groups] == ["ppo", "dqn"]


def test_mistakes_in_comparisons_of_suites(tmp_path, suite):
    with pytest.raises(ValueError, match="a is given twice: a comparison needs different suites"):
        shoal.compare(suite, suite)
    other = write_suite(tmp_path / "b", {"MountainCar-v0": np.full(8, -150.0)})
    with pytest.raises(ValueError, match="the suites have no environment in common"):
        shoal.compare(suite, other)
    with pytest.raises(ValueError, match="c has no run yet: start it again with `shoal train --resume"):
        shoal.compare(suite, write_suite(tmp_path / "c", {"CartPole-v1": None}))
    with pytest.raises(FileNotFoundError, match="is not the folder of a suite: it has no suite.json"):
        SuiteFolder(tmp_path)
    (suite / "suite.json").write_text('{"suite": 3}')
    with pytest.raises(DamagedError, match="suite"):
        SuiteFolder(suite)
    assert not is_suite("zoo:ppo/CartPole-v1") and not is_suite(tmp_path)


def test_runs_without_a_suite_are_unchanged(tmp_path):
    given = expanded(["a", ["b", "c"]], {})
    assert given.runs == ["a", "b", "c"] and given.label == {} and not given.has_suites


def test_the_page_of_a_suite_has_its_scores(suite, tmp_path):
    page = shoal.report(suite)
    assert page == suite / "report.html"
    text = re.sub(r"<[^>]+>", " ", page.read_text())
    score = suite_scores(suite).normalized["IQM"].value
    assert "ppo on two" in text and f"normalized score over 2 environments: IQM {score:.4g}"[:48] in text.replace(
        "  ", " "
    )
    assert "random play" in text and "-498.7" in text.replace("\u2212", "-")
    other = write_suite(tmp_path / "b", {"CartPole-v1": CARTPOLE - 50, "Acrobot-v1": None}, agent="dqn")
    both = shoal.report(suite, other, out=tmp_path / "both.html").read_text()
    assert "dqn" in both and "no evaluation yet: Acrobot-v1" in both
