"""The reproduction of the Q-learning article, with sizes of seconds."""

import numpy as np
import pytest
from PIL import Image

from reproductions.run import reproduce

LEARNING = {"agents": 3, "steps": 20_000, "snapshots": 4}


@pytest.fixture(scope="module")
def tmp_root(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def test_thirty_agents_learn_the_values_and_are_animated(in_process, tmp_root):
    result = reproduce("gridworld", only=["learning"], sizes={"learning": LEARNING}, root=tmp_root)
    found = result.parts["learning"]
    assert result.not_measured == {}
    numbers = found["numbers"]
    assert numbers["goal.shoal"] == pytest.approx(1, abs=0.01)  # one step before the goal the return is 1
    assert numbers["start.shoal"] == pytest.approx(0.9**17, abs=0.02)
    assert numbers["goal.article"] > 1.05  # bootstraps beyond the end
    # Episodes of at least 18 steps; the first ones are random.
    assert 300 < numbers["goals.q-learning"] < 20_000 / 18 and 300 < numbers["goals.article"] < 20_000 / 18
    steps, lengths = found["lines"]["length"]["Q-learning"]
    assert steps == [5_000, 10_000, 15_000, 20_000] and 18 <= lengths[-1] < lengths[0]
    values = np.array(found["data"]["values"])
    assert values.shape == (8, 12) and values[0, 0] == 0  # nothing follows the goal
    with Image.open(result.folder / "files" / "learning" / "values.gif") as gif:
        assert gif.n_frames == 4


def test_speeds_of_all_three_are_measured(in_process, tmp_root):
    sizes = {"episodes": 5, "steps": 500, "many": 2, "many_steps": 500, "shoal_steps": 2_000}
    found = reproduce("gridworld", only=["speed"], sizes={"speed": sizes}, root=tmp_root).parts["speed"]
    numbers = found["numbers"]
    assert set(numbers) == {"numpy", "jax.one", "shoal.one", "ratio.one", "jax.many", "shoal.many", "ratio.many"}
    assert numbers["ratio.one"] == numbers["shoal.one"] / numbers["jax.one"] and min(numbers.values()) > 0
    assert found["commands"]["shoal, 2 agents"].startswith("shoal train q-learning GridWorld-v0 --learning-rate 0.1")
