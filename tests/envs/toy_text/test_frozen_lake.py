"""FrozenLake: maps, errors, names, the picture."""

import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.toy_text.frozen_lake import FrozenLake
from shoal.envs.toy_text.lakes import generate_random_map

LEFT, DOWN, RIGHT, UP = range(4)


def test_a_path_around_the_holes_reaches_the_goal():
    env = FrozenLake(is_slippery=False)
    state, seen = init(env, make_key(0)), []
    for action in (DOWN, DOWN, RIGHT, RIGHT, DOWN, RIGHT):
        state, reward, terminated, *_ = advance(env, state, jnp.int32(action), None)
        seen.append((int(state.index), float(reward), bool(terminated)))
    assert [index for index, *_ in seen] == [4, 8, 9, 10, 14, 15]
    assert [step[1:] for step in seen] == [(0.0, False)] * 5 + [(1.0, True)]


def test_a_hole_ends_the_episode():
    env = FrozenLake(is_slippery=False, hole_reward=-3.0)
    state, *_ = advance(env, init(env, make_key(0)), jnp.int32(RIGHT), None)
    state, reward, terminated, *_ = advance(env, state, jnp.int32(DOWN), None)
    assert state.index == 5 and reward == -3 and terminated


def test_a_map_may_be_one_string():
    rows = ("SFF", "HFG")
    assert FrozenLake(desc="SFF/HFG").lake == FrozenLake(desc="SFF\nHFG\n").lake == FrozenLake(desc=rows).lake == rows
    assert FrozenLake(desc=None).lake == FrozenLake().lake == ("SFFF", "FHFH", "FFFH", "HFFG")


def test_the_gymnax_name_is_an_alias():
    assert make("FrozenLake-misc").lake == make("FrozenLake-v1").lake
    assert make("FrozenLake-misc", map_name="8x8", max_steps=200).max_steps == make("FrozenLake8x8-v1").max_steps


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"desc": "FFF/FFG"}, "the map FFF/FFG has no S"),
        ({"desc": "SFF/FFF"}, "the map SFF/FFF has no G"),
        ({"desc": "SHF/HFG"}, "no path leads from the start in row 0, column 0 of the map SHF/HFG to a goal"),
        ({"desc": "SFG/FHH/HSH"}, "no path leads from the start in row 2, column 1"),
        ({"desc": "SFF/FG"}, "row 1 of the map SFF/FG has 2 cells and the first has 3"),
        ({"desc": ("SFF", "")}, "row 1 of the map SFF/ has 0 cells"),
        ({"desc": "SFX/FFG"}, "row 0 of the map SFX/FFG holds 'X'. The letters are S"),
        ({"desc": "sff/ffg"}, "holds 'f'"),
        ({"map_name": "5x5"}, "map_name='5x5' is unknown. Choose one of 4x4, 8x8, or give a desc"),
        ({"map_name": None}, "map_name=None is no map: for a random one give desc=generate_random_map"),
        ({"success_rate": 1.5}, "success_rate=1.5 is out of range: give a finite number from 0 to 1"),
        ({"success_rate": -0.1}, "success_rate=-0.1 is out of range"),
        ({"success_rate": float("nan")}, "success_rate=nan is out of range"),
        ({"success_rate": np.array([0.5, 2.0])}, "success_rate=2.0 is out of range"),
    ],
)
def test_invalid_arguments_are_refused(fields, words):
    with pytest.raises(ValueError, match=words):
        FrozenLake(**fields)


def test_the_error_of_a_list_of_rows_says_what_to_write():
    with pytest.raises(TypeError, match="tuple"):
        FrozenLake(desc=["SFF", "FFG"])


@pytest.mark.parametrize(
    "given, words",
    [
        ({"size": 1}, "size=1 has no room"),
        ({"p": 0}, "p=0 is not a valid probability"),
        ({"p": 1.2}, "p=1.2 is not a valid probability"),
        ({"size": 30, "p": 0.05}, "none of 10000 maps of size=30 and p=0.05 had a path to the goal"),
    ],
)
def test_impossible_random_maps_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        generate_random_map(**given)


def test_random_maps_without_a_seed_differ():
    assert len({generate_random_map(8) for _ in range(5)}) == 5


def test_the_picture_shows_the_position_of_the_agent():
    env = FrozenLake()
    state = init(env, make_key(0))
    start, later = env.render(state), env.render(state.replace(index=jnp.uint8(6)))
    assert start.shape == (256, 256, 3) and start.dtype == np.uint8
    changed = {tuple(cell) for cell in (np.argwhere((start != later).any(axis=-1)) // 64).tolist()}
    assert changed == {(0, 0), (1, 2)}
    assert FrozenLake(desc="SFFG").render(state).shape == (64, 256, 3)
