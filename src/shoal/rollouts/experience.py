"""What learners that store experience share: what is kept of a rollout, and how much is learned from it when.

They name their numbers alike: `num_envs`, `num_steps`, `buffer_size`, `batch_size`, `learning_starts`,
`train_frequency`, `train_iterations`, as `agents/dqn.py` explains them.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.keys import Key
from shoal.core.struct import Number, Struct, struct
from shoal.nn.distributions import draw_noise
from shoal.ops.replay import Replay, Steps
from shoal.ops.schedules import passed, steps_taken, whole
from shoal.rollouts.rollout import Trajectory


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


def gradient_steps_due(agent: Any, age: Int[Array, ""], n_step: int = 1) -> Int[Array, ""]:
    """How many gradient steps belong to the update at this age.

    `train_iterations` for every `train_frequency` environment steps, once more than `learning_starts` have been taken;
    none before a first sample of `n_step` steps and its successor are stored.
    """
    steps, rows = agent.steps_per_update, agent.num_steps
    is_time = (steps_taken(age, steps, steps) > agent.learning_starts) & (steps_taken(age, rows, rows) > n_step)
    return jnp.where(is_time, passed(age, steps, agent.train_frequency) * whole(agent.train_iterations), 0)


def chances(agent: Any, age: Int[Array, ""], key: Key) -> tuple[Array, Bool[Array, "T"]]:
    """(noise of the actions [T, E], whether they are still uniform) for the rollout at this age. `key` is consumed."""
    noise = draw_noise(agent.action_space, key, (agent.num_steps, agent.num_envs))
    within = jnp.arange(agent.num_steps, dtype=jnp.int32) * agent.num_envs
    return noise, steps_taken(age, agent.steps_per_update, within) < agent.learning_starts


def empty_replay(agent: Any, seen: Seen, action: Array) -> Replay:
    """Room for `max_buffer_size` samples; `seen` [E] and one `action` are examples."""
    return Replay.empty(
        jax.tree.map(lambda x: x[0], seen),
        action,
        num_envs=agent.num_envs,
        num_steps=agent.num_steps,
        size=agent.max_buffer_size,
        final_rows=agent.final_rows,
    )


def practise(
    agent: Any, learner: Any, replay: Replay, age: Int[Array, ""], clock: Int[Array, ""], key: Key
) -> tuple[Any, dict[str, Array], Int[Array, ""]]:
    """(learner after the gradient steps that are due, its mean losses, how many steps that were). `key` is consumed.

    Each is `agent.learn(learner, batch, share, key)` on a batch drawn uniformly, and gives losses by name.
    """
    newest, usable = replay.newest(clock), replay.usable(age, limit=agent.buffer_size)
    share = batch_shares(agent.batch_size, agent.max_batch_size)

    def step(i: Array, learner: Any) -> tuple[Any, dict[str, Array]]:
        k_index, k_learn = jax.random.split(jax.random.fold_in(key, i))
        index = replay.uniform(k_index, agent.max_batch_size, newest, usable)
        return agent.learn(learner, replay.take(index, agent.discount), share, k_learn)

    def add(i: Array, loop: tuple[Any, dict[str, Array]]) -> tuple[Any, dict[str, Array]]:
        learner, losses = step(i, loop[0])
        return learner, jax.tree.map(jnp.add, loop[1], losses)

    due = gradient_steps_due(agent, age)
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(step, due, learner)[1])
    learner, total = jax.lax.fori_loop(0, due, add, (learner, nothing))
    return learner, jax.tree.map(lambda x: x / jnp.maximum(due, 1), total), due


def critic_loss(
    worth: Float[Array, "K B"], target: Float[Array, "B"], share: Float[Array, "B"]
) -> tuple[Float[Array, ""], dict[str, Array]]:
    """(squared errors of K critics, summed over them and averaged over samples; what to log of them)."""
    error = worth - target[None]
    squares = jnp.sum(share * jnp.sum(error**2, axis=0))
    mean = {"td_error": jnp.abs(error), "worth": worth}
    return squares, {"loss": squares, **jax.tree.map(lambda x: jnp.sum(share * jnp.mean(x, axis=0)), mean)}


def check_buffer(agent: Any, n_step: int = 1) -> None:
    """Raise ValueError where a buffer, of one agent or the smallest of a population, cannot hold a single sample."""
    held = math.ceil(np.min(agent.buffer_size) / agent.num_envs)
    if held <= n_step:
        raise ValueError(
            f"buffer_size={np.min(agent.buffer_size):g} holds {held} steps of each of {agent.num_envs} environments: "
            f"too few for samples of {n_step} and their successors. It must be more than {n_step * agent.num_envs}."
        )


def batch_shares(batch_size: Number, size: int) -> Float[Array, "B"]:
    """The weight of each of `size` samples in a mean over the first `batch_size` of them; others weigh nothing."""
    used = jnp.clip(jnp.round(batch_size), 1, size)
    return jnp.where(jnp.arange(size) < used, 1 / used, 0)
