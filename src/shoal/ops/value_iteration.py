"""Value iteration: what a learner with a table should come to, worked out from the dynamics themselves.

On the host, in double precision: an oracle for tests, and for whoever wants the regret of a policy.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.env import Env, State


class Dynamics(NamedTuple):
    """All that may follow: S states, A actions, K outcomes of each. `env.model()` of a toy_text world has these too."""

    probability: Float[np.ndarray, "S A K"]
    next_state: Int[np.ndarray, "S A K"]
    reward: Float[np.ndarray, "S A K"]
    terminated: Bool[np.ndarray, "S A K"]


def value_iteration(
    model: Any, discount: float, *, epsilon: float = 0.0, tolerance: float = 1e-9, most_sweeps: int = 1_000_000
) -> Float[np.ndarray, "S A"]:
    """The action values that are their own update.

        Q(s, a) = sum over k of p_k (r_k + discount * (not terminated_k) * V(s'_k))
        V(s)    = (1 - epsilon) max_a Q(s, a) + epsilon mean_a Q(s, a)

    With `epsilon=0` those of the best policy, which Q-learning learns; otherwise those of the best among policies that
    act at random with probability epsilon, which SARSA and expected SARSA learn. `model` has the arrays of `Dynamics`.
    Stops when no value changes by more than `tolerance`, and raises ValueError when that does not happen: without
    discount, where not every policy ends.
    """
    odds, reward = (np.asarray(x, np.float64) for x in (model.probability, model.reward))
    goes_on, next_state = discount * ~np.asarray(model.terminated), np.asarray(model.next_state)
    q = np.zeros(odds.shape[:2])
    for _ in range(most_sweeps):
        value = (1 - epsilon) * q.max(axis=1) + epsilon * q.mean(axis=1)
        before, q = q, (odds * (reward + goes_on * value[next_state])).sum(axis=2)
        if np.abs(q - before).max() <= tolerance:
            return q
    raise ValueError(f"values still change after {most_sweeps} sweeps with discount={discount}: take a smaller one.")


def tabulate(
    env: Env,
    states: State,
    index: Callable[[State], Int[Array, ""]],
    noises: Any = None,
    probabilities: Sequence[float] = (1.0,),
) -> Dynamics:
    """The dynamics of a world, by taking every action in every one of its states under every noise.

    `states` [S] lists all states in the order of their `index`, with any time; `noises` [K] lists what chance may do,
    with its probabilities. States that only differ in their time are one, so a time limit is left out.
    """
    size, actions = len(jax.tree.leaves(states)[0]), env.action_space.n  # type: ignore[union-attr]  # Discrete only

    def outcome(state: State, action: Int[Array, ""], noise: Any) -> tuple:
        state, reward, terminated, _ = env.transition(state, action, noise)
        return index(state), reward, terminated

    over_noise = jax.vmap(outcome, (None, None, 0), axis_size=len(probabilities))
    over_actions = jax.vmap(over_noise, (None, 0, None))
    everywhere = jax.jit(jax.vmap(over_actions, (0, None, None)))
    next_state, reward, terminated = everywhere(states, jnp.arange(actions, dtype=jnp.int32), noises)
    odds = np.broadcast_to(np.asarray(probabilities, np.float64), (size, actions, len(probabilities)))
    return Dynamics(odds, np.asarray(next_state), np.asarray(reward), np.asarray(terminated))
