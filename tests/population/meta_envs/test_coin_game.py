"""The coin game and its learner: moves by hand, the learner's update against NumPy, the order of an episode."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init, noise, observe
from shoal import PPO
from shoal.core import form
from shoal.core.keys import make_key
from shoal.population.meta_envs.coin_game import Board, first_board, moved, planes
from shoal.population.meta_envs.coin_learner import Experience, learned, log_probs, new_learner, normalized_returns
from shoal.population.meta_envs.coin_shaping import CoinShaping

RIGHT, LEFT, DOWN, UP = range(4)
SHIFTS = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
ENV = CoinShaping(games=2, inner_steps=4, epochs=2)
RATES = {"learning_rate": 0.005, "discount": 0.96, "clip": 0.2, "entropy_coef": 0.01}
step = jax.jit(moved)


def board(red, blue, red_coin, blue_coin):
    return Board(*[jnp.int32(cell) for cell in (red, blue, red_coin, blue_coin)])


@pytest.mark.parametrize(
    ("start", "actions", "rewards", "coins"),
    [
        # the red player takes its own coin, which appears again at cell 5
        (board((0, 0), (2, 2), (0, 1), (1, 1)), (RIGHT, UP), (1, 0), ((1, 2), (1, 1))),
        # the red player takes the blue coin
        (board((0, 0), (2, 2), (1, 1), (0, 1)), (RIGHT, UP), (1, -2), ((1, 1), (2, 0))),
        # the blue player takes both coins, through the edge of the torus
        (board((0, 0), (0, 2), (2, 2), (2, 2)), (DOWN, UP), (-2, 2), ((1, 2), (2, 0))),
        # both players take the red coin
        (board((1, 0), (1, 2), (1, 1), (0, 0)), (RIGHT, LEFT), (-1, 1), ((1, 2), (0, 0))),
        # nobody takes a coin: the players pass each other
        (board((1, 0), (1, 1), (2, 2), (0, 2)), (RIGHT, LEFT), (0, 0), ((2, 2), (0, 2))),
    ],
)
def test_moves_rewards_and_new_coins(start, actions, rewards, coins):
    after, gained, _ = step(start, *map(jnp.int32, actions), jnp.int32([5, 6]))
    np.testing.assert_array_equal(gained, rewards)
    np.testing.assert_array_equal([after.red_coin, after.blue_coin], coins)
    np.testing.assert_array_equal(after.red, (start.red + SHIFTS[actions[0]]) % 3)
    np.testing.assert_array_equal(after.blue, (start.blue + SHIFTS[actions[1]]) % 3)


def test_planes_show_players_and_coins():
    picture = np.asarray(planes(first_board(jnp.int32([0, 4, 4, 7]))))
    assert [np.argwhere(picture[..., i]).tolist() for i in range(4)] == [[[0, 0]], [[1, 1]], [[1, 1]], [[2, 1]]]


def test_returns_are_discounted_and_normalized_over_all_games():
    reward = np.random.default_rng(0).integers(-2, 3, (5, 3)).astype(np.float32)
    returns = np.array([sum(0.9 ** (k - t) * reward[k] for k in range(t, 5)) for t in range(5)])
    expected = (returns - returns.mean()) / (returns.std(ddof=1) + 1e-5)
    np.testing.assert_allclose(normalized_returns(jnp.asarray(reward), 0.9), expected, rtol=1e-4, atol=1e-5)


def numpy_network(layers, obs):
    """The network of one observation [3, 3, 4], with the convolution on the torus written as loops."""
    x = np.asarray(obs, float)
    for kernel, bias in layers[:2]:
        around = [
            [[x[(r + i) % 3, (c + j) % 3] for i in (-1, 0, 1) for j in (-1, 0, 1)] for c in range(3)] for r in range(3)
        ]
        x = np.maximum(np.reshape(around, (3, 3, -1)) @ kernel + bias, 0)
    hidden = np.maximum(x.ravel() @ layers[2][0] + layers[2][1], 0)
    return hidden @ layers[3][0] + layers[3][1]


def numpy_loss(weights, experience, returns):
    total = []
    for t, g in np.ndindex(*experience.action.shape):
        logits = numpy_network(weights["actor"], experience.obs[t, g])
        log_p = logits - np.log(np.sum(np.exp(logits)))
        (estimate,) = numpy_network(weights["critic"], experience.obs[t, g])
        ratio = np.exp(log_p[experience.action[t, g]] - experience.log_prob[t, g])
        advantage = returns[t, g] - numpy_network(START["critic"], experience.obs[t, g])[0]  # not differentiated
        surrogate = min(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
        entropy = -np.sum(np.exp(log_p) * log_p)
        total.append(-surrogate - 0.01 * entropy + 0.5 * (estimate - returns[t, g]) ** 2)
    return np.mean(total)


LEARNER = new_learner(make_key(0))
START = jax.tree.map(lambda x: np.asarray(x, float), LEARNER.weights)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_the_first_gradient_step_follows_numpys_loss(platform):
    # after its first step Adam has moved each weight by about the rate, against the sign of its gradient
    random = np.random.default_rng(1)
    obs = random.random((3, 2, 3, 3, 4)) < 0.3
    action = random.integers(0, 4, (3, 2)).astype(np.int32)
    log_p = np.asarray(log_probs(LEARNER.weights, jnp.asarray(obs)))
    log_prob = np.take_along_axis(log_p, action[..., None], -1)[..., 0] + random.normal(0, 0.05, (3, 2)).astype(
        np.float32
    )
    experience = SimpleNamespace(obs=obs, action=action, log_prob=log_prob)
    experience.reward = random.normal(size=(3, 2)).astype(np.float32)
    given = Experience(**{name: jnp.asarray(x) for name, x in vars(experience).items()})
    with form.using(form.form_for(platform)):
        after = jax.jit(lambda *given: learned(*given, **RATES))(LEARNER, given, 1)
    returns = np.asarray(normalized_returns(jnp.asarray(experience.reward), 0.96), float)
    leaves, structure = jax.tree.flatten(START)
    for i, leaf in enumerate(leaves):
        for at in [np.unravel_index(k, leaf.shape) for k in random.choice(leaf.size, min(leaf.size, 4), replace=False)]:
            sides = []
            for shift in (1e-6, -1e-6):
                moved_leaf = leaf.copy()
                moved_leaf[at] += shift
                changed = jax.tree.unflatten(structure, [*leaves[:i], moved_leaf, *leaves[i + 1 :]])
                sides.append(numpy_loss(changed, experience, returns))
            gradient = (sides[0] - sides[1]) / 2e-6
            np.testing.assert_allclose(jax.tree.leaves(after.first)[i][at], 0.1 * gradient, rtol=1e-3, atol=1e-6)
            if abs(gradient) > 1e-4:
                change = jax.tree.leaves(after.weights)[i][at] - leaf[at]
                np.testing.assert_allclose(change, -0.005 * np.sign(gradient), rtol=1e-2)


def test_an_inner_episode_ends_with_an_update_and_a_reset_of_the_boards():
    state = init(ENV, make_key(0))
    first = state.learner
    lots = [noise(ENV, k) for k in jax.random.split(make_key(1), 8)]
    seen = []
    for i, lot in enumerate(lots):
        before = state
        state, reward, terminated, truncated, info = advance(ENV, state, jnp.int32([i % 4, (i + 1) % 4]), lot)
        seen.append((bool(state.inner_done), int(state.learner.steps)))
        is_update = i % 4 == 3
        if is_update:
            np.testing.assert_array_equal(state.board.red[0], [lot.first_cells[0, 0] // 3, lot.first_cells[0, 0] % 3])
            assert float(reward) == 0 == float(info["opponent_reward"])
        else:
            np.testing.assert_array_equal(state.board.blue[0], (before.board.blue[0] + SHIFTS[i % 4]) % 3)
            np.testing.assert_allclose([info["opponent_reward"], reward], state.reward.mean(axis=0))
            np.testing.assert_array_equal(state.experience.reward[i % 4], state.reward[:, 0])
        assert not terminated and not truncated
    assert seen == [(False, 0), (False, 0), (True, 0), (False, 2), (False, 2), (False, 2), (True, 2), (False, 4)]
    assert any((a != b).any() for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(state.learner), strict=True))


def test_observations_show_both_rewards_and_the_end_of_an_inner_episode():
    state = init(ENV, make_key(0)).replace(reward=jnp.float32([[1, -2], [0, 2]]), inner_done=jnp.bool_(True))
    seen = observe(ENV, state)
    assert seen.shape == (3, 3, 14) and ENV.observation_space.contains(seen)
    np.testing.assert_array_equal(seen[1, 2, [4, 5, 6, 11, 12, 13]], [1, -2, 1, 0, 2, 1])
    np.testing.assert_array_equal(seen[..., 7:11], planes(jax.tree.map(lambda x: x[1], state.board)))


def test_agents_can_be_bound_to_one_game_and_to_several():
    for env in (CoinShaping(), ENV):
        PPO(num_envs=2, num_steps=4).bind(env)


def test_a_wrong_size_is_refused():
    with pytest.raises(ValueError, match="at least one game"):
        CoinShaping(games=0)
