"""PureJaxRL's reproduction with tiny sizes: the numbers are those of the runs, beside a peer that is played."""

import pytest

from reproductions import beside
from reproductions.run import reproduce
from reproductions.sources.purejaxrl import _binned, _returns
from reproductions.workspace import Workspace

ANSWER = {"versions": {}, "steps": 1024, "run_s": 2.0, "seconds": 8.0, "curve": [[512, 1.0, 20.0], [1024, 2.0, 480.0]]}


@pytest.fixture
def peers(monkeypatch):
    """All packages are there, and every script gives the same answer."""
    asked = []
    monkeypatch.setattr(beside, "unmet", lambda needs, python: [])

    def peer(self, *words, threads):
        asked.append(words)
        return ANSWER

    return asked, lambda: monkeypatch.setattr(Workspace, "peer", peer)


def test_learning_is_measured_beside_the_peers(tmp_path, in_process, peers):
    asked, play = peers
    play()
    sizes = {"cartpole": {"steps": 1024, "seeds": 2, "cleanrl_steps": 1024}}
    found = reproduce("purejaxrl", only=["cartpole"], sizes=sizes, root=tmp_path, progress=False).parts["cartpole"]
    numbers, lines = found["numbers"], found["lines"]
    assert [words[0] for words in asked] == ["ppo_gymnax", "ppo_gymnax", "ppo_torch"]
    assert numbers["CartPole-v1.purejaxrl.rate"] == numbers["CartPole-v1.cleanrl.rate"] == 512.0  # 1,024 steps in 2 s
    assert numbers["CartPole-v1.cleanrl.process"] == "8.0 s for 1,024 steps"
    assert numbers["CartPole-v1.cleanrl.last"] == 480.0 and numbers["CartPole-v1.cleanrl.solved"] == 1024.0
    assert lines["seconds"]["CleanRL's recipe"] == [[1.0, 2.0], [20.0, 480.0]]
    assert (
        8 < numbers["CartPole-v1.shoal.last"] < 60 and "CartPole-v1.shoal.solved" not in numbers
    )  # CartPole, hardly trained
    assert set(lines["frames"]) == {
        "shoal, mean of 2 agents",
        "PureJaxRL, mean of 2 agents",
        "CleanRL's recipe, one agent",
    }
    assert "--seeds 2" in found["commands"]["2 agents"]


def test_populations_are_timed_and_the_largest_one_is_extrapolated(tmp_path, in_process):
    sizes = {"populations": {"agents": [1, 3], "steps": 512, "many": 4, "many_steps": 512}}
    found = reproduce("purejaxrl", only=["populations"], sizes=sizes, root=tmp_path, progress=False)
    numbers = found.parts["populations"]["numbers"]
    assert numbers["agents.1"] == numbers["agents.3"] == 1.0  # seconds of the fixture's processes
    assert numbers["largest.process"] == "1 s for 4 agents x 512 steps" and numbers["largest.rate"] > 0
    assert found.parts["populations"]["lines"]["seconds"]["shoal"] == [[1, 3], [1.0, 1.0]]


def test_a_loss_is_evolved_and_compared_on_other_seeds(tmp_path, in_process):
    sizes = {"evolved-loss": {"generations": 2, "candidates": 4, "seeds": 1, "steps": 2560, "held_out": 2}}
    found = reproduce("purejaxrl", only=["evolved-loss"], sizes=sizes, root=tmp_path, progress=False)
    part = found.parts["evolved-loss"]
    assert part["numbers"]["weights"] == 4353  # printed by the notebook: 64 + 64 + 64 x 64 + 64 + 64 + 1
    assert part["numbers"]["evaluations"] == 8 and part["numbers"]["first"] > 8
    assert {name: len(x) for name, (x, _) in part["lines"]["fitness"].items()} == {
        "mean of the candidates": 2,
        "best of the candidates": 2,
    }
    error, slope = part["lines"]["loss"]["squared"]
    assert error[50] == 0 and slope[75] == pytest.approx(error[75], abs=1e-3)  # the slope of half the square
    assert set(part["lines"]["curves"]) == {"evolved loss", "squared loss"}


def test_curves_are_means_over_parts():
    steps, returns = _binned(range(1, 101), range(1, 101))
    assert steps[:2] == [2.0, 4.0] and returns[:2] == [1.5, 3.5] and len(steps) == 50


def test_the_last_tenth_and_the_first_475_are_found():
    # Of the steps 10 to 100 the last tenth is 100; 480 at 60 is the first return of at least 475.
    curve = ([*range(10, 101, 10)], [0, 100, 200, 300, 400, 480, 400, 490, 480, 460])
    assert _returns("x", curve) == {"x.last": 460.0, "x.solved": 60.0}
