"""From a spec to everything a run needs to know before it compiles: members, sizes, memory, schedule.

Every mistake a user can make is found here, in seconds, and said in their words.
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env, episode_limit
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS
from shoal.core.spaces import Space, without_real_bounds
from shoal.core.struct import fill_caps, hyper_fields, static_fields
from shoal.core.wrappers.base import Wrapper
from shoal.training.describe import build
from shoal.training.host import host_bytes
from shoal.training.placement import Placement, accelerators, place
from shoal.training.program import Member, begin
from shoal.training.recording import load_demonstrations
from shoal.training.roster import Roster, first_roster
from shoal.training.selector import Selector
from shoal.training.settings import Setting, apply, get, in_numpy, is_of_env, is_static, join, populate, user_fields
from shoal.training.spec import RunSpec, template

DEFAULT_HORIZON = 1_000
COUNTED = 2**31  # what 32 bits with a sign count below


@dataclasses.dataclass(frozen=True)
class Plan:
    """The program of a run, ready to compile: what is trained, how much, where, and when it is recorded.

    Nothing here leads with a member axis but `roster`, the members that the run begins with.
    """

    spec: RunSpec
    agent: Agent  # bound; traced fields as in the first setting
    env: Env
    roster: Roster
    settings: list[dict[str, Any]]  # one per setting; member m begins with settings[m // seeds]
    selector: Selector | None
    updates_per_member: int  # that schedules run over, and that a member without a selector is trained for
    first_updates: int  # as many, or fewer where the run was made to go on beyond them
    records: int  # in these first updates
    eval_records: list[int]  # which of these evaluate
    horizon: int  # of an evaluation episode
    member_bytes: int
    waves: list[slice]  # members that are on the device at the same time
    placement: Placement  # of the largest wave

    @property
    def members(self) -> int:
        """Slots of the population: settings times seeds."""
        return len(self.roster.seed_index)

    @property
    def updates(self) -> int | None:
        """Updates of the whole run; None where a selector decides when it ends."""
        ends_itself = self.selector is not None and self.selector.ends_run
        return None if ends_itself else self.updates_per_member

    @property
    def steps(self) -> int:
        """Environment steps of each member, whole updates."""
        return self.updates_per_member * self.agent.steps_per_update

    def boundary(self, record: int) -> int:
        """Updates that are done at the end of a record. Beyond the planned ones, records go on at the same spacing."""
        rounds, rest = divmod(record + 1, self.records)
        until = rounds * self.first_updates + round(self.first_updates * rest / self.records)
        return until if self.updates is None else min(until, self.updates)

    def evaluates(self, record: int) -> bool:
        """Whether the members are evaluated at the end of a record."""
        return record % self.records in self.eval_records or self._is_last(record)

    def _is_last(self, record: int) -> bool:
        is_longer = self.first_updates < self.updates_per_member
        return is_longer and bool(self.eval_records) and self.boundary(record) == self.updates

    def batched(self, roster: Roster | None = None) -> Setting:
        """Agent and environment of every slot of a roster, by default the first: leaves lead with [M]."""
        roster = self.roster if roster is None else roster
        return populate(Setting(self.agent, self.env), roster.hyperparameters, self.members)

    @property
    def warning(self) -> str:
        """What to add to a description where members will not learn, since their run ends before; empty otherwise."""
        starts = np.broadcast_to(np.asarray(self.batched()[0].learns_from), (self.members,))
        idle = starts[starts >= self.steps]
        if not idle.size:
            return ""
        first = f"{int(idle.min()):,}{' or more' * bool(idle.min() < idle.max())}"
        return f"; {idle.size} will not learn: the first gradient step of {self.spec.agent} comes after {first} steps"

    @property
    def notes(self) -> str:
        """Where a run takes place, and what was rounded or split up: the end of its headline."""
        waves = f", {len(self.waves)} parts one after another to fit into memory" if len(self.waves) > 1 else ""
        rounded = f" ({self.spec.steps:,} asked for, rounded up to whole updates)" * (self.steps != self.spec.steps)
        asked, made = self.spec.evaluations, len(self.eval_records)
        evaluated = f", {made} evaluation{'s' * (made > 1)} (not {asked}: one a record)" if asked > made else ""
        return f"{rounded} on {self.placement.describe()}{waves}{evaluated}{self.warning}"

    def names(self, roster: Roster) -> list[str]:
        """`learning_rate=0.001 seed=3` for every slot; with a selector, occupants and their present numbers."""
        if self.selector is None:
            return self.member_names()
        numbers = {path: np.asarray(v) for path, v in roster.hyperparameters.items() if np.ndim(v) == 1}
        return [
            " ".join([f"occupant={roster.occupant[m]}", *(f"{path}={v[m]:g}" for path, v in numbers.items())])
            for m in range(self.members)
        ]

    def member_names(self) -> list[str]:
        """`learning_rate=0.001 seed=3` for every member that the run begins with."""
        words = [_in_words(setting) for setting in self.settings]
        seeds = self.spec.seeds
        return [f"{words[m // seeds]} seed={self.roster.seed_index[m]}".strip() for m in range(self.members)]


def make_plan(
    spec: RunSpec,
    agent: Agent | None = None,
    env: Env | None = None,
    *,
    selector: Selector | None = None,
    devices: int = 0,
    memory_limit: int = 0,
) -> Plan:
    """Check a spec and work out its sizes. Compiles nothing.

    `agent` and `env` stand in for those named in the spec when they hold what only Python can (a network, a class of
    a notebook). `memory_limit` in bytes; 0 asks the device. Raises ValueError or TypeError in the user's words.
    """
    if devices < 0 or memory_limit < 0:
        what = f"devices={devices}" if devices < 0 else "the memory limit"
        raise ValueError(f"{what} must not be negative; 0 means all there is.")
    common = _with_files(template(spec, agent, env))
    _check_traced(common, spec)
    selector = build(spec.selector) if selector is None else selector
    settings, ranges = spec.settings(), {} if selector is None else selector.ranges(*common)
    varying = list(dict.fromkeys([*spec.varying, *ranges]))
    pairs = [apply(common, setting) for setting in settings]
    reached = [{path: span[end] for path, span in ranges.items()} for end in (0, 1) if ranges]
    ends = [apply(pairs[0], setting) for setting in reached]
    _check_spaces([env for _, env in [*pairs, *ends]], [*settings, *reached])
    bound = _bound([*pairs, *ends], varying, spec)  # sizes hold for whatever a selector may set
    updates = math.ceil(spec.steps / bound.steps_per_update)
    fixed = {name: getattr(bound, name) for name in static_fields(bound)}
    pairs = [Setting(_spanning(a.replace(**fixed), updates * bound.steps_per_update), env) for a, env in pairs]
    one = in_numpy(pairs[0])
    state = state_bytes(*one)
    given = _bytes(one)  # demonstrations may be large
    member_bytes = 2 * state + given + rollout_bytes(*one)  # its state before and after an update
    _check_host(len(settings) * spec.seeds, state)  # first: the waves of members beyond number take long to list
    waves = _waves(len(settings) * spec.seeds, member_bytes, memory_limit, accelerators(devices))
    first_updates = math.ceil((spec.first_steps or spec.steps) / bound.steps_per_update)
    _check_count(updates, bound.steps_per_update)
    records = _records(first_updates, spec.records, bound.steps_per_update)
    return Plan(
        spec=spec,
        agent=one.agent,
        env=one.env,
        roster=_first_roster(pairs, varying, spec.seeds),
        settings=settings,
        selector=selector,
        updates_per_member=updates,
        first_updates=first_updates,
        records=records,
        eval_records=_eval_records(records, spec.evaluations),
        horizon=spec.eval_max_steps or default_horizon([env for _, env in [*pairs, *ends]]),
        member_bytes=member_bytes,
        waves=waves,
        placement=place(
            max(w.stop - w.start for w in waves),
            spec.block,
            devices,
            members_per_call=bound.members_per_call,
            weights_per_step=bound.weights_per_step,
        ),
    )


def rollout_bytes(agent: Agent, env: Env) -> int:
    """Memory that an update of one member takes beside its state, estimated: six copies of a rollout's records."""
    obs = jax.eval_shape(lambda e: e.observe(e.init(make_key(0))), env)
    step_bytes = _bytes(obs) + 64  # action, reward, flags, value, advantage, target, log-probability, noise
    return 6 * agent.steps_per_update * step_bytes


def state_bytes(agent: Agent, env: Env) -> int:
    """Memory of one member between two updates, which is also what a checkpoint holds of it."""
    shapes: Member = jax.eval_shape(lambda a, e: begin(a, e, jnp.int32(0), make_key(0)), agent, env)
    return _bytes(shapes)


def available_bytes() -> int:
    """Memory that a run may plan with on a device, or on the whole host where that is a CPU: 80 % of what is there."""
    device = jax.local_devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    return int(0.8 * (stats["bytes_limit"] if stats else host_bytes()))


def default_horizon(worlds: Sequence[Env]) -> int:
    """Steps after which an evaluation ends an episode: the longest that one may last, or 1,000 where nobody says."""
    limits = [limit for world in worlds if (limit := episode_limit(world)) is not None]
    return max(limits, default=DEFAULT_HORIZON)


def _with_files(setting: Setting) -> Setting:
    """The setting with the files that its agent names read."""
    agent = setting.agent
    files = {f.name: getattr(agent, f.name) for f in dataclasses.fields(agent) if f.metadata.get("file")}  # type: ignore[arg-type]  # a struct
    named = {name: load_demonstrations(given) for name, given in files.items() if isinstance(given, (str, Path))}
    return apply(setting, named)


def _bound(pairs: list[Setting], varying: Sequence[str], spec: RunSpec) -> Agent:
    """The agent of the first setting, bound with the numbers of all settings in sight: sizes must hold for each."""
    agents, envs = fill_caps([pair.agent for pair in pairs]), [pair.env for pair in pairs]
    paths = [path for path in varying if not is_of_env(path)]
    columns = {path: np.asarray([get(Setting(agent, envs[0]), path) for agent in agents]) for path in paths}
    return _bind(apply(Setting(agents[0], envs[0]), columns).agent, _with_all_limits(envs), spec)


def _first_roster(pairs: list[Setting], varying: Sequence[str], seeds: int) -> Roster:
    """The members of a run that begins: every setting with every seed, setting-major."""
    in_rows = [in_numpy(pair) for pair in pairs]
    columns = {path: np.stack([get(row, path) for row in in_rows]) for path in varying}
    seed_index = np.tile(np.arange(seeds, dtype=np.int32), len(pairs))
    return first_roster({path: np.repeat(column, seeds, axis=0) for path, column in columns.items()}, seed_index)


def _bind(agent: Agent, world: Env, spec: RunSpec) -> Agent:
    try:
        return agent.bind(world)
    except Unsuited as error:
        able = [name for name in AGENTS if _can_play(name, world)]
        who = (
            f"Agents that can play {spec.env_name}: {', '.join(able)}."
            if able
            else f"No agent can play {spec.env_name}."
        )
        raise Unsuited(f"{spec.agent} cannot play {spec.env_name}: {error} {who}") from None


def _can_play(name: str, world: Env) -> bool:
    try:
        AGENTS[name].build().bind(world)
    except Unsuited:
        return False
    except ValueError:
        pass  # its default sizes do not fit, but others would
    return True


def _spanning(agent: Agent, steps: int) -> Agent:
    """The agent with every field that may span the run, and is 0, set to the steps of the run."""
    spanning = (name for name, field in hyper_fields(agent).items() if field.metadata["spans_run"])
    return agent.replace(**{name: float(getattr(agent, name) or steps) for name in spanning})


def _check_traced(common: Setting, spec: RunSpec) -> None:
    for path, values in {**join(spec.sweep, spec.env_sweep), **spec.points}.items():
        if is_static(common, path):
            raise ValueError(f"{path} shapes the program, so its values {list(values)} need one run each.")
        if not len(values):
            raise ValueError(f"{path} has no values to sweep over.")


def _check_spaces(worlds: list[Env], settings: list[dict[str, Any]]) -> None:
    # One agent is bound for all. It knows bounds of actions, but of real numbers that it observes it knows none.
    def known(world: Env) -> dict[str, Space]:
        return {"action": world.action_space, "observation": without_real_bounds(world.observation_space)}

    first = known(worlds[0])
    for world, setting in zip(worlds[1:], settings[1:], strict=True):
        for kind, space in known(world).items():
            if space != first[kind]:
                one, other = ({k: v for k, v in s.items() if is_of_env(k)} for s in (settings[0], setting))
                raise ValueError(
                    f"{_in_words(one)} and {_in_words(other)} have different {kind} spaces, {first[kind]} and {space}, "
                    "and a sweep trains all members with one: give each a run of its own."
                )


def _in_words(setting: dict[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in setting.items())


def _with_all_limits(worlds: list[Env]) -> Env:
    # Sizes that depend on how long an episode lasts must hold for the shortest limit and for the longest.
    longest = max(worlds, key=lambda world: world.longest_episode or 0)
    limits = np.asarray([world.max_steps for world in worlds if world.max_steps is not None])
    return _with_limits(longest, limits) if len(np.unique(limits)) > 1 else longest


def _with_limits(world: Env, limits: np.ndarray) -> Env:
    if isinstance(world, Wrapper) and "max_steps" not in user_fields(world):
        return world.replace(env=_with_limits(world.env, limits))
    return world.replace(max_steps=limits)


def _check_count(updates: int, steps_per_update: int) -> None:
    if updates >= COUNTED:
        raise ValueError(
            f"{updates * steps_per_update:,} steps are {updates:,} updates of {steps_per_update:,} steps, and a member "
            f"counts {COUNTED - 1:,} at most: take more steps in an update."
        )


def _records(updates: int, records: int, steps_per_update: int) -> int:
    """How many records these updates have: more than asked for where a member's counters, of 32 bits, would not hold
    the steps between two.
    """
    return min(max(records, updates * steps_per_update // COUNTED + 1), updates)


def _eval_records(records: int, evaluations: int) -> list[int]:
    evaluations = min(evaluations, records)
    return [round(records * (e + 1) / evaluations) - 1 for e in range(evaluations)]


def _waves(members: int, member_bytes: int, limit: int, devices: int) -> list[slice]:
    """Whole members on each of the devices, or no more than a given limit holds on all of them together."""
    fitting = limit // member_bytes if limit else available_bytes() // member_bytes * devices
    if fitting < 1:
        raise ValueError(
            f"one member needs about {member_bytes / 2**20:.0f} MiB, more than the "
            f"{(limit or available_bytes()) / 2**20:.0f} MiB at hand: use fewer environments or steps per update."
        )
    count = math.ceil(members / fitting)
    size = math.ceil(members / count)
    return [slice(i, min(i + size, members)) for i in range(0, members, size)]


def _check_host(members: int, each: int) -> None:
    # However the device gets them, the host holds all members, and a copy of them while a checkpoint is written.
    fitting = host_bytes() // (2 * each)
    if members > fitting:
        raise ValueError(
            f"{members:,} members of {each / 2**20:.3g} MiB each and a copy for the checkpoint need "
            f"{2 * members * each / 2**30:.1f} GiB, and this host has {host_bytes() / 2**30:.1f}: {fitting:,} members "
            "fit. Train fewer at a time, or keep less in each (a smaller buffer, fewer environments)."
        )


def _bytes(tree: Any) -> int:
    def size(leaf: Any) -> int:
        width = 8 if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf.dtype.itemsize
        return math.prod(leaf.shape) * width

    return sum(size(leaf) for leaf in jax.tree.leaves(tree))
