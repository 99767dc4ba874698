"""Tabular agents: Q-learning, double Q-learning, SARSA and expected SARSA.

Source: Sutton and Barto 2018, sections 6.4 to 6.7; van Hasselt 2010 for double Q-learning. Differences: truncation by a
time limit bootstraps from the true successor; ties among the best actions are broken uniformly at random; and if
several actions are best in one table of double Q-learning, the target uses the mean of their values in the other table.

Each step takes one step of one environment and changes one table entry, as in the textbook. Two things make the loop
fast. First, the Q-values of an observation are separate scalars, one per action, instead of an array (`ops/rows.py`).
Second, a table is a flat array of which single entries are read and written. A step does not write its new value: the
next step does, before it reads. All reads of a step then come after its write, and XLA does not copy the table.
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
    epsilon_greedy,
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
MOST_ENTRIES = 1_000_000  # the largest number of entries of a table: 4 MB per member
CALL_BYTES = 500_000  # the size of all tables in one call: they fit into the cache of the core that runs the loop


@struct
class ActionNoise(Struct):
    """The random numbers with which the agent chooses the action of a step."""

    epsilon: Float[Array, "..."]
    explores: Bool[Array, "..."]  # true with probability epsilon
    uniform: Float[Array, "..."]  # in [0, 1): selects one of several candidate actions
    second_table: Bool[Array, "..."] | None  # whether the next step changes the second table of double Q-learning


@struct
class QTableState(Struct):
    """The agent state of one member."""

    age: Int[Array, ""]
    key: Key
    q: Float[Array, "K S A"]  # K is 1, or 2 for double Q-learning; S observations, A actions
    visits: Float[Array, "K S A"] | None  # how often each entry changed; None without `count_visits`
    env_states: EnvStates  # of one environment
    action: Int[Array, ""]  # the next action, chosen already
    snapshots: Float[Array, "N S A"] | None


@struct
class QTablePolicy(Struct):
    """The inputs of `act` and `value`: Q-values (in double Q-learning the mean of both tables), epsilon, snapshots."""

    q: Float[Array, "S A"]
    epsilon: Float[Array, ""]
    snapshots: Float[Array, "N S A"] | None


@struct
class LoopState(Struct):
    """The carry of the loop over the steps of an update. Tables are flat."""

    q: Float[Array, "KSA"]
    pending: tuple[Int[Array, ""], Scalar]  # the index and the new value of the last change, which is not written yet
    visits: Float[Array, "KSA"] | None
    env_states: EnvStates
    bank_index: Int[Array, "1"]  # index of the next first state in the reset bank
    action: Int[Array, ""]  # the action of the next step
    second_table: Bool[Array, ""] | None  # whether the next step changes the second table
    entry: Int[Array, ""]  # index of the table entry that the next step changes
    old_value: Scalar  # the value of that entry
    error_sum: Scalar  # sum of absolute temporal-difference errors


@agent("q-learning", about="Q-learning with a table: bootstraps from the best next action.")
@agent(
    "double-q",
    rule="double-q",
    about="Double Q-learning: two tables; one chooses the next action, the other values it.",
)
@agent("sarsa", rule="sarsa", about="Sarsa: a table that bootstraps from the next action taken.")
@agent(
    "expected-sarsa",
    rule="expected-sarsa",
    about="Expected Sarsa: a table that bootstraps from the policy's mean over next actions.",
)
@struct
class QTable(Agent):
    """A table of Q-values that changes after every step, for environments with countable observations and actions.

    Observations are Discrete, MultiDiscrete, or tuples and dicts of these; actions are Discrete. The policy is
    epsilon-greedy; ties are broken uniformly at random. Epsilon falls linearly to `epsilon_end` over the fraction
    `exploration` of the horizon. The step size is `learning_rate`; it falls linearly, by the fraction `anneal`, until
    the horizon. `count_visits` divides it by n^`visit_power` at the n-th change of an entry.

    `snapshots=N` divides the horizon into N parts and keeps the table at the end of each part (more exactly: after the
    last update that ends within the part; the initial table if there is none). `shoal.load(run).weights.snapshots` is
    [N, S, A]; `weights.q` is the last table, [S, A] (for double Q-learning the mean of both tables).
    """

    learning_rate: Number = hyper(0.1, search=(1e-2, 1.0, "log"), valid=(0, 1))
    anneal: Number = hyper(
        0.0,
        schedule_of="learning_rate",
        search=(0.0, 1.0),
        valid=(0, 1),
        help="fraction of the learning rate removed by the horizon",
    )
    visit_power: Number = hyper(
        0.7, search=(0.5, 1.0), valid=(0, 1), help="with count_visits: exponent of the number of visits"
    )
    discount: Number = hyper(0.99, search=(0.9, 0.9999), valid=(0, 1))
    epsilon_start: Number = hyper(1.0, valid=(0, 1))
    epsilon_end: Number = hyper(0.05, search=(0.001, 0.2, "log"), valid=(0, 1))
    exploration: Number = hyper(0.5, search=(0.05, 0.8), valid=(0, 1), help="fraction of the horizon until epsilon_end")
    initial_value: Number = hyper(
        0.0, valid=(-1e9, 1e9), initial=True, help="of every entry; a high value makes the agent explore"
    )
    horizon: Number = hyper(0.0, valid=(0, 1e18), spans_run=True, help="steps of the schedules; 0: as long as the run")

    rule: str = static("q", choices=RULES)
    num_steps: int = static(250, help="steps in one update; the learning rate is constant within it")
    count_visits: bool = static(False, choices=(False, True), help="smaller step sizes for often visited entries")
    snapshots: int = static(0, help="number of tables to keep during training")
    reset: str = static("bank", choices=("bank", "exact"))
    bank_size: int = static(0, help="first states per environment and update; 0: as many as a random policy needs")

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    rollout: Any = filled_by_bind()

    def bind(self, env: Env) -> "QTable":
        """The agent with the spaces and sizes of an environment.

        Raises Unsuited if observations or actions are not countable or a table would be too large, and ValueError for
        wrong sizes.
        """
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
        """Environment steps of one update: `num_steps`, because there is one environment."""
        return self.num_steps

    @property
    def members_per_call(self) -> int:
        """The number of members whose tables fit into the cache of one CPU core together."""
        return max(1, CALL_BYTES // (4 * math.prod(self._shape)))

    def init(self, key: Key, env: Env) -> QTableState:
        """A table filled with `initial_value`, a first environment state, and a first action. `key` is consumed."""
        key, k_envs, k_action = jax.random.split(key, 3)
        env_states = self.rollout.init(env, k_envs)
        # The first action is chosen as if all Q-values were equal.
        equal = allowed([jnp.float32(0)] * self.action_space.n, self._observe(env, env_states.state)[1])
        noise = jax.tree.map(lambda x: x[0], self._action_noise(k_action, jnp.int32(0), 1))
        snapshots = (self.snapshots, *self._shape[1:])
        return QTableState(
            age=jnp.int32(0),
            key=key,
            q=jnp.full(self._shape, self.initial_value, jnp.float32),
            visits=jnp.zeros(self._shape, jnp.float32) if self.count_visits else None,
            env_states=env_states,
            action=epsilon_greedy(equal, noise.explores, noise.uniform),
            snapshots=jnp.full(snapshots, self.initial_value, jnp.float32) if self.snapshots else None,
        )

    def new_episodes(self, state: QTableState, env: Env, key: Key) -> QTableState:
        """The state at the start of a new episode, with its first action chosen as in training."""
        k_envs, k_action = jax.random.split(key)
        env_states = self.rollout.init(env, k_envs)
        obs_index, mask = self._observe(env, env_states.state)
        noise = jax.tree.map(lambda x: x[0], self._action_noise(k_action, state.age, 1))
        rows = self._rows(state.q.ravel(), obs_index)
        action = epsilon_greedy(allowed(sum_of(rows), mask), noise.explores, noise.uniform)
        return state.replace(env_states=env_states, action=action)

    def update(self, state: QTableState, env: Env, clock: Int[Array, ""]) -> tuple[QTableState, Metrics]:
        """Take `num_steps` steps and learn from each."""
        del clock
        key, k_envs, k_actions, k_table = jax.random.split(state.key, 4)
        samples, noise = self.rollout.sample(env, k_envs), self._action_noise(k_actions, state.age, self.num_steps)
        step = functools.partial(self._step, env, samples, self._learning_rate(state.age))
        steps = jnp.arange(self.num_steps, dtype=jnp.int32)
        loop, episodes = jax.lax.scan(step, self._start(state, env, k_table), (steps, samples.noise, noise))
        q = write(loop.q, *loop.pending).reshape(self._shape)
        visits = None if loop.visits is None else loop.visits.reshape(self._shape)
        # The epsilon of the last step, not a mean: its rounding would depend on the number of members in a call.
        losses = {"td_error": loop.error_sum / self.num_steps, "epsilon": noise.epsilon[-1]}
        state = QTableState(state.age + 1, key, q, visits, loop.env_states, loop.action, self._snapshots(state, q))
        return state, Metrics(self._episodes(*episodes), losses)

    def act(
        self, state: QTableState | QTablePolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): the first of the best actions when greedy, epsilon-greedy with random ties otherwise."""
        policy = self._policy(state)
        row = allowed(list(policy.q[index_of(self.observation_space, obs)]), mask)
        if greedy:
            action = epsilon_greedy(row, jnp.bool_(False), jnp.float32(0))
        else:
            k_explore, k_choose = jax.random.split(key)
            action = epsilon_greedy(row, jax.random.uniform(k_explore) < policy.epsilon, jax.random.uniform(k_choose))
        return action.astype(self.action_space.dtype), carry

    def value(self, state: QTableState | QTablePolicy, obs: Any) -> Float[Array, "..."]:
        """The largest Q-value, as if all actions were allowed. `obs` may have leading axes."""
        return jnp.max(self._policy(state).q[index_of(self.observation_space, obs)], axis=-1)

    def with_policy(self, state: QTableState, policy: QTablePolicy) -> QTableState:
        """A new member's state with the table of a policy."""
        return state.replace(q=jnp.broadcast_to(policy.q, state.q.shape))

    def policy_state(self, state: QTableState) -> QTablePolicy:
        """The table (mean over tables), the epsilon of this age, and the snapshots."""
        return QTablePolicy(jnp.mean(state.q, axis=0), self._epsilon(state.age, jnp.int32(0)), state.snapshots)

    # The parts of an update, in order.

    def _action_noise(self, key: Key, age: Int[Array, ""], steps: int) -> ActionNoise:
        k_explore, k_choose, k_table = jax.random.split(key, 3)
        epsilon = self._epsilon(age, jnp.arange(steps, dtype=jnp.int32))
        explores = jax.random.uniform(k_explore, (steps,)) < epsilon
        uniform = jax.random.uniform(k_choose, (steps,))
        return ActionNoise(epsilon, explores, uniform, self._second_table(k_table, (steps,)))

    def _start(self, state: QTableState, env: Env, key: Key) -> LoopState:
        q, second_table = state.q.reshape(-1), self._second_table(key, ())
        visits = None if state.visits is None else state.visits.reshape(-1)
        entry = self._entry(_table(second_table), self._observe(env, state.env_states.state)[0], state.action)
        old_value, bank_index = read(q, entry), self.rollout.first_bank_index()
        return LoopState(
            q=q,
            pending=(entry, old_value),
            visits=visits,
            env_states=state.env_states,
            bank_index=bank_index,
            action=state.action,
            second_table=second_table,
            entry=entry,
            old_value=old_value,
            error_sum=jnp.float32(0),
        )

    def _step(
        self, env: Env, samples: RolloutSamples, learning_rate: Scalar, loop: LoopState, inputs: tuple
    ) -> tuple[LoopState, tuple]:
        t, env_noise, action_noise = inputs
        action = loop.action.astype(self.action_space.dtype)[None]
        env_states, bank_index, step = self.rollout.advance(
            env, samples, loop.env_states, loop.bank_index, action, env_noise, t
        )
        q = write(loop.q, *loop.pending)
        obs_index, mask = self._observe(env, env_states.state)
        rows = self._rows(q, obs_index)
        next_value = self._successor_value(env, q, loop.second_table, step, (rows, mask), action_noise)
        error = step.reward[0] + jnp.where(step.terminated[0], 0, self.discount * next_value) - loop.old_value
        visits, step_size = self._step_size(loop.visits, loop.entry, learning_rate)
        new_value = loop.old_value + step_size * error
        # SARSA chooses the next action with the old values, because the target contains that action's Q-value. The
        # other rules choose it with the new values.
        choosing_rows = rows if self.rule == "sarsa" else self._with_new_value(rows, obs_index, loop.entry, new_value)
        action = epsilon_greedy(allowed(sum_of(choosing_rows), mask), action_noise.explores, action_noise.uniform)
        entry = self._entry(_table(action_noise.second_table), obs_index, action)
        loop = LoopState(
            q=q,
            pending=(loop.entry, new_value),
            visits=visits,
            env_states=env_states,
            bank_index=bank_index,
            action=action,
            second_table=action_noise.second_table,
            entry=entry,
            # `rows` were read before this change: use the new value if the next step changes the same entry again.
            old_value=jnp.where(entry == loop.entry, new_value, pick(one_of(rows, action_noise.second_table), action)),
            error_sum=loop.error_sum + jnp.abs(error),
        )
        ended = (step.terminated | step.truncated)[0]
        return loop, (jnp.where(ended, step.state.time[0], 0), step.episode_return[0])

    def _successor_value(
        self,
        env: Env,
        q: Array,
        second_table: Any,
        step: StepResult,
        next_start: tuple[list[Row], Any],
        noise: ActionNoise,
    ) -> Scalar:
        """The value of the true successor of a step, under the rule.

        `next_start` is (Q-values, action mask) of the state in which the next step begins. This is the successor,
        except at the end of an episode: there it is the first state of the next episode.
        """
        rows, mask = next_start
        # Without a time limit, the two states differ only after a termination, where the caller does not use the value.
        if env.limit_range is not None:
            obs_index, mask = self._observe(env, step.state)
            rows = self._rows(q, obs_index)
        row = allowed(one_of(rows, second_table), mask)
        if self.rule == "sarsa":
            return pick(row, epsilon_greedy(row, noise.explores, noise.uniform))
        if self.rule == "expected-sarsa":
            return (1 - noise.epsilon) * best_of(row) + noise.epsilon * mean_of(row)
        if self.rule == "double-q":
            return mean_where_best(row, one_of(rows, ~second_table))
        return best_of(row)

    def _step_size(self, visits: Any, entry: Int[Array, ""], learning_rate: Scalar) -> tuple[Any, Scalar]:
        """(visits with that of the entry increased, the step size of this change)."""
        if visits is None:
            return None, learning_rate
        n = read(visits, entry) + 1
        return write(visits, entry, n), learning_rate * n**-self.visit_power

    def _with_new_value(
        self, rows: list[Row], obs_index: Int[Array, ""], entry: Int[Array, ""], new_value: Scalar
    ) -> list[Row]:
        # The rows after the change of one entry, which may be in another row. Faster than reading the table again.
        return [with_change(row, entry - self._entry(table, obs_index, 0), new_value) for table, row in enumerate(rows)]

    def _snapshots(self, state: QTableState, q: Float[Array, "K S A"]) -> Float[Array, "N S A"] | None:
        # Every update writes the snapshot of its part of the horizon and those of all later parts, because the next
        # update may end in a part after the next one.
        if state.snapshots is None:
            return None
        # progress is rounded: subtract 1e-3, so that the end of a part never counts as the start of the next one.
        part = jnp.ceil(self._progress(state.age + 1, 0) * self.snapshots - 1e-3).astype(jnp.int32) - 1
        is_ahead = jnp.arange(self.snapshots, dtype=jnp.int32) >= jnp.minimum(part, self.snapshots - 1)
        return jnp.where(is_ahead[:, None, None], jnp.mean(q, axis=0)[None], state.snapshots)

    def _episodes(self, length: Int[Array, "T"], episode_return: Float[Array, "T"]) -> EpisodeStats:
        stats = EpisodeStats.of(length > 0, episode_return, length)
        return stats.replace(resets_reused=jnp.maximum(stats.count - self.rollout.num_first_states, 0))

    # Tables, observations and schedules.

    @property
    def _shape(self) -> tuple[int, int, int]:
        """(K, S, A): tables, observations, actions."""
        tables = 2 if self.rule == "double-q" else 1
        return tables, math.prod(choices(self.observation_space) or ()), self.action_space.n

    def _entry(self, table: Any, obs_index: Int[Array, ""], action: Any) -> Int[Array, ""]:
        """The index of a table entry in the flat array."""
        return (table * self._shape[1] + obs_index) * self.action_space.n + action

    def _rows(self, q: Float[Array, "KSA"], obs_index: Int[Array, ""]) -> list[Row]:
        """The Q-values of all actions for one observation, in each table."""
        tables, _, actions = self._shape
        return [[read(q, self._entry(table, obs_index, a)) for a in range(actions)] for table in range(tables)]

    def _observe(self, env: Env, state: Any) -> tuple[Int[Array, ""], Any]:
        """(index of the observation in the table, action mask) of the one environment."""
        one = jax.tree.map(lambda x: x[0], state)
        return index_of(self.observation_space, env.observe(one)), env.action_mask(one)

    def _second_table(self, key: Key, shape: tuple[int, ...]) -> Bool[Array, "..."] | None:
        return jax.random.bernoulli(key, shape=shape) if self.rule == "double-q" else None

    def _policy(self, state: QTableState | QTablePolicy) -> QTablePolicy:
        return state if isinstance(state, QTablePolicy) else self.policy_state(state)

    def _epsilon(self, age: Int[Array, ""], step: Int[Array, "..."]) -> Float[Array, "..."]:
        return linear(self.epsilon_start, self.epsilon_end, self._progress(age, step), self.exploration)

    def _learning_rate(self, age: Int[Array, ""]) -> Scalar:
        return self.learning_rate * linear(1.0, 1 - self.anneal, self._progress(age, 0))

    def _progress(self, age: Int[Array, ""], step: Any) -> Float[Array, "..."]:
        return progress(age, self.num_steps, self.horizon, step)


def _table(second_table: Bool[Array, ""] | None) -> Any:
    return 0 if second_table is None else second_table.astype(jnp.int32)


def _check_countable(env: Env) -> None:
    if not isinstance(env.action_space, Discrete):
        raise Unsuited(f"a table needs actions that can be counted, Discrete, not {env.action_space}.")
    sizes = choices(env.observation_space)
    if sizes is None:
        raise Unsuited(
            "a table needs observations that can be counted: Discrete, MultiDiscrete, tuples and dicts of these; not "
            f"{env.observation_space}."
        )
    states, actions = math.prod(sizes), env.action_space.n
    if states * actions > MOST_ENTRIES:
        raise Unsuited(
            f"a table of {float(states):.3g} observations and {actions} actions is too large: it may have "
            f"{MOST_ENTRIES:,} entries."
        )
