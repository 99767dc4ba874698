"""What learners that store experience share: what is kept of a rollout, and how much is learned from it when."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.core.struct import Number, Struct, struct
from shoal.ops.replay import Steps
from shoal.ops.schedules import passed, steps_taken, whole
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
    steps = num_envs * num_steps
    is_time = (steps_taken(age, steps, steps) > starts) & (steps_taken(age, num_steps, num_steps) > n_step)
    return jnp.where(is_time, passed(age, steps, frequency) * whole(iterations), 0)


def batch_shares(batch_size: Number, size: int) -> Float[Array, "B"]:
    """The weight of each of `size` samples in a mean over the first `batch_size` of them; others weigh nothing."""
    used = jnp.clip(jnp.round(batch_size), 1, size)
    return jnp.where(jnp.arange(size) < used, 1 / used, 0)
