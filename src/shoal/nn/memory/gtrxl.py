"""The gated transformer (GTrXL): attention over the latest steps of an episode, and gates instead of skip connections.

Axes: D inputs, H units, L layers, N heads; W steps that attention sees, this one included; V = W - 1; S = V + T.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.keys import Key
from shoal.nn.dense import along_last_axis, apply_dense, init_dense
from shoal.nn.memory.contract import Weights, named


class GTrXLCarry(NamedTuple):
    """The inputs of each layer in the last W - 1 steps, the newest last, and how many of them belong to the episode."""

    past: Float[Array, "*axes L V H"]
    count: Int[Array, "*axes"]


@named("gtrxl")
class GTrXL(NamedTuple):
    """A gated transformer with `size` units, which sees the last `window` steps of the episode in each of its layers.

        a = attention(norm(x), norm(x of the last W steps))
        y = gate(x, relu(a))
        output = gate(y, relu(W_2 relu(W_1 norm(y))))
        gate(x, y): r = sigmoid(W_r y + U_r x); z = sigmoid(W_z y + U_z x - b); n = tanh(W_n y + U_n (r x))
                    (1 - z) x + z n

    The logit of a step d steps ago is q (k + p_d) / sqrt(H / N), with a learned vector p_d for each distance. A dense
    layer first maps the D inputs to H units. Initially b is 2, so that a layer lets x pass.
    Source: Parisotto et al. 2020, "Stabilizing transformers for reinforcement learning", sections 3.1 and 3.2.
    Different: a learned vector for each distance (Shaw et al. 2018) and not sinusoids, because W is small; one small
    layer (the paper has 12 of 256 units); W_1 has H units.
    """

    size: int
    window: int = 32
    layers: int = 1
    heads: int = 4

    def init(self, key: Key, inputs: Float[Array, "*axes D"]) -> Weights:
        """Initial weights, for inputs of this size. `key` is consumed. N must divide H."""
        k_in, k_layers = jax.random.split(key)
        layers = [self._init_layer(k) for k in jax.random.split(k_layers, self.layers)]
        return {"in": init_dense(k_in, inputs.shape[-1], self.size, scale=1.0), "layers": layers}

    def initial_carry(self, axes: tuple[int, ...] = ()) -> GTrXLCarry:
        """The carry at the start of an episode."""
        past = jnp.zeros((*axes, self.layers, self.window - 1, self.size), jnp.float32)
        return GTrXLCarry(past, jnp.zeros(axes, jnp.int32))

    def step(
        self, weights: Weights, inputs: Float[Array, "*axes D"], carry: GTrXLCarry
    ) -> tuple[Float[Array, "*axes H"], GTrXLCarry]:
        """(output, next carry) for one input."""
        is_first = jnp.zeros((1, *inputs.shape[:-1]), bool)
        output, carries = self.unroll(weights, inputs[None], is_first, carry)
        return output[0], jax.tree.map(lambda x: x[0], carries)

    def unroll(
        self, weights: Weights, inputs: Float[Array, "T *axes D"], is_first: Bool[Array, "T *axes"], carry: GTrXLCarry
    ) -> tuple[Float[Array, "T *axes H"], GTrXLCarry]:
        """(outputs, carry after each step) for T inputs. The carry is reset before every step with `is_first`."""
        one = self._unroll_one
        for _ in range(is_first.ndim - 1):
            one = jax.vmap(one, in_axes=(None, 1, 1, 0), out_axes=1)
        return one(weights, inputs, is_first, carry)

    def _unroll_one(
        self, weights: Weights, inputs: Float[Array, "T D"], is_first: Bool[Array, "T"], carry: GTrXLCarry
    ) -> tuple[Float[Array, "T H"], GTrXLCarry]:
        count = _steps_before(is_first, carry.count)
        x, windows = apply_dense(weights["in"], inputs), []
        for layer, past in zip(weights["layers"], carry.past, strict=True):
            all_steps = jnp.concatenate([past, x])  # [V + T, H]
            windows.append(self._windows(all_steps[1:], count))
            x = self._layer(layer, x, all_steps, count)
        seen = jnp.minimum(count + 1, self.window - 1)
        return x, GTrXLCarry(jnp.stack(windows, axis=1), seen)

    def _windows(self, steps: Float[Array, "S H"], count: Int[Array, "T"]) -> Float[Array, "T V H"]:
        # The V steps up to each of the last T, with 0 for those of earlier episodes.
        past = self.window - 1
        rows = _numbers(count.shape[0])[:, None] + _numbers(past)[None]
        is_known = _numbers(past)[None] >= past - 1 - count[:, None]
        return jnp.where(is_known[..., None], steps[rows], 0)

    def _layer(
        self, layer: Weights, x: Float[Array, "T H"], all_steps: Float[Array, "S H"], count: Int[Array, "T"]
    ) -> Float[Array, "T H"]:
        y = _gate(layer["gate_1"], x, jax.nn.relu(self._attention(layer, x, all_steps, count)))
        hidden = jax.nn.relu(apply_dense(layer["mlp_1"], _normalized(layer["norm_2"], y)))
        return _gate(layer["gate_2"], y, jax.nn.relu(apply_dense(layer["mlp_2"], hidden)))

    def _attention(
        self, layer: Weights, x: Float[Array, "T H"], all_steps: Float[Array, "S H"], count: Int[Array, "T"]
    ) -> Float[Array, "T H"]:
        heads = (self.heads, self.size // self.heads)
        query = apply_dense(layer["query"], _normalized(layer["norm_1"], x)).reshape(-1, *heads)
        key_and_value = apply_dense(layer["key_and_value"], _normalized(layer["norm_1"], all_steps))
        key, value = (part.reshape(-1, *heads) for part in jnp.split(key_and_value, 2, axis=-1))
        logits = jnp.einsum("tnh,snh->nts", query, key) + _shifted(jnp.einsum("tnh,wnh->ntw", query, layer["distance"]))
        distance = _numbers(x.shape[0])[:, None] + self.window - 1 - _numbers(all_steps.shape[0])[None]
        is_seen = (distance >= 0) & (distance <= jnp.minimum(count, self.window - 1)[:, None])
        weight = jax.nn.softmax(jnp.where(is_seen[None], logits / heads[1] ** 0.5, -jnp.inf))
        return apply_dense(layer["mix"], jnp.einsum("nts,snh->tnh", weight, value).reshape(x.shape))

    def _init_layer(self, key: Key) -> Weights:
        k_query, k_keys, k_distance, k_mix, k_1, k_2, k_gate_1, k_gate_2 = jax.random.split(key, 8)
        dense = partial(init_dense, rows=self.size, scale=1.0)
        heads = (self.heads, self.size // self.heads)
        return {
            "norm_1": jnp.ones((self.size,), jnp.float32),
            "query": dense(k_query, columns=self.size),
            "key_and_value": dense(k_keys, columns=2 * self.size),
            "distance": 0.02 * jax.random.normal(k_distance, (self.window, *heads), jnp.float32),  # the longest first
            "mix": dense(k_mix, columns=self.size),
            "gate_1": _init_gate(k_gate_1, self.size),
            "norm_2": jnp.ones((self.size,), jnp.float32),
            "mlp_1": dense(k_1, columns=self.size),
            "mlp_2": dense(k_2, columns=self.size),
            "gate_2": _init_gate(k_gate_2, self.size),
        }


def _numbers(count: int) -> Int[Array, "count"]:
    # 0, 1, 2, ..., in 32 bits also where JAX has 64.
    return jnp.arange(count, dtype=jnp.int32)


def _steps_before(is_first: Bool[Array, "T"], count: Int[Array, ""]) -> Int[Array, "T"]:
    # How many earlier steps of its episode are known at each step; `count` of them before the first.
    time = _numbers(is_first.shape[0])
    start = jax.lax.cummax(jnp.where(is_first, time, -count))
    return time - start


def _shifted(by_distance: Float[Array, "N T W"]) -> Float[Array, "N T S"]:
    # Entry w of row t moves to column t + w, S = T + W - 1: rows of length S + 1, read again as rows of length S.
    heads, steps, window = by_distance.shape
    width = steps + window - 1
    rows = jnp.pad(by_distance, ((0, 0), (0, 0), (0, width + 1 - window)))
    return rows.reshape(heads, -1)[:, : steps * width].reshape(heads, steps, width)


def _normalized(scale: Float[Array, "H"], x: Float[Array, "*axes H"]) -> Float[Array, "*axes H"]:
    # Layer normalization without an offset.
    centered = x - jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(centered**2, axis=-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + 1e-6) * along_last_axis(scale, x.ndim)


def _init_gate(key: Key, size: int) -> Weights:
    k_y, k_x, k_new = jax.random.split(key, 3)
    y = init_dense(k_y, size, 3 * size, scale=1.0)
    bias = jnp.repeat(jnp.asarray([0.0, -2.0, 0.0], jnp.float32), size)
    x = init_dense(k_x, size, 2 * size, scale=1.0)["kernel"]
    return {"y": {**y, "bias": bias}, "x": x, "new": init_dense(k_new, size, size, scale=1.0)["kernel"]}


def _gate(gate: Weights, x: Float[Array, "*axes H"], y: Float[Array, "*axes H"]) -> Float[Array, "*axes H"]:
    of_reset, of_update, of_new = jnp.split(apply_dense(gate["y"], y), 3, axis=-1)
    reset_x, update_x = jnp.split(x @ gate["x"], 2, axis=-1)
    update = jax.nn.sigmoid(of_update + update_x)
    new = jnp.tanh(of_new + (jax.nn.sigmoid(of_reset + reset_x) * x) @ gate["new"])
    return x + update * (new - x)
