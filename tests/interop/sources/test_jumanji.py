"""Environments of Jumanji in shoal, compared with Jumanji's own steps."""

import jax
import numpy as np
import pytest

import shoal
from other_libraries import library
from shoal.core.checks import check_env
from shoal.core.errors import UnknownNameError
from shoal.core.keys import make_key
from shoal.core.spaces import Discrete, MultiDiscrete
from tiny import FIELDS, OPTIONS, SILENT

pytestmark = [library("jumanji"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def played(name, choose, steps):
    """Shoal's environment and Jumanji's with the same keys and actions, compared in every step; returns the ends."""
    import jumanji

    ours, theirs = shoal.make(f"jumanji/{name}"), jumanji.make(name)
    obs, state = jax.jit(ours.reset)(make_key(5, "threefry2x32"))  # the generator of jax.random.key
    their_state, expected = jax.jit(theirs.reset)(jax.random.key(5))
    step, their_step = jax.jit(ours.step), jax.jit(theirs.step)
    for t in range(steps):
        theirs_now = dict(expected.observation._asdict())
        mask = theirs_now.pop("action_mask")
        assert obs.keys() == theirs_now.keys()
        for part, other in theirs_now.items():
            np.testing.assert_array_equal(obs[part], other)
        np.testing.assert_array_equal(ours.action_mask(state), np.ravel(mask))
        action, their_action = choose(np.asarray(mask))
        obs, state, reward, terminated, truncated, _ = step(make_key(t), state, action)
        their_state, expected = their_step(their_state, their_action)
        assert float(reward) == float(expected.reward)
        assert bool(terminated) == (bool(expected.last()) and float(expected.discount) == 0)
        if terminated or truncated:
            break
    return bool(terminated), bool(truncated)


def test_snake_is_jumanjis_until_it_dies():
    assert played("Snake-v1", lambda mask: (0, 0), 20) == (True, False)


def test_a_mask_over_pairs_makes_one_choice_of_all_pairs():
    """Tetris has 4 rotations and 10 columns: the pair (r, c) is choice 10 r + c."""

    def first_allowed(mask):
        rotation, column = np.argwhere(mask)[-1]
        return int(10 * rotation + column), np.array([rotation, column])

    assert shoal.make("jumanji/Tetris-v0").action_space == Discrete(40)
    played("Tetris-v0", first_allowed, 8)


def test_spaces_and_arguments():
    env = shoal.make("jumanji/RubiksCube-partly-scrambled-v0")
    assert env.action_space == MultiDiscrete((6, 1, 3)) and env.max_steps == env.time_limit == 20
    env = shoal.make("jumanji/Snake-v1", num_rows=6, time_limit=50)
    assert env.observation_space["grid"].shape == (6, 12, 5) and env.max_steps == 50


@pytest.mark.parametrize("name", ["Game2048-v1", "Snake-v1", "RubiksCube-v0"])
def test_environments_keep_the_rules(name):
    check_env(shoal.make(f"jumanji/{name}"))


def test_several_agents_are_refused():
    with pytest.raises(TypeError, match=r"jumanji/LevelBasedForaging-v0 has 2 agents, and shoal's agents play alone"):
        shoal.make("jumanji/LevelBasedForaging-v0")


def test_ppo_trains_and_resumes(tmp_path):
    shoal.train("ppo", "jumanji/Game2048-v1", folder=tmp_path / "run", fields=FIELDS, **OPTIONS, **SILENT)
    shoal.train(resume=tmp_path / "run", steps=512, **SILENT)
    assert shoal.evaluate(tmp_path / "run", episodes=2, max_steps=20).episode_return.shape == (1, 2)


def test_unknown_ids_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"Did you mean jumanji/Snake-v1"):
        shoal.make("jumanji/Snak-v1")
