"""The linear recurrent unit (LRU): a diagonal state-space model with complex states.

Axes: D inputs, H units, S = H / 2 (rounded up) complex states, which are H real numbers.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from shoal.core.keys import Key
from shoal.nn.dense import along_last_axis, apply_dense, init_dense
from shoal.nn.memory.contract import Weights, named
from shoal.nn.memory.scan import linear_recurrence

SLOWEST, FASTEST = 0.999, 0.4  # |decay| of the units at first: they halve in 693 steps to less than one
LARGEST_PHASE = jnp.pi / 10  # at most one rotation in 20 steps at first


class LRUCarry(NamedTuple):
    """The complex states of an LRU, as two real arrays, so that checkpoints and optimizers see only real numbers."""

    real: Float[Array, "*axes S"]
    imaginary: Float[Array, "*axes S"]


@named("lru")
class LRU(NamedTuple):
    """A linear recurrent unit with an output of `size` units from half as many complex states.

        decay = exp(-exp(a) + i exp(b))                    |decay| < 1 for every a
        h = decay h + sqrt(1 - |decay|^2) B x              B complex [D, S]
        y = gelu(Re(C h) + E x)                            C complex [S, H]
        output = y * sigmoid(W y + c)

    Initially |decay|^2 is uniform between 0.4^2 and 0.999^2 and the phase up to pi / 10. B, C and E are normal with
    variance 1 / inputs (B: half of it for real and imaginary parts), W is orthogonal, c is 0.
    Source: Orvieto et al. 2023, "Resurrecting recurrent neural networks for long sequences", section 3 and appendix A;
    the gated output is that of S5, Smith et al. 2023, appendix G.2. Different: no normalization and no skip connection,
    because the torso before it and the head after it have none.
    """

    size: int

    def init(self, key: Key, inputs: Float[Array, "*axes D"]) -> Weights:
        """Initial weights, for inputs of this size. `key` is consumed."""
        k_modulus, k_phase, k_in, k_out, k_skip, k_gate = jax.random.split(key, 6)
        rows, states = inputs.shape[-1], self._states
        square = FASTEST**2 + (SLOWEST**2 - FASTEST**2) * jax.random.uniform(k_modulus, (states,), jnp.float32)
        return {
            "log_decay": jnp.log(-0.5 * jnp.log(square)),
            "log_phase": jnp.log(LARGEST_PHASE * jax.random.uniform(k_phase, (states,), jnp.float32, minval=1e-3)),
            "in": _normal(k_in, (rows, 2 * states), 2 * rows),
            "out": _normal(k_out, (2 * states, self.size), states),
            "skip": _normal(k_skip, (rows, self.size), rows),
            "gate": init_dense(k_gate, self.size, self.size, scale=1.0),
        }

    def initial_carry(self, axes: tuple[int, ...] = ()) -> LRUCarry:
        """The carry at the start of an episode."""
        zero = jnp.zeros((*axes, self._states), jnp.float32)
        return LRUCarry(zero, zero)

    def step(
        self, weights: Weights, inputs: Float[Array, "*axes D"], carry: LRUCarry
    ) -> tuple[Float[Array, "*axes H"], LRUCarry]:
        """(output, next carry) for one input."""
        decay, added = _decay_and_added(weights, inputs)
        state = decay * jax.lax.complex(*carry) + added
        return _output(weights, inputs, state), LRUCarry(state.real, state.imag)

    def unroll(self, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Any, carry: Any) -> tuple[Any, Any]:
        """(outputs, carry after each step) for T inputs, reset before every step with `is_first`."""
        decay, added = _decay_and_added(weights, inputs)
        states = linear_recurrence(decay, added, is_first, jax.lax.complex(*carry))
        return _output(weights, inputs, states), LRUCarry(states.real, states.imag)

    @property
    def _states(self) -> int:
        return (self.size + 1) // 2


def _decay_and_added(weights: Weights, inputs: Float[Array, "*axes D"]) -> tuple[Array, Array]:
    modulus = jnp.exp(-jnp.exp(weights["log_decay"]))
    phase = jnp.exp(weights["log_phase"])
    gain = along_last_axis(jnp.sqrt(1 - modulus**2), inputs.ndim)  # keeps the variance of B x, without correlation
    real, imaginary = jnp.split(inputs @ weights["in"], 2, axis=-1)
    added = jax.lax.complex(gain * real, gain * imaginary)
    decay = jax.lax.complex(modulus * jnp.cos(phase), modulus * jnp.sin(phase))
    return jnp.broadcast_to(decay, added.shape), added


def _output(weights: Weights, inputs: Float[Array, "*axes D"], state: Complex[Array, "*axes S"]) -> Array:
    parts = jnp.concatenate([state.real, -state.imag], axis=-1)  # so that the product with C is Re(C h)
    y = jax.nn.gelu(parts @ weights["out"] + inputs @ weights["skip"])
    return y * jax.nn.sigmoid(apply_dense(weights["gate"], y))


def _normal(key: Key, shape: tuple[int, ...], fan_in: int) -> Float[Array, "..."]:
    return jax.random.normal(key, shape, jnp.float32) / jnp.sqrt(jnp.float32(fan_in))
