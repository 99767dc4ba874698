"""Jobs: a new run from the arguments of `train`, a run made again from a spec, or a run to resume from its folder."""

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.kinds import shown
from shoal.core.process import check_process
from shoal.core.registry import AGENTS, ENVS, SELECTORS
from shoal.core.schedules import is_written
from shoal.core.struct import hyper_fields, info_of
from shoal.specs.describe import build, describe, name_of
from shoal.specs.options import GIVEN, MAY_CHANGE
from shoal.specs.points import from_members, from_samples, from_settings
from shoal.specs.selector import Selector, UserChoices
from shoal.specs.settings import AgentEnv, apply, join, separate
from shoal.specs.sources import with_sources, with_trusted_files
from shoal.specs.spec import (
    NAMED,
    RunSpec,
    built,
    changes_of,
    described,
    differences,
    first_setting,
    resolved,
    spec_for,
    template,
)
from shoal.training.fine_tuning import described_init, first_policies
from shoal.training.folder import RunFolder
from shoal.training.plan import Plan, make_plan
from shoal.training.policy import check_complete, check_opaque_parts
from shoal.training.preset_file import preset_for
from shoal.training.processes import group
from shoal.training.result import built_values

MOST_GB = 10**9  # of a memory limit


@dataclasses.dataclass(frozen=True)
class Job:
    """A run that has not started: its spec, and the agent and the environment that the spec describes."""

    spec: RunSpec
    agent: Agent | None = None  # if it was given as a value
    env: Env | None = None
    notes: tuple[str, ...] = ()  # sentences about the preset, for the user
    pair: AgentEnv = None  # type: ignore[assignment]  # without the values that vary; built from the spec if not given

    def __post_init__(self) -> None:
        if self.pair is None:
            object.__setattr__(self, "pair", template(self.spec, self.agent, self.env))

    @property
    def first(self) -> AgentEnv:
        """The agent and the environment of the first setting."""
        return apply(self.pair, built(first_setting(self.spec)))

    def plan(
        self,
        devices: int = 0,
        memory_limit_gb: float = 0,
        *,
        resume: bool = False,
        selector: Selector | None = None,
    ) -> Plan:
        """Return the plan of the run. Nothing is compiled. Raises ValueError or TypeError if the run cannot work.

        `selector` replaces that of the spec, where it has a source that no file can hold.
        """
        limits: Any = {"devices": devices, "memory_limit": bytes_of(memory_limit_gb)}
        plan = make_plan(self.spec, pair=self.pair, selector=selector, **limits)
        group().refuse(plan.members, devices)
        if self.spec.init and not resume:  # raises ValueError if they do not fit
            group().shared("its first policies", lambda: first_policies(plan) is not None)
        if self.spec.block and plan.placement.mesh and not resume:  # a run made on a CPU may go on here
            raise ValueError(
                f"block={self.spec.block} is for CPUs; here it is {plan.placement.describe()}. Leave it out."
            )
        return plan


def bytes_of(memory_limit_gb: float) -> int:
    """Return a memory limit in bytes. Raises ValueError for one that is no size."""
    if not abs(memory_limit_gb) <= MOST_GB:
        given = shown(memory_limit_gb)
        raise ValueError(f"the memory limit of {given} GB is not a size of up to {MOST_GB:,} GB; 0: all the memory.")
    return round(memory_limit_gb * 1024**3)


def make_job(
    agent: str | Agent | None,
    env: str | Env | None,
    *,
    preset: Path | str | None = "",
    steps: int | None = None,
    fields: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Any] | None = None,
    env_fields: Mapping[str, Any] | None = None,
    env_sweep: Mapping[str, Any] | None = None,
    settings: Sequence[Mapping[str, Any]] | None = None,
    random: int | None = None,
    search: Mapping[str, Sequence | None] | Sequence[str] | None = None,
    members: Mapping[str, Any] | None = None,
    init: Path | str | Mapping[str, Any] | None = None,
    found: Path | str | None = None,
    trust_source: bool = False,
    **options: Any,
) -> Job:
    """Return the job of a new run. The parameters are those of `train`. Raises RuntimeError in a forked process."""
    check_process()
    points = {"settings": settings, "random": random, "members": members}
    check_points(points, search)
    if isinstance(options.get("selector"), str):
        options["selector"] = SELECTORS[options["selector"]].build()
    fields, sweep = dict(fields or {}), dict(sweep or {})
    own_fields = {**fields, **sweep}
    env_fields, env_sweep = dict(env_fields or {}), dict(env_sweep or {})
    if found is not None:
        values = found_by(found, trust_source=trust_source)
        fields, env_fields = _with_found(values, (fields, sweep), (env_fields, env_sweep))
    already_set = join({**fields, **sweep}, {**env_fields, **env_sweep})
    chosen = preset_for(preset, agent, env, trust_source=trust_source)
    agent, env = chosen.agent, chosen.env
    fields = _below(chosen.fields, {**fields, **sweep}) | fields
    env_fields = _below(chosen.env_fields, {**env_fields, **env_sweep}) | env_fields
    of_preset = {name: value for name, value in chosen.options.items() if not (name == "seeds" and members is not None)}
    options = {**of_preset, **options} | ({} if steps is None else {"steps": steps})
    first_of_preset = options.pop("init", None)
    init = first_of_preset if init is None else init
    changes = {"fields": fields, "sweep": sweep, "env_fields": env_fields, "env_sweep": env_sweep}
    values = (_none_if_name(agent), _none_if_name(env))
    spec = spec_for(agent, env, **changes, **options)
    pair = template(spec, *values)
    _check_selector(spec)
    if init is not None:
        spec = dataclasses.replace(spec, init=_shared_init(init))
    if settings is not None:
        spec = dataclasses.replace(spec, points=from_settings(settings))
    if members is not None:
        spec = dataclasses.replace(spec, points=from_members(members, options.get("seeds")))
    if random is not None or spec.selector is not None:
        for value, registry, prefix in ((values[0], AGENTS, ""), (values[1], ENVS, "env.")):
            own = changes_of(value, registry) if value is not None else ()
            already_set |= {f"{prefix}{path}": None for part in own for path in part}
    if random is not None:
        samples = from_samples(random, pair, spec.seed, search, already_set)
        spec = dataclasses.replace(spec, points=samples)
    _check_varying(spec)
    _check_replaced(pair.agent, spec, {**own_fields, **({} if values[0] is None else changes_of(values[0], AGENTS)[0])})
    if spec.selector is not None:
        first = {**join(spec.sweep, spec.env_sweep), **spec.points}
        given = UserChoices([*already_set], first, search if isinstance(search, Mapping) else {})
        setting = apply(pair, built(first_setting(spec)))
        spec = dataclasses.replace(spec, selector=build(spec.selector).bind(*setting, given))
    return Job(with_sources(described(spec, pair)), *values, chosen.notes, pair)


# The keywords that `make_job` takes: those of its signature, and the options of a run.
ARGUMENTS = (*(name for name in inspect.signature(make_job).parameters if name != "options"), "selector", *GIVEN)


def _below(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a preset, by path, without those that the user gives, whole or as a part of them."""
    return {path: value for path, value in values.items() if not f"{path}.".startswith(tuple(f"{p}." for p in given))}


def found_by(run: Path | str, *, trust_source: bool = False) -> dict[str, Any]:
    """Return the values that the selector of a run has found, by path. Of several processes only number 0 reads them.

    Raises ValueError if it has found none, and as `Result.found`.
    """

    def read() -> dict[str, Any]:
        folder = RunFolder(run)
        spec, data = folder.read_spec(), folder.read_found()
        if not data:
            raise ValueError(f"{run} has found no hyperparameters: give the folder of a run of shoal.evolve.")
        return {"spec": spec.to_json(), "found": data}

    shared = group().shared(f"what {run} has found", read)
    return built_values(shared["found"], RunSpec.from_json(shared["spec"]), Path(run), trust_source=trust_source)


def _shared_init(init: Path | str | Mapping[str, Any]) -> dict[str, Any]:
    """Return `described_init`, which reads a run. Of several processes only number 0 reads it."""
    return group().shared("the run that it begins with", lambda: described_init(init))


def _with_found(found: Mapping[str, Any], agent: tuple[dict, dict], env: tuple[dict, dict]) -> tuple[dict, dict]:
    """Return the fields of agent and environment with what the selector of a run has found, unless they are given."""
    return tuple(  # type: ignore[return-value]  # two
        {**{path: value for path, value in new.items() if path not in swept}, **fixed}
        for new, (fixed, swept) in zip(separate(found), (agent, env), strict=True)
    )


def job_from_spec(path: Path | str, *, trust_source: bool = False, **changes: Any) -> Job:
    """Return the job that makes the run of a `spec.json` or of a run folder again. `changes` are fields of `RunSpec`.

    Raises FileNotFoundError if there is no spec, ValueError if it has parts that can be given in Python only.
    """
    path = Path(path)
    folder = RunFolder(path if path.is_dir() or str(path).startswith(NAMED) else path.parent)

    def read() -> Any:
        if not (path.exists() or str(path).startswith(NAMED)):
            raise FileNotFoundError(f"{path} does not exist: give a run folder, or a spec.json of one.")
        return folder.read_json("spec.json" if folder.path == path or str(path).startswith(NAMED) else path.name)

    spec = RunSpec.from_json(group().shared("the spec to repeat", read))
    if "init" in changes:
        changes["init"] = _shared_init(changes["init"])
    return job_of(spec, folder.path, where=str(path), trust_source=trust_source, **changes)


def job_of(
    spec: RunSpec,
    folder: Path,
    agent: Agent | None = None,
    env: Env | None = None,
    *,
    where: str = "",
    trust_source: bool = False,
    **changes: Any,
) -> Job:
    """Return the job of a new run with a spec that is in a file of `folder`, where copies of the user's files are.

    `agent` and `env` are needed where no file can describe them. `changes` are fields of `RunSpec`.
    """
    check_opaque_parts(spec, where or str(folder), agent, env)
    spec = with_trusted_files(spec, folder, agent, env, trust_source=trust_source)
    spec = dataclasses.replace(spec, **changes)
    pair = template(spec, agent, env)
    return Job(with_sources(described(spec, pair)), agent, env, pair=pair)


def _check_selector(spec: RunSpec) -> None:
    """Raise ValueError if the selector, or a field of it, cannot be described in `spec.json`."""
    for path, part in spec.parts():
        if path == "selector" and part.kind == "only_in_python":
            name = part.name.rpartition(".")[2]
            raise ValueError(
                f"the class {name} of the selector is defined in the started script, in a notebook or in a function, "
                f"from where a resumed run cannot import it: move the class to a file of its own, such as "
                f"my_selectors.py, and write `from my_selectors import {name}`."
            )
        if path.startswith("selector.") and part.kind == "only_in_python":
            raise ValueError(
                f"{path} cannot be written to spec.json, so the run could not be resumed: give a number, a text, a "
                f"tuple of these, or a function that is at the top level of a file of its own."
            )


def _check_varying(spec: RunSpec) -> None:
    """Raise ValueError if values that differ between settings cannot be described in `spec.json`."""
    for path, part in spec.parts():
        if part.kind == "only_in_python" and f"{path}.".startswith(tuple(f"{name}." for name in spec.varying)):
            raise ValueError(
                f"{path} is a {part.name}, which cannot be written to spec.json, so another process could not resume "
                f"the run or load its policies: if its class is defined in the started script or in a notebook, move "
                f"it to a file of its own."
            )


def _check_replaced(agent: Agent, spec: RunSpec, given: Mapping[str, Any]) -> None:
    """Raise ValueError if the user gives a number, such as `anneal`, that a schedule of every member replaces."""
    varying = {**spec.sweep, **spec.points}
    for name, field in hyper_fields(agent).items():
        target = info_of(field).schedule_of
        if name in given and target and all(map(is_written, varying.get(target, [describe(getattr(agent, target))]))):
            raise ValueError(f"{target} has a schedule, which replaces {name}: leave {name} out.")


def check_points(points: Mapping[str, Any], search: Any = None) -> None:
    """Raise ValueError if the settings are chosen in more than one way."""
    used = [name for name, value in points.items() if value is not None]
    if len(used) > 1:
        raise ValueError(f"{' and '.join(used)} each choose the settings of the run: use only one of them.")
    if search is not None and points.get("random") is None:
        raise ValueError("search sets the ranges from which random settings are sampled: give random=N too.")


def job_to_resume(
    path: Path | str, agent: Any, env: Any, arguments: dict[str, Any], *, trust_source: bool = False
) -> Job:
    """Return the job that resumes the run of a folder.

    More `steps` in `arguments` than in the run extend it, and some options may be others (`MAY_CHANGE`). Raises
    ValueError for other differences between `arguments` and the run, and lists them.
    """
    folder = RunFolder(path)
    if folder.policy.is_dir():
        raise ValueError(f"{path} holds an exported policy, not a run that can go on.")
    values = (_none_if_name(agent), _none_if_name(env))
    for name, registry in ((agent, AGENTS), (env, ENVS)):
        if isinstance(name, str):
            registry[name]  # the user names it, so its file is loaded
    spec = spec_to_resume(folder, *values, trust_source=trust_source)
    pair = template(spec, *values)
    old = described(spec, pair)
    if arguments.get("steps", 0) > old.steps:
        if (selector := build(old.selector)) is not None and selector.ends_run:
            raise ValueError(
                f"{path} ends when its selector says so, so more steps cannot extend it: leave steps out to continue "
                f"it as it was, or start a new run."
            )
        old = old.longer(arguments["steps"])
        arguments = {name: value for name, value in arguments.items() if name != "steps"}
    old = dataclasses.replace(old, **{name: arguments[name] for name in MAY_CHANGE if name in arguments})
    if changed := differences(old, _as_asked(old, agent, env, arguments)):
        raise ValueError(
            f"{path} cannot be resumed with changes ({'; '.join(changed)}). Leave them out to continue it as it was, "
            f"or start a new run."
        )
    return Job(old, *values, pair=pair)


def spec_to_resume(
    folder: RunFolder, agent: Agent | None = None, env: Env | None = None, *, trust_source: bool = False
) -> RunSpec:
    """Return the spec of a run to resume, as `check_complete` does. Of several processes only number 0 reads it."""
    spec = RunSpec.from_json(group().shared("the run to resume", lambda: folder.read_spec().to_json()))
    return check_complete(folder, agent, env, trust_source=trust_source, spec=spec)


def _as_asked(old: RunSpec, agent: Any, env: Any, arguments: Mapping[str, Any]) -> RunSpec:
    """Return the spec with changes. An agent or env value changes every field that differs from its default."""
    new = {
        name: value for name, value in arguments.items() if name not in ("fields", "sweep", "env_fields", "env_sweep")
    }
    for kind, what, registry, prefix in (("agent", agent, AGENTS, ""), ("env", env, ENVS, "env_")):
        fields, sweep = dict(arguments.get(f"{prefix}fields", {})), dict(arguments.get(f"{prefix}sweep", {}))
        if isinstance(what, str):
            new[kind] = registry[what].name
        elif what is not None:
            new[kind] = name_of(what, registry)[0]
            own_fields, own_sweep = changes_of(what, registry)
            fields, sweep = {**own_fields, **fields}, {**own_sweep, **sweep}
        before = (getattr(old, f"{prefix}fields"), getattr(old, f"{prefix}sweep"))
        new[f"{prefix}fields"] = {**_without(before[0], sweep), **fields}
        new[f"{prefix}sweep"] = {**_without(before[1], fields), **sweep}
    asked = dataclasses.replace(old, **new)
    if (asked.agent, asked.env) != (old.agent, old.env):
        return dataclasses.replace(old, agent=asked.agent, env=asked.env)  # fields of other classes cannot be compared
    return resolved(asked, _none_if_name(agent), _none_if_name(env))


def _without(fields: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def refuse_on_resume(path: Path | str, **options: Any) -> None:
    """Raise ValueError for the first option that is not None: all of them are options of new runs only."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}={str(value)!r} is for a new run; resume continues {path} as it is. Leave it out.")


def _none_if_name(value: Any) -> Any:
    return None if isinstance(value, str) else value
