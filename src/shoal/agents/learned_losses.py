"""Losses with weights, for `PPO(value_loss=...)` and `PPO(surrogate=...)`: evolution searches for their weights.

They are structs whose leaves are traced, so each member of a population may have its own. Any other `Struct` with the
same `__call__` can be used in the same way.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.env import Key
from shoal.core.struct import Number, Struct, static, struct
from shoal.nn.dense import apply_dense
from shoal.nn.initializers import INITIALIZERS

Sample = Float[Array, "..."]


@struct
class LearnedValueLoss(Struct):
    """A value loss computed by a small tanh network g, whose only input is the error `value - target`.

        form="network":   scale^2 g(error / scale)
        form="residual":  error^2 / 2 + scale^2 (g(error / scale) - g(0))

    The first form, with a scale of 1, is that of the article "Achieving 4000x Speedups and Meta-Evolving Discoveries
    with PureJaxRL" (Lu 2023), part 4. The second begins as the squared loss. For errors so large that the network
    saturates, it has the slope of the squared loss. With errors of about `scale`, both terms have the same size.
    """

    layers: Any  # of g: dicts with kernel and bias, from 1 input to the hidden layers, to 1 output
    scale: Number = 1.0
    form: str = static("network", choices=("network", "residual"))

    @classmethod
    def init(cls, key: Key, hidden: tuple[int, ...] = (64, 64), form: str = "network") -> "LearnedValueLoss":
        """Return a loss with random kernels (LeCun et al. 1998) and zero biases. `key` is consumed.

        The last kernel of a residual is 0. The default has the 4,353 weights of the article.
        """
        sizes = [1, *hidden, 1]
        keys = jax.random.split(key, len(sizes) - 1)
        normal = INITIALIZERS["lecun_normal"]
        layers = tuple(
            {"kernel": normal(k, (rows, columns), jnp.float32), "bias": jnp.zeros(columns, jnp.float32)}
            for k, rows, columns in zip(keys, sizes[:-1], sizes[1:], strict=True)
        )
        if form == "residual":
            layers = (*layers[:-1], jax.tree.map(jnp.zeros_like, layers[-1]))
        return cls(layers, form=form)

    def __call__(self, value: Sample, old_value: Sample, target: Sample, clip: Any) -> Sample:
        """The loss of each sample. `old_value` and `clip` are not used."""
        del old_value, clip
        error = value - target
        learned = self.scale**2 * self._network(error / self.scale)
        if self.form == "network":
            return learned
        return 0.5 * error**2 + learned - self.scale**2 * self._network(jnp.zeros((), error.dtype))

    def _network(self, x: Sample) -> Sample:
        *layers, last = jax.tree.map(jnp.asarray, self.layers)
        hidden = x[..., None]
        for layer in layers:
            hidden = jnp.tanh(apply_dense(layer, hidden))
        return apply_dense(last, hidden)[..., 0]


@struct
class LearnedDrift(Struct):
    """The surrogate -r A + D(r, A), where a network without biases computes the drift D. Also called LPO.

        x = (log r, (log r)^2, 1 - r, (1 - r)^2),  f = output . tanh(hidden^T (x, A x))
        base="none":     D = relu(f - threshold)
        base="clipped":  D = relu(relu((r - clip(r, 1 - clip, 1 + clip)) A) + f - threshold)

    All features are 0 at r = 1, where f is 0 as well. So for any weights the three conditions of a drift hold exactly:
    D >= 0, D(1, A) = 0, and the derivative of D by r is 0 at r = 1. Source: Lu et al. 2022, "Discovered Policy
    Optimisation", section 4, and the authors' code `dpo/brax_drift.py`, where `threshold` is 1e-4.
    """

    hidden: Any  # weights [8, H]
    output: Any  # weights [H]
    threshold: Number = 1e-4
    base: str = static("none", choices=("none", "clipped"))

    @classmethod
    def init(cls, key: Key, hidden: int = 128, base: str = "none") -> "LearnedDrift":
        """Return a drift with random weights (LeCun et al. 1998). `key` is consumed. The default has 1,152 weights.

        With `base="clipped"` the output weights are 0, so that the drift begins as PPO's less the threshold.
        """
        k_hidden, k_output = jax.random.split(key)
        normal = INITIALIZERS["lecun_normal"]
        output = jnp.zeros(hidden) if base == "clipped" else normal(k_output, (hidden, 1), jnp.float32)[:, 0]
        return cls(normal(k_hidden, (8, hidden), jnp.float32), output, base=base)

    def __call__(self, ratio: Sample, advantage: Sample, clip: Any) -> Sample:
        """The loss of each sample. `clip` is used with `base="clipped"` only."""
        return -ratio * advantage + self.drift(ratio, advantage, clip)

    def drift(self, ratio: Sample, advantage: Sample, clip: Any) -> Sample:
        """D(r, A) of each sample."""
        log_ratio, rest = jnp.log(ratio), 1 - ratio
        x = jnp.stack([log_ratio, log_ratio**2, rest, rest**2], axis=-1)
        features = jnp.concatenate([x, advantage[..., None] * x], axis=-1)
        drift = jnp.tanh(features @ self.hidden) @ self.output - self.threshold
        if self.base == "clipped":
            drift = drift + jax.nn.relu((ratio - jnp.clip(ratio, 1 - clip, 1 + clip)) * advantage)
        return jax.nn.relu(drift)


# Structs that an evolution can start from, by name: functions of a key, which is consumed. `scale` is 10 because the
# errors of CartPole's critic are about 10.
FIRST_VALUE_LOSSES = {
    "network": LearnedValueLoss.init,
    "residual": lambda key: LearnedValueLoss.init(key, form="residual").replace(scale=10.0),
}
FIRST_SURROGATES = {"drift": LearnedDrift.init, "clipped-drift": lambda key: LearnedDrift.init(key, base="clipped")}
