"""Returns and advantages of one environment's trajectory [T]. The caller vmaps over environments."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.core.form import current


def gae(
    reward: Float[Array, "T"],
    value: Float[Array, "T"],
    next_value: Float[Array, "T"],
    terminated: Bool[Array, "T"],
    done: Bool[Array, "T"],
    *,
    discount: Float[Array, ""] | float,
    gae_lambda: Float[Array, ""] | float,
) -> Float[Array, "T"]:
    """Generalised advantage estimates for one environment.

        delta_t = r_t + discount * (not terminated_t) * V(s'_t) - V(s_t)
        A_t     = delta_t + discount * gae_lambda * (not done_t) * A_{t+1}

    `next_value` is the value of the true successor, before any reset, so that truncation bootstraps from it. `done`
    (terminated or truncated) only ends the sum at the end of an episode.
    Source: Schulman et al. 2016, eq. 16; Pardo et al. 2018 for time limits.
    """
    delta = reward + jnp.where(terminated, 0, discount * next_value) - value
    decay = jnp.where(done, 0, discount * gae_lambda)
    return discounted_sum(delta, decay)


def lambda_return(
    reward: Float[Array, "T"],
    next_value: Float[Array, "T"],
    terminated: Bool[Array, "T"],
    done: Bool[Array, "T"],
    *,
    discount: Float[Array, ""] | float,
    trace_decay: Float[Array, ""] | float,
) -> Float[Array, "T"]:
    """Lambda-returns for one environment; Peng's Q(lambda) when `next_value` is that of the best action.

        G_t = r_t + discount * (not terminated_t) * ((1 - lambda_t) V(s'_t) + lambda_t G_{t+1})

    lambda_t is `trace_decay`; it is 0 where the episode ended and in the last step T - 1, which therefore bootstraps
    from its own successor. `next_value` is as in `gae`.
    Source: Sutton and Barto 2018, section 12.1; Peng and Williams 1996.
    """
    is_last = jnp.arange(reward.shape[0]) == reward.shape[0] - 1
    trace = jnp.where(done | is_last, 0, trace_decay)
    bootstrap = jnp.where(terminated, 0, discount)
    return discounted_sum(reward + bootstrap * (1 - trace) * next_value, bootstrap * trace)


def discounted_sum(x: Float[Array, "T"], decay: Float[Array, "T"]) -> Float[Array, "T"]:
    """y_t = x_t + decay_t * y_{t+1} for t = 0 to T - 1, with y_T = 0."""

    def step(y, inputs):
        x_t, decay_t = inputs
        y = x_t + decay_t * y
        return y, y

    _, y = jax.lax.scan(step, jnp.zeros_like(x[0]), (x, decay), reverse=True, unroll=current().returns_per_trip)
    return y
