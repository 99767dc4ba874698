"""Policy and value losses of proximal methods: elementwise functions that PPO takes as fields.

A surrogate maps (ratio, advantage, clip) to a loss, which is minimized; `clip` is the agent's field and the ratio comes
from `probability_ratio`. A value loss maps (value, old value, target, clip) to a loss. Pass your own functions as
`PPO(surrogate=..., value_loss=...)`.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

Sample = Float[Array, "..."]
LARGEST_LOG_RATIO = 20.0  # e^20 is 5e8: much larger than any clip range, and far from overflow


def probability_ratio(log_ratio: Sample) -> Sample:
    """e^log_ratio, clipped to [e^-20, e^20] so that losses stay finite. Outside, the gradient is 0."""
    return jnp.exp(jnp.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))


def clipped_surrogate(ratio: Sample, advantage: Sample, clip: Sample) -> Sample:
    """max(-r A, -clip(r, 1 - clip, 1 + clip) A). Source: Schulman et al. 2017, eq. 7."""
    return jnp.maximum(-ratio * advantage, -jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def dpo_surrogate(ratio: Sample, advantage: Sample, clip: Sample, *, alpha: float = 2.0, beta: float = 0.6) -> Sample:
    """-r A plus the drift of Discovered Policy Optimisation; `clip` is not used.

        A >= 0:  relu((r - 1) A - alpha tanh((r - 1) A / alpha))
        A <  0:  relu(log(r) A - beta tanh(log(r) A / beta))

    Source: Lu et al. 2022, section 5.
    """
    del clip
    gain = (ratio - 1) * advantage
    log_gain = jnp.log(ratio) * advantage
    drift = jnp.where(
        advantage >= 0,
        gain - alpha * jnp.tanh(gain / alpha),
        log_gain - beta * jnp.tanh(log_gain / beta),
    )
    return -ratio * advantage + jnp.maximum(drift, 0)


def unclipped_surrogate(ratio: Sample, advantage: Sample, clip: Sample) -> Sample:
    """-r A: the plain importance-weighted policy gradient (A2C when there is one epoch). `clip` is not used."""
    del clip
    return -ratio * advantage


def clipped_value_loss(value: Sample, old_value: Sample, target: Sample, clip: Sample) -> Sample:
    """PPO's clipped value loss: half the larger of two squared errors.

    They are those of the value and of the value clipped to old_value +- clip. Source: the code of PPO (OpenAI
    baselines).
    """
    clipped = old_value + jnp.clip(value - old_value, -clip, clip)
    return 0.5 * jnp.maximum((value - target) ** 2, (clipped - target) ** 2)


def squared_value_loss(value: Sample, old_value: Sample, target: Sample, clip: Sample) -> Sample:
    """Half the squared error. `old_value` and `clip` are not used."""
    del old_value, clip
    return 0.5 * (value - target) ** 2


SURROGATES: dict[str, Callable[[Sample, Sample, Sample], Sample]] = {
    "clipped": clipped_surrogate,
    "dpo": dpo_surrogate,
    "unclipped": unclipped_surrogate,
}
VALUE_LOSSES: dict[str, Callable[[Sample, Sample, Sample, Sample], Sample]] = {
    "clipped": clipped_value_loss,
    "squared": squared_value_loss,
}
