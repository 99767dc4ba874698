"""Suites: which environments they have, what is refused, and that a suite that was stopped ends with the same bits."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import shoal
from commands import MY_ENV
from listeners import Listener
from shoal.agents.tabular import QTable
from shoal.core.errors import UnknownNameError, Unsuited, UntrustedError
from shoal.core.registry import ENVS
from shoal.studies.suite_file import matching, suite_of, suites
from shoal.studies.suites import SuiteRun, plan_resumed, plan_suite
from shoal.training.claim import locked
from shoal.training.folder import RunFolder
from shoal.training.jobs import Job
from shoal.training.loop import Run
from shoal.training.program_store import ProgramStore, count_programs, program_key
from shoal.training.stopping import Stopped
from shoal.training.suite_folder import SCORES
from shoal.training.suite_scores import suite_scores
from tiny import FIELDS, OPTIONS, SILENT

AGENT = QTable(num_steps=32)
TABLES = 'summary = "two tables"\nenvs = ["CliffWalking-v1", "FrozenLake-v1"]\n'
SMALL = {**OPTIONS, "seeds": 2}


def write(path, text):
    path.write_text(text)
    return path


@pytest.fixture
def tables(tmp_path):
    """A suite of two small environments."""
    return write(tmp_path / "tables.toml", TABLES)


def bits(folder):
    """The curves of every run of a suite, without times, and the numbers in their checkpoints."""
    found = {}
    for path in sorted(folder.glob("*/curves.npz")):
        with np.load(path) as file:
            found |= {(path.parent.name, n): file[n].tobytes() for n in file.files if n != "wall_seconds"}
    for path in sorted(folder.glob("*/checkpoints/step-*/*.npz")):
        with np.load(path) as file:
            found |= {(path.relative_to(folder), n): file[n].tobytes() for n in file.files}
    assert found
    return found


# Which environments a suite has.


def test_the_suites_of_shoal_name_environments_that_exist():
    sizes = {name: len(table["envs"]) for name, table in shoal.suites().items()}
    assert sizes == {
        **{"classic": 5, "toy-text": 6, "minatar": 5, "minigrid-10": 10, "minigrid": 76},  # as many as MiniGrid 3.2.0
        **{"babyai-easy": 8, "babyai": 96, "bsuite": 468, "gymnax": 24},
    }
    assert all(env in ENVS for table in suites().values() for env in table["envs"])
    assert {level.env for level in suite_of("gymnax").levels} <= {*ENVS}  # by shoal's names, not by aliases


def test_patterns_match_names_and_leave_names_out():
    known = ["A-1", "A-2", "B-1"]
    assert matching(["B-1", "A-*"], known, "x") == ["B-1", "A-1", "A-2"]
    assert matching(["!A-2", "A-*", "A-1"], known, "x") == ["A-1"]
    with pytest.raises(ValueError, match=r"x: the pattern 'A1\*' matches no environment. Did you mean A-1"):
        matching(["A1*"], known, "x")


def test_a_file_of_ones_own_has_names_patterns_and_fields(tmp_path):
    text = """envs = ["FrozenLake*", "!FrozenLake8x8-v1", "Catch-bsuite", { env = "CartPole-v1", gravity = 5.0 }]
    [references."CartPole-v1 gravity=5.0"]
    random = 20
    target = 500
    """
    suite = suite_of(write(tmp_path / "mine.toml", text))
    assert [tuple(level) for level in suite.levels] == [
        ("FrozenLake-v1", {}),
        ("bsuite/catch/0", {}),
        ("CartPole-v1", {"gravity": 5.0}),
    ]
    assert (suite.name, suite.references) == ("mine", {"CartPole-v1 gravity=5.0": {"random": 20, "target": 500}})


def test_a_suite_that_is_interrupted_while_it_compiles_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("shoal.studies.suites.run_job", interrupted)
    path = write(tmp_path / "tables.toml", 'envs = ["CliffWalking-v1", "FrozenLake-v1"]')
    with pytest.raises(Stopped, match=f"Continue with: shoal train --resume {tmp_path}/s"):
        shoal.train_suite("q-learning", path, steps=100, preset=None, name="s", root=tmp_path, progress=False)


def test_an_environment_in_a_python_file_beside_the_suite_needs_consent(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write(tmp_path / "my_env.py", MY_ENV)
    path = write(tmp_path / "mine.toml", 'envs = ["my_env.py:MyEnv", "CartPole-v1"]')
    with pytest.raises(UntrustedError, match="my_env.py, which you have neither named"):
        suite_of(path)
    planned = plan_suite("ppo", suite_of(path, trust_source=True), preset=None, fields=FIELDS, **OPTIONS)
    assert [task.label for task in planned.tasks] == ["MyEnv", "CartPole-v1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("envs = []", "names no environment. A file of a suite has envs"),
        ('summary = "x"', "names no environment"),
        ('envs = ["CartPole-v1", "!CartPole-v1"]', "leave all of them out"),
        ('envs = ["CartPol-v1"]', "mine.toml: env 'CartPol-v1' is not registered. Did you mean CartPole-v1"),
        ('envs = ["MiniGird-*"]', "the pattern 'MiniGird-\\*' matches no environment"),
        ("envs = [3]", "3 is no environment. Write a name"),
        ('envs = [{ env = "CartPole-*", gravity = 5 }]', "is no environment"),
        ('envs = [{ env = "CartPole-v1", gravty = 5 }]', "mine.toml: CartPole-v1 has no field 'gravty'. Did you mean"),
        ('env = ["CartPole-v1"]', "'env' is not known. Did you mean envs"),
        ('envs = ["CartPole-v1"]\n[references.X]\nbest = 3', "best = 3"),
        ("envs = [", "is no TOML"),
    ],
)
def test_files_of_another_form_are_refused(text, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        suite_of(write(tmp_path / "mine.toml", text))


def test_unknown_suites_are_refused(tmp_path):
    with pytest.raises(UnknownNameError, match="suite 'clasic' is not registered. Did you mean classic?"):
        shoal.train_suite("ppo", "clasic", root=tmp_path)
    with pytest.raises(FileNotFoundError, match="minigird.toml does not exist.*Did you mean minigrid"):
        suite_of("minigird.toml")
    with pytest.raises(TypeError, match="train_suite needs an agent and a suite"):
        shoal.train_suite("ppo", root=tmp_path)
    assert not list(tmp_path.iterdir())


# What is refused before anything is trained.


def test_environments_that_do_not_fit_are_listed_before_training(tmp_path):
    with pytest.raises(Unsuited) as error:
        shoal.train_suite("dqn", "classic", root=tmp_path)
    said = "dqn cannot play 2 of 5 in classic (MountainCarContinuous-v0, Pendulum-v1): it"
    assert str(error.value).startswith(said)
    assert "needs Discrete actions" in str(error.value) and "Agents that can: a2c" in str(error.value)
    assert "--skip-unfit trains in the other 3." in str(error.value)
    planned = plan_suite("dqn", suite_of("classic"), skip_unfit=True)
    assert [task.label for task in planned.tasks] == ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"]
    assert [*planned.left_out] == ["MountainCarContinuous-v0", "Pendulum-v1"]
    with pytest.raises(Unsuited, match="q-learning cannot play 1 of 1 in one .Pendulum-v1.: ") as error:
        plan_suite("q-learning", suite_of(write(tmp_path / "one.toml", 'envs = ["Pendulum-v1"]')), skip_unfit=True)
    assert "--skip-unfit" not in str(error.value)  # nothing would be left


def test_mistakes_in_the_options_of_a_suite(tmp_path, tables):
    with pytest.raises(
        ValueError, match="a suite has one run for each environment, and num_steps=8 needs one for each"
    ):
        plan_suite("q-learning", suite_of(tables), sweep={"num_steps": [8, 16]}, preset=None)
    twice = write(tmp_path / "twice.toml", 'envs = ["CartPole-v1", { env = "CartPole-v1" }]')
    assert len(suite_of(twice).levels) == 1
    with pytest.raises(ValueError, match="--wrap is for environments without fields"):
        own = write(tmp_path / "own.toml", 'envs = [{ env = "CartPole-v1", gravity = 5.0 }]')
        suite_of(own).wrapped(str)
    with pytest.raises(FileNotFoundError, match="is not the folder of a suite"):
        shoal.train_suite(resume=tmp_path)


def test_environments_whose_files_are_missing_are_left_out(monkeypatch):
    monkeypatch.delenv("SHOAL_MNIST", raising=False)
    suite = suite_of("gymnax")
    few = suite._replace(levels=[level for level in suite.levels if level.env in ("bsuite/mnist/0", "bsuite/catch/0")])
    planned = plan_suite("ppo", few, preset=None, fields=FIELDS, **OPTIONS)
    assert [task.label for task in planned.tasks] == ["bsuite/catch/0"]
    assert "MNIST" in planned.left_out["bsuite/mnist/0"]


# Programs that runs share.


def test_levels_that_differ_in_numbers_share_their_programs(tmp_path):
    text = 'envs = [{ env = "CartPole-v1", gravity = 9.8 }, { env = "CartPole-v1", gravity = 5.0 }, "MountainCar-v0"]'
    own = {"preset": None, "fields": FIELDS, **OPTIONS, **SILENT}
    found = shoal.train_suite("ppo", write(tmp_path / "g.toml", text), root=tmp_path, name="s", **own)
    assert found.programs == 2
    assert [result.folder.name for result in found.results] == [
        "CartPole-v1 gravity=9.8",
        "CartPole-v1 gravity=5.0",
        "MountainCar-v0",
    ]
    assert found.results[1].summary["compile_seconds"] == 0
    alone = shoal.train("ppo", "CartPole-v1", env_fields={"gravity": 5.0}, root=tmp_path, name="alone", **own)
    for name in ("train_return", "eval_return"):
        np.testing.assert_array_equal(alone.curves[name], found.results[1].curves[name])
    assert json.loads((found.folder / "suite-scores.json").read_text())["programs"] == 2


def test_programs_are_kept_while_a_later_run_needs_them(tables, tmp_path):
    tasks = plan_suite(AGENT, suite_of(tables), **SMALL).tasks
    plans, pairs = [task.plan for task in tasks], [task.job.pair for task in tasks]
    assert count_programs([*plans, *plans]) == 2 and program_key(plans[0]) != program_key(plans[1])

    store = ProgramStore([pairs[0], pairs[1], pairs[0]])
    first, other, second = (Run(plans[i], RunFolder(tmp_path / "x")) for i in (0, 1, 0))
    for run, pair, programs in ((first, pairs[0], "compiled"), (other, pairs[1], "others")):
        store.lend(run)
        assert run.population.programs is None
        run.population.programs = programs
        store.take_back(run, pair)
    assert [programs for _, programs in store._kept.values()] == ["compiled"]  # no run waits for the others
    store.lend(second)
    assert second.population.programs == "compiled"
    store.take_back(second, pairs[0])
    assert store.compiled == 2 and not store._kept


# Folders, and suites that were stopped.


def test_a_suite_that_was_stopped_between_two_runs_goes_on(tmp_path, tables):
    whole = shoal.train_suite(AGENT, tables, root=tmp_path, name="whole", **SMALL, **SILENT)
    assert [run.folder for run in whole.results] == [
        tmp_path / "whole" / name for name in ("CliffWalking-v1", "FrozenLake-v1")
    ]
    assert set(whole.scores.normalized) == {"IQM", "mean"} and whole.programs == 2
    planned = plan_suite(AGENT, suite_of(tables), **SMALL)
    training = SuiteRun(planned, root=tmp_path, name="part", figures=False).train()
    next(training)
    training.close()
    with pytest.raises(FileExistsError, match="part already holds a suite. Continue it with `shoal train --resume"):
        shoal.train_suite(AGENT, tables, root=tmp_path, name="part", **SMALL, **SILENT)
    finished = (tmp_path / "part/CliffWalking-v1/summary.json").stat().st_mtime_ns
    again = shoal.train_suite(resume=tmp_path / "part", **SILENT)
    assert finished == (tmp_path / "part/CliffWalking-v1/summary.json").stat().st_mtime_ns
    assert again.programs == 1 and len(again.results) == 2
    assert bits(tmp_path / "part") == bits(tmp_path / "whole")
    np.testing.assert_equal(again.scores, whole.scores)  # NaN, of intervals of two seeds, is equal to itself
    assert shoal.train_suite(resume=tmp_path / "part", **SILENT).programs == 0  # all runs are finished
    for given in ({"steps": 512}, {"suite": "classic"}, {"agent": "ppo"}, {"name": "other"}):
        with pytest.raises(ValueError, match=f"{next(iter(given))}=.* is for a new run; resume continues"):
            shoal.train_suite(resume=tmp_path / "part", **given)


def test_a_run_that_another_process_trains_is_left_to_it(tmp_path, tables):
    whole = shoal.train_suite(AGENT, tables, root=tmp_path, name="whole", **SMALL, **SILENT)
    planned = plan_suite(AGENT, suite_of(tables), **SMALL)
    run = SuiteRun(planned, root=tmp_path, name="part", figures=False)
    first, second = (run.folder.path / name for name in ("CliffWalking-v1", "FrozenLake-v1"))
    first.mkdir()
    said = Listener()
    with locked(first):
        part = shoal.train_suite(resume=run.folder.path, sinks=[said], **SILENT)
    assert [result.folder for result in part.results] == [second] and not (run.folder.path / SCORES).exists()
    assert "other processes train CliffWalking-v1; the last of them to end writes the scores" in said.heard
    results = list(run.train())  # planned before the second was trained
    assert [result.folder for result in results] == [first, second] and (run.folder.path / SCORES).exists()
    assert bits(run.folder.path) == bits(tmp_path / "whole")
    np.testing.assert_equal(suite_scores(run.folder.path), whole.scores)


def test_a_suite_that_goes_on_plans_a_run_when_it_is_taken(tmp_path, tables, monkeypatch):
    folder = SuiteRun(plan_suite(AGENT, suite_of(tables), **SMALL), root=tmp_path, name="part").folder.path
    first, plan, planned = folder / "CliffWalking-v1", Job.plan, []
    first.mkdir()
    monkeypatch.setattr(Job, "plan", lambda job, *args, **how: planned.append(job.spec.env) or plan(job, *args, **how))
    with locked(first):
        shoal.train_suite(resume=folder, **SILENT)
    assert planned == ["FrozenLake-v1"]


@pytest.mark.slow  # three processes, each with JAX of its own
def test_three_processes_that_begin_at_once_share_a_suite(tmp_path, tables):
    shoal.train_suite(AGENT, tables, root=tmp_path, name="whole", **SMALL, **SILENT)
    folder = SuiteRun(plan_suite(AGENT, suite_of(tables), **SMALL), root=tmp_path, name="part").folder.path
    command = [sys.executable, "-m", "shoal", "train", "--resume", str(folder), "--no-figures"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] is not None and process.returncode for process in started] == [0, 0, 0]
    assert bits(folder) == bits(tmp_path / "whole") and (folder / SCORES).exists()


def test_a_run_that_is_not_the_suites_is_refused(tmp_path, tables):
    training = SuiteRun(plan_suite(AGENT, suite_of(tables), **SMALL), root=tmp_path, name="s", figures=False).train()
    next(training)
    training.close()
    folder = tmp_path / "s/CliffWalking-v1"
    (folder / "summary.json").unlink()
    spec = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps({**spec, "seed": 7}))
    with pytest.raises(ValueError, match="is not the run that .*suite.json describes"):
        plan_resumed(tmp_path / "s")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_suite_that_was_killed_ends_with_the_same_bits(tmp_path, tables):
    words = ["q-learning", "--suite", str(tables), "--steps", "200_000", "--num-steps", "32", "--records", "40"]
    words += ["--eval-max-steps", "50", "--preset", "none", "--no-figures", "--root", str(tmp_path)]
    run = [sys.executable, "-m", "shoal.cli.main", "train"]
    subprocess.run([*run, *words, "--name", "whole"], check=True, capture_output=True)
    kills = 0
    command = [*words, "--name", "killed"]
    for of_run in ("CliffWalking-v1", "FrozenLake-v1", "FrozenLake-v1"):
        seen = len([*(tmp_path / "killed" / of_run).glob("checkpoints/step-*")])
        before = {path.name for path in (tmp_path / "killed" / of_run).glob("checkpoints/step-*")}
        process = subprocess.Popen([*run, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < end:
            now = {path.name for path in (tmp_path / "killed" / of_run).glob("checkpoints/step-*")}
            if now - before and (seen or now):
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.005)
        kills += process.wait() == -signal.SIGKILL
        command = ["--resume", str(tmp_path / "killed"), "--no-figures"]
    assert kills >= 2
    subprocess.run([*run, *command], check=True, capture_output=True)
    assert bits(tmp_path / "killed") == bits(tmp_path / "whole")
