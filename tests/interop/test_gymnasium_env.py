"""Shoal's environments as Gymnasium's: one, and many in one call."""

import json
import os
import pickle
import re
import subprocess
import sys
import time
import warnings

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, NormalizeObservation, RecordEpisodeStatistics

import shoal
import shoal.gym
from shoal.core.keys import make_key
from shoal.core.registry import ENVS
from shoal.core.struct import struct
from shoal.grid.cells import cell
from shoal.grid.layout import empty_room
from shoal.grid.level import GridState, SquareLevel, begin
from shoal.grid.new_kinds import NewKind
from shoal.interop.gymnasium_env import ShoalEnv
from shoal.interop.gymnasium_ids import gymnasium_id
from shoal.interop.gymnasium_vector import ShoalVectorEnv
from shoal.interop.missions import TextMissions


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", sorted(ENVS))
def test_gymnasium_accepts_every_environment(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice about ranges of boxes
        env = gymnasium.make(gymnasium_id(name)).unwrapped
        check_env(env, skip_render_check=True)
        env.close()


def test_every_name_has_an_id():
    assert {gymnasium_id(name) for name in ENVS} <= {name for name in gymnasium.registry if name.startswith("shoal/")}


def test_wrappers_of_gymnasium_find_the_time_limit():
    env = gymnasium.make("shoal/CartPole-v1", max_steps=7)
    assert env.spec.max_episode_steps == 7 and ShoalEnv("CartPole-v1").spec is None
    obs, _ = gymnasium.wrappers.TimeAwareObservation(env).reset(seed=0)
    assert obs.shape == (5,)
    assert gymnasium.make("shoal/CartPole-v1", max_episode_steps=3).spec.max_episode_steps == 3
    assert gymnasium.make_vec("shoal/CartPole-v1", num_envs=2).spec.max_episode_steps == 500
    assert pickle.loads(pickle.dumps(env.unwrapped)).spec.max_episode_steps == 7


def test_an_episode_is_that_of_the_environment_itself():
    env, wrapped = shoal.make("MiniGrid-Dynamic-Obstacles-6x6-v0"), ShoalEnv("MiniGrid-Dynamic-Obstacles-6x6-v0")
    key, k_init = jax.random.split(make_key(7))
    state = env.init(k_init)
    obs, _ = wrapped.reset(seed=7)
    rng = np.random.default_rng(0)
    for _ in range(100):
        jax.tree.map(np.testing.assert_array_equal, obs, dict(env.observe(state)))
        action = int(rng.integers(3))
        key, k_noise = jax.random.split(key)
        state, *outcome, _ = env.advance(state, jax.numpy.int32(action), env.noise(k_noise))
        obs, *found, _ = wrapped.step(action)
        assert found == [x.item() for x in outcome]
        if outcome[1] or outcome[2]:
            break
    assert outcome[1] or outcome[2]


def test_a_seed_repeats_all_episodes_and_no_seed_continues():
    def episodes(env, seed):
        obs, rows = env.reset(seed=seed)[0], []
        for _ in range(3):
            rows.append(obs)
            while not (env.step(0)[2]):
                pass
            obs = env.reset()[0]
        return np.array(rows)

    env = ShoalEnv("CartPole-v1")
    first, again, other = episodes(env, 3), episodes(env, 3), episodes(env, 4)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(np.concatenate([first, other]), axis=0)) == 6


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_many_in_one_call_return_what_gymnasiums_loop_over_single_ones_returns(mode):
    """Until the first reset of each, whose first state comes from the bank, all numbers are equal."""
    many = ShoalVectorEnv("CartPole-v1", 5, mode, max_steps=12)
    loop = SyncVectorEnv([lambda: ShoalEnv("CartPole-v1", max_steps=12)] * 5, autoreset_mode=mode)
    assert many.metadata["autoreset_mode"] is mode
    seeds = [3, 1, 4, 1, 5]
    obs, expected = many.reset(seed=seeds)[0], loop.reset(seed=seeds)[0]
    same = np.ones(5, bool)  # environments in their first episode
    rng = np.random.default_rng(0)
    ended = np.zeros(5, bool)
    resets = 0
    for _ in range(60):
        np.testing.assert_allclose(obs[same], expected[same], rtol=1e-5, atol=1e-6)
        assert obs.dtype == expected.dtype and obs.shape == expected.shape
        actions = rng.integers(2, size=5)
        if mode is AutoresetMode.DISABLED and ended.any():
            obs, info = many.reset(options={"reset_mask": ended})
            assert np.abs(obs[ended]).max() <= 0.05  # first observations
            expected, _ = loop.reset(options={"reset_mask": ended})
            same &= ~ended
        before = ended
        obs, reward, terminated, truncated, info = many.step(actions)
        expected, *outcome, expected_info = loop.step(actions)
        ended = terminated | truncated
        for found, value in zip((reward, terminated, truncated), outcome, strict=True):
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(found[same], value[same])
        if mode is AutoresetMode.NEXT_STEP:
            assert (reward[before] == 0).all() and not ended[before].any() and (np.abs(obs[before]) <= 0.05).all()
            same &= ~before
        if mode is AutoresetMode.SAME_STEP and ended.any():
            np.testing.assert_array_equal(info["_final_obs"], ended)
            for e in np.flatnonzero(ended & same):
                np.testing.assert_allclose(info["final_obs"][e], expected_info["final_obs"][e], rtol=1e-5, atol=1e-6)
            assert (np.abs(obs[ended]) <= 0.05).all() and all(x is None for x in info["final_obs"][~ended])
            same &= ~ended
        resets += ended.sum()
        if not same.any():
            obs, expected = many.reset(seed=seeds)[0], loop.reset(seed=seeds)[0]
            same, ended = np.ones(5, bool), np.zeros(5, bool)
    assert resets >= 10


def test_the_bank_of_first_states_is_drawn_again_before_it_is_used_up():
    env = ShoalVectorEnv("CartPole-v1", 3, "SameStep", max_steps=1)
    env.reset(seed=0)
    firsts = np.concatenate([env.step(np.zeros(3, int))[0] for _ in range(50)])
    assert len(np.unique(firsts, axis=0)) == 150


def test_what_an_environment_keeps_over_episodes_is_kept():
    single, many = ShoalEnv("bsuite/bandit/0"), ShoalVectorEnv("bsuite/bandit/0", 2, "SameStep")
    single.reset(seed=5)
    many.reset(seed=5)
    for _ in range(3):
        single.step(0)
        single.reset()
        many.step(np.zeros(2, int))

    def regrets(env):
        return np.asarray(jax.tree.unflatten(env._structure, env._state).missed)

    assert single.state.missed > 0
    np.testing.assert_allclose(regrets(many), np.repeat(single.state.missed, 2))
    single.reset(seed=5)
    many.reset(seed=5)
    assert single.state.missed == 0 and (regrets(many) == 0).all()


def test_gymnasiums_vector_wrappers_work():
    env = RecordEpisodeStatistics(ShoalVectorEnv("CartPole-v1", 4, "NextStep"))
    env = DictInfoToList(NormalizeObservation(env))
    env.reset(seed=0)
    lengths = []
    for _ in range(100):
        infos = env.step(env.action_space.sample())[-1]
        lengths += [info["episode"]["l"] for info in infos if "episode" in info]
    assert len(lengths) >= 8 and np.mean(lengths) > 8


@struct
class Coins(SquareLevel):
    """A room with a coin in its corner, which MiniGrid does not have."""

    kinds = (NewKind("coin", 11, portable=True),)
    task = "get the coin"
    time_limit = property(lambda self: 20)

    def init(self, key):
        del key
        grid = empty_room(*self.shape)
        grid[1, 1] = cell(self.kinds[0], "yellow")
        return GridState(**begin(grid, 2, 2, 2))


def test_texts_of_missions_name_the_objects_that_a_level_declares():
    env = TextMissions(ShoalEnv(Coins()))
    obs, _ = env.reset(seed=0)
    assert obs["mission"] == "get the coin" and env.observation_space.contains(obs)
    assert obs["image"].max() == 11


def test_missions_can_be_texts_for_the_wrappers_of_minigrid():
    wrappers = pytest.importorskip("minigrid.wrappers")
    inner = gymnasium.make("shoal/MiniGrid-GoToDoor-5x5-v0")
    env = TextMissions(inner)
    obs, _ = env.reset(seed=0)
    assert obs["mission"] == inner.unwrapped.env.mission_text(inner.unwrapped.state)
    assert re.fullmatch(r"go to the \w+ door", obs["mission"]) and env.observation_space.contains(obs)
    words = wrappers.DictObservationSpaceWrapper(env).reset(seed=0)[0]["mission"]  # MiniGrid's own word numbers
    np.testing.assert_array_equal(words[:5], inner.reset(seed=0)[0]["mission"])
    assert wrappers.FlatObsWrapper(env).reset(seed=0)[0].ndim == 1
    empty = TextMissions(gymnasium.make("shoal/MiniGrid-Playground-v0"))
    assert empty.observation_space["mission"].contains("")  # it has no mission
    with pytest.raises(TypeError, match="needs missions as word numbers"):
        TextMissions(gymnasium.make("CartPole-v1"))


def test_an_adapter_continues_in_another_process_where_it_was():
    env = ShoalEnv("CartPole-v1")
    env.reset(seed=1)
    env.step(1)
    copy = pickle.loads(pickle.dumps(env))
    for _ in range(5):
        for one, other in zip(env.step(0), copy.step(0), strict=True):
            np.testing.assert_array_equal(one, other)
    for e in (env, copy):
        e.reset()
    np.testing.assert_array_equal(env.step(1)[0], copy.step(1)[0])
    many = ShoalVectorEnv("CartPole-v1", 3, max_steps=2)
    pickle.loads(pickle.dumps(many)).reset(seed=0)  # before the first reset
    many.reset(seed=np.array([4, 5, 6]))
    many.step([0, 1, 0])
    copy = pickle.loads(pickle.dumps(many))
    for _ in range(60):  # the bank of first states is drawn again meanwhile
        for one, other in zip(many.step([1, 1, 0])[:4], copy.step([1, 1, 0])[:4], strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_forked_process_says_what_to_do_instead_of_hanging(monkeypatch):
    env, many = ShoalEnv("CartPole-v1"), ShoalVectorEnv("CartPole-v1", 2)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (env.reset, many.reset, lambda: ShoalEnv("CartPole-v1")):
        with pytest.raises(RuntimeError, match="forked from one in which JAX runs.*'context': 'spawn'"):
            call()


SUBPROCESSES = """
import gymnasium, numpy as np, shoal.gym
if __name__ == "__main__":
    env = gymnasium.make_vec("shoal.gym:shoal/CartPole-v1", 2, "async", {"context": "spawn"})
    obs, _ = env.reset(seed=3)
    print(obs.shape, env.step(np.array([0, 1]))[1].tolist())
    env.close()
"""


@pytest.mark.slow
def test_gymnasiums_subprocesses_step_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SUBPROCESSES)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200)
    assert done.stdout.strip() == "(2, 4) [1.0, 1.0]", done.stderr[-2000:]
    script.write_text(SUBPROCESSES.replace("spawn", "fork"))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200)
    assert done.returncode != 0 and "this process was forked from one in which JAX runs" in done.stderr


def test_pictures_and_masks_are_given():
    env = gymnasium.make("shoal/Taxi-v4", render_mode="rgb_array")
    _, info = env.reset(seed=0)
    assert env.render().dtype == np.uint8 and env.render().ndim == 3
    assert ("action_mask" in info) == (env.unwrapped.env.action_mask(env.unwrapped.env.init(make_key(0))) is not None)
    many = ShoalVectorEnv("CartPole-v1", 2, render_mode="rgb_array")
    many.reset(seed=0)
    assert len(many.render()) == 2 and many.render()[0].shape == many.render()[1].shape


def test_constants_that_are_nan_are_refused_and_a_state_that_turns_nan_is_said():
    made = jax.jit(lambda g: shoal.make("Pendulum-v1").replace(g=g))(np.nan)
    for adapter in (ShoalEnv, lambda env, **fields: ShoalVectorEnv(env, 2, **fields), shoal.gym.ShoalFuncEnv):
        for env, fields in ((made, {}), ("Pendulum-v1", {"g": np.nan})):
            with pytest.raises(ValueError, match=r"Pendulum\.g=nan is out of range"):
                adapter(env, **fields)
    massless = {"mass_cart": 0.0, "mass_pole": 0.0}  # one is divided by their sum
    for env in (ShoalEnv("CartPole-v1", **massless), ShoalVectorEnv("CartPole-v1", 2, **massless)):
        env.reset(seed=0)
        with pytest.warns(UserWarning, match="a reward is NaN"):
            rewards = env.step(env.action_space.sample())[1]
        assert np.isnan(rewards).all()


def test_a_window_shows_the_state(monkeypatch):
    pygame = pytest.importorskip("pygame", reason="Gymnasium's window needs pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = ShoalEnv("CartPole-v1", render_mode="human")
    env.reset(seed=0)
    env.step(1)
    shown = pygame.surfarray.array3d(env._window).swapaxes(0, 1)
    np.testing.assert_array_equal(shown, env._picture())
    env.close()
    env.close()


def test_wrong_calls_are_explained():
    env = ShoalEnv("CartPole-v1")
    with pytest.raises(gymnasium.error.ResetNeeded, match="before the first reset"):
        env.step(0)
    with pytest.raises(TypeError, match=r"seed=1\.5 is of type float"):
        env.reset(seed=1.5)
    with pytest.raises(gymnasium.error.ResetNeeded, match="no state before the first reset"):
        _ = env.state
    env.reset(seed=0)
    for action in (2, -1, 0.5, None, "left", np.array([0]), np.array(7)):
        with pytest.raises(gymnasium.error.InvalidAction, match=r"not in the action space Discrete\(2\)"):
            env.step(action)
    for action in (np.array(1), np.uint8(1), jax.numpy.int32(0)):  # as policies return it
        env.step(action)
    while not env.step(0)[2]:
        pass
    with pytest.raises(gymnasium.error.ResetNeeded, match="after the end of an episode"):
        env.step(0)
    pendulum = ShoalEnv("Pendulum-v1")
    pendulum.reset(seed=0)
    wrong = {
        "shape (3,) and dtype float32": np.zeros(3, np.float32),
        "shape (1,) and dtype float64": np.zeros(1),
        "dtype float32 is not in the action space Box(-2.0, 2.0": np.array([2.5], np.float32),
    }
    before = pendulum.state
    for message, action in wrong.items():
        with pytest.raises(gymnasium.error.InvalidAction, match=re.escape(message)):
            pendulum.step(action)
    jax.tree.map(np.testing.assert_array_equal, pendulum.state, before)  # a refused action changes nothing
    with pytest.raises(ValueError, match="Choose None, 'rgb_array' or 'human'"):
        ShoalEnv("CartPole-v1", render_mode="ansi")
    with pytest.raises(ValueError, match="Did you mean CartPole-v1"):
        ShoalEnv("CartPole-v2")
    with pytest.raises(TypeError, match="give fields to the environment itself"):
        ShoalEnv(shoal.make("CartPole-v1"), gravity=1.0)
    env.close()
    env.close()


@pytest.mark.parametrize("seed", [0, list(range(10_000)), [None, *range(1, 10_000)], np.arange(10_000)])
def test_a_seed_for_ten_thousand_environments_takes_no_longer_than_none(seed):
    env = ShoalVectorEnv("CartPole-v1", 10_000)
    began = time.process_time()
    obs, _ = env.reset(seed=seed)
    assert time.process_time() - began < 10  # a compiled stack of 10,000 keys took 187 s
    one = ShoalVectorEnv("CartPole-v1", 1)
    np.testing.assert_array_equal(obs[9_999:], one.reset(seed=9_999)[0])


def test_wrong_calls_of_many_are_explained():
    env = ShoalVectorEnv("CartPole-v1", 3, "Disabled", max_steps=2)
    with pytest.raises(gymnasium.error.ResetNeeded, match="before the first reset"):
        env.step(np.zeros(3, int))
    with pytest.raises(ValueError, match="2 seeds were given for 3 environments"):
        env.reset(seed=[1, 2])
    env.reset(seed=0)
    for actions in (np.zeros(2, int), np.array([0, 1, 2]), np.zeros(3), 0):
        with pytest.raises(gymnasium.error.InvalidAction, match=r"action space|needs an action for each of 3"):
            env.step(actions)
    env.step(np.zeros(3, int))
    env.step(np.zeros(3, int))
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"3 environments are over.*reset_mask"):
        env.step(np.zeros(3, int))
    for flags, message in (([True] * 3, "NumPy array of 3 booleans"), (np.zeros(3, bool), "flags no environment")):
        with pytest.raises(ValueError, match=message):
            env.reset(options={"reset_mask": flags})
    for count, shown in ((0, "0"), (10**9, "1000000000"), (10**5_000, "a number of more than 40 digits")):
        with pytest.raises(ValueError, match=f"num_envs={shown} must be at least 1 and at most 16,777,216"):
            ShoalVectorEnv("CartPole-v1", count)
    with pytest.raises(ValueError, match="'Sometimes' is unknown. Choose NextStep, SameStep or Disabled"):
        ShoalVectorEnv("CartPole-v1", 2, "Sometimes")
    for seed in (1.5, "a", True, [1, 2.5, 3]):
        with pytest.raises(TypeError, match="a seed is an integer"):
            env.reset(seed=seed)
    env.close()
    env.close()


def test_registering_imports_neither_jax_nor_an_environment():
    program = (
        "import json, sys, shoal.gym; "
        "print(json.dumps([n for n in sys.modules if n == 'jax' or n.startswith('shoal.envs')]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert json.loads(done.stdout) == []
