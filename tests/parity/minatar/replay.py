"""Plays MinAtar and shoal side by side, with the same openings, actions and luck, and compares every step."""

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
    """Stands in for NumPy's RandomState: answers `rand` and `randint` with what it was given, in order."""

    def __init__(self) -> None:
        self._answers: Iterator[tuple[str, Any]] = iter(())

    def load(self, answers: Iterator[tuple[str, Any]]) -> None:
        self._answers = answers

    def _next(self, kind: str, *given: Any, **named: Any) -> Any:
        expected, answer = next(self._answers)
        assert kind == expected
        return answer(*given, **named) if callable(answer) else answer

    def rand(self, *given: Any) -> Any:
        return self._next("rand", *given)

    def randint(self, *given: Any, **named: Any) -> Any:
        return self._next("randint", *given, **named)


class Adapter(NamedTuple):
    """What differs from game to game."""

    luck: Callable[[Any], list]  # of one step (NumPy leaves): the answers MinAtar gets, in the order in which it asks
    put: Callable[[Any, Any], None]  # (their game, our state with NumPy leaves): make theirs that state
    theirs: Callable[[Any], dict[str, Any]]  # their state, in plain numbers
    ours: Callable[[Any], dict[str, Any]]  # one of our states (NumPy leaves), in the same plain numbers


def reference(env: Game) -> minatar.Environment:
    """MinAtar's environment of the same settings, all of whose luck is replayed."""
    world = minatar.Environment(NAMES[type(env).__name__], float(env.sticky_action_prob), bool(env.ramping))
    world.random, world.env.random = Replayed(), Replayed()
    return world


def row(tree: Any, index: int) -> Any:
    """One entry of a stacked tree."""
    return jax.tree.map(lambda x: np.asarray(x)[index], tree)


def changed(states: Any, **fields: Any) -> Any:
    """Stacked states with other numbers in some fields; a tuple of arrays for a field that is one."""

    def cast(old: Any, new: Any) -> Any:
        return tuple(map(cast, old, new)) if isinstance(old, tuple) else jnp.asarray(np.asarray(new), old.dtype)

    arrays = {name: cast(getattr(states, name), value) for name, value in fields.items()}
    return jax.vmap(lambda state, given: state.replace(**given))(states, arrays)


def openings_of(env: Game, count: int = 16, seed: int = 7) -> Any:
    """So many first states."""
    return _begin(to_arrays(env), jax.random.split(make_key(seed), count))


@jax.jit
def _begin(env: Game, keys: jax.Array) -> Any:
    return jax.vmap(env.init)(keys)


def compare(
    env: Game,
    adapter: Adapter,
    openings: Any,
    num_steps: int,
    policy: Callable[[Any, np.random.Generator], int] | None = None,
    seed: int = 0,
    restart: int = 0,
) -> list[dict[str, Any]]:
    """Play `num_steps` on both sides and assert that all is equal; their states, for what a test wants to have met.

    Games begin from the `openings` in turn. `policy` sees MinAtar's game and gives an action by its number in the
    action space; by default actions are random. `restart` also ends games after so many steps.
    """
    rng = np.random.default_rng(seed)
    noise = jax.tree.map(np.asarray, sample_noise(env, make_key(seed), (num_steps,)))
    actions, opened, theirs, seen = [], [], [], []
    openings = jax.tree.map(np.asarray, openings)
    begins, lots = _rows(openings), _rows(noise)
    world, opening, age = reference(env), 0, 0
    _open(world, adapter, begins[0])
    for t in range(num_steps):
        action = int(rng.integers(env.action_space.n)) if policy is None else policy(world.env, rng)
        chance, luck = lots[t]
        world.random.load(iter([("rand", chance)]))
        world.env.random.load(iter(adapter.luck(luck)))
        reward, done = world.act(env._actions[action])
        age += 1
        theirs.append((world.state().copy(), float(reward), done, world.last_action))
        seen.append(adapter.theirs(world.env))
        ends = done or age == restart
        if ends:
            opening, age = (opening + 1) % len(begins), 0
            _open(world, adapter, begins[opening])
        actions.append(action)
        opened.append(opening if ends else -1)
    states, obs, reward, terminated = _ours(env, openings, np.array(actions), noise, np.array(opened))
    their_obs, their_reward, their_end, their_last = (np.array(column) for column in zip(*theirs, strict=True))
    # States first: where they differ is the reason for all else.
    for t, (state, expected) in enumerate(zip(_rows(states), seen, strict=True)):
        found = adapter.ours(state)
        assert found == expected, f"step {t}, action {actions[t]}: {found} instead of {expected}"
    np.testing.assert_array_equal(states.last_action, their_last)
    np.testing.assert_array_equal(reward, their_reward)
    np.testing.assert_array_equal(terminated, their_end)
    assert obs.dtype == their_obs.dtype == bool
    np.testing.assert_array_equal(obs, their_obs)
    return seen


def _rows(tree: Any) -> list[Any]:
    """The entries of a stacked tree, with plain Python numbers: much quicker to take apart than NumPy's."""
    leaves, structure = jax.tree.flatten(tree)
    return [
        structure.unflatten(numbers) for numbers in zip(*(np.asarray(leaf).tolist() for leaf in leaves), strict=True)
    ]


def _open(world: minatar.Environment, adapter: Adapter, state: Any) -> None:
    # `terminal` and the like; what chance decides is overwritten. The last action stays what it was.
    replayed, world.env.random = world.env.random, np.random.RandomState(0)
    world.reset()
    world.env.random = replayed
    adapter.put(world.env, state)
    assert adapter.theirs(world.env) == adapter.ours(state)


def _ours(env: Game, openings: Any, actions: np.ndarray, noise: Any, opened: np.ndarray) -> tuple:
    """All steps on our side, in equal pieces, so that one program of an environment serves every test."""
    assert len(actions) % PIECE == 0
    state, pieces = jax.tree.map(lambda x: jnp.asarray(x[0]), openings), []
    for begin in range(0, len(actions), PIECE):
        piece = slice(begin, begin + PIECE)
        fresh = jax.tree.map(lambda x, piece=piece: x[opened[piece]], openings)
        given = (
            actions[piece].astype(np.int32),
            jax.tree.map(lambda x, p=piece: x[p], noise),
            opened[piece] >= 0,
            fresh,
        )
        state, seen = _play(to_arrays(env), state, given)
        pieces.append(jax.tree.map(np.asarray, seen))
    return jax.tree.map(lambda *x: np.concatenate(x), *pieces)


@jax.jit
def _play(env: Game, state: Any, given: tuple) -> tuple[Any, tuple]:
    def step(state, xs):
        action, noise, ends, fresh = xs
        after, reward, terminated, _, _ = env.advance(state, action, noise)
        following = env.carry_over(after, fresh)
        following = jax.tree.map(lambda new, old: jnp.where(ends, new, old), following, after)
        return following, (after, env.observe(after), reward, terminated)

    return jax.lax.scan(step, state, given)
