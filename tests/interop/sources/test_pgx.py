"""Games of Pgx in shoal, compared with Pgx's own steps."""

import jax
import numpy as np
import pytest

import shoal
from other_libraries import library
from shoal.core.checks import check_env
from shoal.core.errors import UnknownNameError
from shoal.core.keys import make_key
from shoal.core.spaces import Box, Discrete
from tiny import FIELDS, OPTIONS, SILENT

pytestmark = [library("pgx"), pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:pgx.*")]


def test_a_game_for_one_player_is_pgxs():
    """The same keys and actions give the same observations, masks and rewards as Pgx's own steps."""
    import pgx

    ours, theirs = shoal.make("pgx/2048"), pgx.make("2048")
    assert ours.action_space == Discrete(4) and ours.observation_space == Box(0, 1, (4, 4, 31), bool)
    key = make_key(3, "threefry2x32")
    _, state = ours.reset(key)
    expected = theirs.init(jax.random.split(key)[0])
    step, their_step = jax.jit(ours.step), jax.jit(theirs.step)
    total = 0.0
    for t in range(25):
        np.testing.assert_array_equal(ours.observe(state), expected.observation)
        np.testing.assert_array_equal(ours.action_mask(state), expected.legal_action_mask)
        action = int(np.flatnonzero(expected.legal_action_mask)[t % expected.legal_action_mask.sum()])
        key = make_key(t, "threefry2x32")
        _, state, reward, terminated, truncated, _ = step(key, state, action)
        expected = their_step(expected, action, jax.random.split(key)[0])
        assert reward == expected.rewards[0] and terminated == expected.terminated and not truncated
        total += reward
    assert total > 0


def test_the_agent_moves_at_its_turns_and_the_others_at_random_between_them():
    """Tic-tac-toe: at each of the agent's turns one more stone of both; at the end the reward of the result."""
    env = shoal.make("pgx/tic_tac_toe")
    step, reset = jax.jit(env.step), jax.jit(env.reset)
    results, first_stones = [], set()
    for seed in range(30):
        obs, state = reset(make_key(seed))
        stones = obs.sum(axis=(0, 1))  # [own, of the other]
        assert state.inner.current_player == 0 and stones[0] == 0
        first_stones.add(int(stones[1]))  # 1 where the other one began
        for t in range(9):
            mask = np.asarray(env.action_mask(state))
            np.testing.assert_array_equal(mask, ~obs.any(axis=-1).ravel())
            action = int(np.flatnonzero(mask)[0])
            before = obs
            obs, state, reward, terminated, *_ = step(make_key(100 * seed + t), state, action)
            if terminated:
                break
            assert obs[..., 0].sum() == before[..., 0].sum() + 1 and obs[..., 1].sum() == before[..., 1].sum() + 1
            assert reward == 0
        assert terminated
        results.append(float(reward))
    assert first_stones == {0, 1} and set(results) <= {-1.0, 0.0, 1.0} and {-1.0, 1.0} <= set(results)


def test_an_illegal_action_ends_the_game_with_a_penalty():
    env = shoal.make("pgx/tic_tac_toe")
    _, state = env.reset(make_key(0))
    _, state, *_ = env.step(make_key(1), state, int(np.flatnonzero(env.action_mask(state))[0]))
    taken = int(np.flatnonzero(~np.asarray(env.action_mask(state)))[0])
    _, _, reward, terminated, *_ = env.step(make_key(2), state, taken)
    assert terminated and reward == -1


def test_arguments_are_fields():
    assert shoal.make("pgx/minatar-breakout", sticky_action_prob=0.0).sticky_action_prob == 0
    assert shoal.make("pgx/go_9x9").observation_space.shape == (9, 9, 17)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["2048", "connect_four", "kuhn_poker", "backgammon", "minatar-asterix", "othello"])
def test_environments_keep_the_rules(name):
    check_env(shoal.make(f"pgx/{name}"))


def test_ppo_trains_and_resumes(tmp_path):
    shoal.train("ppo", "pgx/connect_four", folder=tmp_path / "run", fields=FIELDS, **OPTIONS, **SILENT)
    shoal.train(resume=tmp_path / "run", steps=512, **SILENT)
    assert shoal.evaluate(tmp_path / "run", episodes=2, max_steps=20).episode_return.shape == (1, 2)


@pytest.mark.slow
def test_ppo_learns_to_beat_a_random_player(tmp_path):
    shoal.train("ppo", "pgx/tic_tac_toe", steps=60_000, folder=tmp_path / "run", **SILENT)
    assert shoal.evaluate(tmp_path / "run", episodes=200).episode_return.mean() > 0.35  # a random player gets 0


def test_unknown_ids_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"Did you mean pgx/connect_four"):
        shoal.make("pgx/connect_fou")
