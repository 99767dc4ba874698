"""Probe environments: every value that a docstring states is checked step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import ENVS, make

KEYS = jax.random.split(make_key(0), 64)
PROBES = [name for name in ENVS if name.startswith("Probe-")]


def play(env, policy, num_steps=10, keys=KEYS):
    """Observations before each step, rewards, terminated, truncated, [T, E]; a finished episode simply goes on."""

    def step(carry, key):
        obs, state = carry
        actions = jax.vmap(policy)(obs, jax.random.split(key, len(keys)))
        new_obs, state, reward, terminated, truncated, _ = jax.vmap(env.step)(
            jax.random.split(key, len(keys)), state, actions
        )
        return (new_obs, state), (obs, reward, terminated, truncated)

    start = jax.vmap(env.reset)(keys)
    return jax.tree.map(np.asarray, jax.lax.scan(step, start, jax.random.split(make_key(1), num_steps))[1])


def constant(action):
    return lambda obs, key: jnp.asarray(action)


def uniform(env):
    return lambda obs, key: env.action_space.sample(key)


@pytest.mark.parametrize("name", PROBES)
def test_every_observation_of_a_probe_is_in_its_space(name):
    env = make(name)
    obs, *_ = play(env, uniform(env), num_steps=5)
    assert bool(jax.vmap(jax.vmap(env.observation_space.contains))(jnp.asarray(obs)).all())


def test_all_probes_are_registered():
    assert len(PROBES) == 17


def test_constant_reward_pays_one_and_ends():
    _, reward, terminated, truncated = play(make("Probe-ConstantReward-v0"), constant(jnp.int32(0)), 1)
    assert (reward == 1).all() and terminated.all() and not truncated.any()


def test_observation_reward_equals_the_observation():
    obs, reward, terminated, _ = play(make("Probe-ObservationReward-v0"), constant(jnp.int32(1)), 1)
    assert set(obs.ravel()) == {-1.0, 1.0} and terminated.all()
    np.testing.assert_array_equal(reward, obs[..., 0])


def test_discounted_reward_pays_on_the_second_step():
    obs, reward, terminated, _ = play(make("Probe-DiscountedReward-v0"), constant(jnp.int32(1)), 2)
    np.testing.assert_array_equal(obs[:, 0, 0], [0, 1])
    np.testing.assert_array_equal(reward[:, 0], [0, 1])
    np.testing.assert_array_equal(terminated[:, 0], [False, True])


def test_action_reward_pays_for_action_one():
    env = make("Probe-ActionReward-v0")
    assert (play(env, constant(jnp.int32(1)), 1)[1] == 1).all()
    assert (play(env, constant(jnp.int32(0)), 1)[1] == -1).all()


def test_matching_action_pays_for_the_action_that_matches():
    env = make("Probe-MatchingAction-v0")
    assert (play(env, lambda obs, key: (obs[0] > 0).astype(jnp.int32), 1)[1] == 1).all()
    assert (play(env, lambda obs, key: (obs[0] < 0).astype(jnp.int32), 1)[1] == -1).all()
    assert abs(play(env, constant(jnp.int32(1)), 1)[1].mean()) < 0.5  # 64 tosses: standard error 0.125


def test_the_time_limit_probe_truncates_and_the_termination_probe_terminates():
    obs, reward, terminated, truncated = play(make("Probe-TimeLimit-v0"), constant(jnp.int32(0)), 5)
    twin_obs, twin_reward, twin_terminated, twin_truncated = play(
        make("Probe-Termination-v0"), constant(jnp.int32(0)), 5
    )
    fifth_only = [False, False, False, False, True]
    np.testing.assert_array_equal(truncated[:, 0], fifth_only)
    np.testing.assert_array_equal(twin_terminated[:, 0], fifth_only)
    assert not terminated.any() and not twin_truncated.any()
    np.testing.assert_array_equal(obs, twin_obs)
    np.testing.assert_array_equal(reward, twin_reward)
    np.testing.assert_allclose(obs[:, 0, 0], [0, 0.2, 0.4, 0.6, 0.8], rtol=1e-6)
    assert sum(0.9**t for t in range(5)) == pytest.approx((1 - 0.9**5) / (1 - 0.9)) == pytest.approx(4.0951)
    assert (twin_reward == 1).all()


def test_the_memory_probe_shows_its_cue_once_and_rewards_it_after_the_delay():
    obs, reward, terminated, _ = play(make("Probe-Memory-v0"), constant(jnp.int32(1)), 3)
    cue = obs[0, :, 0]
    assert set(cue) == {-1.0, 1.0}
    assert (obs[1:, :, 0] == 0).all()
    np.testing.assert_array_equal(obs[:, 0, 1], [0, 0, 1])
    assert (reward[:2] == 0).all()
    np.testing.assert_array_equal(reward[2], cue)  # "heads" was answered every time
    np.testing.assert_array_equal(terminated[:, 0], [False, False, True])


def test_memory_delay_can_be_changed():
    reward = play(make("Probe-Memory-v0", delay=4), constant(jnp.int32(1)), 5)[1]
    np.testing.assert_array_equal(np.abs(reward[:, 0]), [0, 0, 0, 0, 1])


def test_continuous_action_is_best_at_one_half():
    env = make("Probe-ContinuousAction-v0")
    for action, expected in ((0.5, 1.0), (0.0, 0.75), (-1.0, -1.25)):
        assert (play(env, constant(jnp.full((1,), action)), 1)[1] == expected).all()


def test_continuous_matching_is_best_at_half_the_observation():
    env = make("Probe-ContinuousMatching-v0")
    assert (play(env, lambda obs, key: 0.5 * obs, 1)[1] == 1).all()
    assert (play(env, lambda obs, key: -0.5 * obs, 1)[1] == 0).all()
    assert (play(env, lambda obs, key: 0.0 * obs, 1)[1] == 0.75).all()


def test_both_action_components_must_be_right():
    env = make("Probe-MultiDiscrete-v0")

    def dials(obs, key):
        heads = obs[0] > 0
        return jnp.stack([jnp.where(heads, 1, 0), jnp.where(heads, 2, 0)]).astype(jnp.int32)

    assert (play(env, dials, 1)[1] == 1).all()
    assert (play(env, lambda obs, key: dials(obs, key).at[0].set(1 - dials(obs, key)[0]), 1)[1] == 0).all()
    assert (play(env, lambda obs, key: dials(obs, key).at[1].set(1), 1)[1] == 0).all()


def test_the_image_probe_lights_one_pixel_and_its_half_is_the_right_action():
    env = make("Probe-Image-v0")
    obs, reward, *_ = play(env, lambda obs, key: (obs[:, 5:].max() > 0).astype(jnp.int32), 1)
    assert obs.dtype == np.uint8 and obs.shape[2:] == (10, 10, 1)
    assert (obs.sum(axis=(2, 3, 4), dtype=np.int64) == 255).all()
    assert (reward == 1).all()
    assert (play(env, lambda obs, key: (obs[:, :5].max() > 0).astype(jnp.int32), 1)[1] == -1).all()


def test_a_counted_match_pays_one_and_a_mismatch_costs_one():
    env = make("Probe-CountedMatching-v0")
    obs, reward, terminated, _ = play(env, lambda obs, key: obs, 1)
    assert set(obs.ravel()) == {0, 1} and (reward == 1).all() and terminated.all()
    assert (play(env, lambda obs, key: 1 - obs, 1)[1] == -1).all()


def test_a_chain_takes_four_steps_to_its_end_and_stops_at_its_left_border():
    obs, reward, terminated, truncated = play(make("Probe-Chain-v0"), constant(jnp.int32(1)), 4)
    assert obs[:, 0].tolist() == [0, 1, 2, 3] and reward[:, 0].tolist() == [0, 0, 0, 1]
    assert terminated[:, 0].tolist() == [False, False, False, True] and not truncated.any()
    obs, reward, terminated, _ = play(make("Probe-Chain-v0"), constant(jnp.int32(0)), 4)
    assert (obs == 0).all() and (reward == 0).all() and not terminated.any()


def test_the_counted_clock_probe_has_the_same_dynamics():
    counted, plain = (play(make(f"Probe-{kind}TimeLimit-v0"), constant(jnp.int32(0)), 5) for kind in ("Counted", ""))
    np.testing.assert_allclose(counted[0] / 5, plain[0][..., 0], atol=1e-6)
    for left, right in zip(counted[1:], plain[1:], strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("actions", "rewards"), [([1], [-1]), ([0, 2], [0, -2]), ([2], [5]), ([0, 0], [0, 5]), ([0, 1], [0, 5])]
)
def test_the_mask_probe_rewards_every_action_and_also_forbidden_ones(actions, rewards):
    env, key = make("Probe-Mask-v0"), make_key(0)
    obs, state = env.reset(key)
    masks = [[True, True, False], [False, False, True]]
    for place, (action, expected) in enumerate(zip(actions, rewards, strict=True)):
        assert obs == place and env.action_mask(state).tolist() == masks[place]
        obs, state, reward, terminated, truncated, _ = env.step(key, state, jnp.int32(action))
        assert reward == expected and terminated == (place == len(actions) - 1) and not truncated
    assert obs == 2
