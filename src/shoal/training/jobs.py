"""Jobs: a run to be made, from what a user gives; a run to continue, from its folder."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shoal.agents import presets
from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.registry import AGENTS, ENVS
from shoal.training.folder import RunFolder
from shoal.training.plan import Plan, make_plan
from shoal.training.policy import open_run, without
from shoal.training.spec import RunSpec, differences, spec_for


class Job(NamedTuple):
    """One run to be: what, and the values that only Python can hold."""

    spec: RunSpec
    agent: Agent | None = None
    env: Env | None = None

    def plan(self, devices: int = 0, memory_limit_gb: float = 0, *, resume: bool = False) -> Plan:
        """Everything the run needs to know. Raises ValueError or TypeError for what cannot work; compiles nothing."""
        if not math.isfinite(memory_limit_gb):
            raise ValueError(f"the memory limit of {memory_limit_gb} GB is no size; 0 means all there is.")
        limit = round(memory_limit_gb * 1024**3)
        plan = make_plan(self.spec, self.agent, self.env, devices=devices, memory_limit=limit)
        if self.spec.block and plan.placement.mesh and not resume:  # a run made on a CPU may go on here
            raise ValueError(
                f"block={self.spec.block} is for CPUs; here it is {plan.placement.describe()}. Leave it out."
            )
        return plan


def make_job(
    agent: str | Agent,
    env: str | Env,
    *,
    preset: str | None = "",
    steps: int | None = None,
    fields: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Any] | None = None,
    env_fields: Mapping[str, Any] | None = None,
    env_sweep: Mapping[str, Any] | None = None,
    **options: Any,
) -> Job:
    """The run that `train` would start with the same arguments."""
    fields, sweep = dict(fields or {}), dict(sweep or {})
    env_fields, env_sweep = dict(env_fields or {}), dict(env_sweep or {})
    agent = AGENTS[agent].name if isinstance(agent, str) else agent  # an unknown one is said before anything else
    env = ENVS[env].name if isinstance(env, str) else env  # and not an alias
    if preset and not (isinstance(agent, str) and isinstance(env, str)):
        raise ValueError(f"preset={preset!r} needs agent and environment by name: a value is taken as it is.")
    if isinstance(agent, str) and isinstance(env, str):
        found = presets.find(agent, env, preset or "") if preset is not None else None
        if found is not None:
            fields = {k: v for k, v in found.fields.items() if k not in sweep} | fields
            env_fields = {k: v for k, v in found.env_fields.items() if k not in env_sweep} | env_fields
            steps = found.steps if steps is None else steps
    if steps is not None:
        options["steps"] = steps
    changes = {"fields": fields, "sweep": sweep, "env_fields": env_fields, "env_sweep": env_sweep}
    spec = spec_for(agent, env, **changes, **options)
    return Job(spec, _unless_name(agent), _unless_name(env))


def job_to_resume(path: Path | str, agent: Any, env: Any, given: dict[str, Any]) -> Job:
    """The job in a folder. Raises ValueError listing what was given and differs from it."""
    if RunFolder(path).policy.is_dir():
        raise ValueError(f"{path} holds an exported policy, not a run that can go on.")
    values = (_unless_name(agent), _unless_name(env))
    folder, _ = open_run(path, *values)
    old = folder.read_spec()
    named = (("agent", agent, AGENTS), ("env", env, ENVS))
    asked = {**given, **{kind: registry[name].name for kind, name, registry in named if isinstance(name, str)}}
    for part in ("fields", "sweep", "env_fields", "env_sweep"):
        if part in asked:
            asked[part] = {**getattr(old, part), **asked[part]}
    new = dataclasses.replace(old, **asked)
    changed = differences(old, new)
    for kind, value in zip(("agent", "env"), values, strict=True):
        if value is not None:
            changed += differences(old, _with_value(old, kind, value, given))
    if changed:
        raise ValueError(
            f"{path} cannot be resumed with changes ({'; '.join(changed)}). Leave them out to continue it as it was, "
            f"or start a new run."
        )
    return Job(without(old, folder.only_in_python()), *values)


def _with_value(old: RunSpec, kind: str, value: Any, given: Mapping[str, Any]) -> RunSpec:
    """A spec with what a value of an agent or an environment says, and what was given beside it."""
    prefix = "" if kind == "agent" else "env_"
    parts = (f"{prefix}fields", f"{prefix}sweep")
    pair = {"agent": old.agent, "env": old.env, kind: value}
    new = spec_for(pair["agent"], pair["env"], **{name: given[name] for name in parts if name in given})
    said = {name: {**getattr(old, name), **getattr(new, name)} for name in parts}
    return dataclasses.replace(old, **{kind: getattr(new, kind)}, **said)


def refuse_on_resume(path: Path | str, **given: Any) -> None:
    """Raise ValueError for the first option that has a value although it makes sense for a new run alone."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}={str(value)!r} is for a new run; resume continues {path} as it is. Leave it out.")


def _unless_name(value: Any) -> Any:
    return None if isinstance(value, str) else value
