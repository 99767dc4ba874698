"""Exact values of two-player games with two actions, and the gradient steps of learners that play them.

A policy of an iterated game remembers one round. It has five logits of the probability of the first action (cooperate,
C): in the first round, and after the rounds CC, CD, DC and DD, where the player's own action is named first. A policy
of a game with a single round has one logit. All functions differentiate.

Source: the code of Lu et al. 2022, "Model-Free Opponent Shaping" (github.com/luchris429/Model-Free-Opponent-Shaping,
`src/environments.py`), whose games and opponents are those of Letcher 2021, "On the Impossibility of Global Convergence
in Multi-Loss Optimization". LOLA: Foerster et al. 2018, "Learning with Opponent-Learning Awareness".
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.core.struct import Number
from shoal.ops.loops import short_scan

SWAPPED = np.array([0, 1, 3, 2, 4])  # the logits of a player, ordered by rounds as the other player names them

# (logits of player 1, logits of player 2) -> the values of both players, [2]
Values = Callable[[Float[Array, "D"], Float[Array, "D"]], Float[Array, "2"]]


def one_round_values(
    logits_1: Float[Array, "1"], logits_2: Float[Array, "1"], payoffs: Float[Array, "4 2"]
) -> Float[Array, "2"]:
    """The expected payoffs of both players in one round. `payoffs` has a row for each of CC, CD, DC, DD."""
    return _product(_joint(jax.nn.sigmoid(logits_1[0]), jax.nn.sigmoid(logits_2[0])), payoffs)


def iterated_values(
    logits_1: Float[Array, "5"], logits_2: Float[Array, "5"], payoffs: Float[Array, "4 2"], discount: Number
) -> Float[Array, "2"]:
    """The exact discounted values of both players in the iterated game.

        v = p0 (I - discount P)^-1 payoffs

    The four outcomes of a round (CC, CD, DC, DD; the action of player 1 first) are the states of a Markov chain. p0 [4]
    are their probabilities in the first round, P [4, 4] those of the next round after each. The value per round is
    (1 - discount) v.
    """
    chance_1, chance_2 = jax.nn.sigmoid(logits_1), jnp.take(jax.nn.sigmoid(logits_2), SWAPPED, mode="clip")
    outcome = jax.vmap(_joint)(chance_1, chance_2)  # [5, 4]: in the first round, and after each outcome
    discount = jnp.asarray(discount, outcome.dtype)  # float64 in x64 mode
    return _product(outcome[0], _solve(jnp.eye(4, dtype=outcome.dtype) - discount * outcome[1:], payoffs))


def naive_step(
    values: Values, own: Float[Array, "D"], other: Float[Array, "D"], learning_rate: Number
) -> Float[Array, "D"]:
    """The logits `own` of player 1 after a gradient step on its own value, with the other's logits held fixed."""
    return own + learning_rate * jax.grad(lambda own: values(own, other)[0])(own)


def lola_step(
    values: Values, own: Float[Array, "D"], other: Float[Array, "D"], learning_rate: Number
) -> Float[Array, "D"]:
    """The logits `own` of player 1 after a step of LOLA, which expects that the other takes a naive step.

        own + rate d/d own [ V1 + rate (dV1/d other) . (dV2/d other) ]

    The second term is the first-order effect on V1 of the other's naive step. As in the reference, both factors of it
    are differentiated.
    """

    def objective(own: Float[Array, "D"]) -> Float[Array, ""]:
        gradients = jax.jacrev(lambda other: values(own, other))(other)  # [2, D]
        return values(own, other)[0] + _product(learning_rate * gradients[0], gradients[1])

    return own + learning_rate * jax.grad(objective)(own)


def _product(left: Array, right: Array) -> Array:
    """The matrix product in full single precision, which is not the default of a GPU (TF32 there)."""
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


def _joint(chance_1: Float[Array, ""], chance_2: Float[Array, ""]) -> Float[Array, "4"]:
    """Probabilities of CC, CD, DC, DD for two independent probabilities of C."""
    return jnp.outer(jnp.stack([chance_1, 1 - chance_1]), jnp.stack([chance_2, 1 - chance_2])).ravel()


def _solve(matrix: Float[Array, "n n"], right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The solution x of `matrix` x = `right`, without LAPACK, whose batched solve can wait forever on a CPU.

    In I - discount P every diagonal entry is larger than the sum of the others of its row, by 1 - discount. Elimination
    then needs no pivoting. Derivatives are the solutions of further systems of this matrix and its transpose.
    """
    return jax.lax.custom_linear_solve(
        lambda x: _product(matrix, x),
        right,
        lambda _, b: _eliminate(matrix, b),
        lambda _, b: _eliminate(matrix.T, b),
    )


def _eliminate(matrix: Float[Array, "n n"], right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Gauss-Jordan elimination without pivoting."""
    size = matrix.shape[0]
    rows = jnp.arange(size, dtype=jnp.int32)

    def step(table: Float[Array, "n m"], k: Array) -> tuple[Float[Array, "n m"], None]:
        pivot = jax.lax.dynamic_index_in_dim(table, k, 0, keepdims=False)
        column = jax.lax.dynamic_index_in_dim(table, k, 1, keepdims=False)
        pivot = pivot / jax.lax.dynamic_index_in_dim(pivot, k, keepdims=False)
        return jnp.where((rows == k)[:, None], pivot[None], table - jnp.outer(column, pivot)), None

    return short_scan(step, jnp.concatenate([matrix, right], axis=1), rows)[0][:, size:]
