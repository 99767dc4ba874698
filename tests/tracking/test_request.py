"""What users may ask of trackers, and the answers to mistakes."""

import subprocess
import sys

import pytest

from shoal.tracking.request import Tracking, tags_of, tracking_of


def test_several_trackers_are_written_with_commas():
    assert Tracking(" mlflow, tensorboard,mlflow").trackers == ("mlflow", "tensorboard")
    assert tracking_of(["wandb"]) == Tracking("wandb")


@pytest.mark.parametrize("nothing", [None, "", "none"])
def test_nothing_is_tracked_without_a_tracker(nothing):
    assert tracking_of(nothing) is None


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Tracking("mflow"), ValueError, "'mflow' is unknown. Did you mean mlflow?"),
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


def test_a_text_of_a_tag_may_hold_an_equals_sign():
    assert tags_of(["a = b=c"]) == {"a": "b=c"}


def test_the_repr_shows_no_password():
    assert "secret" not in repr(Tracking("mlflow", uri="postgresql://me:secret@host/base"))


def test_tracking_imports_no_tracker():
    code = (
        "import sys, pkgutil, importlib, shoal.tracking as t\n"
        "for m in pkgutil.iter_modules(t.__path__): importlib.import_module(f'shoal.tracking.{m.name}')\n"
        "print([name for name in ('mlflow', 'tensorboard', 'wandb', 'jax', 'sqlalchemy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
