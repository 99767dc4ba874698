"""What users may ask of trackers, and the answers to mistakes."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import shoal
from shoal.core.registry import TRACKERS, Registry, import_file
from shoal.tracking.request import Tracking, tags_of, tracking_of
from shoal.tracking.tracker import Target


def test_several_trackers_are_written_with_commas():
    assert Tracking(" mlflow, tensorboard,mlflow").trackers == ("mlflow", "tensorboard")
    assert tracking_of(["wandb"]) == Tracking("wandb")


@pytest.mark.parametrize("nothing", [None, "", "none"])
def test_nothing_is_tracked_without_a_tracker(nothing):
    assert tracking_of(nothing) is None


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: Tracking("mflow"),
            ValueError,
            "'mflow' is not registered. Did you mean mlflow? Choose ",
        ),
        (lambda: Tracking("mlflow,none"), ValueError, "'none' means no tracker"),
        (lambda: Tracking(","), ValueError, "no tracker is named"),
        (lambda: Tracking("mlflow", children="setting"), ValueError, "Did you mean settings?"),
        (lambda: Tracking("mlflow", tags={"a": 1}), TypeError, "must be a dict of texts"),
        (lambda: Tracking("wandb", uri="http://x"), ValueError, "a tracking URI is for mlflow"),
        (lambda: Tracking("mlflow", experiment="x" * 501), ValueError, "has 501 characters, and MLflow accepts 500"),
        (
            lambda: Tracking("tensorboard,wandb", experiment="x" * 129),
            ValueError,
            "Biases accepts 128: choose",
        ),
        (lambda: Tracking("mlflow", tags={"x" * 251: ""}), ValueError, "has a name of more than 250 characters"),
        (lambda: tracking_of(3), TypeError, "must be the name of a tracker"),
        (lambda: tags_of(["idea"]), ValueError, "--tag idea: a tag is written NAME=TEXT"),
        (lambda: tags_of(["=x"]), ValueError, "NAME=TEXT"),
        (lambda: tags_of(["a=1", "a=2"]), ValueError, "given twice"),
    ],
)
def test_mistakes_are_explained(make, error, words):
    with pytest.raises(error) as raised:
        make()
    assert words in str(raised.value)


def test_a_missing_package_is_said_with_its_extra(monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"Weights & Biases needs the package 'wandb'.*pip install 'shoal\[wandb\]'"):
        Tracking("wandb")


OWN = """
from shoal.tracking.tracker import Known, Tracker
class Log(Tracker):
    title, longest_experiment = "Log", 9
    def __init__(self, target):
        self.target = target
    def connect(self): pass
    def open(self, entry): return Known()
    def write(self, key, points): pass
    def attach(self, key, files): pass
    def end(self, key, status): pass
    def children(self, key): return set()
class Other: pass
class Half:
    def attach(self): pass
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own_log.py"
    path.write_text(OWN)
    return path


def test_a_tracker_of_the_users_own_is_named_by_its_file(own, monkeypatch):
    monkeypatch.chdir(own.parent)
    tracking = Tracking("own_log.py:Log,tensorboard", experiment="first")
    assert tracking.trackers == (f"{own}:Log", "tensorboard")  # as any other folder can find it
    made = tracking.open(f"{own}:Log", Target(own.parent, own.parent, "ppo/CartPole-v1"))
    assert made.title == "Log" and made.target == Target(own.parent, own.parent, "first", "")
    with pytest.raises(ValueError, match="Log accepts 9: choose a shorter name"):
        Tracking("own_log.py:Log", experiment="more than 9")
    with pytest.raises(ValueError, match="a tracking URI is for mlflow, not for the trackers"):
        Tracking("own_log.py:Log", uri="http://x")


def test_a_registered_tracker_has_a_name(own, monkeypatch):
    monkeypatch.setattr(TRACKERS, "_entries", {**TRACKERS._entries})
    assert {"mlflow", "tensorboard", "wandb"} <= {*TRACKERS}
    shoal.register.tracker("my-log")(import_file(own).Log)
    assert Tracking("my-log,wandb").trackers == ("my-log", "wandb")
    with pytest.raises(ValueError, match="Did you mean my-log"):
        Tracking("my-lob")


def test_an_installed_package_adds_a_tracker(own, monkeypatch):
    registry = Registry("tracker", "shoal.tracking", has_structs=False)
    point = SimpleNamespace(load=lambda: registry.register("plugged")(import_file(own).Log))
    monkeypatch.setattr("shoal.core.registry.entry_points", lambda group: [point] * (group == "shoal.trackers"))
    assert registry["plugged"].cls.title == "Log"


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("own_log.py:Lob", ValueError, "has no class 'Lob'. Did you mean Log?"),
        ("own_log.py:Other", ValueError, "own_log.py:Other is no tracker: it has no `attach`"),
        ("own_log.py:Half", TypeError, "own_log.py:Half is no tracker: derive the class from"),
        ("own_log.py", ValueError, "name the class in it, own_log.py:Log or own_log.py:Other"),
        ("own_log.Log", ValueError, "own_log.Log is written as in Python: name the class in it, own_log.py:Log or"),
        ("none.py:Log", FileNotFoundError, "none.py does not exist"),
        ("ppo", ValueError, "ppo is an agent, not a tracker"),
    ],
)
def test_what_is_no_tracker_is_refused(own, monkeypatch, name, error, words):
    monkeypatch.chdir(own.parent)
    with pytest.raises(error) as raised:
        Tracking(name)
    assert words in str(raised.value)


def test_a_text_of_a_tag_may_hold_an_equals_sign():
    assert tags_of(["a = b=c"]) == {"a": "b=c"}


def test_the_repr_shows_no_password():
    assert "secret" not in repr(Tracking("mlflow", uri="postgresql://me:secret@host/base"))


def test_tracking_imports_no_tracker():
    code = (
        "import sys, pkgutil, importlib, shoal.tracking as t\n"
        "for m in pkgutil.iter_modules(t.__path__): importlib.import_module(f'shoal.tracking.{m.name}')\n"
        "print([name for name in ('mlflow', 'tensorboard', 'wandb', 'sqlalchemy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
