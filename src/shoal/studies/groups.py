"""The groups of a study: one program for each combination of static values, with the trials in its slots."""

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import Unsuited
from shoal.core.struct import hyper_fields, info_of
from shoal.population.slots import Slots, Source, Trial
from shoal.specs.describe import build
from shoal.specs.settings import AgentEnv, apply, separate
from shoal.specs.spec import RunSpec, built, template
from shoal.studies.objectives import Measures
from shoal.studies.search import Space
from shoal.studies.study import StudySpec
from shoal.studies.trial_states import COMPLETE, PRUNED
from shoal.studies.trials import TrialStore
from shoal.tracking.events import Compiled, Event, Message, Sink
from shoal.tracking.progress import StillCompiling
from shoal.training.claim import locked
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.memory import available_bytes
from shoal.training.plan import Plan, make_plan
from shoal.training.stopping import Stopped

Values = tuple[float, ...]  # of a trial, one for each objective
SAVE_SHARE = 0.05  # of the time at most, for checkpoints: those of many replay buffers have hundreds of MB
Ended = Callable[[int, Values | None], object]  # called with the number and the values of a trial; None: pruned


@dataclasses.dataclass(eq=False)
class StudySource(Source):
    """Brings the trials of a store into the slots of one group, and their scores back."""

    name: str  # of the group
    waiting: deque[Trial] = dataclasses.field(default_factory=deque)  # for a slot
    # Set before the group is trained:
    store: TrialStore = dataclasses.field(init=False)  # the trials of the study, as this worker uses them
    ended: Ended = dataclasses.field(init=False)  # called for each trial that this process tells
    measures: Measures = dataclasses.field(init=False)  # gives the values of a trial

    @property
    def is_exhausted(self) -> bool:
        """False: the driver of the study decides when it ends."""
        return False

    def ask(self, count: int) -> list[Trial]:
        begun = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
        for trial in begun:
            self.store.note(trial.number, group=self.name)
        return begun

    def report(self, number: int, record: int, score: float) -> bool:
        return self.store.report(number, record, score)

    def should_prune(self, number: int) -> bool:
        return self.store.should_prune(number)

    def tell(self, number: int, score: float | None, reason: str = "") -> None:
        """Store the end of a trial; why it has no score is an attribute of it."""
        if reason:
            self.store.note(number, **{reason: True})
        values = None if score is None else self.measures.values(number, score)
        if self.store.tell(number, values, PRUNED if score is None else COMPLETE, reason):
            self.ended(number, values)


@dataclasses.dataclass
class Group:
    """One program of a study: its plan and, once trials came, its run."""

    name: str
    plan: Plan
    source: StudySource
    run: Run | None = None

    @property
    def slots(self) -> int:
        return self.plan.members // self.selector.seeds

    @property
    def selector(self) -> Slots:
        """The selector that is fed by the study."""
        selector = self.plan.selector
        assert isinstance(selector, Slots)
        return selector

    @property
    def held(self) -> list[int]:
        return [] if self.run is None else self.selector.trials_in(self.run.selector_state)

    @property
    def numbers(self) -> set[int]:
        """The numbers of the trials that are in the slots or wait for one."""
        return {*self.held, *(trial.number for trial in self.source.waiting)}

    def release(self, number: int) -> None:
        """Free the slot of a trial that has ended elsewhere. Its members rest from the next chunk on."""
        assert self.run is not None
        self.run.selector_state = self.selector.release(self.run.selector_state, number)

    @contextmanager
    def opened(self, folder: RunFolder, sinks: Sequence[Sink]) -> Iterator[Run]:
        """Compile, and begin the run in its folder, or go on from its newest checkpoint.

        The run is saved at the end of the block, also if a request stopped it, and rarely within it: what a worker has
        trained since then is trained again if it is killed.
        """
        is_new = not folder.has("spec.json")
        if is_new:
            folder.create()
        with locked(folder.path):
            run = Run(self.plan, folder, sinks, save_share=SAVE_SHARE)
            run.open(resume=not is_new)
            self.run = run
            try:
                yield run
            except Stopped:
                run.save()
                raise
            finally:
                run.close()
            run.save()


class Messages(Sink):
    """Passes the messages of a group's run on, and how long it compiled."""

    def __init__(self, group: str, say: Callable[[str], object]) -> None:
        """Begin the messages with the name of the group."""
        self._group, self._say = group, say
        self._still = StillCompiling(lambda text: say(f"{group}: {text}"))

    def receive(self, event: Event) -> None:
        self._still.receive(event)
        match event:
            case Message(text):
                self._say(f"{self._group}: {text}")
            case Compiled(seconds):
                self._say(f"{self._group} compiled in {seconds:.1f} s")
            case _:
                pass


def plan_groups(
    study: StudySpec,
    space: Space,
    agent: Agent | None,
    env: Env | None,
    folder: Path,
    *,
    devices: int = 0,
    memory_limit: int = 0,
) -> list[Group]:
    """Plan every group of a study, with the slots of one worker, whose folder is given.

    A group that the worker has trained before is planned from its `spec.json`. Raises ValueError or TypeError for
    values that do not fit, before anything compiles.
    """
    shapes, groups = space.shapes, []
    limits: Any = {"devices": devices, "memory_limit": memory_limit}
    parallel = study.parallel
    for index, shape in enumerate(shapes):
        name = f"group-{index}"
        source, saved = StudySource(name), RunFolder(folder / name)
        if saved.has("spec.json"):
            spec = saved.read_spec()
        else:
            spec = _spec_of(study, space, shape, agent, env, parallel)
        selector: Any = build(spec.selector)
        plan = make_plan(spec, agent, env, selector=selector.with_source(source), **limits)
        if index == 0 and _must_share(plan, len(shapes), memory_limit) and not saved.has("spec.json"):
            parallel = math.ceil(study.parallel / len(shapes))
            spec = _spec_of(study, space, shape, agent, env, parallel)
            plan = make_plan(spec, agent, env, selector=selector.with_source(source), **limits)
        groups.append(Group(name, dataclasses.replace(plan, spec=pinned(plan)), source))
    return groups


def pinned(plan: Plan) -> RunSpec:
    """Return the spec of a plan with the sizes that follow from the ranges of its search, such as `max_batch_size`.

    A trial has the same bits in a run of its own only if it has the same sizes.
    """
    agent, fields = plan.agent, dict(plan.spec.fields)
    caps = [info_of(field).cap for field in hyper_fields(agent).values() if info_of(field).cap]
    for cap in caps:
        if not fields.get(cap):
            fields[cap] = getattr(agent, cap)
    rollout = agent.rollout
    if fields.get("bank_size") == 0 and rollout is not None and rollout.reset == "bank":
        fields["bank_size"] = rollout.bank_size
    return dataclasses.replace(plan.spec, fields=fields)


def _spec_of(
    study: StudySpec, space: Space, shape: Mapping[str, Any], agent: Agent | None, env: Env | None, parallel: int
) -> RunSpec:
    """Return the spec of a group's run. What the trials choose has its lowest value there."""
    run = study.run
    lowest = {dimension.path: dimension.span.low for dimension in space.traced}
    fields, env_fields = separate({**shape, **lowest})
    vary = {dimension.path: dimension.span.written() for dimension in space.traced}
    slots = Slots(vary=vary, seeds=run.seeds, records=run.records, score=study.score)
    spec = dataclasses.replace(
        run,
        fields={**run.fields, **fields},
        env_fields={**run.env_fields, **env_fields},
        seeds=parallel * run.seeds,
        selector=slots,
    )
    setting = apply(template(spec, agent, env), built({}))
    return dataclasses.replace(spec, steps=whole_steps(setting, spec))


def whole_steps(pair: AgentEnv, spec: RunSpec) -> int:
    """Return the steps of a trial, rounded up to whole updates in every record. Raises ValueError for too few steps."""
    try:
        per_update = pair.agent.bind(pair.env).steps_per_update
    except Unsuited:
        return spec.steps  # the plan says which agents suit
    updates = math.ceil(spec.steps / per_update)
    if updates < spec.records:
        raise ValueError(
            f"{spec.steps:,} steps are {updates:,} update{'s' * (updates > 1)} of {per_update:,}, too few for "
            f"{spec.records} records: use at least {spec.records * per_update:,} steps, or fewer records."
        )
    return math.ceil(updates / spec.records) * spec.records * per_update


def _must_share(plan: Plan, groups: int, limit: int) -> bool:
    """Return whether the slots are divided among the groups: where idle ones cost time, or memory is short."""
    if groups == 1:
        return False
    on_cpu = jax.local_devices()[0].platform == "cpu"
    return not on_cpu or groups * plan.members * plan.member_bytes > (limit or available_bytes())
