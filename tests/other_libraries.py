"""Packages of other libraries, which are not among the test requirements, and a small one in the form of gymnax."""

import collections
import contextlib
import importlib
import importlib.util
import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct


def library(package, extra=""):
    """A mark that skips the tests of a file, with the reason, where a package is not installed."""
    reason = f"{package} is not installed, so its environments are not tested: pip install 'shoal[{extra or package}]'"
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=reason)


class Absent:
    """Any class or function of a package that is not there. As a decorator it changes nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, decorated):
        return decorated


class EmptyModule(types.ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Absent,), {})


GYMNAX_PARTS = ("wrappers", "wrappers.purerl", "environments", "environments.spaces", "environments.environment")


@contextlib.contextmanager
def programs_for_legacy_gymnax(monkeypatch, folder, absent):
    """In this context, files in `folder` can be imported; they find shoal's module as gymnax 0.0.x.

    Packages named in `absent` that are not installed are empty modules: the programs import, but do not use them.
    """
    monkeypatch.setitem(sys.modules, "gymnax", importlib.import_module("shoal.interop.gymnax.legacy"))
    for part in GYMNAX_PARTS:
        monkeypatch.setitem(sys.modules, f"gymnax.{part}", importlib.import_module(f"shoal.interop.gymnax.{part}"))
    for name in absent:
        if "." in name or importlib.util.find_spec(name) is None:
            monkeypatch.setitem(sys.modules, name, EmptyModule(name))
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


class Discrete:
    """A space as gymnax has it."""

    def __init__(self, n):
        self.n, self.shape, self.dtype = n, (), jnp.int32


class Box:
    """The same."""

    def __init__(self, low, high, shape, dtype):
        self.low, self.high, self.shape, self.dtype = low, high, shape, dtype


class Text:
    """A space that shoal cannot hold."""


@struct.dataclass
class CorridorState:
    position: Any
    time: Any


@struct.dataclass
class CorridorParams:
    prize: float = 1.0
    slip: float = 0.0
    noisy: bool = False
    costs: tuple = (0.0, 0.0)
    max_steps_in_episode: int = 5


class Corridor:
    """Walk to the right end. The position is a Python number after a reset, and the space has the wrong dtype."""

    default_params = CorridorParams()

    def __init__(self, length: int = 4, start: Any = None):
        self.length = length

    def observation_space(self, params):
        return Box(0, 99, (2,), jnp.int32)

    def action_space(self, params):
        return Discrete(2)

    def reset_env(self, key, params):
        state = CorridorState(position=0, time=0)
        return self._obs(state), state

    def step_env(self, key, state, action, params):
        slips = jax.random.bernoulli(key, params.slip)
        position = jnp.maximum(state.position + jnp.where(slips, 0, 2 * action - 1), 0)
        state = CorridorState(position, state.time + 1)
        terminated = position >= self.length
        return self._obs(state), state, jnp.where(terminated, params.prize, 0), terminated, {"discount": 1.0}

    def _obs(self, state):
        return jnp.array([state.position, state.time], jnp.float32)


class Wordy(Corridor):
    """An environment with observations that shoal cannot hold."""

    def observation_space(self, params):
        return Text()


class Unsteady(Corridor):
    """An environment whose state is an integer after a reset, and a fraction after a step."""

    def step_env(self, key, state, action, params):
        state = CorridorState(state.position + 0.5, state.time + 1)
        return self._obs(state), state, 0.0, False, {}


def small_gymnax():
    """A module with the names of gymnax that shoal uses."""
    kinds = {"Corridor-v0": Corridor, "Wordy-v0": Wordy, "Unsteady-v0": Unsteady}
    module: Any = types.ModuleType("gymnax")
    module.registered_envs = [*kinds]
    module.make = lambda name, **arguments: ((env := kinds[name](**arguments)), env.default_params)
    return module


class SmallPool:
    """Counters in the form of EnvPool: two environments are shuffled in each result, as in its threads."""

    def __init__(self, num_envs, env_seed, max_episode_steps=5, **others):
        self.count = np.asarray(env_seed) % 7
        self.time, self.limit, self.others = np.zeros(num_envs, int), max_episode_steps, others

    def _result(self, env_id):
        order = env_id[::-1]
        picture = np.stack([np.full((5, 6), self.count[e], np.uint8) + np.arange(3)[:, None, None] for e in order])
        return order, picture.astype(np.uint8), {"env_id": order}

    def reset(self, env_id):
        self.time[env_id] = 0
        self.count[env_id] += 10
        _, picture, info = self._result(env_id)
        return picture, info

    def step(self, action, env_id):
        self.count[env_id] += action
        self.time[env_id] += 1
        order, picture, info = self._result(env_id)
        truncated = self.time[order] >= self.limit
        return picture, self.count[order].astype(np.float32), np.zeros(len(order), bool), truncated, info

    def close(self):
        self.others["closed"] = True


def small_envpool():
    """A module with the names of EnvPool that shoal uses."""
    import gymnasium

    config = collections.namedtuple("Config", ["max_num_players", "max_episode_steps", "reward_clip"])
    players = {"Counter-v0": 1, "Duel-v0": 2}
    pictures = gymnasium.spaces.Box(0, 255, (3, 5, 6), np.uint8)

    def make_spec(name, reward_clip=False):
        spaces = {"observation_space": pictures, "action_space": gymnasium.spaces.Discrete(3)}
        return types.SimpleNamespace(config=config(players[name], 5, reward_clip), **spaces)

    def make(name, env_type, num_threads, **options):
        assert env_type == "gymnasium"
        return SmallPool(**options)

    module: Any = types.ModuleType("envpool")
    module.list_all_envs, module.make_spec, module.make = lambda: [*players], make_spec, make
    return module
