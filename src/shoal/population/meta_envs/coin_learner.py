"""The learner in the coin game: a small PPO agent as pure functions, whose whole state fits in an environment state.

Source: github.com/luchris429/Model-Free-Opponent-Shaping, `src/coin_game/coin_game_ppo_agent.py`: its networks, loss
and optimizer. Each of actor and critic has two convolutions on the torus and two dense layers.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.form import current
from shoal.core.keys import Key
from shoal.core.struct import Number, Struct, struct
from shoal.ops.loops import short_scan

CHANNELS, UNITS, ACTIONS = 2, 8, 4
IN_CHANNELS, CELLS = 4, 9
CENTERED = tuple((row, column) for row in (-1, 0, 1) for column in (-1, 0, 1))  # cells relative to the middle one
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # of Adam
Weights = Any


@struct
class Learner(Struct):
    """Weights of actor and critic, and the averages of Adam."""

    weights: Weights
    first: Weights  # average of gradients
    second: Weights  # average of squared gradients
    steps: Int[Array, ""]  # gradient steps so far


@struct
class Experience(Struct):
    """Observations and actions of the learner in an inner episode of T moves in G games, or in one move (no axis T)."""

    obs: Bool[Array, "*T G 3 3 4"]
    action: Int[Array, "*T G"]
    log_prob: Float[Array, "*T G"]
    reward: Float[Array, "*T G"]

    @classmethod
    def empty(cls, steps: int, games: int) -> "Experience":
        """An experience of zeros, with `steps` moves in `games` games."""
        numbers = jnp.zeros((steps, games), jnp.float32)
        return cls(
            jnp.zeros((steps, games, 3, 3, 4), jnp.bool_), jnp.zeros((steps, games), jnp.int32), numbers, numbers
        )

    def written(self, t: Int[Array, ""], step: "Experience") -> "Experience":
        """The experience with `step`, whose leaves lack the axis T, written at time `t`; unchanged if t is outside."""
        steps = self.action.shape[0]

        def write(old: Array, new: Array) -> Array:
            is_now = (jnp.arange(steps, dtype=jnp.int32) == t).reshape((steps,) + (1,) * new.ndim)
            return jnp.where(is_now, new[None], old)

        return jax.tree.map(write, self, step)


def new_learner(key: Key) -> Learner:
    """A learner with random weights, uniform in +-1/sqrt(inputs of the layer) as in torch. `key` is consumed."""
    sizes = ((9 * IN_CHANNELS, CHANNELS), (9 * CHANNELS, CHANNELS), (CELLS * CHANNELS, UNITS))
    weights = {}
    for name, outputs, part in (("actor", ACTIONS, 0), ("critic", 1, 1)):
        layers = (*sizes, (UNITS, outputs))
        keys = jax.random.split(jax.random.fold_in(key, part), (len(layers), 2))
        weights[name] = [_layer(keys[i], *layer) for i, layer in enumerate(layers)]
    zeros = jax.tree.map(jnp.zeros_like, weights)
    return Learner(weights, zeros, zeros, jnp.int32(0))


def log_probs(weights: Weights, obs: Bool[Array, "*axes 3 3 4"]) -> Float[Array, "*axes 4"]:
    """The log-probabilities of the learner's actions."""
    return jax.nn.log_softmax(_network(weights["actor"], obs))


def value(weights: Weights, obs: Bool[Array, "*axes 3 3 4"]) -> Float[Array, "*axes"]:
    """The learner's estimates of its normalized returns."""
    return _network(weights["critic"], obs)[..., 0]


def learned(
    learner: Learner,
    experience: Experience,
    epochs: Int[Array, ""] | int,
    *,
    learning_rate: Number,
    discount: Number,
    clip: Number,
    entropy_coef: Number,
) -> Learner:
    """The learner after `epochs` gradient steps on all its experience; 0 changes nothing.

    `epochs` may be traced. The loop of a batch of environments then has as many iterations as the largest `epochs` in
    the batch, so a step in which no environment has an update takes no gradient steps.
    """
    returns = normalized_returns(experience.reward, discount)

    def loss(weights: Weights) -> Float[Array, ""]:
        log_p = log_probs(weights, experience.obs)
        chosen = jnp.take_along_axis(log_p, experience.action[..., None], axis=-1)[..., 0]
        ratio = jnp.exp(chosen - experience.log_prob)
        estimate = value(weights, experience.obs)
        advantage = returns - jax.lax.stop_gradient(estimate)
        surrogate = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)
        entropy = -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
        return jnp.mean(-surrogate - entropy_coef * entropy) + 0.5 * jnp.mean((estimate - returns) ** 2)

    def step(_: Array, learner: Learner) -> Learner:
        return _adam(learner, jax.grad(loss)(learner.weights), learning_rate)

    return jax.lax.fori_loop(jnp.int32(0), jnp.asarray(epochs, jnp.int32), step, learner)


def normalized_returns(reward: Float[Array, "T G"], discount: Number) -> Float[Array, "T G"]:
    """Discounted sums of the rewards until the end of the episode, shifted and scaled to mean 0 and deviation 1."""

    def add(total: Float[Array, "G"], reward: Float[Array, "G"]) -> tuple[Float[Array, "G"], Float[Array, "G"]]:
        total = reward + discount * total
        return total, total

    _, returns = short_scan(add, jnp.zeros_like(reward[0]), reward, reverse=True)
    return (returns - jnp.mean(returns)) / (jnp.std(returns, ddof=1) + 1e-5)


def _adam(learner: Learner, gradient: Weights, learning_rate: Number) -> Learner:
    steps = learner.steps + 1
    first = jax.tree.map(lambda m, g: BETA_1 * m + (1 - BETA_1) * g, learner.first, gradient)
    second = jax.tree.map(lambda v, g: BETA_2 * v + (1 - BETA_2) * g**2, learner.second, gradient)
    count = steps.astype(jnp.float32)
    scale_1, scale_2 = 1 / (1 - BETA_1**count), 1 / (1 - BETA_2**count)

    def moved(w: Array, m: Array, v: Array) -> Array:
        return w - learning_rate * (m * scale_1) / (jnp.sqrt(v * scale_2) + EPSILON)

    return Learner(jax.tree.map(moved, learner.weights, first, second), first, second, steps)


def _network(layers: list, obs: Bool[Array, "*axes 3 3 4"]) -> Float[Array, "*axes n"]:
    x = obs.astype(jnp.float32)
    for kernel, bias in layers[:2]:
        x = jax.nn.relu(_convolved(x, kernel) + _as_last(bias, x.ndim))
    x = x.reshape(*x.shape[:-3], CELLS * CHANNELS)
    for i, (kernel, bias) in enumerate(layers[2:]):
        x = x @ kernel + _as_last(bias, x.ndim)
        x = jax.nn.relu(x) if i == 0 else x
    return x


def _as_last(bias: Float[Array, "n"], ndim: int) -> Float[Array, "*ones n"]:
    return bias.reshape((1,) * (ndim - 1) + bias.shape)


def _convolved(x: Float[Array, "*axes 3 3 C"], kernel: Float[Array, "n out"]) -> Float[Array, "*axes 3 3 out"]:
    """The convolution of a board on the torus with a kernel, whose rows are those of `_neighborhoods`.

    On a GPU it is one product of the board with a matrix [9 C, 9 out], which has the kernel once for each cell of the
    result: neighborhoods repeat the board nine times, for every move of an episode.
    """
    if not current().unroll_short_loops:
        return _neighborhoods(x) @ kernel
    square = kernel.reshape(3, 3, x.shape[-1], -1)
    matrix = jnp.stack([jnp.roll(square, cell, axis=(0, 1)) for cell in CENTERED], axis=3)
    cells = x.reshape(*x.shape[:-3], -1) @ matrix.reshape(CELLS * x.shape[-1], -1)
    return cells.reshape(*x.shape[:-1], -1)


def _neighborhoods(x: Float[Array, "*axes 3 3 C"]) -> Float[Array, "*axes 3 3 n"]:
    """For each cell the channels of the 3 x 3 cells around it on the torus, row by row: n = 9 C."""
    return jnp.concatenate([jnp.roll(x, (-row, -column), axis=(-3, -2)) for row, column in CENTERED], axis=-1)


def _layer(keys: Any, inputs: int, outputs: int) -> tuple[Float[Array, "inputs outputs"], Float[Array, "outputs"]]:
    bound = inputs**-0.5
    kernel = jax.random.uniform(keys[0], (inputs, outputs), jnp.float32, -bound, bound)
    return kernel, jax.random.uniform(keys[1], (outputs,), jnp.float32, -bound, bound)
