"""Members whose environments Python steps. It has the methods of `Population`, so a run is the same in all else.

The compiled program chooses the actions of a step, and learns from a rollout; between them Python steps the
environments. Members are trained one after the other, so a member does not depend on the others.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.agent import AgentState, Metrics
from shoal.core.env import Key, State, Transition
from shoal.core.form import CPU, chosen, in_form, using
from shoal.core.keys import stream
from shoal.core.struct import Struct, struct
from shoal.core.wrappers.base import Wrapper
from shoal.rollouts.evaluate import Evaluation
from shoal.rollouts.rollout import EnvStates, Trajectory
from shoal.specs.roster import Roster
from shoal.specs.selector import FRESH, REST
from shoal.training.host_envs import Episodes, HostEnvs
from shoal.training.host_evaluation import evaluate_on_host, with_first_carries
from shoal.training.placement import Placement
from shoal.training.plan import Plan
from shoal.training.population import kind_of
from shoal.training.program import Member, after_update, begin, no_metrics, reseed


@struct
class HostMember(Struct):
    """One member with its environments on the host, as a checkpoint keeps it."""

    state: AgentState
    alive: Any
    episodes: Episodes
    pending: Any = None  # with `overlap`: the `Collected` from which the next update learns


@struct
class StandingStill(Wrapper):
    """An environment whose steps do nothing, so that an update can be traced for the shapes of its metrics."""

    def transition(self, state: State, action: Any, noise: Any) -> Transition[State]:
        """Return the state as it is."""
        del action, noise
        return state, jnp.float32(0), jnp.bool_(False), {}


class Collected(NamedTuple):
    """The steps of one update, and what there is after them."""

    trajectory: Trajectory
    env_states: EnvStates
    carry: Any  # [E], of a recurrent policy


class RolloutInputs(NamedTuple):
    """The noise and the carries that a rollout gets from the compiled program before its first step."""

    noise: Any  # [T, ...], of the policy
    carry: Any  # [E], of a recurrent policy
    first_carry: Any  # [E], at the start of an episode


class HostPopulation:
    """The members of M slots, with environments on the host. Trees that its methods return have leaves [M, ...]."""

    def __init__(self, plan: Plan, run_key: Key) -> None:
        """Set up an empty population. Nothing is compiled, and no environment starts."""
        self.plan, self.key = plan, run_key
        self.stop_signal = 0  # as in `Population`; here there is no other process
        self.members: list[Member] = []
        self.envs: list[HostEnvs] = []
        self._pending: list[Collected | None] = []  # of each member, with `overlap`
        self._totals: list[Metrics] = []  # of each member since the last record; empty before the first update
        self._learner = ThreadPoolExecutor(1, "learner")  # starts its thread at the first use, with `overlap`
        self._compiled_learn: Any = None
        self.notes: list[str] = []  # sentences for the user about environments that could not be restored
        self.set_roster(plan.roster)
        form = chosen(jax.default_backend())  # members are trained one at a time
        parts = (begin, rollout_inputs, act, learn)
        self._begin, self._inputs, self._act, self._learn = (
            jax.jit(in_form(part, form, kind_of(plan)), compiler_options=plan.placement.compiler_options)
            for part in parts
        )

    def compile(self) -> float:
        """Compile what a rollout needs, by a rollout of zeros. Returns the seconds that this took."""
        started = time.perf_counter()
        agent, env = self._agent(0), self._env(0)
        member = self._begin(agent, env, np.int32(0), self.key)
        obs = jax.tree.map(np.asarray, (member.state.env_states.state.obs, member.state.env_states.state.mask))
        inputs = self._inputs(agent, member.state)
        self._act(agent, member.state, inputs.noise, inputs.carry, *obs, np.int32(0))
        return time.perf_counter() - started

    def begin(self) -> None:
        """Begin a new member in every slot."""
        self.close()
        slots = range(self.plan.members)
        self.members, self.envs = [None] * len(slots), [None] * len(slots)  # type: ignore[list-item]  # filled below
        self._pending = [None] * len(slots)
        for m in slots:
            self._begin_member(m)

    def advance(self, clock: int, updates: int) -> None:
        """Train every member for `updates` updates; `clock` is the number of updates that the run has done before."""
        slots = range(self.plan.members)
        totals = self._totals or [self._no_metrics(m) for m in slots]
        self._totals = [self._train(m, totals[m], clock, updates) for m in slots]

    def end_record(self) -> tuple[Metrics, np.ndarray]:
        """Return the metrics of all updates since the last record, and begin those of the next one.

        They are (metrics [M], whether the losses and weights of the members are finite [M]).
        """
        metrics, self._totals = self.totals(), []
        return metrics, np.asarray([bool(member.alive) for member in self.members])

    def totals(self) -> Metrics:
        """Return the sums of metrics since the last record, to continue the record: leaves [M, ...]."""
        return self._one_by_one.gather(self._totals, len(self._totals))

    def load_totals(self, totals: Metrics) -> None:
        """Continue a record with the sums that came from `totals`."""
        self._totals = self._one_by_one.spread(totals)

    def no_totals(self) -> Metrics:
        """Return the totals before the first update of a record."""
        return jax.tree.map(lambda x: np.full(self.plan.members, x), self._no_metrics(0))

    def evaluate(self, key: Key) -> tuple[Evaluation, Any]:
        """Run N episodes with each member's greedy policy: (evaluation [M, N], policies [M]). `key` is consumed."""
        episodes, horizon, results = self.plan.spec.eval_episodes, self.plan.horizon, []
        for m, member in enumerate(self.members):
            agent = self._agent(m).at(jnp.asarray(member.state.age))
            of_member = jax.random.fold_in(key, int(self.roster.seed_index[m]))
            policy = agent.policy_state(member.state)
            results.append((evaluate_on_host(agent, policy, self._env(m), of_member, episodes, horizon), policy))
        return self._one_by_one.gather(results, len(results))

    def apply(self, source: np.ndarray, roster: Roster, *, new_episodes: bool = False) -> None:
        """Carry out a turnover, as `Population.apply`. A copy goes on in the episodes of its original.

        Raises RuntimeError if the environment cannot be brought to the state of the original's.
        """
        originals = [*zip(self.members, [envs.episodes for envs in self.envs], self._pending, strict=True)]
        self.set_roster(roster)
        if not originals:
            return  # no member has begun
        for m in np.flatnonzero(source != np.arange(self.plan.members)).tolist():
            if source[m] == FRESH:
                self._begin_member(m)
            elif source[m] == REST:
                self.members[m] = self.members[m].replace(alive=jnp.asarray(False))
            else:
                member, episodes, self._pending[m] = originals[source[m]]
                self._copy_member(m, member, episodes, new_episodes)

    def set_roster(self, roster: Roster) -> None:
        """Use the hyperparameters, seeds and occupants of a roster from now on. No member changes."""
        self.roster = roster
        self._agents, self._envs = self.plan.batched(roster)

    def ages(self) -> np.ndarray:
        """Return the number of updates that each member was trained for, [M]."""
        return np.asarray([int(member.state.age) for member in self.members])

    def to_host(self) -> HostMember:
        """Return all members on the host, with everything that is needed to continue training: leaves [M, ...]."""
        rows = [
            HostMember(member.state, member.alive, envs.episodes, pending)
            for member, envs, pending in zip(self.members, self.envs, self._pending, strict=True)
        ]
        return self._one_by_one.gather(rows, len(rows))

    def load(self, members: HostMember, roster: Roster) -> None:
        """Replace all members by `members`, which come from `to_host`, and the roster by theirs."""
        self.close()
        self.set_roster(roster)
        rows = self._one_by_one.spread(members)
        self.members = [Member(*jax.device_put((row.state, jnp.asarray(row.alive)))) for row in rows]
        self._pending = [jax.device_put(row.pending) for row in rows]
        self.envs = [self._open(m) for m in range(len(rows))]
        lost = sum(
            len(envs.restore(row.episodes, _in_numpy(row.state.env_states)))
            for envs, row in zip(self.envs, rows, strict=True)
        )
        if lost:
            self.notes.append(
                f"{lost} of {sum(envs.count for envs in self.envs)} environments did not come to their saved states by "
                f"repeating their actions, so they begin new episodes: from here on the run differs from one without a "
                f"stop"
            )

    def shapes(self) -> HostMember:
        """Return the shapes and dtypes of `to_host()`, without running anything."""
        begin_all = jax.vmap(begin, in_axes=(0, 0, 0, None))
        members = jax.eval_shape(begin_all, self._agents, self._envs, self.roster.seed_index, self.key)
        one = Episodes.none(self._env(0), self.plan.agent.rollout.num_envs, (0, 0, 0))
        episodes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((self.plan.members, *x.shape), x.dtype), one)
        pending = None
        if self.plan.spec.overlap:
            pending = jax.eval_shape(jax.vmap(one_rollout), self._agents, self._envs, members.state)
        return HostMember(members.state, members.alive, episodes, pending)

    def close(self) -> None:
        """End the environments. The members can still be read."""
        for envs in self.envs:
            if envs is not None:
                envs.close()

    # One member.

    @property
    def _one_by_one(self) -> Placement:
        return self.plan.placement._replace(block=1, mesh=None)

    def _train(self, m: int, total: Metrics, clock: int, updates: int) -> Metrics:
        """Train a member, and return the metrics of these updates added to `total`."""
        of_member = self._agent(m)
        for update in range(updates if self.members[m].alive else 0):
            member, pending = self.members[m], self._pending[m]
            collected = self._roll_out(m, of_member, member.state) if pending is None else pending
            agent = of_member.at(jnp.asarray(member.state.age))
            learn = self._learn if pending is None else self._begin_to_learn
            self.members[m], total = learn(member, total, agent, np.int32(clock + update), *collected)
            if pending is not None:
                self._pending[m] = self._roll_out_ahead(m, of_member, member.state, pending)
            if not self.members[m].alive:
                break
        return total

    def _begin_to_learn(self, *arguments: Any) -> tuple[Member, Metrics]:
        """Call `learn` so that the environments can step until its results, which are returned at once, are there.

        A CPU runs the programs that one thread has started one after the other, so another thread starts this one.
        """
        if self._compiled_learn is None:  # here, because the settings of JAX in a block hold for its thread only
            self._compiled_learn = self._learn.lower(*arguments).compile()
        return self._learner.submit(self._compiled_learn, *arguments).result()

    def _roll_out_ahead(self, m: int, of_member: Any, state: AgentState, pending: Collected) -> Collected:
        """Take the steps of the next update with the weights of `state`, which has not learned from `pending` yet.

        Noise and schedules are those of the next update, as without `overlap`.
        """
        ahead = state.replace(key=jax.random.split(state.key, 4)[0], age=state.age + 1)
        collected = self._roll_out(m, of_member, ahead, pending)
        member = self.members[m]
        self.members[m] = member.replace(state=member.state.replace(env_states=collected.env_states))
        return collected

    def _roll_out(self, m: int, of_member: Any, state: AgentState, before: Collected | None = None) -> Collected:
        """Take the steps of one update. A recurrent policy goes on from `before`, or else from what `state` has."""
        agent, envs = of_member.at(jnp.asarray(state.age)), self.envs[m]
        inputs = self._inputs(agent, state)
        carry = inputs.carry if before is None else before.carry

        def act_on_step(obs: Any, mask: Any, t: int) -> tuple[Any, Any]:
            nonlocal carry
            action, output, carry = self._act(agent, state, inputs.noise, carry, obs, mask, np.int32(t))
            return _in_numpy(action), _in_numpy(output)

        def forget(done: np.ndarray) -> None:
            nonlocal carry
            if inputs.first_carry is not None:
                carry = with_first_carries(carry, inputs.first_carry, done)

        sizes = agent.rollout
        trajectory = envs.collect(act_on_step, sizes.num_steps, sizes.final_slots, forget)
        return Collected(trajectory, envs.env_states(), carry)

    def _no_metrics(self, m: int) -> Metrics:
        def one_update(agent: Any, env: Any) -> Metrics:
            state = begin(agent, env, jnp.int32(0), self.key).state
            return agent.update(state, StandingStill(env), jnp.int32(0))[1]

        with using(CPU):
            return no_metrics(jax.eval_shape(one_update, self._agent(m), self._env(m)))

    def _begin_member(self, m: int) -> None:
        if self.envs[m] is not None:
            self.envs[m].close()
        member = self._begin(self._agent(m), self._env(m), self.roster.seed_index[m], self.key)
        self.envs[m] = self._open(m)
        self.envs[m].begin()
        self.members[m] = member.replace(state=member.state.replace(env_states=self.envs[m].env_states()))
        if self.plan.spec.overlap:
            self._pending[m] = collected = self._roll_out(m, self._agent(m), self.members[m].state)
            self.members[m] = member.replace(state=member.state.replace(env_states=collected.env_states))

    def _copy_member(self, m: int, member: Member, episodes: Any, new_episodes: bool) -> None:
        key, occupant = stream(self.key, "turnover"), jnp.int32(max(self.roster.occupant[m], 0))
        copy, agent = reseed(member, self._agent(m), occupant, key), self._agent(m)
        self.envs[m].close()
        self.envs[m] = self._open(m)
        if new_episodes:
            k_envs = jax.random.fold_in(stream(key, "new episodes"), occupant)
            state = agent.new_episodes(copy.state, self._env(m), k_envs)
            if state is not copy.state:  # agents with a replay buffer go on in their episodes
                self.envs[m].begin()
                self.members[m] = copy.replace(state=state.replace(env_states=self.envs[m].env_states()))
                return
        if self.envs[m].restore(episodes, _in_numpy(copy.state.env_states)):
            raise RuntimeError(
                f"{self.plan.spec.env_name} did not come to the same state when its actions were repeated, so a member "
                f"in it cannot be copied: use seeds, sweeps or shoal tune, which copy none."
            )
        self.envs[m].episodes.entropy[2] = occupant + 1  # later episodes of the copy are its own
        self.members[m] = copy

    def _open(self, m: int) -> HostEnvs:
        entropy = (int(self.plan.spec.seed), int(self.roster.seed_index[m]), 0)
        rollout = self.plan.agent.rollout
        return HostEnvs(self._env(m), rollout.num_envs, entropy, rollout.short_episodes)

    def _agent(self, m: int) -> Any:
        return jax.tree.map(lambda x: x[m], self._agents)

    def _env(self, m: int) -> Any:
        return jax.tree.map(lambda x: x[m], self._envs)


def rollout_inputs(agent: Any, state: AgentState) -> RolloutInputs:
    """Return the policy's noise and carries of the next rollout. The key is split as `RolloutAgent.update` does."""
    _, k_noise, _, _ = jax.random.split(state.key, 4)
    return RolloutInputs(agent.policy_noise(state, k_noise), *agent.actor_carries(state))


def one_rollout(agent: Any, env: Any, state: AgentState) -> Collected:
    """Return a rollout of an environment that stands still, for the shapes of what Python collects."""
    noise, carry, first_carry = rollout_inputs(agent, state)
    env_states, trajectory, carry = agent.rollout.collect(
        StandingStill(env), state.env_states, agent.behavior(state), noise, state.key, carry, first_carry, agent.scan
    )
    return Collected(trajectory.replace(info={}, env=None, num_first_states=agent.rollout.num_steps), env_states, carry)


def act(agent: Any, state: AgentState, noise: Any, carry: Any, obs: Any, mask: Any, t: Any) -> tuple[Any, Any, Any]:
    """Return (actions, further outputs to record, carries) of step t, all [E]."""
    return agent.behavior(state)(obs, mask, jax.tree.map(lambda x: x[t], noise), carry)


def learn(
    member: Member, total: Metrics, agent: Any, clock: Any, trajectory: Trajectory, env_states: EnvStates, carry: Any
) -> tuple[Member, Metrics]:
    """Return (the member after learning from a rollout, the metrics of the chunk so far)."""
    key, _, _, k_learn = jax.random.split(member.state.key, 4)
    state = member.state.replace(key=key, env_states=env_states)
    state, metrics = agent.learn_from(state, trajectory, carry, k_learn, clock)
    return after_update(member, agent, state, metrics, total)


def _in_numpy(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)
