"""Shoal's environments with gymnax's calls. Where gymnax is installed, its own classes are the reference."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
import shoal.interop.gymnax as gymnax_face
from shoal.core.keys import make_key
from shoal.interop.gymnax import EnvParams, legacy, make, register, registered_envs
from shoal.interop.gymnax.experimental import RolloutWrapper
from shoal.interop.gymnax.visualize import Visualizer
from shoal.interop.gymnax.wrappers import (
    FlattenObservationWrapper,
    GymnaxToDmEnvWrapper,
    GymnaxToGymWrapper,
    GymnaxToVectorGymWrapper,
    LegacyStepAPIWrapper,
    LogWrapper,
    StickyActionWrapper,
)


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_a_program_for_gymnax_1_runs():
    env, params = make("CartPole-v1")
    key, key_reset, key_act, key_step = jax.random.split(jax.random.key(0), 4)
    obs, state = env.reset(key_reset, params)
    action = env.action_space(params).sample(key_act)
    next_obs, next_state, reward, terminated, truncated, info = env.step(key_step, state, action, params)
    assert obs.shape == next_obs.shape == (4,) and reward == 1.0 and not terminated and not truncated
    assert next_state.time == 1 and {"terminated", "truncated", "final_observation"} <= info.keys()
    assert env.num_actions == 2 and env.name == "CartPole-v1" and params.max_steps_in_episode == 500


def test_a_step_is_that_of_the_environment_and_resets_after_an_end():
    env, params = make("CartPole-v1", max_steps_in_episode=3)
    plain = shoal.make("CartPole-v1", max_steps=3)
    key = make_key(3)
    obs, state = env.reset(key)
    expected_obs, expected = plain.reset(key)
    np.testing.assert_array_equal(obs, expected_obs)
    for t in range(3):
        key, k_step = jax.random.split(key)
        obs, state, *outcome, info = env.step(k_step, state, 1, params)
        expected_obs, expected, *expected_outcome, _ = plain.step(jax.random.split(k_step)[0], expected, 1)
        np.testing.assert_allclose(info["final_observation"], expected_obs, rtol=1e-6)
        assert [x.item() for x in outcome] == [x.item() for x in expected_outcome]
        assert info["truncated"] == (t == 2) == outcome[2]
    assert state.time == 0 and np.abs(obs).max() <= 0.05 and not np.array_equal(obs, info["final_observation"])
    unreset = env.step_env(key, state, 1, params)
    assert len(unreset) == 5 and unreset[1].time == 1 and not env.is_truncated(unreset[1], params)


def test_raw_keys_jit_scan_and_vmap_over_params_work():
    env, params = make("Pendulum-v1")

    def swing(key, params):
        obs, state = env.reset(key, params)

        def step(loop, key):
            obs, state, reward, *_ = env.step(key, loop, jnp.zeros(1), params)
            return state, reward

        return jax.lax.scan(step, state, jax.random.split(key, 20))[1].sum()

    many = jax.vmap(lambda g: params.replace(g=g))(jnp.array([1.0, 10.0]))
    total = jax.jit(jax.vmap(swing, in_axes=(None, 0)))(jax.random.PRNGKey(0), many)
    alone = [swing(jax.random.PRNGKey(0), params.replace(g=g)) for g in (1.0, 10.0)]
    np.testing.assert_allclose(total, alone, rtol=1e-4)
    assert total[0] != total[1]


def test_what_is_carried_over_survives_a_reset():
    env, params = make("bsuite/bandit/0")
    _, state = env.reset(jax.random.key(0), params)
    for seed in range(4):
        _, state, *_ = env.step(jax.random.key(seed), state, 0, params)
    assert state.time == 0 and state.missed > 0


def test_the_legacy_face_returns_done():
    env, params = make("CartPole-v1", legacy=True, max_steps=1)
    _, state = env.reset(jax.random.PRNGKey(0), params)
    obs, state, reward, done, info = env.step(jax.random.PRNGKey(1), state, 0, params)
    assert done and state.time == 0 and info["truncated"]


def test_info_of_each_generation_has_its_discount_and_only_the_new_one_an_observation():
    """Programs for 0.0.x take means over all parts of `info`, so each of them is one number."""
    for legacy_too, at_the_limit in ((False, 1.0), (True, 0.0)):
        env, params = make("CartPole-v1", legacy=legacy_too, max_steps=2)
        _, state = env.reset(jax.random.key(0), params)
        discounts = []
        for t in range(2):
            *_, unreset = env.step_env(jax.random.key(t), state, 0, params)
            _, state, *_, info = env.step(jax.random.key(t), state, 0, params)
            discounts.append(info["discount"].item())
            assert unreset["discount"] == info["discount"]
        assert discounts == [1.0, at_the_limit]
        sizes = {name: np.shape(value) for name, value in info.items() if np.shape(value)}
        assert sizes == ({} if legacy_too else {"final_observation": (4,)})
    fallen = state.replace(x=jnp.float32(3.0))  # beyond the end of the track
    assert env.step_env(jax.random.key(0), fallen, 0, params)[4]["discount"] == 0


def test_done_of_the_legacy_step_env_includes_the_time_limit():
    for legacy_too in (False, True):
        env, params = make("CartPole-v1", legacy=legacy_too, max_steps=1)
        _, state = env.reset(jax.random.key(0), params)
        assert env.step_env(jax.random.key(0), state, 0, params)[3] == legacy_too


def test_the_three_rollouts_have_gymnaxs_shapes_and_sums():
    def forward(weights, obs, key):
        return (obs @ weights > 0).astype(jnp.int32)

    wrapper = RolloutWrapper(forward, "CartPole-v1", num_env_steps=60, env_params={"max_steps_in_episode": 50})
    weights = jax.random.normal(jax.random.key(1), (3, 4))
    keys = jax.random.split(jax.random.key(0), 5)
    obs, action, reward, next_obs, done, cum_return = wrapper.population_rollout(keys, weights)
    assert obs.shape == next_obs.shape == (3, 5, 60, 4) and action.shape == reward.shape == done.shape == (3, 5, 60)
    first_end = np.argmax(done, axis=-1)
    np.testing.assert_array_equal(cum_return[..., 0], first_end + 1)  # every step is worth 1
    batch, single = wrapper.batch_rollout(keys, weights[2]), wrapper.single_rollout(keys[4], weights[2])
    for one, of_batch, of_population in zip(
        single, batch, (obs, action, reward, next_obs, done, cum_return), strict=True
    ):
        np.testing.assert_allclose(of_batch, of_population[2], rtol=1e-5)
        np.testing.assert_allclose(one, of_batch[4], rtol=1e-5)
    assert wrapper.input_shape == (4,)
    assert RolloutWrapper(env_name="Pendulum-v1").single_rollout(keys[0], None)[0].shape == (200, 3)


def test_wrong_arguments_are_explained():
    env, params = make("CartPole-v1")
    with pytest.raises(AttributeError, match="the params of CartPole have no 'gravitas': .*gravity"):
        _ = params.gravitas
    with pytest.raises(TypeError, match="gravitas.*Did you mean gravity"):
        params.replace(gravitas=1.0)
    with pytest.raises(TypeError, match="are not those of CartPole-v1"):
        env.reset(jax.random.key(0), make("Pendulum-v1")[1])
    with pytest.raises(ValueError, match="Did you mean CartPole-v1"):
        make("CartPole-v2")
    with pytest.raises(ValueError, match="leave out env_name"):
        RolloutWrapper(env=env, env_name="CartPole-v1")
    assert isinstance(params, EnvParams) and params.gravity == pytest.approx(9.8)


def test_the_wrappers_and_spaces_of_the_real_gymnax_accept_it():
    gymnax = pytest.importorskip("gymnax", reason="gymnax is not installed")
    if not hasattr(pytest.importorskip("gymnax.wrappers"), "LegacyStepAPIWrapper"):
        pytest.skip("gymnax is older than 1.0")
    from gymnax.experimental import RolloutWrapper as Theirs
    from gymnax.wrappers.purerl import FlattenObservationWrapper, LogWrapper

    env, params = make("CartPole-v1")
    theirs, their_params = gymnax.make("CartPole-v1")
    assert isinstance(env.action_space(params), gymnax.environments.spaces.Discrete)
    assert isinstance(env.observation_space(params), gymnax.environments.spaces.Box)
    logged = LogWrapper(FlattenObservationWrapper(env))
    their_logged = LogWrapper(FlattenObservationWrapper(theirs))
    for each, each_params in ((logged, params), (their_logged, their_params)):
        _, state = each.reset(jax.random.key(0), each_params)
        for t in range(60):
            *step, info = each.step(jax.random.key(t), state, 1, each_params)
            state = step[1]
        assert info["returned_episode_lengths"] > 5
    rollout = Theirs(env=env, env_params=params, num_env_steps=30)
    ours = RolloutWrapper(env=env, num_env_steps=30)
    for one, other in zip(
        rollout.single_rollout(jax.random.key(0), None), ours.single_rollout(jax.random.key(0), None), strict=True
    ):
        assert one.shape == other.shape and one.dtype == other.dtype
    assert "gymnax" in sys.modules


def played(env, params, steps, action=1):
    """The values of each step from the same keys, as NumPy arrays; the last has the state of the whole episode."""
    obs, state = env.reset(jax.random.key(0), params)
    rows = []
    for t in range(steps):
        obs, state, *rest = env.step(jax.random.key(t), state, action, params)
        rows.append((obs, *rest))
    return rows, state


@pytest.mark.parametrize("face", [gymnax_face, legacy], ids=["1.x", "0.0.x"])
def test_a_program_of_each_generation_logs_and_scans(face):
    env, params = face.make("CartPole-v1")
    env = LogWrapper(FlattenObservationWrapper(env))

    def policy_step(loop, _):
        obs, state, key = loop
        key, k_step, k_act = jax.random.split(key, 3)
        action = env.action_space(params).sample(k_act)
        obs, state, reward, *ends, info = env.step(k_step, state, action, params)
        return (obs, state, key), (reward, sum(ends) > 0, info)

    obs, state = env.reset(jax.random.key(0), params)
    (_, state, _), (reward, done, info) = jax.lax.scan(policy_step, (obs, state, jax.random.key(1)), length=200)
    ends = np.flatnonzero(done)
    lengths = np.diff(ends, prepend=-1)
    np.testing.assert_array_equal(info["returned_episode_lengths"][ends], lengths)
    np.testing.assert_array_equal(info["returned_episode_returns"][ends], lengths)  # every step is worth 1
    np.testing.assert_array_equal(info["returned_episode"], done)
    assert not info["returned_episode_valid"][ends[0] - 1] and info["returned_episode_valid"][ends[0] :].all()
    assert state.episode_lengths == 199 - ends[-1] and env.name == "CartPole-v1" and env.num_actions == 2
    assert len(env.step(jax.random.key(0), state, 0, params)) == (6 if face is gymnax_face else 5)


def test_names_and_classes_are_gymnaxs():
    assert len(registered_envs) == 26
    for name in registered_envs:
        made, params = make(name)
        assert made.name == name and made.reset(jax.random.key(0), params)[1].time == 0
    classes = gymnax_face.environments
    assert {classes.CartPole().name, classes.Pong(max_steps=7).name} == {"CartPole-v1", "Pong-misc"}
    assert classes.Pong(max_steps=7).default_params.max_steps_in_episode == 7
    assert set(classes.NAMES.values()) == set(registered_envs)
    with pytest.raises(AttributeError, match="no environment 'Chess': Acrobot"):
        _ = classes.Chess
    gymnax = pytest.importorskip("gymnax", reason="gymnax is not installed")
    assert gymnax.registered_envs == registered_envs
    missing = {*gymnax.environments.__all__} - {*classes.NAMES, *classes.__all__}
    assert not missing


def test_games_of_minatar_have_gymnaxs_time_limit_under_gymnaxs_names():
    """gymnax 1.0.1: 1,000 steps, and 2,500 in Freeway. Programs scan over so many steps."""
    limits = {name: make(name)[1].max_steps_in_episode for name in registered_envs if "MinAtar" in name}
    assert {int(limit) for name, limit in limits.items() if "Freeway" not in name} == {1000}
    assert limits["Freeway-MinAtar"] == 2500 and make("MinAtar/Breakout-v1")[1].max_steps_in_episode is None
    assert make("Breakout-MinAtar", max_steps_in_episode=7)[1].max_steps_in_episode == 7


def test_a_registered_factory_is_made_with_its_fields():
    register("Short-v0", lambda **fields: shoal.make("CartPole-v1", max_steps=5, **fields))
    register("Shorter-v0", lambda: make("CartPole-v1", max_steps=3)[0])
    try:
        assert make("Short-v0", gravity=5.0)[1].gravity == 5 and make("Shorter-v0")[1].max_steps_in_episode == 3
        assert registered_envs[-2:] == ["Short-v0", "Shorter-v0"]
        for name, factory, error, says in (
            ("Short-v0", dict, ValueError, "'Short-v0' is taken"),
            ("CartPole-v1", dict, ValueError, "is taken"),
            ("", dict, ValueError, "is empty"),
            ("New-v0", 3, TypeError, "a function or class, not 'New-v0' and 3"),
        ):
            with pytest.raises(error, match=says):
                register(name, factory)
    finally:
        for name in ("Short-v0", "Shorter-v0"):
            registered_envs.remove(name)
            gymnax_face.face._factories.pop(name)


def test_what_is_registered_has_the_calls_of_the_generation_that_makes_it():
    legacy.register("Shortest-v0", lambda: make("CartPole-v1", max_steps=1)[0])
    try:
        for face, values in ((gymnax_face, 6), (legacy, 5)):
            env, params = face.make("Shortest-v0")
            _, state = env.reset(jax.random.key(0), params)
            assert len(env.step(jax.random.key(0), state, 0, params)) == values
    finally:
        registered_envs.remove("Shortest-v0")
        gymnax_face.face._factories.pop("Shortest-v0")


def test_many_environments_of_gymnasium_begin_from_a_seed_and_reset_in_the_same_step():
    env, params = make("CartPole-v1", max_steps_in_episode=2)
    envs = GymnaxToVectorGymWrapper(env, 3, params.replace(gravity=1.0), seed=4)
    assert envs.env.gravity == 1 and envs.action_space.shape == (3,)
    envs.step(np.ones(3, int))
    obs, _, terminated, truncated, info = envs.step(np.ones(3, int))
    assert truncated.all() and not terminated.any() and (np.abs(obs) <= 0.05).all()
    assert all(np.abs(final).max() > 0.05 for final in info["final_obs"])
    again = GymnaxToVectorGymWrapper(env, 3, params.replace(gravity=1.0), seed=4)
    again.step(np.ones(3, int))
    np.testing.assert_array_equal(again.step(np.ones(3, int))[0], obs)


@pytest.mark.parametrize("face", [gymnax_face, legacy], ids=["1.x", "0.0.x"])
def test_time_steps_have_dm_envs_names_and_can_be_scanned(face):
    made, params = face.make("CartPole-v1", max_steps=3)
    env = GymnaxToDmEnvWrapper(made)

    def step(before, key):
        after = env.step(key, before, 1, params)
        return after, after

    _, steps = jax.lax.scan(step, env.reset(jax.random.key(0), params), jax.random.split(jax.random.key(1), 7))
    last = 1.0 if face is gymnax_face else 0.0  # of a time limit
    np.testing.assert_array_equal(steps.discount, [1, 1, last, 1, 1, last, 1])
    np.testing.assert_array_equal(steps.reward, np.ones(7))
    assert (np.abs(steps.observation[2]) <= 0.05).all()
    assert np.array_equal(steps.final_observation[2], steps.observation[2]) == (face is legacy)


def test_the_other_wrappers_keep_their_promises():
    env, params = make("CartPole-v1", max_steps_in_episode=2)
    (_, (_, _, done, info)), _ = played(LegacyStepAPIWrapper(env), params, 2)
    assert done and info["truncated"] and not info["terminated"]
    plain, _ = played(env, params, 2)
    for sticky, same in ((StickyActionWrapper(env, 0.0), True), (StickyActionWrapper(env, 1.0), False)):
        rows, state = played(sticky, params, 2)
        assert state.last_action == (1 if same else 0)  # an episode begins with action 0
        assert rows[0][3].shape == () and len(rows[0]) == len(plain[0])
    with pytest.raises(ValueError, match="no probability"):
        StickyActionWrapper(env, 1.5)
    with pytest.raises(ValueError, match="discrete actions, which Pendulum-v1"):
        StickyActionWrapper(make("Pendulum-v1")[0], 0.1)
    images = FlattenObservationWrapper(make("Breakout-MinAtar")[0])
    assert images.observation_space().shape == (400,) == images.reset(jax.random.key(0))[0].shape
    gym = GymnaxToGymWrapper(env, params.replace(gravity=1.0), seed=3)
    assert gym.action_space.n == 2 and len(gym.step(1)) == 5


def test_gradients_pass_through_steps():
    env, params = make("Pendulum-v1")
    env = env.with_transition_gradients()
    _, state = env.reset(jax.random.key(0), params)

    def velocity(torque):
        return env.step(jax.random.key(1), state, jnp.reshape(torque, 1), params)[1].theta_dot

    assert jax.grad(velocity)(0.5) == pytest.approx(3 * 0.05, rel=1e-5)  # 3 dt / (m l^2)
    with pytest.raises(ValueError, match="CartPole-v1 has no gradients of its steps"):
        make("CartPole-v1")[0].with_transition_gradients()


@pytest.mark.parametrize("face", [gymnax_face, legacy], ids=["1.x", "0.0.x"])
def test_gradients_of_a_return_are_finite_differences(face):
    """Also without gymnax's opt-in, and through the automatic reset at the end of the first 5 steps."""
    env, params = face.make("Pendulum-v1", max_steps=5)

    @jax.jit
    def total(torques):
        def step(state, pair):
            torque, key = pair
            _, state, reward, *_ = env.step(key, state, torque[None], params)
            return state, reward

        _, state = env.reset(jax.random.key(0), params)
        return jax.lax.scan(step, state, (torques, jax.random.split(jax.random.key(1), 8)))[1].sum()

    torques = jnp.linspace(-1.0, 1.0, 8)
    slopes = [(total(torques.at[t].add(0.05)) - total(torques.at[t].add(-0.05))) / 0.1 for t in range(8)]
    gradient = jax.grad(total)(torques)
    np.testing.assert_allclose(gradient, slopes, rtol=2e-2, atol=2e-3)
    assert np.abs(gradient[:4]).min() > 1e-3


def test_an_episode_becomes_an_animation(tmp_path):
    from PIL import Image

    env, params = make("CartPole-v1")
    logged, states = LogWrapper(env), []
    _, state = logged.reset(jax.random.key(0), params)
    for t in range(5):
        states.append(state)
        _, state, *_ = logged.step(jax.random.key(t), state, 1, params)
    with Image.open(Visualizer(logged, params, states, np.arange(5)).animate(tmp_path / "a.gif")) as picture:
        assert picture.n_frames == 5 and picture.size == (600, 400)
    for wrong in ({"save_fname": "a.mp4"}, {"save_fname": None}, {"view": True}):
        with pytest.raises(ValueError, match="writes a GIF"):
            Visualizer(env, params, states).animate(**wrong)
