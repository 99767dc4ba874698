"""Tile worlds drawn as text: states made by hand, and playing them."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.grid.actions import ACTIONS
from shoal.grid.cells import EMPTY, GOAL, WALL
from shoal.grid.level import begin

AGENTS = ">v<^"


def drawn(kind, picture, things=None, **fields):
    """A state of a kind from rows of text: `#` wall, `.` nothing, `G` goal, one of `>v<^` the agent, else `things`."""
    cells = {"#": WALL, ".": EMPTY, "G": GOAL, **dict.fromkeys(AGENTS, EMPTY), **(things or {})}
    rows = picture.split()
    grid = np.array([[cells[letter] for letter in row] for row in rows], np.uint16).T
    (agent,) = [(x, y, AGENTS.index(c)) for y, row in enumerate(rows) for x, c in enumerate(row) if c in AGENTS]
    more = {k: v if isinstance(v, np.uint16) else np.int32(v) for k, v in fields.items()}
    return kind(**{**begin(grid, *agent), **{k: jnp.asarray(v) for k, v in more.items()}})


def play(level, state, actions):
    """(state, reward, terminated, truncated) after actions given by their names; the last one may end the episode."""
    advance = jax.jit(lambda state, action: level.advance(state, action, level.noise(make_key(0)))[:4])
    for i, name in enumerate(actions.split()):
        state, *result = advance(state, jnp.int32(ACTIONS.index(name)))
        assert i == len(actions.split()) - 1 or not any(result), (
            f"the episode ended early, with {name} at {i}: {result}"
        )
    reward, terminated, truncated = result
    return state, float(reward), bool(terminated), bool(truncated)


def layouts(level, n=64, seed=0):
    """`n` first states in one batch, as NumPy arrays."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(level.init))(jax.random.split(make_key(seed), n)))


def at(states, i):
    """One state of a batch."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[i]), states)
