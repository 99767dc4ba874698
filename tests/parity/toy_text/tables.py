"""Compare Gymnasium's transition tables with ours, and replay its episodes with our random numbers."""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.core.registry import make

NUMBERS = ("probability", "next_state", "reward", "terminated")


class Steps(NamedTuple):
    """Results of consecutive steps; first axis: time."""

    index: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


class Queue:
    """Replaces a generator: returns the numbers of the queue in order."""

    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.choices: list[int] = []

    def random(self) -> float:
        """The next number; 0.5 where the queue is empty."""
        return self.numbers.pop(0) if self.numbers else 0.5

    def choice(self, among: list) -> Any:
        """The element in the next place."""
        return among[self.choices.pop(0)]


def reference(name: str, **kwargs: Any) -> gymnasium.Env:
    """Gymnasium's environment, with its time limit."""
    return gymnasium.make(name, disable_env_checker=True, **kwargs)


def entries(table: Any, state: int, action: int) -> list[tuple]:
    """Gymnasium's transition table as plain numbers."""
    return [(float(p), int(s), float(r), bool(t)) for p, s, r, t in table[state][action]]


def assert_same_table(env: Any, theirs: gymnasium.Env) -> None:
    """Every entry, in order, to the last bit, and the distribution of first states."""
    with jax.enable_x64(True):
        model = jax.tree.map(np.asarray, env.model())
    table, certain = theirs.unwrapped.P, env.outcomes.certain
    columns = [getattr(model, name) for name in NUMBERS]
    assert columns[0].shape[:2] == (len(table), len(table[0]))
    for state, action in np.ndindex(*certain.shape):
        ours = [tuple(column[state, action, k].item() for column in columns) for k in range(columns[0].shape[2])]
        if certain[state, action]:
            assert all(probability == 0 for probability, *_ in ours[1:])
            ours = ours[:1]
        assert ours == entries(table, state, action), (state, action)
    np.testing.assert_array_equal(env.start_distribution(), theirs.unwrapped.initial_state_distrib)
    assert env.observation_space.n == theirs.observation_space.n
    assert env.action_space.n == theirs.action_space.n
    assert env.max_steps == theirs.spec.max_episode_steps


def best_values(table: Any, discount: float, sweeps: int) -> np.ndarray:
    """Value iteration over Gymnasium's own lists."""
    states, actions = len(table), len(table[0])
    listed = [(s, a, entry) for s in range(states) for a in range(actions) for entry in entries(table, s, a)]
    s, a = (np.array([row[i] for row in listed]) for i in range(2))
    p, following, r, t = (np.array([row[2][i] for row in listed]) for i in range(4))
    value = np.zeros(states)
    for _ in range(sweeps):
        action_value = np.zeros((states, actions))
        np.add.at(action_value, (s, a), p * (r + discount * np.where(t, 0, value[following])))
        value = action_value.max(axis=1)
    return value


def our_best_values(env: Any, discount: float, sweeps: int) -> np.ndarray:
    """Value iteration over `env.model()`, compiled."""
    with jax.enable_x64(True):

        def sweep(value: Any, _: None) -> tuple:
            model = env.model()
            target = model.reward + discount * jnp.where(model.terminated, 0, value[model.next_state])
            return (model.probability * target).sum(-1).max(-1), None

        start = jnp.zeros(env.observation_space.n)
        return np.asarray(jax.jit(lambda: jax.lax.scan(sweep, start, None, sweeps)[0])())


def assert_same_values(env: Any, theirs: gymnasium.Env, discount: float = 0.99, sweeps: int = 2000) -> np.ndarray:
    """Assert that planning with our table and with theirs gives equal values; return them."""
    ours = our_best_values(env, discount, sweeps)
    np.testing.assert_allclose(ours, best_values(theirs.unwrapped.P, discount, sweeps), rtol=1e-12, atol=1e-12)
    return ours


def our_run(env: Any, starts: Any, actions: np.ndarray, noise: Any) -> Steps:
    """Steps under given noise in one compiled loop; an episode that ends is followed by `starts[t]`, a state."""

    def step(state: Any, given: tuple) -> tuple:
        action, noise, start = given
        state, reward, terminated, truncated, _ = env.advance(state, action, noise)
        done = terminated | truncated
        after = jax.tree.map(lambda fresh, old: jnp.where(done, fresh, old), start, state)
        return after, (state.index, reward, terminated, truncated)

    first = jax.tree.map(lambda x: x[-1], starts)
    run = jax.jit(lambda *given: jax.lax.scan(step, first, given)[1])
    return Steps(*map(np.asarray, run(jnp.asarray(actions, jnp.int32), noise, starts)))


def draws(env: Any, steps: int, seed: int = 0) -> tuple[Any, Any, np.ndarray]:
    """(states to start from, noise, random actions) of a run."""
    k_start, k_noise = jax.random.split(make_key(seed))
    starts = jax.vmap(env.init)(jax.random.split(k_start, steps))
    noise = jax.vmap(env.noise)(jax.random.split(k_noise, steps))
    return starts, noise, np.random.default_rng(seed).integers(0, env.action_space.n, steps)


def assert_same_run(name: str, steps: int, *, actions: np.ndarray | None = None, **kwargs: Any) -> Steps:
    """Assert that episodes on both sides with our random numbers have equal states, rewards and flags; return them."""
    env, theirs, queue = make(name, **kwargs), reference(name, **kwargs), Queue()
    starts, noise, chosen = draws(env, steps)
    chosen = chosen if actions is None else actions
    ours = our_run(env, starts, chosen, noise)
    indices = np.asarray(starts.index)

    def restart(index: int) -> None:
        theirs.reset()
        theirs.unwrapped.s = index

    theirs.reset(seed=0)
    theirs.unwrapped._np_random = queue
    restart(indices[-1])
    numbers = None if noise is None else np.asarray(noise, np.float64)
    for t in range(steps):
        queue.numbers = [0.5 if numbers is None else numbers[t]]
        index, reward, terminated, truncated, _ = theirs.step(int(chosen[t]))
        seen = tuple(part[t].item() for part in ours)
        assert seen == (index, np.float32(reward), terminated, truncated), t
        if terminated or truncated:
            restart(indices[t])
    return ours
