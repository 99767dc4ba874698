"""Environments of EnvPool in shoal, compared with EnvPool's own steps, and with a small one in its form."""

import importlib.util
import shutil

import jax
import numpy as np
import pytest

import shoal
from other_libraries import library, small_envpool
from shoal.core.checks import check_env
from shoal.core.errors import UnknownNameError
from shoal.core.spaces import Box, Discrete
from shoal.interop.sources import envpool as source
from shoal.training import checkpoint
from shoal.training.host_envs import HostEnvs
from tiny import FIELDS, SILENT

needs_envpool = library("envpool")
pytestmark = pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision")  # EnvPool writes such bounds


@pytest.fixture
def small(monkeypatch):
    """A small module in the place of EnvPool."""
    module = small_envpool()
    monkeypatch.setattr(source, "_envpool", lambda purpose: module)
    source.properties_of.cache_clear()
    yield
    source.properties_of.cache_clear()


def test_results_belong_to_their_environments_in_any_order(small):
    env = shoal.make("envpool/Counter-v0")
    assert env.observation_space == Box(0, 255, (5, 6, 3), np.uint8) and env.action_space == Discrete(3)
    pool = env.open_many(4)
    obs, mask = pool.reset(np.arange(4), [7, 8, 9, 10])  # the counters begin at 0, 1, 2, 3; each reset adds 10
    assert mask is None and obs.shape == (4, 5, 6, 3) and obs[:, 0, 0, 0].tolist() == [10, 11, 12, 13]
    assert obs[2, 4, 5].tolist() == [12, 13, 14]  # the channels come last
    obs, _, reward, terminated, truncated = pool.step(np.array([0, 1, 3]), np.array([0, 1, 2], np.int32))
    assert obs[:, 0, 0, 0].tolist() == reward.tolist() == [10, 12, 15] and reward.dtype == np.float64
    assert not terminated.any() and not truncated.any() and terminated.dtype == truncated.dtype == bool
    obs, _ = pool.reset(np.array([3]), [0])
    assert obs[:, 0, 0, 0].tolist() == [25]
    pool.close()
    pool.close()


def test_episodes_end_at_the_limit_and_begin_again(small):
    env = shoal.make("envpool/Counter-v0", max_steps=3)
    envs = HostEnvs(env, 3, (0, 0, 0))
    envs.begin()
    trajectory = envs.collect(lambda obs, mask, t: (np.ones(3, np.int32), {}), 4, 2, lambda done: None)
    np.testing.assert_array_equal(trajectory.truncated, [[False] * 3] * 2 + [[True] * 3, [False] * 3])
    np.testing.assert_array_equal(trajectory.final_obs[0, :, 0, 0, 0], trajectory.obs[2, :, 0, 0, 0] + 1)
    np.testing.assert_array_equal(trajectory.obs[3, :, 0, 0, 0], trajectory.final_obs[0, :, 0, 0, 0] + 10)
    assert envs.episodes.actions.shape == (3, 0)  # which are of no use to restore an episode
    assert envs.restore(envs.episodes, jax.tree.map(np.asarray, envs.env_states())) == [0, 1, 2]
    envs.close()


def test_what_shoal_cannot_hold_is_refused(small):
    with pytest.raises(TypeError, match="envpool/Duel-v0 has 2 players, and shoal's agents play alone"):
        shoal.make("envpool/Duel-v0")
    with pytest.raises(UnknownNameError, match=r"envpool/Count-v0.*Did you mean envpool/Counter-v0"):
        shoal.make("envpool/Count-v0")
    with pytest.raises(TypeError, match="no option 'colour': .*reward_clip"):
        source.EnvPoolEnv(id="Counter-v0", options=(("colour", 1),))
    assert source.EnvPoolEnv(id="Counter-v0", options=(("reward_clip", True),)).max_steps == 5


@pytest.mark.skipif(importlib.util.find_spec("envpool") is not None, reason="EnvPool is installed")
def test_a_missing_envpool_is_said_in_one_line():
    with pytest.raises(
        ImportError, match=r"^envpool/Pong-v5 needs the package 'envpool', .*pip install 'shoal\[envpool\]'"
    ):
        shoal.make("envpool/Pong-v5")


def assert_same(ours, theirs):
    """Observations of shoal and of EnvPool [N] are equal, but for the axis of channels."""
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        moved = np.moveaxis(other, 1, -1) if other.ndim == 4 else other
        np.testing.assert_array_equal(one, moved.astype(one.dtype))


@needs_envpool
@pytest.mark.parametrize("name", ["CartPole-v1", "Pong-v5", "HalfCheetah-v5", "CheetahRun-v1"])
def test_every_step_is_envpools(name):
    """The same seeds and actions give the same observations, rewards and ends, also after the ends of episodes."""
    import envpool

    env = shoal.make(f"envpool/{name}", max_steps=12)
    ours = env.open_many(3)
    theirs = envpool.make(name, env_type="gymnasium", num_envs=3, env_seed=[5, 6, 7], max_episode_steps=12)
    obs, _ = ours.reset(np.arange(3), [5, 6, 7])
    expected, _ = theirs.reset()
    ends = np.zeros(3, bool)
    for t in range(30):
        assert_same(obs, expected)
        theirs.action_space.seed(t)
        action = np.stack([theirs.action_space.sample() for _ in range(3)]).astype(env.action_space.dtype)
        obs, _, reward, terminated, truncated = ours.step(np.arange(3), action)
        expected, *numbers, _ = theirs.step(action.astype(theirs.single_action_space.dtype), np.arange(3))
        assert_same(obs, expected)
        for one, other in zip((reward, terminated, truncated), numbers, strict=True):
            np.testing.assert_array_equal(one, other)
        if (done := terminated | truncated).all():  # after 12 steps, or 9 and more in CartPole
            ends |= done
            obs, expected = ours.reset(np.arange(3), [0, 0, 0])[0], theirs.reset()[0]
        elif done.any():
            ends |= done
            which = np.flatnonzero(done)
            assert_same(ours.reset(which, [0] * len(which))[0], theirs.reset(which.astype(np.int32))[0])
            obs, _, *_ = ours.step(np.arange(3), action)
            expected, *_ = theirs.step(action.astype(theirs.single_action_space.dtype), np.arange(3))
    assert ends.all()


@needs_envpool
@pytest.mark.parametrize("name", ["CartPole-v1", "Pong-v5", "HalfCheetah-v5", "CheetahRun-v1", "Taxi-v3"])
def test_environments_keep_the_rules(name):
    check_env(shoal.make(f"envpool/{name}"), steps=40)


@needs_envpool
def test_a_run_repeats_itself_and_a_resumed_one_says_that_it_begins_new_episodes(tmp_path, capsys):
    options = {"steps": 512, "records": 2, "evaluations": 0, "fields": FIELDS, **SILENT}
    runs = [shoal.train("ppo", "envpool/CartPole-v1", folder=tmp_path / name, **options) for name in "ab"]
    for curve in ("train_return", "loss"):
        np.testing.assert_array_equal(runs[0].curves[curve], runs[1].curves[curve])
    shutil.rmtree(checkpoint.newest(tmp_path / "b" / "checkpoints"))
    (tmp_path / "b" / "summary.json").unlink()
    capsys.readouterr()
    shoal.train(resume=tmp_path / "b", **{**SILENT, "progress": True})
    said = " ".join(capsys.readouterr().err.split())
    assert "environments did not come to their saved states" in said and "so they begin new episodes" in said


@needs_envpool
@pytest.mark.slow
def test_ppo_learns_cartpole(tmp_path):
    shoal.train("ppo", "envpool/CartPole-v1", steps=60_000, folder=tmp_path / "run", **SILENT)
    assert shoal.evaluate(tmp_path / "run", episodes=20).episode_return.mean() > 200  # a random policy gets about 20
