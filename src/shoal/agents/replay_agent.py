"""The base class of agents that learn from a replay buffer: common fields, and the schedule of gradient steps."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from shoal.agents.hindsight import check_hindsight, relabelled
from shoal.agents.normalization import normalization_field, normalized
from shoal.agents.rollout_agent import RolloutAgent
from shoal.core.agent import check_counts, refuse_ignored
from shoal.core.env import Env
from shoal.core.keys import Key
from shoal.core.schedules import steps_taken
from shoal.core.struct import Number, Struct, fill_caps, filled_by_bind, hyper, part, static, struct
from shoal.ops.priorities import Priorities, Window, error_of_sequences
from shoal.ops.replay import Replay, Steps, Transitions, rows_for
from shoal.ops.running import RunningStats
from shoal.ops.schedules import passed, whole
from shoal.rollouts.rollout import Rollout, Trajectory, final_slots

Learner = TypeVar("Learner")  # all that a gradient step changes: weights, target weights, optimizer states
Losses = dict[str, Array]
# (learner, samples [B], weight of each sample in the mean [B], key)
#     -> (learner after one gradient step, losses, the error of each sample [B], from which its priority follows)
# B is L times the number of sequences where an agent samples sequences of L steps.
GradientStep = Callable[[Learner, Transitions, Float[Array, "B"], Key], tuple[Learner, Losses, Float[Array, "B"]]]
Fitted = TypeVar("Fitted", bound="ReplayAgent")


@struct
class Observed(Struct):
    """All that an agent observes: the observation, and the action mask (None if all actions are always allowed)."""

    obs: Any
    mask: Any


class SequenceShape(NamedTuple):
    """The steps of a sampled sequence: `burn_in` of them only prepare the carry, and `length` are learned from."""

    burn_in: int
    length: int


@struct
class ReplayAgent(RolloutAgent):
    """An agent that stores its steps and learns from random samples of them. Abstract.

    An update takes `num_steps` steps of `num_envs` environments and stores them. Then it makes the gradient steps that
    are due: `train_iterations` for every `train_frequency` environment steps, from `learning_starts` on. A subclass
    declares a field again to give it another default.

    A sample joins `n_step` steps: their rewards, and the observation after them. With `prioritized`, samples are taken
    in proportion to a power of their last error, and weighted in the loss by a power of 1 / probability (Schaul et al.
    2016).

    With `hindsight`, which needs an environment with goals, the goal of a sample is replaced with probability
    `hindsight_share`: see `agents/hindsight.py`.

    The replay buffer holds observations as the environment gives them. With `normalize_observation`, an update first
    adds the observations of its rollout to the statistics, then normalizes each sampled batch with them.
    """

    learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    discount: Number = hyper(0.99, search=(0.9, 0.9999), valid=(0, 1))
    batch_size: Number = hyper(256.0, search=(32, 512, "log"), valid=(1, 1e6), cap="max_batch_size")
    buffer_size: Number = hyper(1e5, search=(1e4, 1e6, "log"), valid=(1, 1e9), cap="max_buffer_size")
    learning_starts: Number = hyper(5e3, valid=(0, 1e9), help="environment steps before the first gradient step")
    train_frequency: Number = hyper(
        1.0, search=(1, 16, "log"), valid=(1, 1e9), help="environment steps per train_iterations gradient steps"
    )
    train_iterations: Number = hyper(
        1.0, search=(1, 8), valid=(1, 1e4), help="gradient steps per train_frequency environment steps"
    )
    adam_eps: Number = hyper(1e-8, valid=(1e-12, 1))
    priority_exponent: Number = hyper(0.6, search=(0.3, 1.0), valid=(0, 1), help="0: uniform sampling")
    importance_exponent: Number = hyper(0.4, valid=(0, 1), help="exponent of importance weights")
    hindsight_share: Number = hyper(0.8, valid=(0, 1), help="share of the samples whose goal hindsight replaces")

    num_envs: int = static(1)
    num_steps: int = static(4, help="steps of each environment in one update")
    max_batch_size: int = static(0, help="0: the largest batch_size of the run")
    max_buffer_size: int = static(0, help="0: the largest buffer_size of the run")
    n_step: int = static(1, choices=(1, 2, 3, 5, 10))
    prioritized: bool = static(False, choices=(False, True), help="Schaul et al. 2016")
    hindsight: bool = static(False, choices=(False, True), help="learn from goals that were reached (HER)")
    goal_reward: Any = part(None, help="of hindsight: a function (achieved_goal, desired_goal) -> reward")
    normalize_observation: bool = normalization_field()
    reset: str = static("bank", choices=("bank", "exact"))
    bank_size: int = static(0, help="first states per environment and update; 0: as many as a random policy needs")

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    rollout: Any = filled_by_bind()
    final_rows: Any = filled_by_bind()  # final observations that the buffer holds for each environment

    def fitted(self: Fitted, env: Env) -> Fitted:
        """The agent with the spaces and sizes that follow from an environment: the common part of `bind`.

        Raises ValueError for a buffer that cannot hold one sample and its successor.
        """
        check_counts(self, "n_step")
        if not self.prioritized:
            refuse_ignored(self, "without prioritized=True", "priority_exponent", "importance_exponent")
        check_hindsight(self, env)
        _check_buffer(self)
        (full,) = fill_caps([self])
        return full.replace(
            observation_space=env.observation_space,
            action_space=env.action_space,
            rollout=Rollout.for_env(env, self.num_envs, self.num_steps, self.reset, self.bank_size),
            final_rows=final_slots(env, rows_for(full.max_buffer_size, self.num_envs, self.num_steps)),
        )

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one update: `num_envs` x `num_steps`."""
        return self.num_envs * self.num_steps

    @property
    def learns_from(self) -> Number:
        """Environment steps before the first gradient step: `learning_starts`."""
        return self.learning_starts

    @property
    def sequence(self) -> SequenceShape | None:
        """The shape of the sequences that a recurrent agent samples. Default: None, samples are single steps."""
        return None

    @property
    def incomplete(self) -> int:
        """How many of the newest samples of an environment lack rows that are not stored yet, such as the successor."""
        if self.sequence is None:
            return self.n_step
        return math.ceil((sum(self.sequence) + self.n_step) / self.num_steps) - 1

    @property
    def stride(self) -> int:
        """The rows of the buffer from one row at which a sample may begin to the next: see `Replay.stride`."""
        return 1 if self.sequence is None else self.num_steps

    def empty_replay(self, observed: Observed, action: Array, carry: Any = None) -> Replay:
        """An empty buffer for `max_buffer_size` steps.

        `observed` [E], one `action` and one `carry` (None without a memory) give shapes and dtypes.
        """
        return Replay.empty(
            jax.tree.map(lambda x: x[0], observed),
            action,
            num_envs=self.num_envs,
            num_steps=self.num_steps,
            size=self.max_buffer_size,
            final_rows=self.final_rows,
            carry=carry,
            has_time=self.hindsight,
        )

    def first_priorities(self, replay: Replay) -> Priorities | None:
        """Priorities of an empty buffer; None for uniform sampling."""
        return Priorities.zero(replay.starts * replay.num_envs) if self.prioritized else None

    def add_priorities(self, priorities: Priorities | None, replay: Replay, age: Int[Array, ""]) -> Priorities | None:
        """Give samples the largest priority once all their rows are stored: those that the newest rollout completed.

        Priorities are in the order of the member's age, not of the clock that its replay shares with other members. So
        its samples do not depend on when it began.
        """
        if priorities is None:
            return None
        envs = jnp.arange(self.num_envs, dtype=jnp.int32)[None]
        behind = self.incomplete + jnp.arange(self.num_steps // self.stride, dtype=jnp.int32)[:, None]
        index = replay.index(replay.newest(age), behind, envs).ravel()
        return priorities.set(index, jnp.broadcast_to(priorities.largest, index.shape))

    def share_of(self, sample_weight: Float[Array, "B"]) -> Float[Array, "B"]:
        """The share of each sample in what is reported. Importance weights sum to less than 1; shares sum to 1."""
        return sample_weight / jnp.sum(sample_weight) if self.prioritized else sample_weight

    def importance(self, age: Int[Array, ""]) -> Number:
        """The exponent of importance weights at this age. Default: constant."""
        del age
        return self.importance_exponent

    def gradient_steps_due(self, age: Int[Array, ""]) -> Int[Array, ""]:
        """The number of gradient steps in the update at this age.

        It is 0 before `learning_starts`, and before the buffer holds one sample and its successor.
        """
        # `is_time` compares environment steps, and rows of the buffer, as they are after this update.
        steps, rows = self.steps_per_update, self.num_steps
        is_complete = steps_taken(age, rows, rows) > self.incomplete * self.stride
        is_time = (steps_taken(age, steps, steps) > self.learning_starts) & is_complete
        return jnp.where(is_time, passed(age, steps, self.train_frequency) * whole(self.train_iterations), 0)

    def train_on_replay(
        self,
        gradient_step: GradientStep,
        learner: Learner,
        replay: Replay,
        age: Int[Array, ""],
        clock: Int[Array, ""],
        key: Key,
        stats: RunningStats | None = None,
        priorities: Priorities | None = None,
        env: Env | None = None,
    ) -> tuple[Learner, Losses, Int[Array, ""], Priorities | None]:
        """Make the gradient steps that are due: (learner after them, their mean losses, their number, priorities).

        Batches are sampled uniformly, or by `priorities`; their observations are normalized with `stats`. `env` is the
        environment that gave the steps, whose goals and rewards `hindsight` needs. `key` is consumed.
        """
        newest, usable = replay.newest(clock), replay.usable(age, self.incomplete, self.buffer_size)

        def step(i: Array, learner: Any, priorities: Any) -> tuple[Any, Any, Losses]:
            k_index, k_learn = jax.random.split(jax.random.fold_in(key, i))
            index, weight = self._sample_indices(replay, priorities, age, k_index, newest, usable)
            in_replay = index if priorities is None else _turned(replay, index, newest, age)
            batch = self._take(replay, in_replay)
            if self.hindsight:
                k_learn, k_goals = jax.random.split(k_learn)
                batch = relabelled(self, env, replay, batch, in_replay, newest, k_goals)
            batch = normalized_batch(stats, batch)
            learner, losses, error = gradient_step(learner, batch, self._weight_of_steps(weight), k_learn)
            if priorities is not None:
                error = self._error_of_samples(error)
                priorities = priorities.learn(index, error, self.priority_exponent, weight > 0)
            return learner, priorities, losses

        def step_and_add_losses(i: Array, loop: tuple[Any, Any, Losses]) -> tuple[Any, Any, Losses]:
            learner, priorities, losses = step(i, *loop[:2])
            return learner, priorities, jax.tree.map(jnp.add, loop[2], losses)

        due = self.gradient_steps_due(age)
        shapes = jax.eval_shape(step, due, learner, priorities)[2]
        start = (learner, priorities, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))
        learner, priorities, total = jax.lax.fori_loop(0, due, step_and_add_losses, start)
        return learner, jax.tree.map(lambda x: x / jnp.maximum(due, 1), total), due, priorities

    def _sample_indices(
        self, replay: Replay, priorities: Priorities | None, age: Array, key: Key, newest: Array, usable: Array
    ) -> tuple[Int[Array, "B"], Float[Array, "B"]]:
        # (indices of the samples, of their priorities if there are some, and their weights in the loss). Samples beyond
        # `batch_size` have weight 0.
        size = self.max_batch_size
        sample_weight = sample_weights(self.batch_size, size)
        if priorities is None:
            return replay.uniform(key, size, newest, usable, self.incomplete), sample_weight
        oldest = replay.index(replay.newest(age), self.incomplete + usable - 1, jnp.int32(0))
        within = Window(oldest, usable * self.num_envs, replay.starts * self.num_envs)
        index, probability = priorities.sample(key, size, self.batch_size, within)
        importance = (usable * self.num_envs * jnp.maximum(probability, 1e-12)) ** -self.importance(age)
        return index, sample_weight * importance / jnp.max(jnp.where(sample_weight > 0, importance, 0))

    def _take(self, replay: Replay, index: Int[Array, "B"]) -> Transitions:
        if self.sequence is None:
            return replay.take(index, self.discount, self.n_step)
        return replay.take_sequences(index, self.discount, self.n_step, *self.sequence)

    def _weight_of_steps(self, weight: Float[Array, "B"]) -> Float[Array, "..."]:
        # The steps of a sequence share its weight equally.
        return weight if self.sequence is None else jnp.tile(weight / self.sequence.length, self.sequence.length)

    def _error_of_samples(self, error: Float[Array, "..."]) -> Float[Array, "B"]:
        return error if self.sequence is None else error_of_sequences(error.reshape(self.sequence.length, -1))


def _turned(replay: Replay, index: Int[Array, "B"], newest: Int[Array, ""], age: Int[Array, ""]) -> Int[Array, "B"]:
    """The indices in the replay of samples with these indices in the order of the member's age."""
    ahead = (newest - replay.newest(age)) // replay.stride * replay.num_envs
    return (index + ahead) % (replay.starts * replay.num_envs)


def steps_of(trajectory: Trajectory, carry: Any = None) -> Steps:
    """The steps of a trajectory, for a buffer. `carry` [E] is that of a recurrent policy before the first step."""
    return Steps(
        observed=Observed(trajectory.obs, trajectory.mask),
        action=trajectory.action,
        reward=trajectory.reward,
        terminated=trajectory.terminated,
        truncated=trajectory.truncated,
        final_observed=Observed(trajectory.final_obs, trajectory.final_mask),
        final_slot=trajectory.final_slot,
        carry=carry,
        time=trajectory.episode_length,
    )


def normalized_batch(stats: RunningStats | None, batch: Transitions) -> Transitions:
    """The samples with all their observations normalized: also those of their successors and of their history."""

    def normalize(observed: Observed) -> Observed:
        return observed.replace(obs=normalized(stats, observed.obs))

    history = batch.history
    return batch.replace(
        observed=normalize(batch.observed),
        next_observed=normalize(batch.next_observed),
        history=history and history.replace(observed=normalize(history.observed)),
    )


def critic_loss(
    q_values: Float[Array, "K B"],
    target: Float[Array, "B"],
    sample_weight: Float[Array, "B"],
    share: Float[Array, "B"],
) -> tuple[Float[Array, ""], tuple[Losses, Float[Array, "B"]]]:
    """Return (loss, (losses to report, the mean error of each sample's critics)).

    The loss is the squared error: summed over K critics, and over samples by their weights. `share` is that of each
    sample in the other numbers, as from `share_of`.
    """
    error = q_values - target[None]
    squares = jnp.sum(sample_weight * jnp.sum(error**2, axis=0))
    mean = {"td_error": jnp.abs(error), "q_value": q_values}
    losses = {"loss": squares, **jax.tree.map(lambda x: jnp.sum(share * jnp.mean(x, axis=0)), mean)}
    return squares, (losses, jnp.mean(jnp.abs(error), axis=0))


def sample_weights(batch_size: Number, size: int) -> Float[Array, "B"]:
    """The weight of each of `size` samples in a mean over the first `batch_size` of them; 0 for the others.

    The program is compiled for `size` samples, and `batch_size` is traced.
    """
    used = jnp.clip(jnp.round(batch_size), 1, size)
    return jnp.where(jnp.arange(size) < used, 1 / used, 0)


def _check_buffer(agent: ReplayAgent) -> None:
    """Raise ValueError if the buffer (for a population: the smallest) cannot hold a single sample."""
    n_step, least = agent.n_step, agent.incomplete * agent.stride
    rows = math.ceil(np.min(np.asarray(agent.buffer_size)) / agent.num_envs)
    if rows // agent.stride > agent.incomplete:
        return
    sample, at_least = f"a sample of n_step={n_step} and the row after it", f"more than {least * agent.num_envs}"
    if agent.sequence is not None:
        burn_in, length = agent.sequence
        sample = f"a sequence of burn_in={burn_in} and sequence_length={length} steps and the n_step={n_step} after it"
        at_least = f"at least {(least + agent.stride) * agent.num_envs}"
    raise ValueError(
        f"buffer_size={np.min(np.asarray(agent.buffer_size)):g} holds {rows} steps of each of {agent.num_envs} "
        f"environments: too few for {sample}. It must be {at_least}."
    )
