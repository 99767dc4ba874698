"""NAVIX's reproduction with tiny sizes: rates are steps over seconds, of shoal and of a peer that is played."""

import pytest

from reproductions import beside
from reproductions.reproduction import PEERS
from reproductions.run import reproduce
from reproductions.workspace import Workspace


@pytest.fixture
def asked(monkeypatch):
    """All packages are there; a script says that each call of its steps took half a second, or that training took 4."""
    words_of = []

    def peer(self, script, *words, threads):
        words_of.append((script, *words))
        given = dict(zip(words[::2], words[1::2], strict=True))
        if script == "ppo_navix":
            return {"versions": {}, "steps": 8_000, "run_s": 4.0}
        return {"versions": {}, "steps": given["--envs"] * given["--steps"], "wall_s": [0.5, 9.0, 0.5]}

    monkeypatch.setattr(beside, "unmet", lambda needs, python: [])
    return words_of, lambda: monkeypatch.setattr(Workspace, "peer", peer)


def measured(tmp_path, part, **sizes):
    found = reproduce("navix", only=[part], sizes={part: sizes}, root=tmp_path, progress=False)
    return found.parts[part]


def test_batches_of_all_libraries_are_measured(tmp_path, in_process, asked):
    words, play = asked
    play()
    found = measured(tmp_path, "batches", shoal=[2], navix=[16], envpool=[16, 2048], minigrid=[1])
    numbers = found["numbers"]
    assert numbers["navix.16"] == 32_000 and numbers["minigrid.1"] == 2_000  # 1,000 steps of each in half a second
    assert numbers["envpool.2048"] == 2048 * 195 * 2  # 400,000 / 2,048 = 195 steps of each
    assert numbers["envpool.best"] == numbers["envpool.2048"] and numbers["shoal.2"] > 0
    assert found["lines"]["rate"]["EnvPool (C++)"] == [[16, 2048], [32_000, numbers["envpool.2048"]]]
    assert words[0][:5] == ("step_navix", "--env", "Navix-Empty-8x8-v0", "--envs", 16)


def test_environments_are_compared_with_minigrid(tmp_path, in_process, asked):
    asked[1]()
    env = "MiniGrid-DistShift1-v0"
    numbers = measured(tmp_path, "environments", envs=[env], num_envs=2)["numbers"]
    assert numbers[f"{env}.minigrid"] == numbers[f"{env}.navix"] == 2_000 and numbers[f"{env}.navix.times"] == 1
    assert numbers[f"{env}.many.times"] == numbers[f"{env}.many"] / 2_000


def test_populations_are_trained_with_navix_s_hyperparameters(tmp_path, in_process, asked):
    asked[1]()
    found = measured(tmp_path, "populations", steps=2048, agents=[1], navix=[2])
    assert found["numbers"]["ppo.navix.2"] == 2_000 and found["numbers"]["ppo.shoal.1"] > 0
    assert 0 <= found["numbers"]["ppo.return"] <= 1
    assert "--num-envs 16 --num-steps 128 --num-minibatches 8 --num-epochs 1" in found["commands"]["1 agents"]


def test_without_the_packages_shoal_is_measured_alone(tmp_path, in_process, monkeypatch):
    monkeypatch.setattr(beside, "unmet", lambda needs, python: list(needs))
    found = measured(tmp_path, "batches", shoal=[2], navix=[1], envpool=[1], minigrid=[1])
    assert set(found["lines"]["rate"]) == {"shoal"} and set(found["numbers"]) == {"shoal.2", "shoal.best"}
    assert found["notes"][0] == f"NAVIX: not measured here: needs the package navix ({PEERS})."
    assert len(found["notes"]) == 3
