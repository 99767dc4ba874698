"""No reader runs the code of a stranger: what a spec, a preset or a found value names needs the user's consent."""

import hashlib
import json
import shlex
import shutil
import subprocess
import sys

import pytest

import shoal
from commands import MY_ENV, refused, say
from shoal.core.errors import UntrustedError
from shoal.core.registry import loaded_file
from shoal.specs import consent
from shoal.training.checkpoint import hash_of_manifest
from shoal.training.folder import hash_of_spec
from shoal.training.jobs import job_from_spec, job_to_resume, make_job
from shoal.training.pyfunc import _load_pyfunc
from shoal.training.result import Result

EVIL = """
from pathlib import Path
Path(__file__).with_name("was_run").touch()
from shoal.core.struct import struct
from shoal.envs.classic.cartpole import CartPole
from shoal.nn.torsos import MLP as Net

def f(x):
    return x

@struct
class Evil(CartPole):
    pass
"""


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A working folder with a stranger's code, from which Python would import it."""
    for name in ("evil_module.py", "evil_file.py"):
        (tmp_path / name).write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("evil_module", "shoal_user_evil_file"):
        sys.modules.pop(name, None)


FILE, MODULE = "{folder}/evil_file.py", "evil_module"
# What a stranger writes into spec.json, with its own SHA-256 of the file; a module that is installed but not loaded.
STRANGERS = {
    "env from a file": {"env": f"{FILE}:Evil"},
    "env from a module": {"env": f"{MODULE}:Evil"},
    "agent from a module": {"agent": f"{MODULE}:Evil"},
    "installed module": {"env": "numpy.f2py.__main__:main"},
    "network from a file": {"fields": {"network": {"class": f"{FILE}:Net", "fields": {"hidden": [8]}}}},
    "network from a module": {"fields": {"network": {"class": f"{MODULE}:Net", "fields": {"hidden": [8]}}}},
    "function from a module": {"fields": {"activation": {"function": f"{MODULE}:f"}}},
    "function from a file": {"fields": {"activation": {"function": f"{FILE}:f"}}},
    "inner env": {
        "env": "shoal.core.wrappers.frame_stack:FrameStack",
        "env_fields": {"env": {"class": f"{MODULE}:Evil"}, "n": 2},
    },
    "selector": {"selector": {"class": f"{MODULE}:Evil"}},
    "swept": {"sweep": {"value_loss": [{"class": f"{MODULE}:Evil"}] * 2}},
    "id of Gymnasium": {"env": f"gymnasium/{MODULE}:Evil-v0"},
    "file of Gymnasium": {"env": "gymnasium/evil_file:Evil-v0"},
    "id in a field": {"env": "gymnasium/CartPole-v1", "env_fields": {"id": f"{MODULE}:Evil-v0"}},
    "id in a value": {
        "env": "shoal.core.wrappers.frame_stack:FrameStack",
        "env_fields": {
            "env": {
                "class": "shoal.interop.sources.gymnasium:GymnasiumEnv",
                "fields": {"id": f"{MODULE}:Evil-v0"},
            },
            "n": 2,
        },
    },
}


def stranger(result, folder, changes):
    """A copy of a run whose spec a stranger has changed, and the hash of it in the checkpoints."""
    run = shutil.copytree(result.folder, folder / "run")
    text = json.dumps(changes).replace("{folder}", str(folder))
    spec = json.loads((run / "spec.json").read_text()) | json.loads(text)
    digest = hashlib.sha256((folder / "evil_file.py").read_bytes()).hexdigest()
    spec["sources"] = {str(folder / "evil_file.py"): digest}
    (run / "spec.json").write_text(json.dumps(spec))
    for path in (run / "checkpoints").glob("*/manifest.json"):
        manifest = json.loads(path.read_text()) | {"spec": hash_of_spec(spec)}
        path.write_text(json.dumps(manifest | {"sha256": hash_of_manifest(manifest)}))
    return run


def readers(run, capsys):
    """Every way to open a run, by name: a call that must raise, and must not run code."""
    words = [["eval", run], ["render", run], ["play", run], ["record", run, "--steps", "9", "--out", "a.npz"]]
    words += [["export", run, "--out", "policy"], ["train", "--resume", run], ["train", "--spec", run, "--dry-run"]]
    commands = {" ".join(map(str, each[:2])): lambda each=each: refuse(capsys, *each) for each in words}
    return commands | {
        "load": lambda: shoal.load(run),
        "policies": lambda: Result(run).policies(),
        "resume": lambda: job_to_resume(run, None, None, {}),
        "spec": lambda: job_from_spec(run),
        "mlflow": lambda: _load_pyfunc(str(run)),
        "export in Python": lambda: shoal.export(run, "policy"),
    }


def refuse(capsys, *words):
    raise UntrustedError(refused(capsys, *words))


@pytest.mark.parametrize("kind", STRANGERS)
@pytest.mark.sampled(5)
def test_no_reader_runs_the_code_of_a_stranger(kind, result, beside, capsys):
    run = stranger(result, beside, STRANGERS[kind])
    for name, read in readers(run, capsys).items():
        with pytest.raises(ValueError) as caught:
            read()
        assert not (beside / "was_run").exists(), name
        is_damaged = "does not say who was in each slot" in str(caught.value)  # the curves of a run without selector
        if kind not in ("id in a field", "id in a value") and not is_damaged:
            assert "--trust-source, or trust_source=True" in str(caught.value), name
        capsys.readouterr()
    for words in (
        ["report", run],
        ["compare", run, run],
        ["plot", run],
        ["export-config", run],
        ["eval", run, "--help"],
    ):
        say(capsys, *words)
        assert not (beside / "was_run").exists(), words


@pytest.mark.parametrize("code", [FILE, MODULE])
def test_neither_does_what_a_search_has_found(code, result, beside, capsys):
    run = shutil.copytree(result.folder, beside / "run")
    found = json.dumps({"value_loss": {"class": f"{code}:Net"}}).replace("{folder}", str(beside))
    (run / "found.json").write_text(found)
    with pytest.raises(UntrustedError):
        shoal.load_result(run).found  # noqa: B018  # it is read when it is used
    with pytest.raises(UntrustedError):
        make_job("ppo", "CartPole-v1", found=run)
    say(capsys, "train", "ppo", "CartPole-v1", "--found", run, "--dry-run")
    say(capsys, "report", run)
    assert not (beside / "was_run").exists()


@pytest.mark.parametrize(
    "line",
    [
        'env.class = "{file}:Evil"',
        'env.class = "evil_module:Evil"',
        'activation = { function = "{file}:f" }',
        'activation = { function = "evil_module:f" }',
        'network = { class = "evil_module:Net" }',
        'agent = "evil_module:Evil"',
    ],
)
def test_neither_does_a_preset(line, beside, capsys):
    file = beside / "evil_file.py"
    agent = "" if line.startswith("agent") else 'agent = "ppo"\n'
    text = f'["CartPole-v1"]\n{agent}{line.replace("{file}", str(file))}\n'
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    (beside / "a.toml").write_text(f'{text}sources."{file}" = "{digest}"\n')
    for words in (["--dry-run"], ["--help"], ["CartPole-v1", "--dry-run"]):
        command = ["train", "ppo", *words] if len(words) > 1 else ["train", *words]
        say(capsys, *command, "--preset", "a.toml")
        assert not (beside / "was_run").exists(), words
    with pytest.raises(UntrustedError, match="use --trust-source"):
        make_job(None, None, preset=beside / "a.toml")


def test_the_refusal_has_the_command_that_gives_consent(result, beside, capsys):
    run = stranger(result, beside, {"env": f"{MODULE}:Evil"})
    line = refused(capsys, "eval", run, "--episodes", "2")
    assert line.endswith(f"Here: `shoal eval {run} --episodes 2 --trust-source`.\n")
    words = shlex.split(line.partition("`shoal ")[2].rstrip("`.\n"))
    say(capsys, *words)
    assert (beside / "was_run").exists()


def test_a_file_named_relative_to_the_working_folder_opens_from_any_other(beside, monkeypatch):
    (beside / "mine.py").write_text(MY_ENV)
    assert make_job("ppo", "mine.py:MyEnv").spec.env == f"{beside / 'mine.py'}:MyEnv"


@pytest.mark.parametrize("named", ["file", "module"])
def test_what_the_user_has_trained_with_needs_no_further_word(named, beside, monkeypatch):
    source = {"file": str(beside / "mine.py"), "module": "mine"}[named]
    (beside / "mine.py").write_text(MY_ENV)
    assert not consent.has_consent(source)
    make_job("ppo", f"{source}:MyEnv")
    for name in [
        name for name, module in sys.modules.items() if getattr(module, "__file__", "") == f"{beside}/mine.py"
    ]:
        del sys.modules[name]  # as in another process
    assert consent.has_consent(source) and loaded_file(beside / "mine.py") is None
    shutil.copy(beside / "mine.py", beside / "yours.py")
    assert not consent.has_consent(source.replace("mine", "yours"))
    (beside / "mine.py").write_text(f"{MY_ENV}\n")
    assert not consent.has_consent(source)


def test_a_module_is_found_without_importing_its_package(tmp_path, monkeypatch):
    package = tmp_path / "evil_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('was run')")
    (package / "inner.py").write_text("raise SystemExit('was run')")
    monkeypatch.syspath_prepend(tmp_path)
    assert consent._file_of_module("evil_package.inner") == package / "inner.py"
    assert consent._file_of_module("evil_package.nothing") is None
    assert not consent.has_consent("evil_package.inner")


def test_python_m_shoal_imports_nothing_from_the_working_folder(beside):
    """Neither a module nor a plug-in that lies there."""
    info = beside / "evil-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[shoal.envs]\nevil = evil_module:Evil\n")
    command = [sys.executable, "-m", "shoal", "check", "evil_module:Evil"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "evil_module" in done.stderr, done.stderr
    assert not (beside / "was_run").exists()


@pytest.mark.parametrize("code", [FILE, MODULE])
def test_neither_does_a_folder_of_bsuite(code, beside, capsys):
    agent = f"{code}:Evil".replace("{folder}", str(beside))
    request = {"agent": agent, "fields": {}, "experiments": ["catch"], "episodes_scale": 1.0, "quick": True, "seed": 0}
    (beside / "run").mkdir()
    (beside / "run" / "bsuite.json").write_text(json.dumps(request))
    with pytest.raises(UntrustedError, match="use --trust-source"):
        shoal.bsuite(resume=beside / "run")
    assert "bsuite --resume run --trust-source`" in refused(capsys, "bsuite", "--resume", "run")
    assert not (beside / "was_run").exists()
    say(capsys, "bsuite", "--resume", "run", "--trust-source")
    assert (beside / "was_run").exists()
