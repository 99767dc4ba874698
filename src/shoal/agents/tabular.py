"""Learners with a table: Q-learning, double Q-learning, SARSA and expected SARSA.

Source: Sutton and Barto 2018, sections 6.4 to 6.7; van Hasselt 2010 for double Q-learning. Differences: a time limit
bootstraps from the true successor, ties among the best actions are broken uniformly at random, and where several
actions are best in one table of double Q-learning, their mean in the other is what counts.

One environment and one table entry a step, as the books have it; speed comes from the form of the loop. Actions are
few, so their values are numbers of their own instead of an array (`ops/rows.py`), and a table is a flat array that is
read and written one entry at a time. The change of a step is written at the start of the next one: all reads of a step
come after it, and so the compiler writes in place.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.agent import Agent, Metrics, check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.errors import Unsuited
from shoal.core.registry import agent
from shoal.core.spaces import Discrete
from shoal.core.struct import Number, Struct, filled_by_bind, hyper, static, struct
from shoal.ops.rows import (
    Row,
    Scalar,
    allowed,
    best_of,
    choose,
    mean_of,
    mean_where_best,
    one_of,
    pick,
    sum_of,
    with_change,
)
from shoal.ops.schedules import linear, progress
from shoal.ops.tables import choices, index_of, read, write
from shoal.rollouts.episodes import EpisodeStats
from shoal.rollouts.rollout import EnvStates, Rollout, RolloutSamples, StepResult

RULES = ("q", "double-q", "sarsa", "expected-sarsa")
LARGEST = 1_000_000  # entries of a table: 4 MB a member
CALL_BYTES = 500_000  # of all tables in one call: they stay in a core's cache, and XLA leaves the loop to one core


@struct
class Luck(Struct):
    """What chance decides of a step."""

    epsilon: Float[Array, "..."]
    explores: Bool[Array, "..."]
    pick: Float[Array, "..."]  # in [0, 1): which of the actions that are equally good
    coin: Bool[Array, "..."] | None  # which table of double Q-learning the next step changes


@struct
class QTableState(Struct):
    """One member in training."""

    age: Int[Array, ""]
    key: Key
    q: Float[Array, "K S A"]  # one table, or the two of double Q-learning
    visits: Float[Array, "K S A"] | None  # how often each entry changed, where step sizes depend on it
    env_states: EnvStates  # one environment
    action: Int[Array, ""]  # the one that is taken next
    snapshots: Float[Array, "N S A"] | None


@struct
class QTablePolicy(Struct):
    """What a learner with a table knows: action values, and what they were at earlier times if that was asked for."""

    q: Float[Array, "S A"]
    epsilon: Float[Array, ""]
    snapshots: Float[Array, "N S A"] | None


@struct
class Walk(Struct):
    """What goes from step to step. Tables are flat."""

    q: Float[Array, "KSA"]
    pending: tuple[Int[Array, ""], Scalar]  # the entry that the last step changed, and its new value: not written yet
    visits: Float[Array, "KSA"] | None
    env_states: EnvStates
    bank_index: Int[Array, "1"]  # in the bank of resets
    action: Int[Array, ""]  # the one that is taken next
    coin: Bool[Array, ""] | None  # and which table that will change
    entry: Int[Array, ""]  # in which entry
    old: Scalar  # of which value
    error: Scalar  # sum of absolute temporal differences


@agent("q-learning")
@agent("double-q", rule="double-q")
@agent("sarsa", rule="sarsa")
@agent("expected-sarsa", rule="expected-sarsa")
@struct
class QTable(Agent):
    """A table of action values, learned a step at a time, for worlds whose observations and actions can be counted.

    Observations are Discrete, MultiDiscrete, or tuples and dicts of these; actions Discrete. The policy is
    epsilon-greedy with uniform random ties. Epsilon falls linearly to `epsilon_end` over the share `exploration` of the
    horizon. The step size is `learning_rate`, of which the share `anneal` is gone at the horizon; `count_visits`
    divides it by n^`visit_power` at the n-th change of an entry.

    `snapshots=N` keeps the table as it was at the end of each of N parts of the horizon, or where no update ended
    there, at the end of the update before (before the first: as it began). `shoal.load(run).weights.snapshots` is
    [N, S, A], as `weights.q` is the last table, [S, A] (of double Q-learning, the mean of its two).
    """

    learning_rate: Number = hyper(0.1, search=(1e-2, 1.0, "log"), valid=(0, 1))
    anneal: Number = hyper(0.0, search=(0.0, 1.0), valid=(0, 1), help="share of the learning rate gone at the horizon")
    visit_power: Number = hyper(0.7, search=(0.5, 1.0), valid=(0, 1), help="with count_visits")
    discount: Number = hyper(0.99, search=(0.9, 0.9999), valid=(0, 1))
    epsilon_start: Number = hyper(1.0, valid=(0, 1))
    epsilon_end: Number = hyper(0.05, search=(0.001, 0.2, "log"), valid=(0, 1))
    exploration: Number = hyper(0.5, search=(0.05, 0.8), valid=(0, 1), help="share of the horizon until epsilon_end")
    initial_value: Number = hyper(0.0, valid=(-1e9, 1e9), help="of every entry; a high one is tried until it is not")
    horizon: Number = hyper(0.0, valid=(0, 1e18), spans_run=True, help="steps of the schedules; 0: as long as the run")

    rule: str = static("q", choices=RULES)
    num_steps: int = static(250, help="in one update, at whose start the step size changes")
    count_visits: bool = static(False, choices=(False, True))
    snapshots: int = static(0, help="tables to keep on the way")
    reset: str = static("bank", choices=("bank", "exact"))
    bank_size: int = static(0, help="fresh first states for each environment in an update; 0: as a random policy needs")

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    rollout: Any = filled_by_bind()

    def bind(self, env: Env) -> "QTable":
        """This agent for this environment. Raises Unsuited where no table would do, ValueError for wrong sizes."""
        check_choices(self)
        check_counts(self, "num_steps")
        if self.snapshots < 0:
            raise ValueError(f"snapshots={self.snapshots} must not be negative; 0 keeps none.")
        _check_countable(env)
        if not self.count_visits:
            refuse_ignored(self, "without count_visits=True", "visit_power")
        return self.replace(
            observation_space=env.observation_space,
            action_space=env.action_space,
            rollout=Rollout.for_env(env, 1, self.num_steps, self.reset, self.bank_size),
        )

    @property
    def steps_per_update(self) -> int:
        """Steps of the one environment."""
        return self.num_steps

    @property
    def members_per_call(self) -> int:
        """As many tables as one core's cache holds."""
        return max(1, CALL_BYTES // (4 * math.prod(self._shape)))

    def init(self, key: Key, env: Env) -> QTableState:
        """A table of equal values, a world, and a first action."""
        key, k_envs, k_luck = jax.random.split(key, 3)
        env_states = self.rollout.init(env, k_envs)
        equal = allowed([jnp.float32(0)] * self.action_space.n, self._here(env, env_states.state)[1])
        luck = jax.tree.map(lambda x: x[0], self._luck(k_luck, jnp.int32(0), 1))
        kept = (self.snapshots, *self._shape[1:])
        return QTableState(
            age=jnp.int32(0),
            key=key,
            q=jnp.full(self._shape, self.initial_value, jnp.float32),
            visits=jnp.zeros(self._shape, jnp.float32) if self.count_visits else None,
            env_states=env_states,
            action=choose(equal, luck.explores, luck.pick),
            snapshots=jnp.full(kept, self.initial_value, jnp.float32) if self.snapshots else None,
        )

    def update(self, state: QTableState, env: Env, clock: Int[Array, ""]) -> tuple[QTableState, Metrics]:
        """Take `num_steps` steps and learn from each."""
        del clock
        key, k_envs, k_luck, k_coin = jax.random.split(state.key, 4)
        samples, luck = self.rollout.sample(env, k_envs), self._luck(k_luck, state.age, self.num_steps)
        step = functools.partial(self._step, env, samples, self._learning_rate(state.age))
        steps = jnp.arange(self.num_steps, dtype=jnp.int32)
        walk, ends = jax.lax.scan(step, self._start(state, env, k_coin), (steps, samples.noise, luck))
        q = write(walk.q, *walk.pending).reshape(self._shape)
        visits = None if walk.visits is None else walk.visits.reshape(self._shape)
        # Epsilon at the end of the update: a mean over it would have other last bits in a block of members.
        losses = {"td_error": walk.error / self.num_steps, "epsilon": luck.epsilon[-1]}
        state = QTableState(state.age + 1, key, q, visits, walk.env_states, walk.action, self._snapshots(state, q))
        return state, Metrics(self._episodes(*ends), losses)

    def act(
        self, state: QTableState | QTablePolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """The first of the best actions when greedy, epsilon-greedy with random ties otherwise."""
        policy = self._policy(state)
        row = allowed(list(policy.q[index_of(self.observation_space, obs)]), mask)
        if greedy:
            action = choose(row, jnp.bool_(False), jnp.float32(0))
        else:
            k_explore, k_pick = jax.random.split(key)
            action = choose(row, jax.random.uniform(k_explore) < policy.epsilon, jax.random.uniform(k_pick))
        return action.astype(self.action_space.dtype), carry

    def value(self, state: QTableState | QTablePolicy, obs: Any) -> Float[Array, "..."]:
        """That of the best action, whatever a mask would say. `obs` may have leading axes."""
        return jnp.max(self._policy(state).q[index_of(self.observation_space, obs)], axis=-1)

    def with_policy(self, state: QTableState, policy: QTablePolicy) -> QTableState:
        """A fresh member that begins with this table."""
        return state.replace(q=jnp.broadcast_to(policy.q, state.q.shape))

    def policy_state(self, state: QTableState) -> QTablePolicy:
        """The table, what epsilon is by now, and the snapshots."""
        return QTablePolicy(jnp.mean(state.q, axis=0), self._epsilon(state.age, jnp.int32(0)), state.snapshots)

    # What happens inside an update, in order.

    def _luck(self, key: Key, age: Int[Array, ""], steps: int) -> Luck:
        k_explore, k_pick, k_coin = jax.random.split(key, 3)
        epsilon = self._epsilon(age, jnp.arange(steps, dtype=jnp.int32))
        explores = jax.random.uniform(k_explore, (steps,)) < epsilon
        return Luck(epsilon, explores, jax.random.uniform(k_pick, (steps,)), self._coins(k_coin, (steps,)))

    def _start(self, state: QTableState, env: Env, key: Key) -> Walk:
        q, coin = state.q.reshape(-1), self._coins(key, ())
        visits = None if state.visits is None else state.visits.reshape(-1)
        entry = self._entry(_table(coin), self._here(env, state.env_states.state)[0], state.action)
        old, bank_index = read(q, entry), self.rollout.first_bank_index()
        return Walk(
            q, (entry, old), visits, state.env_states, bank_index, state.action, coin, entry, old, jnp.float32(0)
        )

    def _step(self, env: Env, samples: RolloutSamples, rate: Scalar, walk: Walk, inputs: tuple) -> tuple[Walk, tuple]:
        t, noise, luck = inputs
        action = walk.action.astype(self.action_space.dtype)[None]
        env_states, bank_index, seen = self.rollout.advance(
            env, samples, walk.env_states, walk.bank_index, action, noise, t
        )
        q = write(walk.q, *walk.pending)
        at, mask = self._here(env, env_states.state)
        rows = self._rows(q, at)
        after = self._successor_value(env, q, walk.coin, seen, (rows, mask), luck)
        change = seen.reward[0] + jnp.where(seen.terminated[0], 0, self.discount * after) - walk.old
        visits, size = self._step_size(walk.visits, walk.entry, rate)
        new = walk.old + size * change
        # SARSA chooses before the change: it learns from the action that will be taken. The others choose after it.
        known = rows if self.rule == "sarsa" else self._corrected(rows, at, walk.entry, new)
        action = choose(allowed(sum_of(known), mask), luck.explores, luck.pick)
        entry = self._entry(_table(luck.coin), at, action)
        walk = Walk(
            q=q,
            pending=(walk.entry, new),
            visits=visits,
            env_states=env_states,
            bank_index=bank_index,
            action=action,
            coin=luck.coin,
            entry=entry,
            old=jnp.where(entry == walk.entry, new, pick(one_of(rows, luck.coin), action)),
            error=walk.error + jnp.abs(change),
        )
        ended = (seen.terminated | seen.truncated)[0]
        return walk, (jnp.where(ended, seen.state.time[0], 0), seen.episode_return[0])

    def _successor_value(
        self, env: Env, q: Array, coin: Any, seen: StepResult, start: tuple[list[Row], Any], luck: Luck
    ) -> Scalar:
        """What the true successor of a step is worth under the rule; `start` is where the next step starts."""
        rows, mask = start
        if env.max_steps is not None:  # else they differ after terminations only, which are worth nothing
            arrived, mask = self._here(env, seen.state)
            rows = self._rows(q, arrived)
        row = allowed(one_of(rows, coin), mask)
        if self.rule == "sarsa":
            return pick(row, choose(row, luck.explores, luck.pick))
        if self.rule == "expected-sarsa":
            return (1 - luck.epsilon) * best_of(row) + luck.epsilon * mean_of(row)
        if self.rule == "double-q":
            return mean_where_best(row, one_of(rows, ~coin))
        return best_of(row)

    def _step_size(self, visits: Any, entry: Int[Array, ""], rate: Scalar) -> tuple[Any, Scalar]:
        if visits is None:
            return None, rate
        n = read(visits, entry) + 1
        return write(visits, entry, n), rate * n**-self.visit_power

    def _corrected(self, rows: list[Row], at: Int[Array, ""], entry: Int[Array, ""], new: Scalar) -> list[Row]:
        # Cheaper than to read again.
        return [with_change(row, entry - self._entry(table, at, 0), new) for table, row in enumerate(rows)]

    def _snapshots(self, state: QTableState, q: Float[Array, "K S A"]) -> Float[Array, "N S A"] | None:
        # Every update writes its own part of the horizon and those to come: an update may be longer than a part.
        if state.snapshots is None:
            return None
        part = jnp.ceil(self._progress(state.age + 1, 0) * self.snapshots - 1e-3).astype(jnp.int32) - 1
        is_ahead = jnp.arange(self.snapshots, dtype=jnp.int32) >= jnp.minimum(part, self.snapshots - 1)
        return jnp.where(is_ahead[:, None, None], jnp.mean(q, axis=0)[None], state.snapshots)

    def _episodes(self, length: Int[Array, "T"], episode_return: Float[Array, "T"]) -> EpisodeStats:
        stats = EpisodeStats.of(length > 0, episode_return, length)
        return stats.replace(resets_reused=jnp.maximum(stats.count - self.rollout.num_first_states, 0))

    # Small parts.

    @property
    def _shape(self) -> tuple[int, int, int]:
        tables = 2 if self.rule == "double-q" else 1
        return tables, math.prod(choices(self.observation_space) or ()), self.action_space.n

    def _entry(self, table: Any, at: Int[Array, ""], action: Any) -> Int[Array, ""]:
        return (table * self._shape[1] + at) * self.action_space.n + action

    def _rows(self, q: Float[Array, "KSA"], at: Int[Array, ""]) -> list[Row]:
        """The values of all actions, in each table."""
        tables, _, actions = self._shape
        return [[read(q, self._entry(table, at, a)) for a in range(actions)] for table in range(tables)]

    def _here(self, env: Env, state: Any) -> tuple[Int[Array, ""], Any]:
        """(where in the table, which actions are allowed) the one environment is."""
        one = jax.tree.map(lambda x: x[0], state)
        return index_of(self.observation_space, env.observe(one)), env.action_mask(one)

    def _coins(self, key: Key, shape: tuple[int, ...]) -> Bool[Array, "..."] | None:
        return jax.random.bernoulli(key, shape=shape) if self.rule == "double-q" else None

    def _policy(self, state: QTableState | QTablePolicy) -> QTablePolicy:
        return state if isinstance(state, QTablePolicy) else self.policy_state(state)

    def _epsilon(self, age: Int[Array, ""], step: Int[Array, "..."]) -> Float[Array, "..."]:
        return linear(self.epsilon_start, self.epsilon_end, self._progress(age, step), self.exploration)

    def _learning_rate(self, age: Int[Array, ""]) -> Scalar:
        return self.learning_rate * linear(1.0, 1 - self.anneal, self._progress(age, 0))

    def _progress(self, age: Int[Array, ""], step: Any) -> Float[Array, "..."]:
        return progress(age, self.num_steps, self.horizon, step)


def _table(coin: Bool[Array, ""] | None) -> Any:
    return 0 if coin is None else coin.astype(jnp.int32)


def _check_countable(env: Env) -> None:
    if not isinstance(env.action_space, Discrete):
        raise Unsuited(f"a table needs actions that can be counted, Discrete, not {env.action_space}.")
    counted = choices(env.observation_space)
    if counted is None:
        raise Unsuited(
            "a table needs observations that can be counted: Discrete, MultiDiscrete, tuples and dicts of these; not "
            f"{env.observation_space}."
        )
    states, actions = math.prod(counted), env.action_space.n
    if states * actions > LARGEST:
        raise Unsuited(
            f"a table of {float(states):.3g} observations and {actions} actions is too large: it may have {LARGEST:,} "
            "entries."
        )
