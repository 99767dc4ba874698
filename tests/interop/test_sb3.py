"""Stable-Baselines3 trains in shoal's environments. Skipped where it is missing: `./setup dev` does not install it."""

import jax
import numpy as np
import pytest

sb3 = pytest.importorskip("stable_baselines3", reason="stable_baselines3 is not installed")
from shoal.interop.sb3 import SB3VecEnv  # noqa: E402  # needs stable_baselines3


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def test_ends_are_reported_as_stable_baselines_expects():
    env = SB3VecEnv("CartPole-v1", 3, max_steps=4)
    env.seed(0)
    first = env.reset()
    for _ in range(3):
        obs, rewards, done, infos = env.step(np.array([0, 1, 0]))
        assert not done.any() and infos == [{}, {}, {}]
    obs, rewards, done, infos = env.step(np.array([0, 1, 0]))
    assert done.all() and rewards.dtype == np.float32 and np.abs(obs).max() <= 0.05
    assert [(info["episode"]["r"], info["episode"]["l"]) for info in infos] == [(4.0, 4)] * 3
    assert all(info["TimeLimit.truncated"] and np.abs(info["terminal_observation"]).max() > 0.05 for info in infos)
    env.seed(0)
    np.testing.assert_array_equal(env.reset(), first)
    with pytest.raises(TypeError, match="make another SB3VecEnv with gravity=1"):
        env.set_attr("gravity", 1)
    assert env.get_attr("num_envs") == [3, 3, 3] and env.env_is_wrapped(object) == [False] * 3
    env.close()
    env.close()


def test_what_a_step_reports_is_in_the_info_of_each_environment():
    env = SB3VecEnv("Taxi-v4", 3)
    env.seed(0)
    env.reset()
    *_, infos = env.step(np.array([0, 1, 2]))
    masks = np.array([info["action_mask"] for info in infos])
    assert masks.shape == (3, 6) and len({tuple(mask) for mask in masks.tolist()}) > 1


def test_returns_are_logged_and_masks_are_found():
    env = SB3VecEnv("Taxi-v4", 3)
    assert env.has_attr("action_masks") and not SB3VecEnv("CartPole-v1", 1).has_attr("action_masks")
    env.seed(0)
    env.reset()
    *_, infos = env.step(np.array([0, 1, 2]))
    masks = np.stack(env.env_method("action_masks"))
    np.testing.assert_array_equal(masks, [info["action_mask"] for info in infos])
    assert masks.dtype == bool
    model = sb3.PPO("MlpPolicy", SB3VecEnv("CartPole-v1", 2), n_steps=64, device="cpu").learn(128)
    assert len(model.ep_info_buffer) > 2 and model.ep_info_buffer[0]["l"] >= 8


def test_maskable_ppo_learns_with_the_masks():
    contrib = pytest.importorskip("sb3_contrib", reason="sb3_contrib is not installed")
    contrib.MaskablePPO("MlpPolicy", SB3VecEnv("Taxi-v4", 2), n_steps=16, device="cpu").learn(32)


def test_a_vec_monitor_counts_the_same_episodes_and_writes_them(tmp_path):
    """`VecMonitor` is not needed, and does no harm: returns and lengths are those of SB3VecEnv itself."""
    env = sb3.common.vec_env.VecMonitor(SB3VecEnv("CartPole-v1", 2), str(tmp_path / "log"))
    env.seed(0)
    env.reset()
    alone = SB3VecEnv("CartPole-v1", 2)
    alone.seed(0)
    alone.reset()
    found = []
    for t in range(60):
        actions = np.array([t % 2, 1])
        *_, infos = env.step(actions)
        *_, expected = alone.step(actions)
        for info, other in zip(infos, expected, strict=True):
            assert ("episode" in info) == ("episode" in other)
            if "episode" in info:
                assert [info["episode"][name] for name in "rl"] == [other["episode"][name] for name in "rl"]
                found.append(info["episode"]["l"])
    env.close()
    assert len(found) > 5 and len((tmp_path / "log.monitor.csv").read_text().splitlines()) == len(found) + 2


def test_maskable_ppo_takes_allowed_actions_also_behind_a_vec_monitor():
    contrib = pytest.importorskip("sb3_contrib", reason="sb3_contrib is not installed")
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

    env = sb3.common.vec_env.VecMonitor(SB3VecEnv("Taxi-v4", 4))
    assert is_masking_supported(env)
    assert not is_masking_supported(sb3.common.vec_env.VecMonitor(SB3VecEnv("CartPole-v1", 1)))
    model = contrib.MaskablePPO("MlpPolicy", env, n_steps=16, seed=0, device="cpu").learn(64)
    obs, forbidden = env.reset(), 0
    for _ in range(30):
        masks = get_action_masks(env)
        actions, _ = model.predict(obs, action_masks=masks)
        assert masks.shape == (4, 6) and masks[np.arange(4), actions].all()
        forbidden += (~masks).sum()
        obs = env.step(actions)[0]
    assert forbidden > 100  # so a policy without masks would have taken one


def test_the_final_observation_of_a_dict_is_a_dict():
    env = SB3VecEnv("MiniGrid-Empty-5x5-v0", 2, max_steps=2)
    env.reset()
    env.step(np.array([1, 1]))
    *_, infos = env.step(np.array([1, 1]))
    assert {name: x.shape for name, x in infos[1]["terminal_observation"].items()}["image"] == (7, 7, 3)


@pytest.mark.slow
def test_ppo_of_stable_baselines_learns_cartpole():
    model = sb3.PPO("MlpPolicy", SB3VecEnv("CartPole-v1", 8), n_steps=128, seed=0, device="cpu")
    model.learn(60_000)
    returns, _ = sb3.common.evaluation.evaluate_policy(
        model, SB3VecEnv("CartPole-v1", 8), n_eval_episodes=20, return_episode_rewards=True, warn=False
    )
    assert np.mean(returns) > 350


@pytest.mark.slow
def test_dict_observations_and_continuous_actions_are_accepted():
    sb3.PPO("MultiInputPolicy", SB3VecEnv("MiniGrid-Empty-5x5-v0", 4), n_steps=16, device="cpu").learn(64)
    sb3.SAC("MlpPolicy", SB3VecEnv("Pendulum-v1", 4), learning_starts=20, device="cpu").learn(80)
    with pytest.raises(ValueError, match="knows no Tuple"):
        SB3VecEnv("Blackjack-v1", 2)
