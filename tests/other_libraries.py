"""Packages of other libraries, which are not among the test requirements, and a small one in the form of gymnax."""

import contextlib
import importlib
import importlib.util
import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
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
