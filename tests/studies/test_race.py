"""`shoal.race`: seeds in batches until it is decided which contestant is better."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

import shoal
from commands import say
from listeners import Interrupt, Listener
from shoal.core.errors import DamagedError
from shoal.ops.sequential import Design, verdicts
from shoal.tracking.events import Message
from shoal.training import checkpoint
from shoal.training.records import member_scores
from shoal.training.stopping import Stopped
from stops import Request
from tiny import SILENT

ENV = "CliffWalking-v1"
RUN = {"steps": 5_000, "records": 4, "evaluations": 2, "eval_episodes": 5}
SLOW = {"agent": "q-learning", "fields": {"learning_rate": 0.1}, "name": "slow"}
AGAIN = {"agent": "q-learning", "seed": 1, "name": "again"}  # q-learning with other random numbers
RULES = {"at_most": 16, "batch": 8}


@pytest.fixture(scope="module")
def heard():
    return Listener()


@pytest.fixture(scope="module")
def found(tmp_path_factory, heard):
    """A race of three: one is decided about after 8 seeds, and the other two are the same."""
    root = tmp_path_factory.mktemp("races")
    race = shoal.race("q-learning", SLOW, AGAIN, env=ENV, **RUN, **RULES, root=root, progress=False, sinks=[heard])
    assert race.folder == root / f"race-{ENV}"
    return race


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """All seeds of q-learning in one run, without a race."""
    return shoal.train("q-learning", ENV, **RUN, seeds=16, folder=tmp_path_factory.mktemp("all") / "run", **SILENT)


def test_slots_go_to_what_is_not_decided(found, heard):
    outcomes = {(pair.first, pair.second): (pair.outcome, pair.seeds) for pair in found.pairs}
    assert outcomes["q-learning", "slow"] == ("first", 8) and outcomes["slow", "again"] == ("second", 8)
    assert outcomes["q-learning", "again"][1] == 16
    assert {name: len(scores) for name, scores in found.scores.items()} == {"q-learning": 16, "slow": 8, "again": 16}
    folders = {name: [run.folder.name for run in runs] for name, runs in found.runs.items()}
    assert folders["q-learning"] == ["seeds-0-7", "seeds-8-15"] and folders["slow"] == ["seeds-0-7"]
    assert [(row["look"], row["first"], row["second"]) for row in found.looks][3:] == [(2, "q-learning", "again")]
    looks = [text for text in heard.heard if text.startswith("look")]
    assert len(looks) == 2 and looks[0].startswith("look 1 of 2, 8 seeds: q-learning > slow (p 0.0078, needs 0.0")
    assert found.is_over


def test_programs_are_compiled_once_for_each_contestant(found):
    first, later = found.runs["q-learning"]
    assert first.summary["compile_seconds"] > 0 and later.summary["compile_seconds"] == 0


def test_decisions_are_those_of_the_scores(found):
    scores = [*found.scores.values()]
    expected = verdicts(scores, Design((8, 16)))
    assert [pair.outcome for pair in found.pairs] == [verdict.outcome for verdict in expected.values()]
    assert [pair.p for pair in found.pairs] == [verdict.path.p[-1] for verdict in expected.values()]
    first, slow = scores[0][:8], scores[1]
    pair = found.pairs[0]
    assert pair.difference == pytest.approx((first - slow).mean()) and 0 < pair.low < pair.difference < pair.high
    assert pair.sentence.startswith(f"q-learning is better than slow on {ENV}: +")
    assert pair.sentence.endswith("], decided after 8 of 16 seeds")
    assert found.pairs[2].sentence.startswith(f"again is better than slow on {ENV}: +")


def test_a_raced_member_is_the_same_seed_trained_alone(found, whole, tmp_path):
    np.testing.assert_array_equal(found.scores["q-learning"], member_scores(whole.curves))
    alone = shoal.train("q-learning", ENV, **RUN, seeds=1, first_seed=9, folder=tmp_path / "alone", **SILENT)
    raced = found.runs["q-learning"][1]
    assert alone.members == raced.members[1:2] == [{"seed": 9}]
    for name, curve in alone.curves.items():
        if curve.ndim == 2:
            np.testing.assert_array_equal(curve[:, 0], raced.curves[name][:, 1], err_msg=name)
    state, expected = learners(raced.folder), learners(alone.folder)
    assert state.keys() == expected.keys() and len(state) > 5
    for name, leaf in expected.items():
        np.testing.assert_array_equal(leaf[0], state[name][1], err_msg=name)


def learners(folder):
    """The leaves of the learners in the newest checkpoint of a run, by name: [M, ...]."""
    newest = checkpoint.newest(folder / "checkpoints")
    with np.load(checkpoint.file_of(newest, checkpoint.LEARNERS)) as file:
        return {name: file[name] for name in file.files}


def test_runs_of_a_race_are_ordinary_runs(found):
    labels = {name: [run.folder for run in found.runs[name]] for name in ("q-learning", "again")}
    compared = shoal.compare(label=labels)
    assert [len(group.cells[0].names) for group in compared.groups] == [16, 16]
    pair = shoal.compare(found.runs["q-learning"][0], found.runs["slow"][0]).against(0, 1)
    assert pair.pairs == 8 and pair.difference.value == pytest.approx(found.pairs[0].difference)
    assert shoal.report(found.runs["slow"][0].folder).exists()
    with pytest.raises(FileNotFoundError, match="--resume .*result. It holds runs: .*/again/seeds-0-7, "):
        shoal.report(found.folder)
    assert shoal.verify(found.runs["slow"][0].folder).outcome == "verified"


def test_a_stopped_race_goes_on_to_the_same_decisions(found, tmp_path, capsys, monkeypatch):
    """Ctrl-C while a batch trains, and then between two batches."""
    folder, request = tmp_path / "stopped", Request(monkeypatch)
    again = f"Continue with: shoal race --resume {folder}"
    request.at = 7
    with pytest.raises(Stopped, match=again):
        shoal.race("q-learning", SLOW, AGAIN, env=ENV, **RUN, **RULES, root=tmp_path, name="stopped", progress=False)
    assert checkpoint.read_about(checkpoint.newest(folder / "q-learning/seeds-0-7/checkpoints"))["updates"] == 7
    stop = Interrupt(after=4, kind=Message)  # three batches and a look
    with pytest.raises(Stopped, match=again):
        shoal.race(resume=folder, progress=False, sinks=[stop])
    assert not shoal.RaceResult(folder).is_over
    status, out, _ = say(capsys, "race", "--resume", folder, "--no-progress")
    assert status == 0 and out.splitlines() == [*(pair.sentence for pair in found.pairs), str(folder)]
    assert read(folder) == read(found.folder)
    over = shoal.race(resume=folder, progress=False)  # a race that is over trains nothing
    assert read(over.folder) == read(found.folder)


def read(folder):
    return json.loads((folder / "race.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("after", ["q-learning/seeds-0-7", "slow/seeds-0-7", "q-learning/seeds-8-15"])
def test_a_killed_race_goes_on_to_the_same_decisions(found, tmp_path, after):
    """SIGKILL as soon as a run folder exists, while it trains."""
    code = (
        f"import shoal; shoal.race('q-learning', {SLOW}, {AGAIN}, env={ENV!r}, **{RUN}, **{RULES}, "
        f"root={str(tmp_path)!r}, name='killed', progress=False)"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    folder, end = tmp_path / "killed", time.monotonic() + 240
    while not (folder / after / "spec.json").exists():
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.wait()
    assert not shoal.RaceResult(folder).is_over
    shoal.race(resume=folder, progress=False)
    assert read(folder) == read(found.folder)


def test_scores_that_changed_since_are_refused(found, tmp_path):
    import shutil

    folder = tmp_path / "race"
    shutil.copytree(found.folder, folder)
    content = read(folder)
    content["scores"]["slow"][3] += 1.0
    (folder / "race.json").write_text(json.dumps(content))
    with pytest.raises(DamagedError, match="the runs of slow in .* have other scores than race.json"):
        shoal.race(resume=folder, progress=False)


def test_a_margin_is_an_answer(tmp_path):
    race = shoal.race(
        "q-learning",
        AGAIN,
        env=ENV,
        **RUN,
        at_most=8,
        batch=8,
        margin=1e4,
        root=tmp_path,
        progress=False,
        fitness="whole",
    )
    (pair,) = race.pairs
    assert pair.outcome == "no difference"
    assert pair.sentence.startswith(f"no difference larger than 10000 between q-learning and again on {ENV}: ")


def test_fewer_steps_to_a_return_are_better(tmp_path):
    race = shoal.race(
        SLOW,
        "q-learning",
        env=ENV,
        **{**RUN, "evaluations": 4},
        **RULES,
        fitness="reach:-100",
        root=tmp_path,
        progress=False,
    )
    steps = race.scores
    assert {*steps["slow"]} <= {1_250.0, 2_500.0, 3_750.0, 5_000.0} | {*steps["slow"]} and max(steps["slow"]) <= 5_500
    (pair,) = race.pairs
    assert pair.outcome == "second" and pair.difference > 0
    assert " is better than slow on " in pair.sentence and " steps to -100 " in pair.sentence and ": -" in pair.sentence


def test_seeds_that_never_reach_a_return_are_equal(tmp_path):
    """Updates of 70 steps end later than shorter ones."""
    wide = {"agent": "q-learning", "fields": {"num_steps": 70}, "name": "wide"}
    race = shoal.race(wide, "q-learning", env=ENV, **RUN, **RULES, fitness="reach:0", root=tmp_path, progress=False)
    ends = {name: {int(run.curves["env_steps"][-1]) for run in runs} for name, runs in race.runs.items()}
    assert ends["wide"] != ends["q-learning"]
    least = min(*ends["wide"], *ends["q-learning"])
    assert {*race.scores["wide"]} == {*race.scores["q-learning"]} == {least}
    assert race.pairs[0].difference == 0 and race.pairs[0].outcome not in ("first", "second")


def test_a_class_in_a_file_takes_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    imports = "from shoal import struct\nfrom shoal.agents.tabular import QTable\n"
    text = imports + "\n\n@struct\nclass Mine(QTable):\n    pass\n"
    (tmp_path / "my_agent.py").write_text(text)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "my_agent.py").write_text(text)
    tiny = {**RUN, "steps": 500, "at_most": 8, "batch": 8, "root": tmp_path, "progress": False}
    for name in ("my_agent.py:Mine", "inside/my_agent.py:Mine", f"{tmp_path}/my_agent.py:Mine"):
        race = shoal.race("sarsa", name, env=ENV, **tiny)
        assert len(race.scores) == 2 and race.looks[0]["seeds"] == 8


def test_a_population_is_one_seed(tmp_path):
    """The score of a contestant with a selector is that of its best member, and each seed is a run of its own."""
    population = {"agent": "q-learning", "selector": "random", "seeds": 2, "name": "random"}
    race = shoal.race(population, SLOW, env=ENV, **RUN, at_most=8, batch=4, alpha=0.2, root=tmp_path, progress=False)
    runs = race.runs["random"]
    assert [run.folder.name for run in runs] == [f"seed-{i}" for i in range(len(runs))]
    assert [run.spec.seed for run in runs] == [*range(len(runs))] and runs[0].spec.members == 2
    best = [np.nanmax(member_scores(run.curves)) for run in runs]
    np.testing.assert_array_equal(race.scores["random"], best)


def test_agents_are_values_too_and_may_be_given_again(tmp_path):
    agent = shoal.QTable(learning_rate=0.5)
    other = agent.replace(discount=0.5)
    stop = Interrupt(after=2, kind=Message)
    with pytest.raises(Stopped):
        shoal.race(agent, other, env=ENV, **RUN, **RULES, root=tmp_path, name="values", progress=False, sinks=[stop])
    with pytest.raises(ValueError, match="is a race of 2: give all of them again, or none"):
        shoal.race(agent, resume=tmp_path / "values", progress=False)
    race = shoal.race(agent, other, resume=tmp_path / "values", progress=False)
    assert race.is_over and [*race.scores] == [
        "q-learning learning_rate=0.5",
        "q-learning learning_rate=0.5 discount=0.5",
    ]
