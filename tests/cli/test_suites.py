"""`shoal train --suite` and `shoal suites`: tables, dry runs, resuming, and the kept times."""

import signal
from pathlib import Path

import pytest

from commands import refused, say
from shoal.studies import suite_time
from shoal.studies.suite_file import suite_of
from shoal.studies.suites import plan_suite
from shoal.training.stopping import Stopped
from tiny import as_flags

FLAGS = ["--steps", "256", "--records", "2", "--evaluations", "1", "--preset", "none", "--num-steps", "32"]
FLAGS += [*as_flags({"eval_episodes": 3, "eval_max_steps": 20}), "--no-progress"]
SUITE = 'summary = "two tables"\nenvs = ["CliffWalking-v1", "FrozenLake-v1"]\n'


@pytest.fixture(autouse=True)
def _cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("tables.toml").write_text(SUITE)


def test_a_suite_is_trained_resumed_and_compared(capsys):
    words = ["train", "q-learning", "--suite", "tables.toml", *FLAGS, "--name", "s"]
    status, out, _ = say(capsys, *words, "--dry-run")
    assert status == 0 and "dry run: 2 runs" in out and "2 runs need 2 sets of compiled programs" in out
    assert not Path("runs").exists()
    status, out, err = say(capsys, *words, "--no-figures")
    assert status == 0 and "q-learning on tables: returns of the last evaluation" in out, err
    assert "normalized score (IQM) over 2 environments: " in out
    assert "2 runs, 2 sets of programs compiled" in out and out.endswith("runs/s\n")
    assert "note: evaluation episodes were cut off" in out
    assert "runs/s already holds a suite" in refused(capsys, *words)
    for option, value in (("--steps", "512"), ("--seeds", "3"), ("--suite", "classic")):
        assert "leave" in (said := refused(capsys, "train", "--resume", "runs/s", option, value).lower()), said
    status, out, _ = say(capsys, "train", "--resume", "runs/s")
    assert status == 0 and "0 runs, 0 sets of programs compiled" in out and "runs/s/report.html" in out
    status, out, _ = say(capsys, "compare", "runs/s", "--out", "figure.png")
    assert status == 0 and "normalized scores over all environments" in out and Path("figure.png").stat().st_size


def test_suites_are_listed(capsys):
    status, out, _ = say(capsys, "suites")
    assert status == 0 and "minigrid-10            10" in out and "no time was measured here yet" in out
    status, out, _ = say(capsys, "suites", "tables.toml")
    assert status == 0 and out.splitlines() == [
        "tables: two tables",
        "  CliffWalking-v1",
        "  FrozenLake-v1",
        "no time was measured here yet: --measure trains shortly in three environments of each suite",
    ]


def test_a_measured_time_is_kept(capsys, monkeypatch):
    monkeypatch.setattr(suite_time, "SHORTEST", 0.01)
    words = ["suites", "tables.toml", "--measure", "--agent", "q-learning", "--steps", "10_000", "--preset", "none"]
    assert say(capsys, *words)[0] == 0
    out = say(capsys, "suites", "tables.toml")[1].splitlines()[-1]
    assert out.startswith("tables: about") and "for q-learning with 1 seed in 2 environments" in out
    assert "s compiling, " in out and "for records, checkpoints, figures and videos" in out
    assert "CliffWalking-v1, FrozenLake-v1 on 20" in out
    (found,) = suite_time.kept_times().values()
    assert found.of == 2 and min(found.compiling, found.training, found.evaluating, found.rest) > 0
    assert found.seconds == found.compiling + found.training + found.evaluating + found.rest
    suite_time._file().write_text('{"tables": {"agent": 3}}')  # of another version
    assert suite_time.kept_times() == {}


def test_a_measurement_that_is_stopped_names_no_folder(monkeypatch):
    def stopped(task):
        raise Stopped("stopped. Continue with: shoal train --resume /tmp/gone", signal.SIGTERM)

    monkeypatch.setattr(suite_time, "measured", stopped)
    with pytest.raises(Stopped, match="keeps nothing: begin it again") as error:
        suite_time.suite_time("q-learning", suite_of("toy-text"), seeds=1)
    assert error.value.signal == signal.SIGTERM


def test_the_time_of_a_suite_is_the_sum_of_its_parts_for_all_runs(monkeypatch):
    costs = {"CliffWalking-v1": (4.0, 1e-3, 2.0, 10.0), "FrozenLake-v1": (6.0, 3e-3, 4.0, 20.0)}
    seen = []

    def measured(task):
        seen.append(task.label)
        return suite_time.Costs(*costs[task.job.spec.env_name])

    monkeypatch.setattr(suite_time, "measured", measured)
    how = {"preset": None, "fields": {"num_steps": 10}, "records": 4, "evaluations": 2}
    found = suite_time.suite_time("q-learning", suite_of("tables.toml"), steps=1000, seeds=3, **how)
    assert seen == found.envs == ["CliffWalking-v1", "FrozenLake-v1"] and found.of == 2
    # Means of the two: 5 s for a program, 2 ms for a step, 3 s for an evaluation of a member, 15 s for the rest.
    assert found.compiling == 5 * 2 and found.training == pytest.approx(2e-3 * 2 * 3 * 1000)
    assert found.evaluating == 3 * 2 * 3 * 2 and found.rest == 15 * 2 and found.seconds == 10 + 12 + 36 + 30


def test_the_steps_of_every_environment_count_also_of_those_that_are_not_measured(monkeypatch):
    seen = []
    monkeypatch.setattr(suite_time, "measured", lambda task: seen.append(task.label) or suite_time.Costs(1, 1e-3, 0, 0))
    found = suite_time.suite_time("q-learning", suite_of("toy-text"))
    steps = {task.label: task.plan.steps for task in plan_suite("q-learning", suite_of("toy-text")).tasks}
    assert seen == found.envs == ["CliffWalking-v1", "FrozenLake-v1", "Blackjack-v1"]
    assert len(set(steps.values())) > 1 and steps["FrozenLake8x8-v1"] > steps["FrozenLake-v1"]
    assert found.training == pytest.approx(sum(steps.values()) / 1000) and found.of == 6


def test_environments_in_which_the_agent_cannot_act_take_no_time(monkeypatch):
    monkeypatch.setattr(suite_time, "measured", lambda task: suite_time.Costs(1, 0, 0, 1))
    found = suite_time.suite_time("dqn", suite_of("classic"), steps=1000, preset=None)
    assert found.envs == ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"] and found.of == 3


def test_the_parts_of_a_measured_run_add_up_to_its_time(monkeypatch):
    """Two runs of 4 records and updates of 10 steps, for 2 members: one of 9 s in all, and one that only trains."""
    calls = []

    def trained(task, folder, updates, store, *, only_training=False):
        calls.append((updates, only_training))
        clock[0] += 0.0 if only_training else 9.0
        spent = updates * 0.01  # 10 ms for each update of 20 steps
        return {"compile_seconds": 2.0, "eval_seconds": 3.0, "train_seconds": spent}

    clock = [100.0]
    monkeypatch.setattr(suite_time, "_trained", trained)
    monkeypatch.setattr(suite_time.time, "perf_counter", lambda: clock[0])
    how = {"fields": {"num_steps": 10}, "records": 4, "evaluations": 2, "preset": None, "steps": 10_000, "seeds": 2}
    (task, _) = plan_suite("q-learning", suite_of("tables.toml"), **how).tasks
    costs = suite_time.measured(task)
    assert task.plan.agent.steps_per_update == 10 and calls == [(4, False), (4, True), (100, True)]
    assert costs.step == pytest.approx(0.01 / 20) and (costs.program, costs.evaluation) == (2.0, 3.0 / (2 * 2))
    assert costs.rest == pytest.approx(9 - 2 - 3 - 4 * 0.01)
