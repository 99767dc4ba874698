"""Plays a few actions by name in a level, from its first state or one made by hand."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.grid.actions import ACTIONS
from shoal.grid.cells import EMPTY
from shoal.grid.level import GridState, Level, begin


class Played(NamedTuple):
    """What came of some actions: the last state, and each step's reward and flags."""

    state: Any
    reward: list[float]
    terminated: list[bool]
    truncated: list[bool]


def first_state(env: Level, seed: int = 0) -> Any:
    """The first state of an episode."""
    return _init(env, make_key(seed))


def at_pose(state: Any, x: int, y: int, direction: int) -> Any:
    """The state with the agent somewhere else."""
    return state.replace(x=jnp.int32(x), y=jnp.int32(y), direction=jnp.int32(direction))


def room(rows: list[str], things: dict[str, np.uint16], x: int, y: int, direction: int) -> GridState:
    """A state from a drawing, a character a cell: those of `things`, and a dot where nothing is."""
    grid = [[EMPTY if mark == "." else things[mark] for mark in row] for row in rows]
    return GridState(**begin(np.array(grid, np.uint16).T, x, y, direction))


def play(env: Level, state: Any, *actions: str, seed: int = 0) -> Played:
    """Take actions one after another, whatever the flags say."""
    numbers = np.array([ACTIONS.index(name) for name in actions], np.int32)
    state, (reward, *flags) = _play(env, state, numbers, make_key(seed))
    return Played(state, np.asarray(reward).tolist(), *(np.asarray(flag).tolist() for flag in flags))


@jax.jit
def _init(env, key):
    return env.init(key)


@jax.jit
def _play(env, state, actions, key):
    def one(state, given):
        action, key = given
        state, reward, terminated, truncated, _ = env.advance(state, action, env.noise(key))
        return state, (reward, terminated, truncated)

    return jax.lax.scan(one, state, (actions, jax.random.split(key, actions.shape[0])))
