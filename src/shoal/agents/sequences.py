"""Replay of sequences for agents with a memory: their fields, and how a network reads a sampled sequence.

A sampled sequence has L steps to learn from, after burn-in steps that the network reads only to bring the stored carry
up to date with its present weights.
Source: Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning" (R2D2), section 3.
Different: sequences may contain the end of an episode, after which the carry is reset, and they begin where a rollout
began, so that carries are stored for these steps only; rewards and Q-values are not rescaled (their function h); the
loss is the mean over the steps of a sequence, not their sum.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.agents.replay_agent import SequenceShape
from shoal.core.agent import check_counts, refuse_ignored
from shoal.core.struct import static
from shoal.nn.memory.fields import check_memory_fields
from shoal.nn.recurrent_torso import RecurrentTorso
from shoal.ops.replay import History, Transitions

# (observations [T, B], whether they begin an episode [T, B], carry [B]) -> (hidden [T, B, H], carry after each [T, B])
Unroll = Callable[[Any, Bool[Array, "T B"], Any], tuple[Float[Array, "T B H"], Any]]


class Hidden(NamedTuple):
    """The hidden vectors of samples, which the heads of a network read."""

    observed: Float[Array, "B H"]
    successor: Float[Array, "B H"]


def length_field() -> Any:
    """Declare `sequence_length`: how many steps of a sampled sequence are learned from."""
    return static(20, help="with a memory: steps of a sampled sequence that are learned from")


def burn_in_field() -> Any:
    """Declare `burn_in`: how many steps of a sampled sequence the memory reads before these."""
    return static(10, help="with a memory: steps before them that only prepare the recurrent carry")


def sequence_shape(agent: Any) -> SequenceShape | None:
    """The sequences that an agent with these fields samples; None without a memory."""
    return None if agent.memory == "none" else SequenceShape(agent.burn_in, agent.sequence_length)


def check_sequences(agent: Any) -> None:
    """Raise ValueError for a memory or a shape of sequences that cannot be, or that has no effect."""
    check_memory_fields(agent)
    if agent.memory == "none":
        return refuse_ignored(agent, "with memory='none'", "sequence_length", "burn_in")
    check_counts(agent, "sequence_length", "num_steps")
    if agent.burn_in < 0:
        raise ValueError(f"burn_in={agent.burn_in} must not be negative; 0 means no burn-in.")
    steps, length = agent.num_steps, agent.sequence_length
    if length % steps:
        near = max(1, round(length / steps)) * steps
        raise ValueError(
            f"sequence_length={length} must be a multiple of num_steps={steps}: sequences begin where rollouts begin, "
            f"so that otherwise some steps would be learned from more often than others. Try {near}."
        )


def hidden_of_sequences(torso: RecurrentTorso, weights: Any, batch: Transitions, shape: SequenceShape) -> Hidden:
    """The hidden vectors that a network makes of samples of sequences, from the stored carries on."""
    history = batch.history
    assert history is not None

    def unroll(*rows: Any) -> tuple[Array, Any]:
        return torso.unroll(weights, *rows)

    hidden, carries = read_after_burn_in(unroll, history, shape.burn_in)
    carries = carries_of_successors(carries, history, shape.burn_in)
    observed = hidden[: shape.length].reshape(-1, hidden.shape[-1])
    return Hidden(observed, torso.hidden(weights, batch.next_observed.obs, carries)[0])


def with_hidden(batch: Transitions, hidden: Hidden) -> Transitions:
    """The samples with hidden vectors in the place of their observations."""
    return batch.replace(
        observed=batch.observed.replace(obs=hidden.observed),
        next_observed=batch.next_observed.replace(obs=hidden.successor),
    )


def read_after_burn_in(unroll: Unroll, history: History, burn_in: int) -> tuple[Float[Array, "T B H"], Any]:
    """(hidden vectors, carries after each row) of the rows after the burn-in, through which no gradient flows."""
    obs, is_first, carry = history.observed.obs, history.is_first, history.carry
    if burn_in:
        _, carries = unroll(jax.tree.map(lambda x: x[:burn_in], obs), is_first[:burn_in], carry)
        carry = jax.lax.stop_gradient(jax.tree.map(lambda x: x[-1], carries))
    return unroll(jax.tree.map(lambda x: x[burn_in:], obs), is_first[burn_in:], carry)


def carries_of_successors(carries: Any, history: History, burn_in: int) -> Any:
    """The carries [L * B] with which the successors of the samples are read: those after the samples' last steps.

    `carries` [T, B] are those after the rows that follow the burn-in.
    """
    batch = history.is_first.shape[1]
    index = (history.last - burn_in) * batch + jnp.arange(history.last.shape[0], dtype=jnp.int32) % batch
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]).at[index].get(mode="promise_in_bounds"), carries)
