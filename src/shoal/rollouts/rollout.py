"""Vectorised rollouts with automatic resets from a bank.

Drawing a fresh state at every step for every environment, and throwing nearly all of them away, is what makes other
vectorised environments slow. Here one fat kernel draws a bank of fresh states per rollout, and an environment that ends
takes its next one. `step` never resets; this does, and it keeps the true final observation of truncated episodes.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.env import LONGEST, Env, Key, Observation, State
from shoal.core.struct import Number, Struct, is_concrete, static, struct
from shoal.rollouts.episodes import EpisodeStats

# (observation [E], action mask [E] or None, noise of this step, carry [E]) -> (action [E], what to record, carry [E])
Policy = Callable[[Observation, Any, Any, Any], tuple[Any, Any, Any]]


@struct
class EnvStates(Struct):
    """Environments in mid-episode: what a rollout continues from. All leaves have a leading axis [E]."""

    state: State
    episode_return: Float[Array, "E"]  # so far, in the running episode


@struct
class Trajectory(Struct):
    """What happened in T steps of E environments. Parts that nobody reads are never written."""

    obs: Observation  # [T, E], what the policy saw
    mask: Any  # [T, E, A], which actions were allowed; None where all always are
    action: Any  # [T, E]
    kept: Any  # [T, E], what the policy asked to record
    reward: Float[Array, "T E"]
    terminated: Bool[Array, "T E"]
    truncated: Bool[Array, "T E"]
    is_first: Bool[Array, "T E"]  # whether `obs` is the first of its episode
    episode_return: Float[Array, "T E"]  # of the running episode, this step included
    episode_length: Int[Array, "T E"]  # likewise
    info: dict[str, Array]  # [T, E]
    last_obs: Observation  # [E], what the policy would see next
    last_mask: Any  # [E, A], and be allowed to do; None where everything always is
    final_obs: Observation  # [F, E], the last observation of truncated episodes, in order
    final_mask: Any  # [F, E, A], which actions would have been allowed there; None where all always are
    final_slot: Int[Array, "T E"]  # which row of final_obs belongs to a truncated step
    fresh_states: int = static()  # that were drawn for each environment

    @property
    def done(self) -> Bool[Array, "T E"]:
        """Where an episode ended, either way."""
        return self.terminated | self.truncated

    def episodes(self) -> EpisodeStats:
        """Statistics of the episodes that ended."""
        stats = EpisodeStats.of(self.done, self.episode_return, self.episode_length)
        resets = jnp.sum(self.done, axis=0, dtype=jnp.int32)
        return stats.replace(resets_reused=jnp.sum(jnp.maximum(resets - self.fresh_states, 0), dtype=jnp.int32))


@struct
class RolloutSamples(Struct):
    """What is drawn before the loop of a rollout."""

    noise: Any  # [T, E], of the environments; None where their dynamics are deterministic
    fresh: State  # [R, E], first states of the episodes to come


@struct
class StepResult(Struct):
    """What one step did to E environments, before any reset."""

    state: State
    reward: Float[Array, "E"]
    terminated: Bool[Array, "E"]
    truncated: Bool[Array, "E"]
    info: dict[str, Array]
    episode_return: Float[Array, "E"]  # of the running episode, this step included


@struct
class Rollout(Struct):
    """How to roll out: E environments for T steps, with a bank of R fresh states for each.

    `reset="bank"` draws the bank once per rollout; an environment that ends more than R times in one rollout starts
    from a state it has seen before (counted in `resets_reused`). `reset="exact"` draws a fresh state for every step.
    `final_slots` is F, how many truncated episodes of one environment can end within T steps. Make one with `for_env`.
    """

    num_envs: int = static()
    num_steps: int = static()
    bank_size: int = static()
    final_slots: int = static()
    reset: str = static("bank", choices=("bank", "exact"))

    def __eq__(self, other: object) -> bool:  # agents keep it in a static field: equal sizes must share programs
        return isinstance(other, Rollout) and self._sizes() == other._sizes()

    def __hash__(self) -> int:
        return hash(self._sizes())

    def _sizes(self) -> tuple:
        return self.num_envs, self.num_steps, self.bank_size, self.final_slots, self.reset

    @classmethod
    def for_env(cls, env: Env, num_envs: int, num_steps: int, reset: str = "bank", bank_size: int = 0) -> "Rollout":
        """Sizes that suit an environment with concrete `max_steps` (a population's may be an array).

        `bank_size=0` is what a random policy needs, by the environment's `reset_every`; one that was trained may end
        episodes much sooner, and reuse states. Raises ValueError for sizes that make no sense.
        """
        if num_envs < 1 or num_steps < 1:
            raise ValueError(f"num_envs={num_envs} and num_steps={num_steps} must both be at least 1.")
        if reset not in ("bank", "exact"):
            raise ValueError(f"reset={reset!r} is unknown. Choose 'bank' or 'exact'.")
        if bank_size < 0:
            raise ValueError(f"bank_size={bank_size} must not be negative; 0 is as many as a random policy needs.")
        if bank_size and reset == "exact":
            raise ValueError(f"bank_size={bank_size} changes nothing with reset='exact', which has no bank.")
        often = min(env.reset_every, _shortest(env.max_steps, LONGEST), _shortest(env.longest_episode, LONGEST))
        bank = bank_size or math.ceil(num_steps / often) + 1
        return cls(num_envs, num_steps, min(bank, num_steps), final_slots(env, num_steps), reset)

    def init(self, env: Env, key: Key) -> EnvStates:
        """E environments at the start of their first episodes. `key` is consumed."""
        state = jax.vmap(env.init)(jax.random.split(key, self.num_envs))
        return EnvStates(state, jnp.zeros(self.num_envs, jnp.float32))

    def sample(self, env: Env, key: Key) -> RolloutSamples:
        """What chance decides in T steps of E environments. `key` is consumed."""
        k_noise, k_fresh = jax.random.split(key)
        return RolloutSamples(
            sample_noise(env, k_noise, (self.num_steps, self.num_envs)), self._fresh_states(env, k_fresh)
        )

    def first_bank_index(self) -> Int[Array, "E"]:
        """Where in the bank each environment finds its next state: its own column, a row further after every reset."""
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
        """Step t of all environments: (worlds to go on from, next places in the bank, what the step did).

        For learners that do more between steps than a policy of `collect` can.
        """
        state, reward, terminated, truncated, info = jax.vmap(env.advance)(env_states.state, action, noise)
        done, episode_return = terminated | truncated, env_states.episode_return + reward
        after = EnvStates(
            state=_where(done, self._next_state(env, samples.fresh, state, bank_index, t), state),
            episode_return=jnp.where(done, 0, episode_return),
        )
        step = StepResult(state, reward, terminated, truncated, info, episode_return)
        return after, self._next_bank_index(bank_index, done), step

    def collect(
        self,
        env: Env,
        env_states: EnvStates,
        policy: Policy,
        noise: Any,
        key: Key,
        carry: Any = None,
        first_carry: Any = None,
    ) -> tuple[EnvStates, Trajectory, Any]:
        """T steps: (worlds to go on from, what happened, policy carry).

        `noise` [T, ...] is handed to the policy a step at a time: draw all of it before, outside the hot loop. Where an
        episode ends, `carry` becomes `first_carry` [E] again, if that is given. `key` is consumed by the environments.
        """
        samples, bank_index = self.sample(env, key), self.first_bank_index()
        # Final states, not observations: observed after the loop, in one batch.
        finals = jax.tree.map(lambda x: jnp.zeros((self.final_slots, *x.shape), x.dtype), env_states.state)

        def one_step(loop, xs):
            env_states, carry, bank_index, cuts, finals = loop
            t, policy_noise, step_noise = xs
            obs = jax.vmap(env.observe)(env_states.state)
            mask = jax.vmap(env.action_mask)(env_states.state)
            action, kept, carry = policy(obs, mask, policy_noise, carry)
            is_first = env_states.state.time == 0
            env_states, bank_index, step = self.advance(env, samples, env_states, bank_index, action, step_noise, t)
            record = {
                "obs": obs,
                "mask": mask,
                "action": action,
                "kept": kept,
                "reward": step.reward,
                "terminated": step.terminated,
                "truncated": step.truncated,
                "is_first": is_first,
                "episode_return": step.episode_return,
                "episode_length": step.state.time,
                "info": step.info,
                "final_slot": cuts,
            }
            cut = step.truncated & ~step.terminated
            finals = _write_rows(finals, step.state, cut, cuts)
            carry = carry if first_carry is None else _where(step.terminated | step.truncated, first_carry, carry)
            return (env_states, carry, bank_index, cuts + cut.astype(jnp.int32), finals), record

        steps = jnp.arange(self.num_steps, dtype=jnp.int32)
        start = (env_states, carry, bank_index, jnp.zeros_like(bank_index), finals)
        (env_states, carry, _, _, finals), record = jax.lax.scan(one_step, start, (steps, noise, samples.noise))
        trajectory = Trajectory(
            **record,
            last_obs=jax.vmap(env.observe)(env_states.state),
            last_mask=jax.vmap(env.action_mask)(env_states.state),
            final_obs=jax.vmap(jax.vmap(env.observe))(finals),
            final_mask=jax.vmap(jax.vmap(env.action_mask))(finals),
            fresh_states=self.rows,
        )
        return env_states, trajectory, carry

    @property
    def rows(self) -> int:
        """States that are drawn for each environment; beyond so many resets it starts from one that it had."""
        return self.num_steps if self.reset == "exact" else self.bank_size

    def _fresh_states(self, env: Env, key: Key) -> State:
        # Exact mode has a row of states for every step; the bank has R for each environment, used in turn.
        return jax.vmap(jax.vmap(env.init))(jax.random.split(key, (self.rows, self.num_envs)))

    def _next_state(
        self, env: Env, fresh: State, ended: State, bank_index: Int[Array, "E"], t: Int[Array, ""]
    ) -> State:
        if self.reset == "exact":
            state = jax.tree.map(lambda x: x[t], fresh)
        else:
            state = jax.tree.map(lambda x: _flat(x).at[bank_index].get(mode="promise_in_bounds"), fresh)
        return jax.vmap(env.carry_over)(ended, state)

    def _next_bank_index(self, bank_index: Int[Array, "E"], done: Bool[Array, "E"]) -> Int[Array, "E"]:
        # A comparison instead of a remainder: integer division is slow where there are no vectors of it.
        below = bank_index + self.num_envs
        below = jnp.where(below >= self.rows * self.num_envs, below - self.rows * self.num_envs, below)
        return jnp.where(done, below, bank_index)


def successor_value(
    trajectory: Trajectory, value: Float[Array, "T E"], last_value: Float[Array, "E"], final_value: Float[Array, "F E"]
) -> Float[Array, "T E"]:
    """The value of the true successor of every step: the final observation where a time limit cut the episode.

    Where an episode terminated the number is meaningless and must be masked (`gae` does).
    """
    after = jnp.concatenate([value[1:], last_value[None]])
    if final_value.shape[0] == 0:
        return after
    cut = trajectory.truncated & ~trajectory.terminated
    slots = jnp.arange(final_value.shape[0])[:, None, None]
    final = jnp.sum(jnp.where(trajectory.final_slot[None] == slots, final_value[:, None], 0), axis=0)
    return jnp.where(cut, final, after)


def before_cuts(trajectory: Trajectory, rows: Any) -> Any:
    """Of rows [T, E], those of the steps that a time limit cut, in the order of `final_obs`: [F, E].

    Where there are fewer of them than slots, the rest holds rows that mean nothing.
    """
    slots = jnp.arange(jax.tree.leaves(trajectory.final_obs)[0].shape[0])[:, None, None]
    cut = trajectory.truncated & ~trajectory.terminated
    step = jnp.argmax(cut[None] & (trajectory.final_slot[None] == slots), axis=1)
    return jax.tree.map(lambda x: x[step, jnp.arange(x.shape[1])[None]], rows)


def final_slots(env: Env, num_steps: int) -> int:
    """How many time limits one environment can reach within T steps: they lie at least `max_steps` apart."""
    return 0 if env.max_steps is None else math.ceil(num_steps / _shortest(env.max_steps, unknown=1))


def _shortest(limit: Number | None, unknown: int) -> int:
    # A population's limit may be an array; one that is being traced could be anything.
    return max(1, int(np.min(np.asarray(limit)))) if limit is not None and is_concrete(limit) else unknown


def sample_noise(env: Env, key: Key, shape: tuple[int, ...]) -> Any:
    """Step noise of an environment with leading axes `shape`; None where its dynamics are deterministic."""
    if jax.tree.leaves(jax.eval_shape(env.noise, key)) == []:
        return None
    noise = env.noise
    for _ in shape:
        noise = jax.vmap(noise)
    return noise(jax.random.split(key, shape))


def _flat(bank: Array) -> Array:
    return bank.reshape(bank.shape[0] * bank.shape[1], *bank.shape[2:])


def _where(flag: Bool[Array, "E"], yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda y, n: jnp.where(flag.reshape(flag.shape + (1,) * (y.ndim - 1)), y, n), yes, no)


def _write_rows(rows: Any, new: Any, flag: Bool[Array, "E"], slot: Int[Array, "E"]) -> Any:
    def write(old, x):
        chosen = flag[None] & (jnp.arange(old.shape[0])[:, None] == slot[None])
        return jnp.where(chosen.reshape(chosen.shape + (1,) * (x.ndim - 1)), x[None], old)

    return jax.tree.map(write, rows, new)
