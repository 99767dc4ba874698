"""Vectorized rollouts: step E environments T times, with automatic resets from a reset bank.

Other libraries compute a reset for every environment at every step and discard nearly all of them, which is slow. Here
one batched call per rollout samples a bank of first states; an environment whose episode ends takes its next state from
the bank. `Env.step` never resets; the rollout does, and it keeps the true final observation of truncated episodes.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.env import MAX_TIME, Env, Key, Observation, State, episode_limit
from shoal.core.form import current
from shoal.core.struct import Number, Struct, is_concrete, static, struct
from shoal.ops import sums
from shoal.ops.devices import device_share
from shoal.rollouts.episodes import EpisodeStats
from shoal.rollouts.unchanged import Unchanged

# (observation [E], action mask [E, A] or None, the policy's noise of this step, carry [E])
#     -> (action [E], further outputs to record [E], carry [E])
# As `jax.lax.scan`: (step, start, rows [T, ...]) -> (what is carried after the last step, what each step records)
Scan = Callable[[Callable[[Any, Any], tuple[Any, Any]], Any, Any], tuple[Any, Any]]
Policy = Callable[[Observation, Any, Any, Any], tuple[Any, Any, Any]]


@struct
class EnvStates(Struct):
    """The states of E environments between two rollouts. All leaves have a leading axis [E]."""

    state: State
    episode_return: Float[Array, "E"]  # sum of the rewards so far in the current episode
    rounding: Float[Array, "E"] | None = None  # of this sum (`ops.sums`); None where episodes are short


@struct
class Trajectory(Struct):
    """The record of T steps of E environments. XLA removes the fields that the caller does not use."""

    obs: Observation  # [T, E], the observation before each step
    mask: Any  # [T, E, A], which actions were allowed; None if all actions always are
    action: Any  # [T, E]
    policy_output: Any  # [T, E], the further outputs of the policy
    reward: Float[Array, "T E"]
    terminated: Bool[Array, "T E"]
    truncated: Bool[Array, "T E"]
    is_first: Bool[Array, "T E"]  # whether `obs` is the first observation of its episode
    episode_return: Float[Array, "T E"]  # sum of the rewards of the current episode, this step included
    episode_length: Int[Array, "T E"]  # number of steps of the current episode, this step included
    info: dict[str, Array]  # [T, E]
    last_obs: Observation  # [E], the observation after the last step (and after a reset, if the episode ended)
    last_mask: Any  # [E, A], which actions are allowed in `last_obs`; None if all actions always are
    final_obs: Observation  # [F, E], the final observations of truncated episodes, in order of time
    final_mask: Any  # [F, E, A], which actions are allowed in `final_obs`; None if all actions always are
    final_slot: Int[Array, "T E"]  # for a truncated step: its row in `final_obs`
    num_first_states: int = static()  # first states that were sampled for each environment
    devices: int = static(1)  # over which the environments are split: see `Rollout`
    env: Any = None  # the environment that was stepped; None where it is not part of the compiled program

    @property
    def done(self) -> Bool[Array, "T E"]:
        """Whether an episode terminated or was truncated in each step."""
        return self.terminated | self.truncated

    def episodes(self) -> EpisodeStats:
        """Statistics of the episodes that ended in this rollout, on all devices."""
        stats = EpisodeStats.of(self.done, self.episode_return, self.episode_length)
        resets = jnp.sum(self.done, axis=0, dtype=jnp.int32)
        stats = stats.replace(resets_reused=jnp.sum(jnp.maximum(resets - self.num_first_states, 0), dtype=jnp.int32))
        return stats.of_all(self.devices)


def looped(step: Callable[[Any, Any], tuple[Any, Any]], start: Any, xs: Any) -> tuple[Any, Any]:
    """`jax.lax.scan`, with as many steps in each trip as the form of the program says."""
    length = jax.tree.leaves(xs)[0].shape[0]
    return jax.lax.scan(step, start, xs, unroll=min(current().steps_per_trip, length))


@struct
class RolloutSamples(Struct):
    """The random samples of a rollout, taken in bulk before its loop."""

    noise: Any  # [T, E], step noise of the environments; None if their dynamics are deterministic
    first_states: State  # [R, E], the reset bank: first states of the episodes that will begin


@struct
class StepResult(Struct):
    """The result of one step of E environments, before any reset."""

    state: State
    reward: Float[Array, "E"]
    terminated: Bool[Array, "E"]
    truncated: Bool[Array, "E"]
    info: dict[str, Array]
    episode_return: Float[Array, "E"]  # sum of the rewards of the current episode, this step included


@struct
class Rollout(Struct):
    """The sizes of a rollout: E environments, T steps, and R first states in the reset bank of each environment.

    `reset="bank"` samples the bank once per rollout. An environment whose episodes end more than R times in one rollout
    starts again at row 0 of its bank; `resets_reused` counts these resets. `reset="exact"` samples a first
    state for every step. `final_slots` is F, the largest number of episodes of one environment that can be truncated
    within T steps. With `short_episodes` returns are plain sums (`ops.sums`). Make a Rollout with `for_env`.

    The environments of a large agent may be split over `devices` (`split`). Each device then runs a Rollout with its
    share of them, and environment e gets the same random numbers as without splitting.
    """

    num_envs: int = static()  # E
    num_steps: int = static()  # T
    bank_size: int = static()  # R
    final_slots: int = static()  # F
    reset: str = static("bank", choices=("bank", "exact"))
    devices: int = static(1)
    short_episodes: bool = static(False)

    def __eq__(self, other: object) -> bool:  # agents keep it in a static field: equal sizes must share programs
        return isinstance(other, Rollout) and self._sizes() == other._sizes()

    def __hash__(self) -> int:
        return hash(self._sizes())

    def _sizes(self) -> tuple:
        sizes = self.num_envs, self.num_steps, self.bank_size, self.final_slots
        return *sizes, self.reset, self.devices, self.short_episodes

    @classmethod
    def for_env(cls, env: Env, num_envs: int, num_steps: int, reset: str = "bank", bank_size: int = 0) -> "Rollout":
        """The rollout for an environment whose `max_steps` is concrete (a number, or an array for a population).

        `bank_size=0` means as many first states as a random policy needs, estimated from the environment's
        `reset_every`. A trained policy may end episodes much sooner, so that it uses first states again.
        Raises ValueError for sizes below 1, an unknown `reset`, and a `bank_size` that would have no effect.
        """
        if num_envs < 1 or num_steps < 1:
            raise ValueError(f"num_envs={num_envs} and num_steps={num_steps} must both be at least 1.")
        if reset not in ("bank", "exact"):
            raise ValueError(f"reset={reset!r} is unknown. Choose 'bank' or 'exact'.")
        if bank_size < 0:
            raise ValueError(f"bank_size={bank_size} must not be negative; 0 means as many as a random policy needs.")
        if bank_size and reset == "exact":
            raise ValueError(f"bank_size={bank_size} changes nothing with reset='exact', which has no bank.")
        shortest, _ = env.limit_range or (None, None)
        episode_steps = min(env.reset_every, _shortest(shortest, MAX_TIME), _shortest(env.longest_episode, MAX_TIME))
        bank = bank_size or math.ceil(num_steps / episode_steps) + 1
        bank, slots = min(bank, num_steps), final_slots(env, num_steps)
        return cls(num_envs, num_steps, bank, slots, reset, short_episodes=sums.are_few(episode_limit(env)))

    def split(self, devices: int) -> "Rollout":
        """The rollout of each device if the environments are split over `devices`.

        It works under `shard_map` over a mesh with the axis `ops.devices.DATA`. Raises ValueError if the environments
        cannot be divided equally.
        """
        if self.num_envs % devices:
            near = max(1, round(self.num_envs / devices)) * devices
            raise ValueError(
                f"num_envs={self.num_envs} cannot be divided equally among {devices} devices: use num_envs={near}, or "
                "another number of devices."
            )
        return self.replace(num_envs=self.num_envs // devices, devices=devices)

    def init(self, env: Env, key: Key) -> EnvStates:
        """The first states of E environments. `key` is consumed."""
        state = jax.vmap(env.init)(_env_keys(key, (self.num_envs,), self.devices))
        zero = jnp.zeros(self.num_envs, jnp.float32)
        return EnvStates(state, zero, None if self.short_episodes else jnp.zeros_like(zero))

    def sample(self, env: Env, key: Key) -> RolloutSamples:
        """Sample the step noise [T, E] and the reset bank [R, E]. `key` is consumed."""
        k_noise, k_first = jax.random.split(key)
        return RolloutSamples(
            sample_noise(env, k_noise, (self.num_steps, self.num_envs), self.devices),
            self._sample_first_states(env, k_first),
        )

    def first_bank_index(self) -> Int[Array, "E"]:
        """The index in the flattened bank [R * E] of each environment's next first state: row 0 of its own column."""
        return jnp.arange(self.num_envs, dtype=jnp.int32)

    def advance(
        self,
        env: Env,
        samples: RolloutSamples,
        env_states: EnvStates,
        bank_index: Int[Array, "E"],
        action: Any,
        noise: Any,
        t: Array,
    ) -> tuple[EnvStates, Int[Array, "E"], StepResult]:
        """Step t of all environments, with resets: (next environment states, next bank indices, result of the step).

        `action` and `noise` have a leading axis [E]. This is for agents that learn after every step; `collect` is for
        agents that learn after T steps.
        """
        state, reward, terminated, truncated, info = jax.vmap(env.advance)(env_states.state, action, noise)
        done = terminated | truncated
        episode_return, rounding = sums.add(env_states.episode_return, env_states.rounding, reward)
        env_states = EnvStates(
            state=_where(done, self._state_after_reset(env, samples.first_states, state, bank_index, t), state),
            episode_return=jnp.where(done, 0, episode_return),
            rounding=None if rounding is None else jnp.where(done, 0, rounding),
        )
        step = StepResult(state, reward, terminated, truncated, info, episode_return)
        return env_states, self._next_bank_index(bank_index, done), step

    def collect(
        self,
        env: Env,
        env_states: EnvStates,
        policy: Policy,
        noise: Any,
        key: Key,
        carry: Any = None,
        first_carry: Any = None,
        scan: Scan = looped,
    ) -> tuple[EnvStates, Trajectory, Any]:
        """Step all environments T times with a policy: (environment states after it, trajectory, carry after it).

            policy(obs [E], action mask [E, A] or None, noise [E], carry [E]) -> (action [E], outputs [E], carry [E])

        `noise` [T, ...] is the noise of the policy, of which it gets one row per step: sample it before, outside the
        loop. `carry` [E] is the policy's recurrent carry before the first step. Where an episode ends, it is replaced
        by `first_carry` [E], unless that is None. `key` is consumed: it gives the step noise and the reset bank. `scan`
        runs the loop.
        """
        samples, bank_index = self.sample(env, key), self.first_bank_index()
        unchanged = self._unchanged(env, env_states.state, samples)
        # The loop stores final states [F, E]; their observations are computed after the loop, in one batch.
        final = jax.tree.map(
            lambda x: jnp.zeros((self.final_slots, *x.shape), x.dtype), unchanged.changing(env_states.state)
        )
        final = final, unchanged.no_rows((self.final_slots, self.num_envs))

        def one_step(loop, xs):
            changing, returns, row, carry, bank_index, final_slot, final = loop
            t, policy_noise, step_noise = xs
            env_states = EnvStates(unchanged.restored(changing, row), *returns)
            obs = jax.vmap(env.observe)(env_states.state)
            mask = jax.vmap(env.action_mask)(env_states.state)
            action, policy_output, carry = policy(obs, mask, policy_noise, carry)
            is_first = env_states.state.time == 0
            next_bank_row = bank_index + self.num_envs
            env_states, bank_index, step = self.advance(env, samples, env_states, bank_index, action, step_noise, t)
            record = {
                "obs": obs,
                "mask": mask,
                "action": action,
                "policy_output": policy_output,
                "reward": step.reward,
                "terminated": step.terminated,
                "truncated": step.truncated,
                "is_first": is_first,
                "episode_return": step.episode_return,
                "episode_length": step.state.time,
                "info": step.info,
                "final_slot": final_slot,
            }
            done, only_truncated = step.terminated | step.truncated, step.truncated & ~step.terminated
            final = _write_rows(final, (unchanged.changing(step.state), row), only_truncated, final_slot)
            carry = carry if first_carry is None else _where(done, first_carry, carry)
            row = None if row is None else jnp.where(done, next_bank_row, row)
            final_slot = final_slot + only_truncated.astype(jnp.int32)
            changing = unchanged.changing(env_states.state)
            returns = env_states.episode_return, env_states.rounding
            return (changing, returns, row, carry, bank_index, final_slot, final), record

        steps = jnp.arange(self.num_steps, dtype=jnp.int32)
        changing, row = unchanged.changing(env_states.state), unchanged.first_row(self.num_envs)
        returns = env_states.episode_return, env_states.rounding
        start = (changing, returns, row, carry, bank_index, jnp.zeros_like(bank_index), final)
        loop, record = scan(one_step, start, (steps, noise, samples.noise))
        changing, returns, row, carry, _, _, final = loop
        env_states = EnvStates(unchanged.restored(changing, row), *returns)
        final_states = unchanged.restored_or_zero(*final)
        trajectory = Trajectory(
            **record,
            last_obs=jax.vmap(env.observe)(env_states.state),
            last_mask=jax.vmap(env.action_mask)(env_states.state),
            final_obs=jax.vmap(jax.vmap(env.observe))(final_states),
            final_mask=jax.vmap(jax.vmap(env.action_mask))(final_states),
            env=env,
            num_first_states=self.num_first_states,
            devices=self.devices,
        )
        return env_states, trajectory, carry

    @property
    def num_first_states(self) -> int:
        """First states sampled for each environment in a rollout; an environment that needs more uses them again."""
        return self.num_steps if self.reset == "exact" else self.bank_size

    def _unchanged(self, env: Env, state: State, samples: RolloutSamples) -> Unchanged:
        # A rollout of one step would only copy the bank.
        if current().unchanged_in_bank and self.reset == "bank" and self.num_steps > 1:
            return Unchanged.of(env, state, samples.first_states, samples.noise)
        return Unchanged.none(state)

    def _sample_first_states(self, env: Env, key: Key) -> State:
        # "exact" uses row t in step t. "bank" uses the R rows one after the other, separately for each environment.
        shape = (self.num_first_states, self.num_envs)
        keys = _env_keys(key, shape, self.devices)
        if not current().retries_at_once:
            return jax.vmap(jax.vmap(env.init))(keys)
        # One batch of R * E: the loop of a generator has one end then, not one for each of the R rows.
        return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), jax.vmap(env.init)(keys.reshape(-1)))

    def _state_after_reset(
        self, env: Env, first_states: State, ended: State, bank_index: Int[Array, "E"], t: Int[Array, ""]
    ) -> State:
        if self.reset == "exact":
            state = jax.tree.map(lambda x: x[t], first_states)
        else:
            state = jax.tree.map(lambda x: _flat(x).at[bank_index].get(mode="promise_in_bounds"), first_states)
        return jax.vmap(env.carry_over)(ended, state)

    def _next_bank_index(self, bank_index: Int[Array, "E"], done: Bool[Array, "E"]) -> Int[Array, "E"]:
        # One row further, from the last row back to the first. This compares instead of taking a remainder, because
        # CPUs have no vector instruction for integer division.
        next_row = bank_index + self.num_envs
        next_row = jnp.where(
            next_row >= self.num_first_states * self.num_envs,
            next_row - self.num_first_states * self.num_envs,
            next_row,
        )
        return jnp.where(done, next_row, bank_index)


def successor_value(
    trajectory: Trajectory, value: Float[Array, "T E"], last_value: Float[Array, "E"], final_value: Float[Array, "F E"]
) -> Float[Array, "T E"]:
    """The value of the successor of every step; where the episode was truncated, of its final observation.

    `value`, `last_value` and `final_value` are the values of `trajectory.obs`, `last_obs` and `final_obs`. For a step
    that terminated an episode the result has no meaning and the caller must mask it (`gae` does).
    """
    next_value = jnp.concatenate([value[1:], last_value[None]])
    if final_value.shape[0] == 0:
        return next_value
    only_truncated = trajectory.truncated & ~trajectory.terminated
    slots = jnp.arange(final_value.shape[0])[:, None, None]
    final = jnp.sum(jnp.where(trajectory.final_slot[None] == slots, final_value[:, None], 0), axis=0)
    return jnp.where(only_truncated, final, next_value)


def rows_of_truncated_steps(trajectory: Trajectory, rows: Any) -> Any:
    """Select, from leaves [T, E, ...], the rows of the truncated steps, in the order of `final_obs`: [F, E, ...].

    If fewer than F steps were truncated, the remaining rows have no meaning.
    """
    slots = jnp.arange(jax.tree.leaves(trajectory.final_obs)[0].shape[0])[:, None, None]
    only_truncated = trajectory.truncated & ~trajectory.terminated
    step = jnp.argmax(only_truncated[None] & (trajectory.final_slot[None] == slots), axis=1)
    return jax.tree.map(lambda x: x[step, jnp.arange(x.shape[1])[None]], rows)


def final_slots(env: Env, num_steps: int) -> int:
    """The largest number of truncations of one environment within T steps: they are at least a time limit apart."""
    shortest = env.earliest_truncation
    return 0 if shortest is None else math.ceil(num_steps / _shortest(shortest, if_unknown=1))


def _shortest(limit: Number | None, if_unknown: int) -> int:
    # The smallest limit of a population (an array), or `if_unknown` where there is no limit or it is traced.
    return max(1, int(np.min(np.asarray(limit)))) if limit is not None and is_concrete(limit) else if_unknown


def sample_noise(env: Env, key: Key, shape: tuple[int, ...], devices: int = 1) -> Any:
    """Step noise of an environment with leading axes `shape`; None if its dynamics are deterministic.

    Over several `devices`, the last number of `shape` is that of the environments of this device.
    """
    if jax.tree.leaves(jax.eval_shape(env.noise, key)) == []:
        return None
    noise = env.noise
    for _ in shape:
        noise = jax.vmap(noise)
    return noise(_env_keys(key, shape, devices))


def _env_keys(key: Key, shape: tuple[int, ...], devices: int) -> Key:
    # Keys [*shape] for the environments of this device, which are along the last axis.
    all_envs = (*shape[:-1], shape[-1] * devices)
    return device_share(jax.random.split(key, all_envs), devices, axis=len(shape) - 1)


def _flat(bank: Array) -> Array:
    return bank.reshape(bank.shape[0] * bank.shape[1], *bank.shape[2:])


def _where(flag: Bool[Array, "E"], yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda y, n: jnp.where(flag.reshape(flag.shape + (1,) * (y.ndim - 1)), y, n), yes, no)


def _write_rows(rows: Any, new: Any, flag: Bool[Array, "E"], slot: Int[Array, "E"]) -> Any:
    def write(old, x):
        chosen = flag[None] & (jnp.arange(old.shape[0])[:, None] == slot[None])
        return jnp.where(chosen.reshape(chosen.shape + (1,) * (x.ndim - 1)), x[None], old)

    return jax.tree.map(write, rows, new)
