"""gymnax's reproduction with tiny sizes: seconds for a million steps, returns of presets, pictures."""

import pytest
from PIL import Image

import shoal
from reproductions import beside
from reproductions.run import reproduce
from reproductions.sources.gymnax import SHOWN, WORLDS, ZOO
from reproductions.workspace import Workspace
from shoal.core.registry import ENVS


def measured(tmp_path, part, **sizes):
    found = reproduce("gymnax", only=[part], sizes={part: sizes}, root=tmp_path, progress=False)
    return found.parts[part], found.folder


def test_seconds_for_a_million_steps(tmp_path, in_process, monkeypatch):
    monkeypatch.setattr(beside, "unmet", lambda needs, python: [])
    monkeypatch.setattr(
        Workspace, "peer", lambda self, *words, threads: {"versions": {}, "steps": 200_000, "wall_s": [0.1, 0.2, 9.0]}
    )
    part, _ = measured(tmp_path, "speeds", envs=["CartPole-v1"], num_envs=2, seconds=0.01)
    numbers = part["numbers"]
    assert numbers["CartPole-v1.gymnax"] == 1.0  # 0.2 s for 200,000 steps
    assert numbers["CartPole-v1.shoal"] > 0 and numbers["median"] == 1 / numbers["CartPole-v1.shoal"]
    assert numbers["least"] == numbers["most"] == numbers["median"]


def test_returns_are_those_of_the_run(tmp_path):
    part, folder = measured(tmp_path, "returns", envs=["Catch-bsuite"], seeds=1, steps=2048)
    run = shoal.load_result(folder / "files" / "returns" / "catch-bsuite")
    assert part["numbers"]["Catch-bsuite"] == run.summary["last"]["mean"]
    steps = run.summary["steps_per_member"]
    assert part["notes"] == [f"Environment steps of each seed: Catch-bsuite {steps:,}."]
    assert part["commands"]["Catch-bsuite"] == ("shoal train ppo bsuite/catch/0 --steps 2048 --seeds 1 --evaluations 1")


def test_an_episode_is_drawn(tmp_path):
    part, folder = measured(tmp_path, "visualizer", envs=["Catch-bsuite", "PointRobot-misc"], steps=3, size=48)
    with Image.open(folder / "files" / "visualizer" / "catch-bsuite.gif") as picture:
        assert picture.n_frames > 1
    assert part["numbers"]["drawn"] == f"{len(WORLDS)} of {len(WORLDS)}"
    assert part["pictures"]["pointrobot-misc.gif"] == "PointRobot-misc, random actions."


@pytest.mark.usefixtures("without_type_checker")  # pictures are drawn from arrays of NumPy
def test_the_random_episode_of_a_game_does_not_end_at_once(tmp_path):
    _, folder = measured(tmp_path, "visualizer", envs=["Breakout-MinAtar"], steps=40, size=24)
    with Image.open(folder / "files" / "visualizer" / "breakout-minatar.gif") as picture:
        assert picture.n_frames > 20  # with seed 0: 7


@pytest.mark.parametrize("name", WORLDS)
def test_gymnax_s_name_is_an_alias_of_the_environment(name):
    assert ENVS[name].name in (WORLDS[name].shoal, name)


def test_trained_policies_of_the_pictures_come_with_shoal():
    assert all(shoal.load(f"zoo:ppo/{WORLDS[name].shoal}") for name in ZOO) and set(ZOO) <= set(SHOWN)
