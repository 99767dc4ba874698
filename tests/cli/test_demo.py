"""`shoal demo`: what it trains and writes, and that the commands that it prints can be typed."""

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from commands import refused, say
from shoal.cli.main import main


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder in which a small demo ran, and what it printed."""
    where, said = tmp_path_factory.mktemp("demo"), io.StringIO()
    words = ["--steps", "1024", "--seeds", "2", "--root", "my runs", "--no-progress"]  # a name that needs quotes
    with contextlib.chdir(where), contextlib.redirect_stdout(said):
        assert main(["demo", *words]) == 0
    return where, said.getvalue()


@pytest.fixture
def there(small, monkeypatch):
    """What the demo printed; the working folder is the one in which it ran."""
    monkeypatch.chdir(small[0])
    return small[1]


def test_it_trains_agents_that_differ_in_their_seed(there):
    spec = json.loads(Path("my runs/ppo-CartPole-v1/spec.json").read_text())
    assert (spec["agent"], spec["env"], spec["steps"], spec["seeds"]) == ("ppo", "CartPole-v1", 1024, 2)


def test_every_file_that_it_names_is_there(there):
    lines = re.findall(r"^(?:learning curves|agents at work|all of it on a page) +(.*)$", there, re.MULTILINE)
    named = [Path(path) for path in lines]
    assert [path.name for path in named] == ["learning_curves.png", "videos", "report.html"]
    assert all(path.exists() for path in named)
    assert [path.name for path in named[1].iterdir()] == ["best.gif"]


def test_the_command_that_it_prints_describes_the_same_run(there, capsys):
    (line,) = re.findall(r"written out:\n  shoal (.*)$", there, re.MULTILINE)
    _, out, _ = say(capsys, *shlex.split(line), "--dry-run")
    assert "2 = 1 setting(s) x 2 seed(s)" in out and "1,024 steps per member" in out
    assert "1 earlier run(s)" in out  # in "my runs"


def test_the_next_commands_can_be_typed(there, capsys):
    lines = [shlex.split(line) for line in re.findall(r"^  shoal (.*)$", there.partition("Try next")[2], re.MULTILINE)]
    evaluate, play, train = lines
    assert evaluate[:2] == ["eval", "my runs/ppo-CartPole-v1"] and play == ["play", "my runs/ppo-CartPole-v1"]
    status, out, _ = say(capsys, *evaluate, "--episodes", "2")
    assert status == 0 and all(f"length={value}" in out for value in (0.1, 0.5, 2)), out
    assert "16 = 2 setting(s) x 8 seed(s)" in say(capsys, *train, "--dry-run")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--steps 0", "must be at least 1"),
        ("--seeds many", "is not a whole number"),
        ("CartPole-v1", "unexpected argument 'CartPole-v1'"),
        ("--learning-rate 1e-3", "unknown flag --learning-rate"),
    ],
)
def test_a_mistake_is_answered_before_anything_is_written(words, said, capsys):
    assert said in refused(capsys, "demo", *words.split())
    assert not Path("runs").exists()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert "cannot be written" in refused(capsys, "demo", "--root", tmp_path / "file")


def test_without_options_it_is_the_demo_that_the_readme_shows(monkeypatch, capsys):
    asked = {}

    def train(*names, **options):
        asked.update(options, names=names)
        raise ValueError("enough")

    monkeypatch.setattr("shoal.studies.runs.train", train)
    assert "enough" in refused(capsys, "demo")
    assert asked == {"names": ("ppo", "CartPole-v1"), "steps": 500_000, "seeds": 16, "progress": True, "cache": True}


def test_a_pipe_that_is_closed_does_not_end_it(monkeypatch):
    told = []
    monkeypatch.setattr("sys.argv", ["shoal", "demo", "--steps", "0"])  # ends before it trains
    monkeypatch.setattr("shoal.cli.terminal.take_over", lambda reports_only: told.append(reports_only))
    assert main() == 2 and told == [True]
