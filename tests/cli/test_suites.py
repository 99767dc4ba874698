"""`shoal train --suite` and `shoal suites`: tables, dry runs, resuming, and the kept times."""

from pathlib import Path

import pytest

from commands import refused, say
from shoal.studies import suite_time
from shoal.studies.suite_file import suite_of
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
    assert "CliffWalking-v1, FrozenLake-v1 on 20" in out
    (found,) = suite_time.kept_times().values()
    assert found.of == 2 and found.seconds > 0
    suite_time._file().write_text('{"tables": {"agent": 3}}')  # of another version
    assert suite_time.kept_times() == {}


def test_the_time_of_a_suite_grows_with_its_steps_and_seeds(monkeypatch):
    monkeypatch.setattr(suite_time, "_seconds", lambda plan: plan.updates_per_member * plan.members)
    how = {"preset": None, "fields": {"num_steps": 10}}
    suite = suite_of("toy-text")
    one = suite_time.suite_time("q-learning", suite, steps=1000, **how)
    more = suite_time.suite_time("q-learning", suite, steps=2000, seeds=3, **how)
    assert (one.seconds, more.seconds) == (100 * 6, 200 * 3 * 6) and len(one.envs) == 3
    fits = suite_time.suite_time("dqn", suite_of("classic"), steps=1000, preset=None)
    assert fits.envs == ["CartPole-v1"] and fits.of == 3  # of three that were measured two do not fit
