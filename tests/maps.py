"""Grid worlds drawn as text: make states by hand, and step them with named actions."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.grid.actions import ACTIONS
from shoal.grid.cells import EMPTY, GOAL, WALL
from shoal.grid.level import begin

AGENTS = ">v<^"
# Programs are compiled for multiples of these numbers, so that one program serves most tests of a level.
STEPS, LAYOUTS = 12, 500
FEW = 16  # layouts that are drawn as they are: some levels take long to make many


class Played(NamedTuple):
    """What came of some actions: the last state, and each step's reward and flags."""

    state: Any
    reward: list[float]
    terminated: list[bool]
    truncated: list[bool]


def drawn(kind, picture, things=None, agent=None, **fields):
    """A state of a kind from rows of text: `#` wall, `.` nothing, `G` goal, one of `>v<^` the agent, else `things`.

    Where the agent is not drawn, `agent` is its (x, y, direction).
    """
    cells = {"#": WALL, ".": EMPTY, "G": GOAL, **dict.fromkeys(AGENTS, EMPTY), **(things or {})}
    rows = picture.split()
    grid = np.array([[cells[letter] for letter in row] for row in rows], np.uint16).T
    seen = [(x, y, AGENTS.index(c)) for y, row in enumerate(rows) for x, c in enumerate(row) if c in AGENTS]
    (agent,) = seen if agent is None else [agent]
    more = {k: v if isinstance(v, np.uint16) else np.int32(v) for k, v in fields.items()}
    return kind(**{**begin(grid, *agent), **{k: jnp.asarray(v) for k, v in more.items()}})


def play(level, state, actions):
    """(state, reward, terminated, truncated) after actions given by their names; only the last may end the episode."""
    names = actions.split()
    played = steps(level, state, *names)
    early = [i for i in range(len(names) - 1) if played.reward[i] or played.terminated[i] or played.truncated[i]]
    assert not early, f"the episode ended early, with {names[early[0]]} at {early[0]}"
    return played.state, played.reward[-1], played.terminated[-1], played.truncated[-1]


def steps(level, state, *actions, seed=0):
    """Take actions one after another, whatever the flags say."""
    count = len(actions)
    numbers = np.zeros(_up_to(STEPS, count), np.int32)
    numbers[:count] = [ACTIONS.index(name) for name in actions]
    state, seen = _steps(level, state, numbers, np.int32(count), make_key(seed))
    return Played(state, *(np.asarray(each)[:count].tolist() for each in seen))


def layouts(level, n=64, seed=0):
    """`n` first states in one batch, as NumPy arrays."""
    keys = jax.random.split(make_key(seed), n if n <= FEW else _up_to(LAYOUTS, n))  # more keys begin with the same ones
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:n], _init_many(level, keys))


def reached(walkable, start):
    """The cells that can be walked to, by spreading until nothing changes; any axes before the last two."""
    seen = np.zeros_like(walkable)
    seen[(..., *start)] = True
    while True:
        wider = seen | walkable & np.any(
            [np.roll(seen, by, axis) for by in (1, -1) for axis in (-1, -2)], axis=0
        )  # nothing wraps around: the border of a grid is wall
        if (wider == seen).all():
            return seen
        seen = wider


def at(states, i):
    """One state of a batch."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[i]), states)


def first_state(level):
    """The first state of an episode."""
    return _init(level, make_key(0))


def at_pose(state, x, y, direction):
    """The state with the agent somewhere else."""
    return state.replace(x=jnp.int32(x), y=jnp.int32(y), direction=jnp.int32(direction))


@jax.jit
def _init(level, key):
    return level.init(key)


@jax.jit
def _init_many(level, keys):
    return jax.vmap(level.init)(keys)


def _up_to(multiple, n):
    return -(-n // multiple) * multiple


@jax.jit
def _steps(level, state, actions, count, key):
    """The first `count` of the actions; the rest changes nothing."""

    def one(state, given):
        i, action, key = given
        after, reward, terminated, truncated, _ = level.advance(state, action, level.noise(key))
        return jax.tree.map(partial(jnp.where, i < count), after, state), (reward, terminated, truncated)

    num = actions.shape[0]
    return jax.lax.scan(one, state, (jnp.arange(num), actions, jax.random.split(key, num)))
