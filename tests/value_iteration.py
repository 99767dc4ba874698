"""Value iteration: the exact Q-values of an environment whose dynamics are known, for comparison with tabular agents.

On the host, in double precision: a reference for tests, and a way to compute the regret of a policy.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.env import Env, State


class Dynamics(NamedTuple):
    """The dynamics of a finite environment: S states, A actions, K possible outcomes of each action in each state.

    `env.model()` of a toy_text environment returns an object with the same fields.
    """

    probability: Float[np.ndarray, "S A K"]
    next_state: Int[np.ndarray, "S A K"]
    reward: Float[np.ndarray, "S A K"]
    terminated: Bool[np.ndarray, "S A K"]


def value_iteration(
    model: Any, discount: float, *, epsilon: float = 0.0, tolerance: float = 1e-9, most_sweeps: int = 1_000_000
) -> Float[np.ndarray, "S A"]:
    """The Q-values that satisfy the Bellman equation:

        Q(s, a) = sum over k of p_k (r_k + discount * (not terminated_k) * V(s'_k))
        V(s)    = (1 - epsilon) max_a Q(s, a) + epsilon mean_a Q(s, a)

    With `epsilon=0` they are those of the optimal policy, which Q-learning learns; otherwise those of the best
    epsilon-greedy policy, which SARSA and expected SARSA learn. `model` has the arrays of `Dynamics`. Iterates until no
    value changes by more than `tolerance`. Raises ValueError if that does not happen within `most_sweeps`, as with
    `discount=1` if some policies never end an episode.
    """
    probability, reward = (np.asarray(x, np.float64) for x in (model.probability, model.reward))
    bootstrap, next_state = discount * ~np.asarray(model.terminated), np.asarray(model.next_state)
    q = np.zeros(probability.shape[:2])
    for _ in range(most_sweeps):
        value = (1 - epsilon) * q.max(axis=1) + epsilon * q.mean(axis=1)
        before, q = q, (probability * (reward + bootstrap * value[next_state])).sum(axis=2)
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
    """The dynamics of an environment, computed by taking every action in every state with every noise.

    `states` [S] lists all environment states in the order of their `index`. `noises` [K] lists all values of the step
    noise (None if the dynamics are deterministic), and `probabilities` [K] their probabilities. The time of a state is
    ignored, so that the result has no time limit.
    """
    size, actions = len(jax.tree.leaves(states)[0]), env.action_space.n  # type: ignore[union-attr]  # Discrete only

    def outcome(state: State, action: Int[Array, ""], noise: Any) -> tuple:
        state, reward, terminated, _ = env.transition(state, action, noise)
        return index(state), reward, terminated

    over_noise = jax.vmap(outcome, (None, None, 0), axis_size=len(probabilities))
    over_actions = jax.vmap(over_noise, (None, 0, None))
    over_states = jax.jit(jax.vmap(over_actions, (0, None, None)))
    next_state, reward, terminated = over_states(states, jnp.arange(actions, dtype=jnp.int32), noises)
    probability = np.broadcast_to(np.asarray(probabilities, np.float64), (size, actions, len(probabilities)))
    return Dynamics(probability, np.asarray(next_state), np.asarray(reward), np.asarray(terminated))
