"""Returns and advantages of one environment's trajectory. Write `[T]`, vmap over environments."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


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

    `next_value` is the value of the true successor, before any reset, so a time limit still bootstraps; `done`
    (terminated or truncated) only stops the sum from leaking into the next episode.
    Source: Schulman et al. 2016, eq. 16; Pardo et al. 2018 for time limits.
    """
    delta = reward + jnp.where(terminated, 0, discount * next_value) - value
    decay = jnp.where(done, 0, discount * gae_lambda)
    return discounted_sum(delta, decay)


def discounted_sum(x: Float[Array, "T"], decay: Float[Array, "T"]) -> Float[Array, "T"]:
    """y_t = x_t + decay_t * y_{t+1}, with y_T = 0."""

    def step(y, inputs):
        x_t, decay_t = inputs
        y = x_t + decay_t * y
        return y, y

    _, y = jax.lax.scan(step, jnp.zeros_like(x[0]), (x, decay), reverse=True)
    return y
