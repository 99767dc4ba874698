"""Environments of NAVIX in shoal, compared with NAVIX's own steps."""

import jax
import numpy as np
import pytest

import shoal
from other_libraries import library
from shoal.core.checks import check_env
from shoal.core.errors import UnknownNameError
from shoal.core.keys import make_key
from tiny import FIELDS, OPTIONS, SILENT

pytestmark = [library("navix"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
NAME = "Navix-Empty-5x5-v0"
RIGHT, FORWARD = 1, 2


@pytest.mark.parametrize(
    ("actions", "limit", "ends"),
    [
        ((FORWARD, FORWARD, RIGHT, FORWARD, FORWARD), 100, (True, False)),  # to the goal in the other corner
        ((RIGHT,) * 4, 4, (False, True)),
    ],
)
def test_every_step_is_navixs_until_the_end_of_the_episode(actions, limit, ends):
    import navix

    theirs = navix.make(NAME, max_steps=limit, observation_fn=navix.observations.symbolic)
    ours = shoal.make(f"navix/{NAME}", max_steps=limit, observation="symbolic")
    obs, state = jax.jit(ours.reset)(make_key(3, "threefry2x32"))  # the generator of jax.random.key
    expected = jax.jit(theirs.reset)(jax.random.key(3))
    step, their_step = jax.jit(ours.step), jax.jit(theirs.step)
    for t, action in enumerate(actions):
        np.testing.assert_array_equal(obs, expected.observation)
        obs, state, reward, terminated, truncated, _ = step(make_key(t), state, action)
        expected = their_step(expected, action)
        assert float(reward) == float(expected.reward)
        now = (bool(terminated), bool(truncated))
        assert now == (bool(expected.is_termination()), bool(expected.is_truncation()))
    np.testing.assert_array_equal(obs, expected.observation)
    assert now == ends and float(reward) == ends[0]


def test_navix_keeps_the_rules():
    check_env(shoal.make(f"navix/{NAME}"))


def test_observations_are_chosen_by_name():
    assert shoal.make(f"navix/{NAME}").observation_space.shape == (7, 7, 3)
    assert shoal.make(f"navix/{NAME}", observation="categorical").observation_space.shape == (5, 5)
    with pytest.raises(ValueError, match=r"has no observation 'smell': choose one of symbolic_first_person"):
        shoal.make(f"navix/{NAME}", observation="smell")


def test_ppo_trains_and_resumes(tmp_path):
    shoal.train("ppo", f"navix/{NAME}", folder=tmp_path / "run", fields=FIELDS, **OPTIONS, **SILENT)
    shoal.train(resume=tmp_path / "run", steps=512, **SILENT)
    assert shoal.evaluate(tmp_path / "run", episodes=2, max_steps=20).episode_return.shape == (1, 2)


def test_unknown_ids_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"Did you mean navix/Navix-Empty-5x5-v0"):
        shoal.make("navix/Navix-Empty-5x-v0")
