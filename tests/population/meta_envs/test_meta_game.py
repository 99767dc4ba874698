"""The meta-games: exact values against NumPy, opponents' steps against numbers of the reference and against NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, init, observe
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.population.meta_envs.matrix_game import iterated_values
from shoal.population.meta_envs.meta_game import Chicken, PrisonersDilemma

# One step of the reference's code (torch 1.13) in each environment: the opponent's logits before the step, the agent's
# logits, the rewards of the agent and of the opponent, and the opponent's logits after the step.
REFERENCE = {
    "MFOS/IPD-NL-v0": (
        [0.267317, -0.421195, -0.5107, -1.57267, -0.123248],
        [-1.78458, -0.1165, -0.391019, -1.93127, 0.844831],
        -1.72783,
        -1.4538,
        [-0.208626, -2.08412, -2.59508, -3.2274, -3.26334],
    ),
    "MFOS/IPD-LOLA-v0": (
        [-0.13831, 0.831016, -0.247707, -0.802941, 0.236575],
        [-1.81615, 1.08455, 0.22051, -4.51802, 1.2134],
        -1.50673,
        -1.45138,
        [-0.238796, 5.63688, -8.95267, 4.00274, -8.39345],
    ),
    "MFOS/IMP-NL-v0": (
        [-0.820576, 0.3133, -1.13517, 0.377334, -0.28242],
        [-0.793632, -1.31412, -3.2855, 1.96058, -0.0842941],
        -0.161828,
        0.161828,
        [-0.609872, 1.5066, -3.14622, 4.06197, 0.111731],
    ),
    "MFOS/IMP-LOLA-v0": (
        [0.511897, -0.693278, -0.16676, -0.999882, -1.64757],
        [1.25436, 2.18691, 0.187806, 2.47613, -2.69179],
        0.198894,
        -0.198894,
        [0.652108, 1.08926, -0.820335, 8.33775, 9.74318],
    ),
    "MFOS/Chicken-NL-v0": ([-0.532644], [2.26798], -6.44726, -5.37468, [1.42075]),
    "MFOS/Chicken-LOLA-v0": ([-3.10204], [-0.75375], -65.3509, -64.797, [-37.6566]),
}

IPD = np.array([[-1, -1], [-3, 0], [0, -3], [-2, -2]], float)  # payoffs of both players after CC, CD, DC, DD
OUTCOMES = list(itertools.product((0, 1), (0, 1)))  # actions of both players; 0 is the first action, C
POLICIES = np.random.default_rng(0).normal(0, 2, (50, 2, 5))


def chance(probability, action):
    return probability if action == 0 else 1 - probability


def values_in_numpy(first, second, payoffs, discount):
    """The discounted values of both players: the Markov chain entry by entry, and the inverse of a matrix."""
    one, two = (1 / (1 + np.exp(-np.asarray(logits, float))) for logits in (first, second))
    start = np.array([chance(one[0], a) * chance(two[0], b) for a, b in OUTCOMES])
    after = np.zeros((4, 4))
    for i, (was_a, was_b) in enumerate(OUTCOMES):
        for j, (a, b) in enumerate(OUTCOMES):
            after[i, j] = chance(one[1 + OUTCOMES.index((was_a, was_b))], a)
            after[i, j] *= chance(two[1 + OUTCOMES.index((was_b, was_a))], b)
    return start @ np.linalg.inv(np.eye(4) - discount * after) @ payoffs


def slope(function, at, step=1e-5):
    """The derivatives of a function of a vector, by central differences in float64."""
    return np.array([(function(at + step * e) - function(at - step * e)) / (2 * step) for e in np.eye(len(at))])


@pytest.mark.parametrize("discount", [0.0, 0.5, 0.96, 0.999])
def test_values_are_those_of_the_markov_chain(discount):
    values = jax.jit(jax.vmap(lambda pair: iterated_values(pair[0], pair[1], jnp.float32(IPD), discount)))
    expected = [values_in_numpy(*pair, IPD, discount) for pair in POLICIES]
    np.testing.assert_allclose(values(jnp.float32(POLICIES)), expected, rtol=2e-4)


def test_known_strategies_have_the_values_of_their_games():
    # tit for tat against always defect: (S, T) once, then mutual defection; against itself: mutual cooperation
    tit_for_tat, defect = jnp.float32([30, 30, -30, 30, -30]), jnp.full(5, -30.0)
    payoffs, left = jnp.float32(IPD), 0.96 / 0.04
    np.testing.assert_allclose(iterated_values(tit_for_tat, defect, payoffs, 0.96), [-3 - 2 * left, -2 * left], 1e-5)
    np.testing.assert_allclose(iterated_values(tit_for_tat, tit_for_tat, payoffs, 0.96), [-25, -25], 1e-5)


@pytest.mark.parametrize("name", REFERENCE)
def test_a_step_equals_the_step_of_the_reference(name):
    before, action, reward, opponent_reward, after = REFERENCE[name]
    env = make(name)
    state = init(env, make_key(0)).replace(learned=jnp.float32(before))
    state, gained, terminated, truncated, info = advance(env, state, jnp.float32(action), None)
    np.testing.assert_allclose([gained, info["opponent_reward"]], [reward, opponent_reward], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(state.learned, after, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(observe(env, state), 1 / (1 + np.exp(-np.float32([*action, *before]))), rtol=1e-5)
    assert not terminated and not truncated and int(state.time) == 1


@pytest.mark.parametrize("opponent", ["naive", "lola"])
def test_the_opponent_follows_the_gradient_of_numpys_values(opponent):
    env = PrisonersDilemma(opponent=opponent, opponent_learning_rate=0.3, discount=0.9, temptation=1.0)
    payoffs = np.array([[-1, -1], [-3, 1], [1, -3], [-2, -2]], float)
    own, other = POLICIES[0]

    def value(own, other, player):
        return values_in_numpy(own, other, payoffs, 0.9)[player]

    def objective(own):
        if opponent == "naive":
            return value(own, other, 0)
        effects = [slope(lambda other, player=player: value(own, other, player), other) for player in (0, 1)]
        return value(own, other, 0) + 0.3 * effects[0] @ effects[1]

    state = init(env, make_key(0)).replace(learned=jnp.float32(own))
    state, *_ = advance(env, state, jnp.float32(other), None)
    np.testing.assert_allclose(state.learned - own, 0.3 * slope(objective, own, 1e-3), rtol=1e-2, atol=1e-4)


def test_an_episode_begins_after_one_step_of_the_opponent_against_a_random_policy():
    env = Chicken()
    first = init(env, make_key(3))
    again, *_ = advance(env, first.replace(learned=first.opponent), first.agent, None)
    np.testing.assert_array_equal(again.learned, first.learned)
    starts = jax.jit(jax.vmap(Chicken(init_std=2.0).init))(jax.random.split(make_key(0), 2000))
    assert np.std(starts.agent) == pytest.approx(2, abs=0.1) and np.std(starts.opponent) == pytest.approx(2, abs=0.1)
    assert abs(np.corrcoef(starts.agent[:, 0], starts.opponent[:, 0])[0, 1]) < 0.1


def test_a_naive_learner_cooperates_with_tit_for_tat_and_defects_against_one_who_always_cooperates():
    env = PrisonersDilemma()
    for action, cooperates in (([9.0, 9, -9, 9, -9], True), ([9.0] * 5, False)):
        state = init(env, make_key(0))
        for _ in range(100):
            state, reward, _, truncated, info = advance(env, state, jnp.float32(action), None)
        assert truncated
        expected = (-1, -1) if cooperates else (-3, 0)
        np.testing.assert_allclose([reward, info["opponent_reward"]], expected, atol=0.1)


def test_actions_beyond_the_bounds_are_clipped():
    env = PrisonersDilemma(max_logit=2.0)
    state, *_ = advance(env, init(env, make_key(0)), jnp.full(5, 7.0), None)
    np.testing.assert_array_equal(state.agent, np.full(5, 2.0))


@pytest.mark.parametrize("fields", [{"opponent": "LOLA"}, {"discount": 1.0}, {"max_logit": 0.0}, {"init_std": -1.0}])
def test_a_wrong_field_is_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        PrisonersDilemma(**fields)
