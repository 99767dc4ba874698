"""Plays MinAtar and shoal side by side, with the same first states, actions and noise, and compares every step."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import minatar
import numpy as np

from shoal.core.keys import make_key
from shoal.core.struct import to_arrays
from shoal.envs.minatar.game import Game
from shoal.rollouts.rollout import sample_noise

PIECE = 500  # steps in one program
NAMES = {"Asterix": "asterix", "Breakout": "breakout", "Freeway": "freeway"} | {
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}


class Replayed:
    """Replaces NumPy's RandomState: `rand` and `randint` return the answers that were loaded, in order."""

    def __init__(self) -> None:
        self._answers: Iterator[tuple[str, Any]] = iter(())

    def load(self, answers: Iterator[tuple[str, Any]]) -> None:
        self._answers = answers

    def _next(self, kind: str, *args: Any, **kwargs: Any) -> Any:
        expected, answer = next(self._answers)
        assert kind == expected
        return answer(*args, **kwargs) if callable(answer) else answer

    def rand(self, *args: Any) -> Any:
        return self._next("rand", *args)

    def randint(self, *args: Any, **kwargs: Any) -> Any:
        return self._next("randint", *args, **kwargs)


class Adapter(NamedTuple):
    """The data and functions of one game that this module needs."""

    answers: Callable[[Any], list]  # from the noise of one step: what MinAtar's calls of `rand` and `randint` return
    put: Callable[[Any, Any], None]  # (their game, our state with NumPy leaves): set their game to this state
    theirs: Callable[[Any], dict[str, Any]]  # their state as plain numbers
    ours: Callable[[Any], dict[str, Any]]  # our state (NumPy leaves) as the same plain numbers


def reference(env: Game) -> minatar.Environment:
    """MinAtar's environment with the same hyperparameters, whose random numbers are replayed."""
    their_env = minatar.Environment(NAMES[type(env).__name__], float(env.sticky_action_prob), bool(env.ramping))
    their_env.random, their_env.env.random = Replayed(), Replayed()
    return their_env


def row(tree: Any, index: int) -> Any:
    """One entry of a pytree whose leaves are stacked along axis 0."""
    return jax.tree.map(lambda x: np.asarray(x)[index], tree)


def changed(states: Any, **fields: Any) -> Any:
    """Stacked states with other values in some fields; a field that is a tuple takes a tuple of arrays."""

    def cast(old: Any, new: Any) -> Any:
        return tuple(map(cast, old, new)) if isinstance(old, tuple) else jnp.asarray(np.asarray(new), old.dtype)

    arrays = {name: cast(getattr(states, name), value) for name, value in fields.items()}
    return jax.vmap(lambda state, values: state.replace(**values))(states, arrays)


def first_states_of(env: Game, count: int = 16, seed: int = 7) -> Any:
    """`count` first states, stacked."""
    return _begin(to_arrays(env), jax.random.split(make_key(seed), count))


@jax.jit
def _begin(env: Game, keys: jax.Array) -> Any:
    return jax.vmap(env.init)(keys)


def compare(
    env: Game,
    adapter: Adapter,
    first_states: Any,
    num_steps: int,
    policy: Callable[[Any, np.random.Generator], int] | None = None,
    seed: int = 0,
    restart: int = 0,
) -> list[dict[str, Any]]:
    """Play `num_steps` on both sides and assert that every step is equal; return MinAtar's states.

    Episodes begin from the `first_states` in turn. `policy` takes MinAtar's game and returns an action of the action
    space; by default actions are random. `restart`, if not 0, also ends an episode after so many steps.
    """
    rng = np.random.default_rng(seed)
    noise = jax.tree.map(np.asarray, sample_noise(env, make_key(seed), (num_steps,)))
    actions, began_at, theirs, their_states = [], [], [], []
    first_states = jax.tree.map(np.asarray, first_states)
    begins, noises = _rows(first_states), _rows(noise)
    their_env, index, age = reference(env), 0, 0
    _open(their_env, adapter, begins[0])
    for t in range(num_steps):
        action = int(rng.integers(env.action_space.n)) if policy is None else policy(their_env.env, rng)
        uniform, game_noise = noises[t]
        their_env.random.load(iter([("rand", uniform)]))
        their_env.env.random.load(iter(adapter.answers(game_noise)))
        reward, done = their_env.act(env._actions[action])
        age += 1
        theirs.append((their_env.state().copy(), float(reward), done, their_env.last_action))
        their_states.append(adapter.theirs(their_env.env))
        ends = done or age == restart
        if ends:
            index, age = (index + 1) % len(begins), 0
            _open(their_env, adapter, begins[index])
        actions.append(action)
        began_at.append(index if ends else -1)
    states, obs, reward, terminated = _ours(env, first_states, np.array(actions), noise, np.array(began_at))
    their_obs, their_reward, their_end, their_last = (np.array(column) for column in zip(*theirs, strict=True))
    # Compare states first: a difference there explains all other differences.
    for t, (state, expected) in enumerate(zip(_rows(states), their_states, strict=True)):
        found = adapter.ours(state)
        assert found == expected, f"step {t}, action {actions[t]}: {found} instead of {expected}"
    np.testing.assert_array_equal(states.last_action, their_last)
    np.testing.assert_array_equal(reward, their_reward)
    np.testing.assert_array_equal(terminated, their_end)
    assert obs.dtype == their_obs.dtype == bool
    np.testing.assert_array_equal(obs, their_obs)
    return their_states


def _rows(tree: Any) -> list[Any]:
    """The entries of a stacked pytree, as plain Python numbers, which are much faster to handle than NumPy's."""
    leaves, structure = jax.tree.flatten(tree)
    return [
        structure.unflatten(numbers) for numbers in zip(*(np.asarray(leaf).tolist() for leaf in leaves), strict=True)
    ]


def _open(their_env: minatar.Environment, adapter: Adapter, state: Any) -> None:
    # `reset` sets `terminal` and the like; its random part is overwritten by `put`. The last action is kept.
    replayed, their_env.env.random = their_env.env.random, np.random.RandomState(0)
    their_env.reset()
    their_env.env.random = replayed
    adapter.put(their_env.env, state)
    assert adapter.theirs(their_env.env) == adapter.ours(state)


def _ours(env: Game, first_states: Any, actions: np.ndarray, noise: Any, began_at: np.ndarray) -> tuple:
    """All steps on our side, in pieces of equal length, so that one compiled program serves every test of a game."""
    assert len(actions) % PIECE == 0
    state, pieces = jax.tree.map(lambda x: jnp.asarray(x[0]), first_states), []
    for begin in range(0, len(actions), PIECE):
        piece = slice(begin, begin + PIECE)
        fresh = jax.tree.map(lambda x, piece=piece: x[began_at[piece]], first_states)
        inputs = (
            actions[piece].astype(np.int32),
            jax.tree.map(lambda x, p=piece: x[p], noise),
            began_at[piece] >= 0,
            fresh,
        )
        state, records = _play(to_arrays(env), state, inputs)
        pieces.append(jax.tree.map(np.asarray, records))
    return jax.tree.map(lambda *x: np.concatenate(x), *pieces)


@jax.jit
def _play(env: Game, state: Any, inputs: tuple) -> tuple[Any, tuple]:
    def step(state, xs):
        action, noise, ends, fresh = xs
        after, reward, terminated, _, _ = env.advance(state, action, noise)
        next_state = env.carry_over(after, fresh)
        next_state = jax.tree.map(lambda new, old: jnp.where(ends, new, old), next_state, after)
        return next_state, (after, env.observe(after), reward, terminated)

    return jax.lax.scan(step, state, inputs)
