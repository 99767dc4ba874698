"""The plan of a run: all that follows from its spec before anything compiles. Members, sizes, memory, records.

Mistakes in a spec are found here, within seconds, with clear messages.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.agents.replay_agent import ReplayAgent
from shoal.core.agent import Agent, both_ends
from shoal.core.env import Env, check_fields, episode_limit
from shoal.core.errors import Unsuited
from shoal.core.form import chosen
from shoal.core.limits import check_address_limit
from shoal.core.process import check_process
from shoal.core.registry import AGENTS
from shoal.core.struct import info_of
from shoal.specs.describe import build
from shoal.specs.roster import Roster, first_roster
from shoal.specs.selector import Schedule, Selector, UserChoices
from shoal.specs.settings import AgentEnv, apply, get, in_numpy, populate, setting_in_words
from shoal.specs.spec import RunSpec, built, template
from shoal.training.binding import bind, check_spaces, check_traced, of_all_sizes, with_lifted, with_sizes_of
from shoal.training.host_envs import needs_host
from shoal.training.memory import check_host, state_bytes, training_bytes, waves_of
from shoal.training.placement import Placement, accelerators, make_placement
from shoal.training.program import Split, split_over
from shoal.training.recording import load_demonstrations

DEFAULT_HORIZON = 1_000  # steps of an evaluation episode in environments without any limit
COUNT_LIMIT = 2**31  # the smallest number that an int32 cannot hold


@dataclasses.dataclass(frozen=True)
class Plan:
    """The program of a run, ready to compile: what is trained, how long, where, and when it is recorded.

    Only `roster`, the members that the run begins with, has a member axis.
    """

    spec: RunSpec
    agent: Agent  # bound; traced fields as in the first setting
    env: Env  # of the first setting
    roster: Roster
    settings: list[dict[str, Any]]  # one per setting; member m begins with settings[m // seeds]
    selector: Selector | None
    updates_per_member: int  # length of the schedules, and of the training of a member unless a selector ends it
    first_updates: int  # updates planned when the run was first started; `updates_per_member` unless it was extended
    records: int  # the number of records within `first_updates`
    eval_records: list[int]  # the indices, below `records`, of the records that have an evaluation
    horizon: int  # the largest number of steps of an evaluation episode
    member_bytes: int  # memory that the training of one member needs
    waves: list[slice]  # members that are on the device at the same time
    placement: Placement  # of the largest wave

    @property
    def members(self) -> int:
        """The number M of slots: settings times seeds."""
        return len(self.roster.seed_index)

    @property
    def members_at_a_time(self) -> int:
        """The number of members in the largest wave."""
        return max(wave.stop - wave.start for wave in self.waves)

    def of_members(self, rows: np.ndarray) -> "Plan":
        """Return the plan of a run of the members `rows` [N] only. Its programs have the sizes of this plan."""
        seeds, roster = self.spec.seeds, self.roster
        hyperparameters = jax.tree.map(lambda x: x[rows], roster.hyperparameters)
        size = min(len(rows), self.members_at_a_time)
        agent, split = self.agent, self.placement.split
        return dataclasses.replace(
            self,
            spec=dataclasses.replace(self.spec, seeds=1),
            settings=[self.settings[m // seeds] for m in rows],
            roster=first_roster(hyperparameters, roster.seed_index[rows]),
            waves=[slice(i, min(i + size, len(rows))) for i in range(0, len(rows), size)],
            placement=make_placement(
                size,
                0 if self.placement.mesh else self.placement.block,
                members_per_call=agent.members_per_call,
                weights_per_step=agent.weights_per_step,
                split=split,
            ),
        )

    @property
    def updates(self) -> int | None:
        """The number of updates of the whole run; None if a selector decides when it ends."""
        selector_ends_run = self.selector is not None and self.selector.ends_run
        return None if selector_ends_run else self.updates_per_member

    @property
    def expected_updates(self) -> int | None:
        """The number of updates that the run will have, for displays; None if only its selector knows."""
        trainings = 1.0 if self.selector is None else self.selector.trainings
        return None if trainings is None else round(self.updates_per_member * trainings)

    @property
    def steps(self) -> int:
        """The number of environment steps of each member: whole updates."""
        return self.updates_per_member * self.agent.steps_per_update

    def twins(self, members: int) -> np.ndarray:
        """Return of which member each member [M] of a branch is a twin, of the `members` of the run that it leaves."""
        settings = len(self.settings) // self.spec.branch["twins"]
        seeds = members // settings
        first = np.repeat(np.arange(settings) * seeds, self.spec.branch["twins"])  # of each setting of the branch
        return (first[:, None] + np.arange(self.spec.seeds) % seeds).reshape(-1)

    def boundary(self, record: int) -> int:
        """Return how many updates are done at the end of the record with this index.

        After the planned records more follow at the same spacing, if the run was extended or a selector ends it.
        """
        rounds, rest = divmod(record + 1, self.records)
        updates = rounds * self.first_updates + round(self.first_updates * rest / self.records)
        return updates if self.updates is None else min(updates, self.updates)

    def evaluates(self, record: int) -> bool:
        """Return whether the members are evaluated at the end of the record with this index."""
        return record % self.records in self.eval_records or self._is_last(record)

    def _is_last(self, record: int) -> bool:
        # Whether the record ends a run that was extended; it is evaluated if any record is.
        is_longer = self.first_updates < self.updates_per_member
        return is_longer and bool(self.eval_records) and self.boundary(record) == self.updates

    def batched(self, roster: Roster | None = None) -> AgentEnv:
        """Return agent and environment of every slot of a roster (default: the first one), with leaves [M, ...]."""
        roster = self.roster if roster is None else roster
        return populate(AgentEnv(self.agent, self.env), roster.hyperparameters, self.members)

    @property
    def learns_from(self) -> np.ndarray:
        """The environment steps before the first gradient step, [M] or the same for all; with a schedule the most."""
        *_, agent = both_ends(self.batched().agent)
        return np.asarray(agent.learns_from)

    @property
    def first_learning(self) -> set[int]:
        """The updates with the first gradient step of the earliest, and of the latest member that the run begins with.

        Every further member makes an update at most as much slower as the earliest one did.
        """
        return {int(steps // self.agent.steps_per_update) for steps in (self.learns_from.min(), self.learns_from.max())}

    @property
    def warning(self) -> str:
        """Warnings about members that will not learn, or have no score in some records; empty if there are none."""
        return f"{self._learning_warning}{self._scores_warning}"

    @property
    def _learning_warning(self) -> str:
        """A warning about members whose run ends before their first gradient step."""
        starts = np.broadcast_to(self.learns_from, (self.members,))
        too_late = starts[starts >= self.steps]
        if not too_late.size:
            return ""
        first = f"{int(too_late.min()):,}{' or more' * bool(too_late.min() < too_late.max())}"
        return (
            f"; {too_late.size} will not learn: the first gradient step of {self.spec.agent} comes after {first} steps"
        )

    @property
    def _scores_warning(self) -> str:
        """A warning about records that are shorter than an episode may be, where a selector uses training returns."""
        limit, envs = episode_limit(self.env), _parallel(self.agent)
        if self.selector is None or limit is None or schedule_of(self).is_scored_by_evaluations:
            return ""
        shortest = min(self.boundary(r + 1) - self.boundary(r) for r in range(-1, self.records - 1))
        steps = shortest * self.agent.steps_per_update // envs
        if steps >= limit:
            return ""
        return (
            f"; a record has {steps:,} steps of each environment, and an episode up to {limit:,}: a member in which no "
            f"episode ended keeps its last score (use fewer records, or evaluate every record: --evaluations "
            f"{self.records})"
        )

    @property
    def notes(self) -> str:
        """The end of a run's headline: on which devices it runs, and what was rounded or split."""
        waves = f", {len(self.waves)} parts one after another to fit into memory" if len(self.waves) > 1 else ""
        rounded = f" ({self.spec.steps:,} asked for, rounded up to whole updates)" * (self.steps != self.spec.steps)
        asked, planned = self.spec.evaluations, len(self.eval_records)
        plural = "s" * (planned > 1)
        evaluated = f", {planned} evaluation{plural} (not {asked}: one per record)" if asked > planned else ""
        if planned and needs_host(self.env):
            episodes = f"{planned} x {self.spec.eval_episodes} episodes"
            evaluated += f"; Python steps the evaluations too, {episodes}: fewer (--eval-episodes) are faster"
        return f"{rounded} on {self.placement.describe()}{waves}{evaluated}{self.warning}"

    def names(self, roster: Roster) -> list[str]:
        """Return names of slots: `learning_rate=0.001 seed=3`; with a selector `occupant=5 learning_rate=0.001`."""
        if self.selector is None:
            return self.member_names()
        return [
            " ".join([f"occupant={roster.occupant[m]}", *(f"{path}={v[m]:g}" for path, v in roster.numbers.items())])
            for m in range(self.members)
        ]

    def member_names(self) -> list[str]:
        """Return `learning_rate=0.001 seed=3` for every member that the run begins with."""
        texts = [setting_in_words(setting) for setting in self.settings]
        seeds = self.spec.seeds
        return [f"{texts[m // seeds]} seed={self.roster.seed_index[m]}".strip() for m in range(self.members)]


def make_plan(
    spec: RunSpec,
    agent: Agent | None = None,
    env: Env | None = None,
    *,
    pair: AgentEnv | None = None,
    selector: Selector | None = None,
    devices: int = 0,
    memory_limit: int = 0,
) -> Plan:
    """Check a spec and compute the plan of its run. Nothing is compiled.

    `agent` and `env` replace those that the spec names; they are needed if it cannot describe them (a lambda, a
    class of a notebook). `pair` is what `template` returns for them, where it was built before. `memory_limit` is in
    bytes; 0 means what the device has. Raises ValueError or TypeError.
    """
    check_process()
    check_address_limit()
    if devices < 0 or memory_limit < 0:
        what = f"devices={devices}" if devices < 0 else "the memory limit"
        raise ValueError(f"{what} must not be negative; 0 means all there is.")
    common = _with_files(template(spec, agent, env) if pair is None else pair)
    check_fields(common.env)
    check_traced(common, spec)
    settings = spec.settings()
    pairs = [apply(common, built(setting)) for setting in settings]
    selector = build(spec.selector) if selector is None else selector
    # A selector is bound to the first setting: a number that varies may be inside of a struct that is swept.
    selector = None if selector is None else selector.bind(*pairs[0], UserChoices())
    ranges = {} if selector is None else selector.ranges(*pairs[0])
    varying = list(dict.fromkeys([*spec.varying, *ranges]))
    # The sizes of a plan must also hold for the hyperparameters that a selector may set: the two ends of its ranges.
    extremes = [{path: bounds[end] for path, bounds in ranges.items()} for end in (0, 1) if ranges]
    extreme_pairs = [apply(pairs[0], setting) for setting in extremes]
    envs = [pair.env for pair in [*pairs, *extreme_pairs]]
    check_spaces(envs, [*settings, *extremes])
    bound = bind(*of_all_sizes([*pairs, *extreme_pairs], varying), spec)
    updates = math.ceil(spec.steps / bound.steps_per_update)
    pairs = with_sizes_of(bound, with_lifted(pairs, varying), updates * bound.steps_per_update)
    one, members = in_numpy(pairs[0]), len(settings) * spec.seeds
    of_state = state_bytes(*one)
    of_member = training_bytes(*one, of_state)
    check_host(members, of_state)  # before `waves_of`, which is slow for too many members
    split = _split(one, spec)
    waves = waves_of(members, of_member, memory_limit, accelerators(devices), split)
    first_updates = math.ceil((spec.first_steps or spec.steps) / bound.steps_per_update)
    _check_count(updates, bound.steps_per_update)
    records = _records(first_updates, spec.records, bound.steps_per_update)
    roster = _first_roster(pairs, varying, spec.seed_indices)
    if selector is not None:
        roster = roster._replace(seed_index=_seeds_of(selector, roster.seed_index, spec.first_seed))
    plan = Plan(
        spec=spec,
        agent=one.agent,
        env=one.env,
        roster=roster,
        settings=settings,
        selector=selector,
        updates_per_member=updates,
        first_updates=first_updates,
        records=records,
        eval_records=_eval_records(records, spec.evaluations),
        horizon=spec.eval_max_steps or default_horizon(envs),
        member_bytes=of_member,
        waves=waves,
        placement=make_placement(
            max(w.stop - w.start for w in waves),
            spec.block,
            devices,
            members_per_call=bound.members_per_call,
            weights_per_step=bound.weights_per_step,
            split=split,
        ),
    )
    if spec.overlap:
        _check_overlap(plan)
    if selector is not None:
        selector.check(schedule_of(plan))
        if spec.stop_at is not None and not spec.stop_at_mean:
            raise ValueError(
                f"stop_at={spec.stop_at:g} ends members, and the selector decides which members go on: add "
                f"stop_at_mean, which ends the run."
            )
    return plan


def schedule_of(plan: Plan) -> Schedule:
    """Return what a selector may check about a run."""
    agent, per_update, records = plan.agent, plan.agent.steps_per_update, range(plan.records)
    envs = _parallel(agent)
    has_episodes = not any(info_of(f).file for f in dataclasses.fields(agent))  # type: ignore[arg-type]  # a struct
    return Schedule(
        members=plan.members,
        steps=tuple(plan.boundary(record) * per_update for record in records),
        is_evaluated=tuple(plan.evaluates(record) for record in records),
        learns_from=float(np.max(plan.learns_from)),
        scored_from=float(envs * min(plan.env.reset_every, episode_limit(plan.env) or math.inf))
        if has_episodes
        else math.inf,
    )


def _parallel(agent: Agent) -> int:
    """Return the number of environments of a member."""
    return 1 if agent.rollout is None else agent.rollout.num_envs


def default_horizon(envs: Sequence[Env]) -> int:
    """Return the steps after which an evaluation ends an episode: the longest limit, or 1,000 if there is none."""
    limits = [limit for env in envs if (limit := episode_limit(env)) is not None]
    return max(limits, default=DEFAULT_HORIZON)


def _with_files(pair: AgentEnv) -> AgentEnv:
    """Return the pair with every path of a file in a `from_file` field replaced by the content of the file."""
    agent = pair.agent
    contents = {f.name: getattr(agent, f.name) for f in dataclasses.fields(agent) if info_of(f).file}  # type: ignore[arg-type]  # a struct
    loaded = {name: load_demonstrations(path) for name, path in contents.items() if isinstance(path, (str, Path))}
    return apply(pair, loaded)


def _seeds_of(selector: Selector, seed_index: np.ndarray, first_seed: int) -> np.ndarray:
    """Return the seed index [M] of the first members that a selector has, for those that follow from the spec."""
    found = selector.first_seeds(seed_index)
    if first_seed and not np.array_equal(found, seed_index):
        raise ValueError(
            f"first_seed={first_seed}: the selector {type(selector).__name__} numbers the seeds itself. Leave it out, "
            f"and give another seed for other random numbers."
        )
    return found


def _first_roster(pairs: list[AgentEnv], varying: Sequence[str], seeds: range) -> Roster:
    """Return the members that a run begins with: every setting with every seed, ordered by setting, then by seed."""
    rows = [in_numpy(pair) for pair in pairs]
    seed_index = np.tile(np.arange(seeds.start, seeds.stop, dtype=np.int32), len(pairs))

    def column(*values: Any) -> np.ndarray:
        return np.repeat(np.stack(values), len(seeds), axis=0)

    def column_of(path: str) -> Any:
        # A hyperparameter may be a tree, such as the weights of a network; None is a value too.
        return jax.tree.map(column, *(get(row, path) for row in rows), is_leaf=lambda x: x is None)

    return first_roster({path: column_of(path) for path in varying}, seed_index)


def _split(one: AgentEnv, spec: RunSpec) -> Split | None:
    """Return how devices share the environments of each member; None if they do not."""
    if not spec.devices_per_member:
        return None
    if needs_host(one.env):
        raise ValueError(f"devices_per_member splits compiled environments, and Python steps {spec.env_name}.")
    try:
        # Members are split because they are large, so a device has few of them.
        return split_over(*one, spec.devices_per_member, chosen(jax.default_backend()))
    except Unsuited as error:
        able = [name for name, entry in AGENTS.items() if entry.cls.split is not Agent.split]
        raise Unsuited(
            f"devices_per_member={spec.devices_per_member} splits the environments of {spec.agent}, but {error} Agents "
            f"that can: {', '.join(able)}."
        ) from None


def _check_overlap(plan: Plan) -> None:
    """Raise ValueError if steps and learning cannot overlap: for a compiled environment, or an on-policy agent."""
    if not needs_host(plan.env):
        raise ValueError(
            f"overlap lets environments that Python steps go on while the agent learns, and the steps of "
            f"{plan.spec.env_name} are part of the compiled program: leave it out."
        )
    if not isinstance(plan.agent, ReplayAgent):
        able = [name for name, entry in AGENTS.items() if issubclass(entry.cls, ReplayAgent)]
        raise Unsuited(
            f"overlap takes steps with weights one update old, and {plan.spec.agent} learns only from steps of its "
            f"newest weights. Agents that learn from a replay buffer can: {', '.join(able)}."
        )


def _check_count(updates: int, steps_per_update: int) -> None:
    if updates >= COUNT_LIMIT:
        raise ValueError(
            f"{updates * steps_per_update:,} steps are {updates:,} updates of {steps_per_update:,} steps, but at "
            f"most {COUNT_LIMIT - 1:,} updates can be counted: use more steps per update."
        )


def _records(updates: int, records: int, steps_per_update: int) -> int:
    """Return the number of records: at most one per update, and enough that the steps of a chunk fit into an int32."""
    return min(max(records, updates * steps_per_update // COUNT_LIMIT + 1), updates)


def _eval_records(records: int, evaluations: int) -> list[int]:
    evaluations = min(evaluations, records)
    return [round(records * (e + 1) / evaluations) - 1 for e in range(evaluations)]
