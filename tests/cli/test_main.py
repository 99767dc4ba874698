"""The command line: help that does not import JAX, listings, and `shoal doctor`. `test_mistakes.py` tests mistakes."""

import re
import subprocess
import sys
from email.message import Message
from types import SimpleNamespace

import jax
import pytest

import shoal
from commands import refused, say
from shoal.cli.doctor import _problems
from shoal.cli.main import main

# Help must be printed without importing JAX.


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"], ["play", "--help"], ["trian"]])
def test_help_needs_no_jax(words):
    code = f"import sys\nfrom shoal.cli.main import main\nmain({words})\nassert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_the_help_of_train_lists_hyperparameters_and_constants(capsys):
    assert main(["train", "ppo", "CartPole-v1", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--clip X[,X] bound on the change of probability ratio and value; from 0 to 1e+09; default 0.2" in text
    assert "--env.gravity X[,X] default 9.8" in text and "--observation-space" not in text


def test_debug_shows_where_an_error_comes_from():
    with pytest.raises(ValueError, match="is not registered"):
        main(["train", "pppo", "CartPole-v1", "--debug"])


def test_environments_are_listed_by_family(capsys):
    out = say(capsys, "envs")[1]
    families = {line.split()[0]: int(line.split()[1]) for line in out.splitlines()[2:-3]}
    assert families == {
        "babyai": 96,
        "bsuite": 469,
        "classic": 6,
        "gridworlds": 3,
        "meta": 12,
        "meta_envs": 7,
        "minatar": 10,
        "minigrid": 82,
        "planar": 3,
        "toy_text": 6,
    }
    assert "Probe" not in out


@pytest.mark.parametrize(
    ("words", "has", "has_not"),
    [
        ("classic", "CartPole-v1", "Breakout"),
        ("--family classic --actions continuous", "Pendulum-v1", "CartPole-v1"),
        ("--family classic --actions discrete", "CartPole-v1", "Pendulum-v1"),
        ("--family minatar --observations image", "MinAtar/Breakout-v1", "CartPole-v1"),
        ("probes --observations vector", "Probe-", "CartPole-v1"),
        ("v0 --family gridworlds", "GridWorld-v0", "MiniGrid"),
    ],
)
def test_environments_are_filtered_by_their_traits(words, has, has_not, capsys):
    status, out, _ = say(capsys, "envs", *words.split())
    assert status == 0 and has in out and has_not not in out


def test_variants_of_an_agent_have_their_own_description(capsys):
    rows = {line.split()[0]: line for line in say(capsys, "agents")[1].splitlines()}
    assert "Advantage actor-critic" in rows["a2c"] and "Proximal policy" in rows["ppo"]
    assert "Sarsa: a table" in rows["sarsa"] and "DQN" not in rows["c51"] and "TD3 with one critic" in rows["ddpg"]


def test_listings_name_every_entry_and_show_its_manual(capsys):
    names = [line.split()[0] for line in say(capsys, "envs", "cartpole")[1].splitlines()[2:]]
    assert names[:3] == ["CartPole-v0", "CartPole-v1", "CartPoleGoal-v0"]
    page = say(capsys, "envs", "CartPole-v1")[1]
    assert "cart position, m" in page and "--env.mass-pole" in page
    assert "ppo" in say(capsys, "agents")[1] and "--learning-rate" in say(capsys, "agents", "ppo")[1]


def test_the_doctor_names_devices_and_cache(capsys):
    _, out, _ = say(capsys, "doctor")
    assert f"{len(jax.local_devices())}" and "cpu: cpu" in out and "jaxlib" in out and "cache" in out


BROKEN = {
    "cache": (lambda patch, file: {"jax_compilation_cache_dir": str(file)}, "the cache .*file, cannot be written"),
    "disk": (lambda patch, file: patch.setattr(DISK, lambda at: SimpleNamespace(free=2**20)), "with 1 MiB free: runs"),
    "threads": (lambda patch, file: patch.setenv("NPROC", "two"), "NPROC=two is not a number of threads"),
    "memory": (
        lambda patch, file: patch.setattr("shoal.cli.doctor.host_bytes", lambda: 2**29),
        "0.5 GiB of memory may",
    ),
    "compiler": (lambda patch, file: {"jax_disable_jit": True}, "JAX_DISABLE_JIT is set: nothing is compiled"),
    "package": (lambda patch, file: patch.setattr("shoal.cli.doctor.PACKAGES", ("shoal", "pilow")), "install pilow"),
}
DISK = "shoal.cli.doctor.shutil.disk_usage"


@pytest.mark.parametrize("broken", BROKEN)
def test_the_doctor_says_what_would_stop_a_run(broken, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    settings = {**jax.config.values, "jax_compilation_cache_dir": str(tmp_path / "cache")}
    assert [*_problems(settings)] == []
    break_it, said = BROKEN[broken]
    problems = [*_problems({**settings, **(break_it(monkeypatch, tmp_path / "file") or {})})]
    assert problems and re.search(said, " ".join(problems))


@pytest.mark.parametrize("problem", ["", "this machine has an NVIDIA GPU"])
def test_the_doctor_ends_with_1_for_a_problem_and_0_for_a_note(problem, capsys, monkeypatch):
    monkeypatch.setattr("shoal.cli.doctor.unused_gpu", lambda: problem)
    monkeypatch.setattr("shoal.cli.doctor._notes", lambda platform: iter(["of interest"]))
    status, out, _ = say(capsys, "doctor")
    assert status == bool(problem) and ("nothing needs attention" in out) == (not problem)
    assert out.endswith("note: of interest\n")


def test_who_asks_for_published_numbers_learns_where_they_are_measured(capsys, monkeypatch):
    known = Message()
    known["Project-URL"] = "Repository, https://example.org/a/shoal"
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: known)
    assert refused(capsys, "reproduce", "doors", "--full") == (
        "shoal: published numbers are measured again by `python -m reproductions doors --full`, in the repository of "
        "shoal, https://example.org/a/shoal.\n"
    )
    with pytest.raises(AttributeError, match="`python -m reproductions`, in the repository of shoal"):
        shoal.reproduce  # noqa: B018
