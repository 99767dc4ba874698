"""Replay the same states and actions in Gymnasium and in shoal, and compare all results."""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

F32_MARGIN = 1e-6  # flags may differ in float32 when a threshold is nearer than this


class Steps(NamedTuple):
    """Results of steps, first axis: which step."""

    obs: np.ndarray
    state: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


def reference(name: str, settings: dict[str, Any] | None = None, **kwargs: Any) -> gymnasium.Env:
    """A Gymnasium environment with its time limit, reset, with attributes of its innermost part changed."""
    env = gymnasium.make(name, disable_env_checker=True, **kwargs)
    for attribute, value in (settings or {}).items():
        assert hasattr(env.unwrapped, attribute)
        setattr(env.unwrapped, attribute, value)
    env.reset(seed=0)
    return env


def inject(env: gymnasium.Env, state: np.ndarray) -> None:
    env.unwrapped.state = state.copy()
    env.unwrapped.steps_beyond_terminated = None


def reference_step(env: gymnasium.Env, states: np.ndarray, actions: np.ndarray) -> Steps:
    """One step from every state. Without the time limit."""
    rows = []
    for state, action in zip(states, actions, strict=True):
        inject(env, state)
        rows.append(_row(env.unwrapped, action))
    return Steps(*(np.array(column) for column in zip(*rows, strict=True)))


def reference_episode(env: gymnasium.Env, start: np.ndarray, policy: Any, num_steps: int) -> tuple[Steps, np.ndarray]:
    """One episode, time limit included, and the actions that `policy(t, obs)` took."""
    env.reset(seed=0)
    inject(env, start)
    rows, actions, obs = [], [], None
    for t in range(num_steps):
        actions.append(policy(t, obs))
        rows.append(_row(env, actions[-1]))
        obs = rows[-1][0]
        if rows[-1][3] or rows[-1][4]:
            break
    return Steps(*(np.array(column) for column in zip(*rows, strict=True))), np.array(actions)


def our_step(env: Any, make_state: Any, states: np.ndarray, actions: np.ndarray, noise: Any = None) -> Steps:
    """One step from every state, in one compiled call."""

    def step(state: Any, action: Any, noise: Any) -> tuple:
        state, reward, terminated, truncated, _ = env.advance(make_state(*state), action, noise)
        return env.observe(state), _vector(state), reward, terminated, truncated

    return Steps(*map(np.asarray, jax.jit(jax.vmap(step))(tuple(states.T), jnp.asarray(actions), noise)))


def our_episode(env: Any, start: Any, actions: np.ndarray) -> Steps:
    """One episode under given actions, in one compiled loop."""

    def step(state: Any, action: Any) -> tuple:
        state, reward, terminated, truncated, _ = env.advance(state, action, None)
        return state, (env.observe(state), _vector(state), reward, terminated, truncated)

    return Steps(*map(np.asarray, jax.jit(lambda s, a: jax.lax.scan(step, s, a)[1])(start, jnp.asarray(actions))))


def state_maker(cls: type, *extra: float) -> Any:
    """A function from a state's numbers to a state of this class at time 0."""

    def make_state(*numbers: Any) -> Any:
        numbers = tuple(map(jnp.asarray, numbers))
        return cls(jnp.int32(0), *numbers, *(jnp.full_like(numbers[0], value) for value in extra))

    return make_state


def first(num_steps: int, steps: Steps) -> Steps:
    """The first so many of them."""
    return Steps(*(column[:num_steps] for column in steps))


def assert_same(ours: Steps, theirs: Steps, *, atol: float, rtol: float = 0.0, margin: Any = None, angles: Any = ()):
    """Equal observations, states and rewards to tolerance; equal flags wherever `margin` is wide enough.

    `angles` are the columns of the state that are compared as directions. Columns of ours that the reference has not
    (the last ones) are left out.
    """
    clear = np.ones(len(theirs.reward), bool) if margin is None else margin > F32_MARGIN
    assert clear.mean() > 0.98
    our_state = ours.state[:, : theirs.state.shape[1]].astype(np.float64)
    difference = our_state - theirs.state
    difference[:, list(angles)] = np.remainder(difference[:, list(angles)] + np.pi, 2 * np.pi) - np.pi
    bound = atol + rtol * np.abs(theirs.state)
    wrong = (np.abs(difference) > bound).any(axis=1) & clear
    assert not wrong.any(), (wrong.sum(), our_state[wrong][:3], theirs.state[wrong][:3])
    # Observations and rewards are float32 on our side, whatever the state is.
    np.testing.assert_allclose(ours.obs[clear], theirs.obs[clear], atol=max(atol, 1e-6), rtol=max(rtol, 1e-6))
    np.testing.assert_allclose(ours.reward[clear], theirs.reward[clear], atol=max(atol, 1e-6), rtol=max(rtol, 1e-6))
    np.testing.assert_array_equal(ours.terminated[clear], theirs.terminated[clear])
    np.testing.assert_array_equal(ours.truncated[clear], theirs.truncated[clear])


def _vector(state: Any) -> jax.Array:
    return jnp.stack([leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)])


def _row(env: gymnasium.Env, action: Any) -> tuple:
    obs, reward, terminated, truncated, _ = env.step(action)
    state = np.asarray(env.unwrapped.state, np.float64)
    return obs, state, reward, terminated, truncated
