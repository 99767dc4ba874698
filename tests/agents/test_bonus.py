"""The bonuses of PPO for new observations: counts and RND, against NumPy; what both need of PPO; what is refused."""

import shutil
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal import PPO, make
from shoal.agents.bonus import CountBonus, RNDBonus
from shoal.core.keys import make_key
from shoal.core.spaces import Box, Dict, Discrete, zeros
from shoal.core.struct import to_arrays
from shoal.rollouts.checks import check_agent
from shoal.training import checkpoint
from tiny import FIELDS, OPTIONS, SILENT

SIZES = {**FIELDS, "num_minibatches": 2, "predictor_size": 8}
COUNT = {**FIELDS, "num_minibatches": 2, "bonus": "count", "count_slots": 64}
RND = {**SIZES, "bonus": "rnd"}
PAIR = Dict({"cell": Discrete(3), "speed": Box(-np.inf, np.inf, (2,))})
T, E = 5, 2


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def bound(env="Probe-Chain-v0", **fields):
    env = make(env) if isinstance(env, str) else env
    return to_arrays(PPO(**fields).bind(env)), to_arrays(env)


def observations(seed):
    random = np.random.default_rng(seed)
    return {"cell": random.integers(0, 3, (T, E)).astype(np.int32), "speed": random.normal(3, 2, (T, E, 2))}


# The bonuses themselves.


def test_a_count_bonus_is_one_by_the_root_of_the_count_after_the_rollout():
    bonus = CountBonus(Discrete(9), 64, 1)
    state, counter = bonus.init(make_key(0), E), Counter()
    for seed in range(3):
        obs = np.random.default_rng(seed).integers(0, 9, (T, E)).astype(np.int32)
        state, reward, losses = bonus.learn(state, jnp.asarray(obs), make_key(1))
        counter.update(obs.ravel().tolist())
        expected = np.array([[1 / np.sqrt(counter[int(x)]) for x in row] for row in obs])
        np.testing.assert_allclose(reward, expected, rtol=1e-6)
        assert losses["bonus"] == pytest.approx(expected.mean(), rel=1e-6)
        assert losses["count_slots_used"] == len(counter) / 64


def test_an_observation_that_finds_no_room_gets_no_bonus():
    bonus = CountBonus(Discrete(9), 2, 1)
    _, reward, losses = bonus.learn(bonus.init(make_key(0), 1), jnp.arange(9)[:, None].astype(jnp.int32), make_key(1))
    assert float(reward.sum()) == 2 and losses["count_slots_used"] == 1


def numpy_rnd(weights, x):
    """The features that a network of RND computes."""
    for i, layer in enumerate(weights):
        x = x @ np.float64(layer["kernel"]) + np.float64(layer["bias"])
        x = np.maximum(x, 0) if i + 1 < len(weights) else x
    return x


def test_the_bonus_of_rnd_is_the_predictors_error_by_the_std_of_discounted_bonuses():
    bonus = RNDBonus(PAIR, 0.9, 0.01, 8, 2, "arithmetic", 1)
    state = bonus.init(make_key(0), E)
    assert len(state.target) == 2 and len(state.predictor) == 4
    rows, sums, total = [], [], np.zeros(E)
    for seed in range(3):
        obs = observations(seed)
        before = state
        state, reward, losses = bonus.learn(state, jax.tree.map(jnp.asarray, obs), make_key(seed))
        x = np.concatenate([np.eye(3)[obs["cell"]], np.float32(obs["speed"])], axis=-1)
        rows.append(x.reshape(-1, 5))
        known = np.concatenate(rows)
        x = np.clip((x - known.mean(0)) / np.sqrt(known.var(0) + 1e-8), -5, 5)
        error = ((numpy_rnd(before.predictor, x) - numpy_rnd(before.target, x)) ** 2).mean(-1)
        for step in error:
            total = total * 0.9 + step
            sums.append(total)
        np.testing.assert_allclose(reward, error / np.std(sums), rtol=2e-3)
        assert losses["bonus"] == pytest.approx(float(np.mean(reward)), rel=1e-5)
        assert losses["predictor_loss"] == pytest.approx(error.mean(), rel=0.5)  # its mean over gradient steps
    np.testing.assert_allclose(state.discounted, total, rtol=1e-3)
    for one, other in zip(jax.tree.leaves(state.target), jax.tree.leaves(before.target), strict=True):
        np.testing.assert_array_equal(one, other)  # the target never changes


def test_what_is_seen_again_is_soon_no_longer_new_to_rnd():
    bonus = RNDBonus(Box(-1.0, 1.0, (2,)), 0.99, 1e-3, 32, 4, "arithmetic", 1)
    state, seen = bonus.init(make_key(0), 8), jax.random.uniform(make_key(1), (64, 8, 2), minval=-1, maxval=0)
    learn = jax.jit(bonus.learn)
    for i in range(100):
        state, _, losses = learn(state, seen, make_key(i))
    old = float(losses["bonus"])
    unseen = jnp.full((64, 8, 2), 1.0)
    assert float(bonus.learn(state, unseen, make_key(0))[1][0, 0]) > 5 * old


# In PPO.


@pytest.mark.parametrize("fields", [COUNT, RND], ids=["count", "rnd"])
def test_ppo_with_a_bonus_keeps_the_contract_of_agents(fields):
    env = make("Probe-Chain-v0")
    check_agent(PPO(**fields), env)


def test_values_of_bonuses_go_on_over_the_end_of_an_episode_and_those_of_rewards_do_not():
    env = shoal.TimeLimit(make("Probe-Chain-v0"), 4)  # with terminated and with truncated episodes
    agent, env = bound(env, **COUNT, discount=0.9, bonus_discount=0.8, gae_lambda=0.7, bonus_coef=3.0)
    state = agent.init(make_key(0), env)
    state = state.replace(weights=jax.tree.map(lambda x: x + 0.1, state.weights))
    noise = agent.policy_noise(state, make_key(1))
    _, trajectory, _ = agent.rollout.collect(env, state.env_states, agent.behavior(state), noise, make_key(2))
    assert trajectory.terminated.any() and (trajectory.truncated & ~trajectory.terminated).any()
    bonus = jax.random.uniform(make_key(3), trajectory.reward.shape)
    batch, _ = agent._batch(state, trajectory, trajectory.reward, bonus)
    with_head = jax.vmap(jax.vmap(lambda obs: agent._nets.value(state.weights, obs)))
    value, last = np.float64(with_head(trajectory.obs)), np.float64(with_head(trajectory.last_obs[None]))[0]
    final = np.float64(with_head(trajectory.final_obs))
    advantages = np.zeros((*bonus.shape, 2))
    next_advantage = np.zeros((agent.num_envs, 2))
    for t in reversed(range(agent.num_steps)):
        for e in range(agent.num_envs):
            follows = value[t + 1, e] if t + 1 < agent.num_steps else last[e]
            terminated, done = bool(trajectory.terminated[t, e]), bool(trajectory.done[t, e])
            true_next = final[int(trajectory.final_slot[t, e]), e, 0] if done and not terminated else follows[0]
            delta = float(trajectory.reward[t, e]) + 0.9 * (not terminated) * true_next - value[t, e, 0]
            of_reward = delta + 0.9 * 0.7 * (not done) * next_advantage[e, 0]
            of_bonus = float(bonus[t, e]) + 0.8 * follows[1] - value[t, e, 1] + 0.8 * 0.7 * next_advantage[e, 1]
            advantages[t, e] = next_advantage[e] = of_reward, of_bonus
    np.testing.assert_allclose(batch.advantage, advantages[..., 0] + 3 * advantages[..., 1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(batch.target, advantages + value, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(agent.value(state, trajectory.last_obs), last[:, 0], rtol=1e-5)


def test_a_step_is_rewarded_for_the_observation_that_it_reached():
    agent, env = bound(**COUNT)
    state = agent.init(make_key(0), env)
    after, _ = jax.jit(type(agent).update)(agent, state, env, jnp.int32(0))
    steps, envs = agent.num_steps, agent.num_envs
    assert int(after.bonus.count.sum()) == steps * envs
    # The first observations of the run were reached by no step, so the table has one visit less of the first cell.
    assert int((after.bonus.count > 0).sum()) <= 4


@pytest.mark.parametrize("memory", ["none", "gru"])
@pytest.mark.parametrize("fields", [COUNT, RND], ids=["count", "rnd"])
def test_members_of_a_sweep_learn_their_own_bonus_in_one_program(fields, memory, tmp_path):
    sweep = {"bonus_coef": [0.0, 1.0], "bonus_discount": [0.9, 0.99]}
    run = shoal.train(
        PPO(**fields, memory=memory), "Probe-Chain-v0", sweep=sweep, folder=tmp_path / "r", **OPTIONS, **SILENT
    )
    assert run.curves["bonus"].shape == (4, 4) and (np.asarray(run.curves["bonus"]) > 0).all()
    assert np.asarray(run.curves["alive"]).all()
    plain = shoal.train(PPO(**FIELDS), "Probe-Chain-v0", folder=tmp_path / "plain", **OPTIONS, **SILENT)
    assert "bonus" not in plain.curves


def test_an_interrupted_run_goes_on_with_the_same_counts(tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    shoal.train(PPO(**COUNT), "Probe-Chain-v0", seeds=2, folder=whole, **OPTIONS, **SILENT)
    shutil.copytree(whole, cut)
    shutil.rmtree(checkpoint.newest(cut / "checkpoints"))
    (cut / "summary.json").unlink()
    before = arrays_of(cut)
    shoal.train(PPO(**COUNT), resume=cut, **SILENT)
    resumed, expected = arrays_of(cut), arrays_of(whole)
    assert resumed.keys() == expected.keys() and any("bonus" in name for name in resumed)
    assert any("bonus" in name and not np.array_equal(x, before[name]) for name, x in resumed.items())
    for name, array in resumed.items():
        np.testing.assert_array_equal(array, expected[name], err_msg=name)


def arrays_of(run):
    """The arrays of all members in a run's newest checkpoint."""
    with np.load(checkpoint.newest(run / "checkpoints") / "learners.npz") as file:
        return dict(file)


@pytest.mark.slow
@pytest.mark.parametrize("fields", [COUNT, RND], ids=["count", "rnd"])
def test_a_population_based_run_copies_what_a_member_has_seen(fields):
    selector = shoal.PBT(vary=("bonus_coef", "learning_rate"), every=1, quantile=0.25)
    options = {"steps": 64 * 24, "records": 12, "evaluations": 12, "eval_episodes": 4}
    run = shoal.train(PPO(**fields), "Probe-Chain-v0", selector=selector, seeds=4, **options, **SILENT)
    assert (np.asarray(run.curves["parent"]) >= 0).any() and np.isfinite(run.curves["bonus"]).all()


def test_the_value_losses_of_both_heads_are_added():
    agent, env = bound(**COUNT, value_loss="squared")
    state = agent.init(make_key(0), env)
    rows = agent._examples(make_key(0))[2].replace(target=jnp.asarray([[1.0, 2.0]] * 7))
    _, value = agent._nets.policy_and_value(state.weights, rows.obs)
    expected = (0.5 * (np.float64(value) - [1.0, 2.0]) ** 2).sum(-1).mean()
    assert float(agent._value_loss(value, rows)) == pytest.approx(expected, rel=1e-5)


def test_an_extra_loss_sees_both_values():
    shapes = []

    def term(policy, value, rows):
        shapes.append((value.shape, rows.value.shape, rows.target.shape))
        return jnp.mean(value[..., 1])

    agent, env = bound(**COUNT, extra_loss=term)
    jax.eval_shape(lambda: agent.update(agent.init(make_key(0), env), env, jnp.int32(0)))
    assert all(len(set(row)) == 1 and row[0][-1] == 2 for row in shapes) and len(shapes) > 1


@pytest.mark.slow
@pytest.mark.parametrize("bonus", ["count", "rnd"])
def test_a_bonus_finds_the_treasure_of_a_sea_that_plain_ppo_does_not_find(bonus):
    sizes = {"num_envs": 8, "num_steps": 80, "hidden": (32,), "entropy_coef": 0.0, "anneal": 0.0, "learning_rate": 1e-3}
    more = {"predictor_rate": 1e-3, "predictor_size": 32} if bonus == "rnd" else {}
    rates = {}
    for name, fields in {bonus: {"bonus": bonus, **more}, "none": {}}.items():
        agent, env = bound("bsuite/deep_sea/0", **sizes, **fields)
        state = jax.lax.fori_loop(
            0, 60, lambda i, s, a=agent, e=env: a.update(s, e, i)[0], agent.init(make_key(0), env)
        )
        rates[name] = int(state.env_states.state.treasures.sum())
    assert rates["none"] == 0 < rates[bonus]


# What is refused, in words.


@pytest.mark.parametrize(
    ("env", "fields", "words"),
    [
        ("CartPole-v1", {"bonus": "count"}, "real numbers hardly ever are.*Use bonus='rnd', or round"),
        ("Probe-ConstantReward-v0", {"bonus": "rnd", "predictor_size": 0}, "predictor_size"),
        ("Probe-Chain-v0", {"bonus": "count", "count_slots": 1000}, "power of two, such as 512 or 1024"),
        ("Probe-Chain-v0", {"bonus": "count", "predictor_rate": 0.1}, "predictor_rate=0.1 changes nothing"),
        ("Probe-Chain-v0", {"bonus": "rnd", "count_slots": 64}, "count_slots=64 changes nothing"),
        ("Probe-Chain-v0", {"bonus_coef": 2.0}, "bonus_coef=2.0 changes nothing with bonus='none'"),
        ("Probe-Chain-v0", {"bonus": "icm"}, "bonus='icm'"),
        ("Probe-Chain-v0", {"bonus": "count", "kernels": "on"}, "a kernel has no values of bonus='count'"),
    ],
)
def test_a_wrong_bonus_is_refused_before_the_run(env, fields, words):
    with pytest.raises(ValueError, match=words):
        PPO(**fields).bind(make(env))


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (Dict({"a": Discrete(1), "b": Box(2.0, 2.0, (3,))}), "there is only one observation"),
        (Box(0, 255, (210, 160, 3), np.uint8), "100,800 numbers, more than 100,000. Make them smaller"),
    ],
)
def test_rnd_refuses_observations_that_it_cannot_embed(space, words):
    env = make("Probe-Chain-v0")
    env = shoal.TransformObservation(env, lambda obs: zeros(space), space)
    with pytest.raises(ValueError, match=words):
        PPO(bonus="rnd").bind(env)
