"""The reproduction of the article on Doors, with sizes of seconds, and the largest reward that is possible."""

import json
import math
import runpy
import sys

import pytest

from reproductions.reproduction import find
from reproductions.run import reproduce
from reproductions.sources.doors import RANGES, largest_reward_per_step
from reproductions.workspace import WORKERS


def test_without_walls_in_the_way_the_largest_reward_per_step_is_that_of_a_straight_walk():
    # 6 steps end before the wall. From column 0 to a goal in column 0, 14 rows above, each step gains one cell; to a
    # goal in column c the best 6 steps go up and to the side, as close to (8, c) as they get.
    def best(start, goal):
        ends = ((14 - up, start + side) for up in range(7) for side in range(up - 6, 7 - up))
        return math.hypot(14, start - goal) - min(math.hypot(row, column - goal) for row, column in ends)

    by_hand = sum(best(start, goal) for start in range(15) for goal in range(15)) / 225 / 6
    assert largest_reward_per_step(6, 0) == pytest.approx(by_hand, abs=1e-9)


def test_random_actions_lower_the_largest_reward():
    rewards = [largest_reward_per_step(13, epsilon) for epsilon in (0, 0.05, 1)]
    assert rewards[0] == pytest.approx(0.796, abs=0.001) and rewards[1] == pytest.approx(0.756, abs=0.001)
    assert 0 < rewards[2] < 0.2


@pytest.mark.slow
def test_one_training_and_the_search_are_measured(in_process, tmp_path):
    sizes = {"trials": 2, "parallel": 2, "steps": 20_000, "fresh_seeds": 1}
    found = reproduce("doors", only=["shoal"], sizes={"shoal": sizes}, root=tmp_path).parts["shoal"]
    numbers = found["numbers"]
    for key in ("shoal.reward", "shoal.fresh", "one.reward", "one.greedy"):
        assert -1 < numbers[key] < numbers["possible.greedy"], key
    assert numbers["shoal.search"] == "0.0 min, 2 trials" and numbers["shoal.trial"] == 0.5  # a second, in this test
    assert found["data"]["best"]["params"].keys() == RANGES.keys()
    search = found["commands"]["The search"]
    assert "--search 'learning_rate=log(1e-4,1e-1)' --search buffer_size=8192..65536" in search
    assert "'optimizer=adam|sgd'" in search and "--epsilon-end 0.05" in search


def test_the_compiled_environment_is_measured(in_process, tmp_path):
    sizes = {"envs": [1, 8], "steps": 100}
    found = reproduce("doors", only=["compiled"], sizes={"compiled": sizes}, root=tmp_path).parts["compiled"]
    lines = found["lines"]["seconds"]
    assert set(lines) == {"shoal, a call for each step", "shoal, one program"}
    for name, (envs, seconds) in lines.items():
        assert envs == [1, 8] and min(seconds) > 0
        assert found["numbers"][name] == pytest.approx(8 * 100 / seconds[1])


def test_copies_in_gymnasium_are_measured(tmp_path):
    pytest.importorskip("gymnasium")
    sizes = {"envs": [1, 2], "async_envs": [1], "steps": 3}
    part = reproduce("doors", only=["environments"], sizes={"environments": sizes}, root=tmp_path)
    lines = part.parts["environments"]["lines"]["seconds"]
    assert [envs for envs, _ in lines.values()] == [[1], [1, 2]]


def test_the_search_with_flax_and_gymnasium_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["doors_study.py", "--network", "flax", "--trials", "2", "--steps", "12800"])
    monkeypatch.syspath_prepend(str(WORKERS))
    runpy.run_path(str(WORKERS / "doors_study.py"), run_name="__main__")
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["steps"] == 12_800 and len(found["trial_s"]) == 2
    assert -0.2 < found["best"]["score"] < 0.6 and 10 <= found["best"]["env.max_steps"] <= 17


def test_published_numbers_are_those_of_the_article():
    rows = {row.key: row.published for part in find("doors").parts for row in part.rows}
    assert (rows["torch.reward"], rows["flax.reward"], rows["shoal.reward"]) == (0.73, 0.64, 0.71)
    assert rows["torch.search"] == "22.5 min, 40 trials" and rows["shoal.search"] == "2.3 min, 40 trials"
    # 481 copies x 512 steps in 2.758 s, 5.45 s and 1.54 s
    assert (rows["Gymnasium, SyncVectorEnv"], rows["Gymnasium, AsyncVectorEnv"]) == (89_294, 45_188)
    assert rows["shoal, a call for each step"] == 159_917
