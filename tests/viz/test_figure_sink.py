"""Figures of a run are drawn while it trains, and a failing figure does not fail the run."""

import os
import signal
import threading

import jax
import pytest

import shoal
from environments import Poisoned
from listeners import Listener
from shoal import PPO
from shoal.core.struct import struct
from shoal.tracking.events import Recorded
from shoal.training.stopping import Stopped
from tiny import FIELDS, OPTIONS


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


@struct
class Smudged(Poisoned):
    """Has a picture that cannot be drawn."""

    def render(self, state):
        raise ZeroDivisionError("no ink")


def test_pictures_are_made_of_three_members(tmp_path):
    made = shoal.train(
        PPO(**FIELDS),
        shoal.make("CartPole-v1", max_steps=10),
        seeds=3,
        folder=tmp_path / "p",
        progress=False,
        **OPTIONS,
    )
    files = {path.name for path in [*(made.folder / "figures").iterdir(), *(made.folder / "videos").iterdir()]}
    assert files == {"learning_curves.png", "best.gif", "median.gif", "worst.gif"}


def test_an_environment_without_render_still_gets_its_curve(tmp_path):
    listener = Listener()
    made = shoal.train(PPO(**FIELDS), Poisoned(), folder=tmp_path / "p", progress=False, sinks=[listener], **OPTIONS)
    assert (made.folder / "figures" / "learning_curves.png").is_file() and not (made.folder / "videos").exists()
    assert [text for text in listener.heard if text.startswith("no videos: ") and "has no picture" in text]


def test_a_failing_figure_does_not_fail_the_run(tmp_path):
    listener = Listener()
    options = {"folder": tmp_path / "p", "progress": False, "sinks": [listener], "check": False}
    made = shoal.train(PPO(**FIELDS), Smudged(), **options, **OPTIONS)
    assert made.summary["members"] == 1
    assert [text for text in listener.heard if "failed with ZeroDivisionError('no ink')" in text]


def test_pictures_are_prepared_while_the_run_trains(tmp_path, monkeypatch):
    from shoal.viz.figure_sink import FigureSink

    trained = threading.Event()

    class Watch(Listener):
        def receive(self, event):
            super().receive(event)
            if isinstance(event, Recorded):
                trained.set()

    def prepare(self):
        assert trained.wait(60)  # forever, were it waited for before the first record
        raise ZeroDivisionError("no recorder")

    monkeypatch.setattr(FigureSink, "_prepare", prepare)
    listener = Watch()
    made = shoal.train(
        "ppo", "CartPole-v1", fields=FIELDS, folder=tmp_path / "p", progress=False, sinks=[listener], **OPTIONS
    )
    assert made.summary["members"] == 1 and (made.folder / "figures" / "learning_curves.png").is_file()
    assert [text for text in listener.heard if "failed with ZeroDivisionError('no recorder')" in text]


@pytest.mark.sampled
@pytest.mark.parametrize("evaluations", [0, 1])
def test_pictures_need_no_evaluation_and_a_finished_run_draws_them_again(evaluations, tmp_path):
    few = {**OPTIONS, "evaluations": evaluations, "records": 2, "seeds": 1}
    made = shoal.train(
        PPO(**FIELDS), shoal.make("CartPole-v1", max_steps=10), folder=tmp_path / "p", progress=False, **few
    )
    video = made.folder / "videos" / "best.gif"
    first = video.read_bytes()
    video.unlink()
    shoal.train(resume=made.folder, progress=False)
    assert video.read_bytes() == first


def test_render_handles_environments_without_traced_fields(tmp_path):
    env = shoal.make("bsuite/catch/0")
    assert not jax.tree.leaves(env)
    (path,) = shoal.render(env, max_steps=2, out=tmp_path / "catch.gif")
    assert path.read_bytes()[:3] == b"GIF"


def test_render_accepts_a_policy_and_an_environment_as_values(result, tmp_path):
    (path,) = shoal.render(result.policy(0), max_steps=3, out=tmp_path / "policy.gif")
    (other,) = shoal.render(shoal.make("CartPole-v1", gravity=20.0), max_steps=3, out=tmp_path / "env.gif")
    assert path.read_bytes()[:3] == other.read_bytes()[:3] == b"GIF"
    with pytest.raises(ValueError, match="member, members and which are for a run"):
        shoal.render("CartPole-v1", member=1)
    with pytest.raises(ValueError, match="env_fields is for an environment by name"):
        shoal.render(result.folder, env_fields={"gravity": 1.0})


def test_ctrl_c_while_figures_are_drawn_leaves_them_out_of_a_complete_run(tmp_path, monkeypatch):
    def interrupt(*arguments, **options):
        assert listener.heard[-1].startswith("the run is complete; drawing its figures")
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("shoal.viz.videos.draw_members", interrupt)
    listener = Listener()
    folder = tmp_path / "p"
    with pytest.raises(Stopped, match=f"after training was complete.*shoal train --resume {folder}"):
        shoal.train("ppo", "CartPole-v1", fields=FIELDS, folder=folder, progress=False, sinks=[listener], **OPTIONS)
    assert (folder / "summary.json").is_file() and not [text for text in listener.heard if "failed" in text]
