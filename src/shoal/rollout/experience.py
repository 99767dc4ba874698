"""What learners that store experience share: what is kept of a rollout, and how much is learned from it when."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.core.struct import Number, Struct, struct
from shoal.ops.replay import Steps
from shoal.rollout.rollout import Trajectory


@struct
class Seen(Struct):
    """What an agent sees of a world: the observation and which actions are allowed (None: all, always)."""

    obs: Any
    mask: Any


def steps_of(trajectory: Trajectory) -> Steps:
    """A rollout as a replay stores it."""
    return Steps(
        seen=Seen(trajectory.obs, trajectory.mask),
        action=trajectory.action,
        reward=trajectory.reward,
        terminated=trajectory.terminated,
        truncated=trajectory.truncated,
        finals=Seen(trajectory.final_obs, trajectory.final_mask),
        final_slot=trajectory.final_slot,
    )


def gradient_steps_due(
    age: Int[Array, ""],
    num_envs: int,
    num_steps: int,
    *,
    starts: Number,
    frequency: Number,
    iterations: Number,
    n_step: int = 1,
) -> Int[Array, ""]:
    """How many gradient steps belong to the update at this age, of `num_steps` steps of `num_envs` environments.

    `iterations` for every `frequency` environment steps, once more than `starts` have been taken; none before a first
    sample of `n_step` steps and its successor are stored.
    """
    before = age * num_envs * num_steps
    after = before + num_envs * num_steps
    every = jnp.maximum(frequency, 1).astype(jnp.int32)
    trainings = after // every - before // every
    is_time = (after > starts) & ((age + 1) * num_steps > n_step)
    return jnp.where(is_time, trainings * jnp.asarray(iterations).astype(jnp.int32), 0)


def batch_shares(batch_size: Number, size: int) -> Float[Array, "B"]:
    """The weight of each of `size` samples in a mean over the first `batch_size` of them; others weigh nothing."""
    return jnp.where(jnp.arange(size) < batch_size, 1 / jnp.minimum(batch_size, size), 0)
