"""Play an environment of shoal, then the same episodes in bsuite with the same random numbers, and compare results."""

from collections import deque
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key


class Play(NamedTuple):
    """Steps of one environment of shoal; leaves [T, ...]."""

    first: Any  # state, without an axis
    first_obs: np.ndarray
    action: np.ndarray
    noise: Any
    obs: np.ndarray  # after the step, before any reset
    reward: np.ndarray
    done: np.ndarray
    info: dict[str, np.ndarray]
    after: Any  # state after the step, and after a reset where the episode ended
    after_obs: np.ndarray
    after_info: dict[str, np.ndarray]


class Queue:
    """Replaces a NumPy generator: returns numbers from a queue, each to the call for which it was added."""

    def __init__(self):
        self.waiting = deque()

    def put(self, kind, value):
        self.waiting.append((kind, value))

    def _take(self, kind):
        meant_for, value = self.waiting.popleft()
        assert meant_for == kind
        return value

    def randint(self, high):
        value = self._take("randint")
        assert 0 <= value < high
        return value

    def binomial(self, n, p, size=None):
        assert (n, p) == (1, 0.5)
        value = self._take("binomial")
        assert np.shape(value) == (() if size is None else (size,))
        return value

    def rand(self):
        return self._take("rand")

    def randn(self):
        return self._take("randn")

    def uniform(self, low, high):
        value = self._take("uniform")
        assert low <= value <= high
        return value


def play(env: Any, steps: int, seed: int = 0, policy: Any = None) -> Play:
    """`steps` random actions, or those of `policy(state, random action)`, resetting at every end."""
    k_first, k_steps = jax.random.split(make_key(seed))

    def step(state, key):
        k_action, k_noise, k_fresh = jax.random.split(key, 3)
        action, noise = env.action_space.sample(k_action), env.noise(k_noise)
        if policy is not None:
            action = policy(state, action).astype(jnp.int32)
        after, reward, terminated, truncated, _ = env.advance(state, action, noise)
        fresh = env.carry_over(after, env.init(k_fresh))
        following = jax.tree.map(lambda new, old: jnp.where(terminated, new, old), fresh, after)
        row = (action, noise, env.observe(after), reward, terminated, truncated, env.bsuite_info(after))
        return following, (*row, following, env.observe(following), env.bsuite_info(following))

    def run(key, keys):
        first = env.init(key)
        return (first, env.observe(first)), jax.lax.scan(step, first, keys)[1]

    started, rows = jax.jit(run)(k_first, jax.random.split(k_steps, steps))
    action, noise, obs, reward, terminated, truncated, *rest = jax.tree.map(np.asarray, rows)
    assert not truncated.any()  # bsuite's episodes end by termination, with discount 0
    info, after, after_obs, after_info = rest
    start, seen = jax.tree.map(np.asarray, started)
    return Play(start, seen, action, noise, obs, reward, terminated, info, after, after_obs, after_info)


def row(tree: Any, t: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[t], tree)


def assert_replays(reference, seen: Play, put_start, put_step=None, *, spare=False, **tolerance) -> None:
    """Assert that bsuite, with the same numbers, has equal observations, rewards and counters at every step.

    `put_start(queue, state)` puts in what `reset` draws, `put_step(queue, noise, state before, done)` what `step` does;
    with `spare` it may put in more than is drawn.
    """
    queue = Queue()
    raw = getattr(reference, "raw_env", reference)
    raw._rng = queue
    if hasattr(reference, "_env"):
        reference._rng = queue
    put_start(queue, seen.first)
    start = reference.reset().observation
    timesteps, infos, resets = [], [], []
    before = seen.first
    for t in range(len(seen.done)):
        if put_step is not None:
            put_step(queue, row(seen.noise, t), before, seen.done[t])
        timesteps.append(reference.step(seen.action[t]))
        infos.append(reference.bsuite_info())
        assert spare or not queue.waiting
        queue.waiting.clear()
        assert seen.done[t] == timesteps[t].last(), t
        before = row(seen.after, t)
        if seen.done[t]:
            put_start(queue, before)
            resets.append((reference.reset().observation, reference.bsuite_info()))
    _same(seen.first_obs[None], [start], tolerance, "first observation")
    _same(seen.obs, [timestep.observation for timestep in timesteps], tolerance, "observations")
    _same(seen.reward, [timestep.reward for timestep in timesteps], tolerance, "rewards")
    np.testing.assert_array_equal([timestep.discount for timestep in timesteps], 1 - seen.done)
    _same_info(seen.info, infos)
    _same(seen.after_obs[seen.done], [obs for obs, _ in resets], tolerance, "observations of resets")
    _same_info({name: column[seen.done] for name, column in seen.after_info.items()}, [info for _, info in resets])
    assert seen.done.sum() > 3


def _same(ours, theirs, tolerance, what):
    theirs, ours = np.asarray(theirs), np.asarray(ours).astype(np.float64)
    # bsuite's (1, k) is our (k,).
    theirs = theirs[:, 0] if theirs.ndim == ours.ndim + 1 else theirs
    if tolerance:
        np.testing.assert_allclose(ours, theirs, err_msg=what, **tolerance)
    else:
        np.testing.assert_array_equal(ours, theirs.astype(np.float32), err_msg=what)


def _same_info(ours, theirs):
    assert set(ours) == set(theirs[0])
    for name, column in ours.items():
        np.testing.assert_allclose(column, [info[name] for info in theirs], rtol=1e-6, atol=1e-6, err_msg=name)
