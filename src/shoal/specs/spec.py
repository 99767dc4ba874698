"""The spec of a run: its description as plain data, complete enough to repeat the run on another machine."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.core.kinds import python_number, python_numbers
from shoal.core.registry import AGENTS, ENVS, Registry
from shoal.core.schedules import Scheduled, canonical
from shoal.core.struct import NUMBERS, Struct
from shoal.specs.consent import check_consent, source_of
from shoal.specs.describe import (
    Described,
    build,
    describe,
    describe_fields,
    from_json,
    in_words,
    inside,
    name_of,
    to_json,
)
from shoal.specs.options import MAY_CHANGE, OPTIONS, RunOptions
from shoal.specs.settings import AgentEnv, apply, hyperparameters, join, replaced, separate, traced_parts

ZOO_PREFIX, HUB_PREFIX = "zoo:", "hub:"  # of the name of a policy that is part of the package, or of the user's hub
NAMED = (ZOO_PREFIX, HUB_PREFIX)  # of names that are no paths
LONGEST_TEXT = 80  # characters of a value in a message about differences
MOST_SETTINGS = 20_000  # of a run; planning so many takes about a minute
EMPTY = ("selector", "points", "init", "branch", "sources")  # which the file omits where they are empty


@dataclasses.dataclass(frozen=True)
class RunSpec(RunOptions):
    """The description of one run: an agent, an environment, their fields, what varies, and its options.

    Values of `fields` and `env_fields` are numbers, strings, tuples, or descriptions of anything else
    (`specs.describe`). What cannot be described (a lambda, a class of a notebook) is kept as it is in memory, and
    the file has only its name.

    `sweep` and `env_sweep` map traced fields to lists of values; every combination is a setting. `points` maps paths
    (`learning_rate`, `env.gravity`) to lists of equal length; the n-th values of all lists are the n-th setting. With
    sweeps and points, every combination of the sweeps is trained at every point. Each setting is trained with every
    seed, all in one program.
    """

    agent: str
    env: str
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    env_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sweep: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # lists of values, or arrays
    env_sweep: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    points: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    selector: Any = None  # a `specs.selector.Selector` that may change the population, or its description
    init: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # run, member and weights that members begin with
    branch: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # run and record that members are twins of
    sources: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # SHA-256 of the user's own files, by path

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sweep", "env_sweep", "points"):
            values = {path: _as_values(several) for path, several in getattr(self, name).items()}
            object.__setattr__(self, name, values)
        for name in ("fields", "env_fields"):
            fields = {path: describe(value) for path, value in getattr(self, name).items()}
            object.__setattr__(self, name, fields)
        object.__setattr__(self, "selector", describe(self.selector))
        lengths = {name: len(values) for name, values in self.points.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"every setting needs a value of each hyperparameter, but their numbers differ: {counts}.")

    def to_json(self) -> dict[str, Any]:
        """Return the spec as data for JSON. It has only the name of what cannot be described (lambdas, for example)."""
        own = [field.name for field in dataclasses.fields(self) if field.name not in OPTIONS]
        names = [*own[:-3], *OPTIONS, *own[-3:]]  # `init`, `branch` and `sources` come after the options
        data = {name: to_json(getattr(self, name)) for name in names}
        omitted = {name for name in EMPTY if not data[name]}
        omitted |= {n for n, field in OPTIONS.items() if field.metadata["is_omitted"] and data[n] == field.default}
        return {name: part for name, part in data.items() if name not in omitted}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunSpec":
        """Return the spec of JSON data, the inverse of `to_json`. Raises TypeError for unknown fields."""
        known = {f.name for f in dataclasses.fields(cls)}
        for name in data:
            if name not in known:
                raise TypeError(f"a run has no field {name!r}.{did_you_mean(name, known)}")
        nested = {k: {n: from_json(v) for n, v in data[k].items()} for k in ("fields", "env_fields") if k in data}
        lists = ("sweep", "env_sweep", "points")
        swept = {k: {n: list(from_json(v)) for n, v in data[k].items()} for k in lists if k in data}
        return cls(**{**data, **nested, **swept, "selector": from_json(data.get("selector"))})

    def longer(self, steps: int) -> "RunSpec":
        """Return the spec of this run extended to more `steps`."""
        return dataclasses.replace(self, steps=steps, first_steps=self.first_steps or self.steps)

    def settings(self) -> list[dict[str, Any]]:
        """Return the varying values of every setting, by path: every combination of the sweeps at every point.

        A value that is a tree of arrays is its description; `build` makes the tree. Raises ValueError for more than
        MOST_SETTINGS.
        """
        axes = join(self.sweep, self.env_sweep)
        points_count = len(next(iter(self.points.values()), (None,)))
        check_settings(math.prod([len(values) for values in axes.values()]) * points_count)
        grid = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        points = [dict(zip(self.points, values, strict=True)) for values in zip(*self.points.values(), strict=True)]
        return [{**combination, **point} for combination in grid for point in points or [{}]]

    def kept_settings(self) -> list[dict[str, Any]]:
        """Return the settings that members have to the end: `[{}]`, for all, where a selector changes them."""
        return self.settings() if self.selector is None else [{}]

    @property
    def members(self) -> int:
        """The number M of members, or of the slots of a selector: settings times seeds."""
        return len(self.settings()) * self.seeds

    @property
    def members_of_setting(self) -> int:
        """The number of members with each of the `kept_settings`; members are in the order of these."""
        return self.seeds if self.selector is None else self.members

    @property
    def seed_indices(self) -> range:
        """The numbers of the seeds of each setting; members are in their order."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def varying(self) -> list[str]:
        """The paths of the hyperparameters that differ between settings."""
        return [*join(self.sweep, self.env_sweep), *self.points]

    @property
    def env_name(self) -> str:
        """A short name of the environment: `CartPole-v1`, `FrameStack(CartPole-v1)`, `MyEnv`."""
        return in_words(Described("class", self.env, self.env_fields))

    @property
    def default_name(self) -> str:
        """The default folder name of the run: `ppo-CartPole-v1`, `ppo-FrameStack-CartPole-v1`."""
        return run_name(self.agent, self.env_name)

    def parts(self) -> Iterator[tuple[str, Described]]:
        """Yield (path, description) for every description in the spec; paths are such as `network` or `env.env`."""
        swept = {path: tuple(values) for path, values in {**join(self.sweep, self.env_sweep), **self.points}.items()}
        for path, described in {**join(self.fields, self.env_fields), **swept, "selector": self.selector}.items():
            yield from inside(described, path)


def run_name(*parts: str) -> str:
    """Join names of agents, environments and suites to a folder name. Of `file.py:Class` it takes only the class."""
    return file_name("-".join(part.rpartition(":")[2] for part in parts))


def file_name(words: str) -> str:
    """Replace characters that a file name should not have: `bsuite-catch-0`, `FrameStack-CartPole-v1`."""
    return words.replace("(", "-").replace(")", "").replace("/", "-")


def original_spec(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON data of a spec as it was before the run was resumed: its steps, and its members not split."""
    original = {name: part for name, part in data.items() if name not in ("first_steps", *MAY_CHANGE)}
    return {**original, "steps": data["first_steps"]} if data.get("first_steps") else original


def template(spec: RunSpec, agent: Agent | None = None, env: Env | None = None) -> AgentEnv:
    """Build the agent and the environment of a spec, without the values that vary. Paths of files stay paths.

    `agent` and `env` are needed if the spec cannot describe them. Raises ValueError or TypeError if a part cannot
    be built.
    """
    return AgentEnv(
        _built(AGENTS, spec.agent, spec.fields, agent),
        _built(ENVS, spec.env, spec.env_fields, env),
    )


def resolved(spec: RunSpec, agent: Agent | None = None, env: Env | None = None) -> RunSpec:
    """Return the spec with every field of agent and environment, defaults too, so that later defaults cannot change it.

    Fields that vary are left out. Parameters and errors are as those of `template`.
    """
    return described(spec, template(spec, agent, env))


def described(spec: RunSpec, pair: AgentEnv) -> RunSpec:
    """Return `resolved` where the agent and the environment of the spec were already built."""
    first = first_setting(spec)
    made, varying = apply(pair, built(first)), separate(first)
    for path, content in hyperparameters(made).items():
        if content.field.type in NUMBERS and not content.static and (shape := np.shape(content.value)):
            raise ValueError(f"{path} has shape {shape} and needs one number: give several values as a sweep.")
    fields, env_fields = (_without(describe_fields(value), names) for value, names in zip(made, varying, strict=True))
    return dataclasses.replace(spec, fields=fields, env_fields=env_fields)


def first_setting(spec: RunSpec) -> dict[str, Any]:
    """Return the varying values of the first setting, by path."""
    return (spec.settings() or [{}])[0]


def differences(old: RunSpec, new: RunSpec) -> list[str]:
    """Return the differences of two specs: `steps: 256 -> 512`, `env.gravity: 9.8 -> 5.0`."""
    before, after = by_path(old), by_path(new)
    names = [*before, *(name for name in after if name not in before)]
    return [
        f"{name}: {_clipped(before.get(name, 'the default'))} -> {_clipped(after.get(name, 'the default'))}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def opaque_fields(spec: RunSpec) -> list[str]:
    """Return the paths of fields that no file can describe; to resume or load such a run, give them in Python again.

    An agent or environment whose class is defined in a script or notebook is one of them (`agent` or `env`), because
    no other process can import the class.
    """
    not_importable = [kind for kind in ("agent", "env") if getattr(spec, kind).startswith("__main__:")]
    return not_importable + [path for path, part in spec.parts() if part.kind == "only_in_python"]


def spec_for(agent: str | Agent, env: str | Env, **options: Any) -> RunSpec:
    """Make a spec from names or values, e.g. `spec_for(PPO(learning_rate=np.asarray([1e-4, 3e-4])), "CartPole-v1")`.

    The spec has every field of a value; a one-dimensional array in a traced field becomes a sweep. Raises ValueError
    for a field that `options` has both in `fields` and in `sweep`.
    """
    parts: dict[str, Any] = {}
    for prefix in ("", "env_"):
        for name in {*options.get(f"{prefix}fields", {})} & {*options.get(f"{prefix}sweep", {})}:
            raise ValueError(f"{name} is in {prefix}fields and in {prefix}sweep: give it one value, or several.")
    for kind, value, registry, prefix in (("agent", agent, AGENTS, ""), ("env", env, ENVS, "env_")):
        if isinstance(value, str):
            parts[kind] = value
            continue
        parts[kind] = name_of(value, registry)[0]
        fields, swept = _fields_of(value)
        sweep = {**swept, **options.pop(f"{prefix}sweep", {})}
        fields = {**_without(fields, sweep), **options.pop(f"{prefix}fields", {})}
        parts[f"{prefix}fields"] = fields
        parts[f"{prefix}sweep"] = {path: values for path, values in sweep.items() if path not in fields}
    return RunSpec(**parts, **options)


def changes_of(value: Agent | Env, registry: Registry) -> tuple[dict[str, Any], dict[str, list]]:
    """Return the fields of a value that differ from its registered defaults: (single values, lists of swept values)."""
    name, is_registered = name_of(value, registry)
    preset = registry[name].preset if is_registered else {}
    fields, swept = _fields_of(value)
    defaults = {field.name: describe(preset.get(field.name, field.default)) for field in dataclasses.fields(value)}  # type: ignore[arg-type]  # a struct
    return {name: part for name, part in fields.items() if part != defaults[name]}, swept


def plain(value: Any) -> Any:
    """Return a value as data for JSON: numbers as Python's own, `inf`, which JSON lacks, as a string."""
    return to_json(python_numbers(value))


def short(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return a setting as data for JSON with short names in the place of what is no number, such as trees."""
    return {path: str(value) if isinstance(value, Described) else plain(value) for path, value in setting.items()}


def _built(registry: Registry, name: str, described: Mapping[str, Any], value: Any) -> Any:
    """Build the agent or environment of a registered name with these fields; or `value`, if not None, with them.

    `value` then has the fields that no file can describe.
    """
    buildable = {
        path: part
        for path, part in described.items()
        if value is None or not any(p.kind == "only_in_python" for _, p in inside(part))
    }
    if value is None and (source := source_of(name)):
        check_consent(source)
    fields = {path: build(part) for path, part in buildable.items()}
    own = {path: part for path, part in fields.items() if "." not in path}
    if value is None:
        value = registry[name].build(**own)
    else:
        now = describe_fields(value)
        value = replaced(value, {path: part for path, part in own.items() if not _is_so(value, path, now, described)})
    prefix = "env." if registry is ENVS else ""
    return replaced(value, {path: part for path, part in fields.items() if "." in path}, prefix)


def _fields_of(value: Agent | Env) -> tuple[dict[str, Any], dict[str, list]]:
    """Return (the described fields of a value, its one-dimensional arrays as lists to sweep, by path)."""
    swept = {path: np.asarray(part).tolist() for path, part in traced_parts(value) if np.ndim(part) == 1}
    first = replaced(value, {path: values[0] for path, values in swept.items()})
    return _without(describe_fields(first), swept), swept


def _is_so(value: Any, name: str, now: Mapping[str, Any], described: Mapping[str, Any]) -> bool:
    """Return whether a field is as described already, as a Python number if it is one: it need not be replaced."""
    return name in now and now[name] == described[name] and python_number(getattr(value, name)) is getattr(value, name)


def _without(fields: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _clipped(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def by_path(spec: RunSpec) -> dict[str, Any]:
    """Return every field of a spec by its path, as data for JSON."""
    flat = spec.to_json()
    fields = _flat_fields(join(flat.pop("fields"), flat.pop("env_fields")))
    swept = {**join(flat.pop("sweep"), flat.pop("env_sweep")), **flat.pop("points", {})}
    return {**flat, **fields, **swept}


def _flat_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for path, data in fields.items():
        if isinstance(data, Mapping) and "fields" in data:
            flat[path] = next(name for kind, name in data.items() if kind != "fields")
            flat |= _flat_fields({f"{path}.{name}": part for name, part in data["fields"].items()})
        else:
            flat[path] = data
    return flat


def built(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a setting, by path, with trees in the place of their descriptions."""
    return {path: build(value) for path, value in setting.items()}


def _as_values(values: Any) -> Any:
    """Return the values of a sweep as Python's numbers; trees of arrays are described, schedules are texts."""
    if isinstance(values, (np.ndarray, jax.Array)):
        return python_numbers(values)
    is_described = (Mapping, Struct, Scheduled)
    return [describe(v) if isinstance(v, is_described) else canonical(python_numbers(v)) for v in values]


def check_settings(count: int) -> None:
    """Raise ValueError for more settings than a run can have; each takes some milliseconds to plan."""
    if count > MOST_SETTINGS:
        raise ValueError(
            f"{count:,} settings are more than the {MOST_SETTINGS:,} that one run can have: sweep or sample fewer, or "
            f"start several runs. Seeds are not counted."
        )
