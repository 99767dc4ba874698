"""What a run is, as plain data: enough to start it again on another machine and get the same numbers."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.core.keys import IMPLEMENTATIONS, check_seed
from shoal.core.registry import AGENTS, ENVS, Registry
from shoal.training.describe import (
    Described,
    build,
    describe,
    describe_fields,
    from_json,
    in_words,
    inside,
    name_of,
    python_number,
    to_json,
)
from shoal.training.settings import Setting, apply, join, replaced, split, traced_parts

MOST_STEPS = 10**15  # of a member; float64 still counts them exactly
MOST = {"records": 10**6, "eval_episodes": 10**6, "eval_max_steps": 2**31 - 1}  # what lists and counters hold
OPTIONAL = (
    "selector",
    "points",
    "first_steps",
    "init",
    "sources",
)  # parts that the file leaves out where they are empty


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """One run: an agent, an environment, their fields, which of them vary, and how long to train.

    Values of `fields` and `env_fields` are numbers, strings, tuples, or descriptions of anything else
    (`training.describe`); what cannot be described (a lambda, a class of a notebook) is held as it is, and appears in
    the file by name alone.

    `sweep` and `env_sweep` map traced fields to lists of values: every combination is a setting. `points` maps paths
    (`learning_rate`, `env.gravity`) to lists of equal length, whose n-th values together are the n-th setting; with a
    sweep beside it, every combination is trained at every point. Each setting is trained with every seed, all in one
    program. Nothing here changes results except what says so.
    """

    agent: str
    env: str
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    env_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sweep: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # lists of values, or arrays
    env_sweep: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    points: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    selector: Any = None  # what may change the population between chunks (`training.selector`), or its description
    steps: int = 500_000  # of each member, in environment steps; rounded up to whole updates
    first_steps: int = 0  # of a run that was made to go on: the steps that it was begun with
    seeds: int = 1  # members per setting
    seed: int = 0  # the base that every random number of the run derives from
    records: int = 20  # points on the curves; a checkpoint is written at each
    evaluations: int = 5  # spread over the records, the last at the end
    eval_episodes: int = 100
    eval_max_steps: int = 0  # horizon of an evaluation episode; 0: the longest one, or 1,000 where nobody says
    prng: str = "mix32"
    block: int = 0  # members that run together; 0: mostly 1 on CPU, as many as fit elsewhere. Changes the last digits.
    init: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # run, member and weights that members begin with
    sources: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # SHA-256 of the user's own files, by path

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            if field.type is int:
                object.__setattr__(self, field.name, _whole(field.name, given))
            elif field.name in ("sweep", "env_sweep", "points"):
                object.__setattr__(self, field.name, {name: _python(values) for name, values in given.items()})
            elif field.name in ("fields", "env_fields"):
                object.__setattr__(self, field.name, {name: describe(value) for name, value in given.items()})
        object.__setattr__(self, "selector", describe(self.selector))
        for name in ("steps", "seeds", "records", "eval_episodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.steps > MOST_STEPS:
            raise ValueError(f"steps must be at most {MOST_STEPS:,}, which no run gets near.")
        for name, most in MOST.items():
            if getattr(self, name) > most:
                raise ValueError(f"{name}={getattr(self, name)} must be at most {most:,}.")
        check_seed(self.seed)
        for name in ("first_steps", "evaluations", "eval_max_steps", "block"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must not be negative.")
        if self.prng not in IMPLEMENTATIONS:
            raise ValueError(f"prng={self.prng!r} is unknown. Choose one of: {', '.join(IMPLEMENTATIONS)}.")
        lengths = {name: len(values) for name, values in self.points.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise ValueError(f"every setting needs a value of each: {told} are not equally many.")

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; what only Python can hold (lambdas, classes of a notebook) appears by name alone."""
        whole = {field.name: to_json(getattr(self, field.name)) for field in dataclasses.fields(self)}
        return {name: part for name, part in whole.items() if part or name not in OPTIONAL}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunSpec":
        """The inverse of `to_json`. Raises TypeError for fields this version does not know."""
        known = {f.name for f in dataclasses.fields(cls)}
        for name in data:
            if name not in known:
                raise TypeError(f"a run has no field {name!r}.{did_you_mean(name, known)}")
        nested = {k: {n: from_json(v) for n, v in data[k].items()} for k in ("fields", "env_fields") if k in data}
        lists = ("sweep", "env_sweep", "points")
        swept = {k: {n: list(from_json(v)) for n, v in data[k].items()} for k in lists if k in data}
        return cls(**{**data, **nested, **swept, "selector": from_json(data.get("selector"))})

    def longer(self, steps: int) -> "RunSpec":
        """The spec of this run, made to go on to more steps."""
        return dataclasses.replace(self, steps=steps, first_steps=self.first_steps or self.steps)

    def settings(self) -> list[dict[str, Any]]:
        """The values that every setting has of its own, by path: every combination of the sweeps at every point."""
        axes = join(self.sweep, self.env_sweep)
        grid = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
        points = [dict(zip(self.points, values, strict=True)) for values in zip(*self.points.values(), strict=True)]
        return [{**combination, **point} for combination in grid for point in points or [{}]]

    @property
    def varying(self) -> list[str]:
        """Paths of what differs between settings."""
        return [*join(self.sweep, self.env_sweep), *self.points]

    @property
    def env_name(self) -> str:
        """The environment in a few words: `CartPole-v1`, `FrameStack(CartPole-v1)`, `MyEnv`."""
        return in_words(Described("class", self.env, self.env_fields))

    @property
    def stem(self) -> str:
        """A folder name that says what the run is: `ppo-CartPole-v1`, `ppo-FrameStack-CartPole-v1`."""
        return run_name(self.agent, self.env_name)

    def parts(self) -> Iterator[tuple[str, Described]]:
        """Every description in it with its path, such as `network` or `env.env`."""
        for path, described in {**join(self.fields, self.env_fields), "selector": self.selector}.items():
            yield from inside(described, path)


def run_name(*parts: str) -> str:
    """A folder name that says what a run is, from agents, worlds and suites; of a file or module, its class alone."""
    return file_name("-".join(part.rpartition(":")[2] for part in parts))


def file_name(words: str) -> str:
    """The name of a run without what a file's name should not hold: `bsuite-catch-0`, `FrameStack-CartPole-v1`."""
    return words.replace("(", "-").replace(")", "").replace("/", "-")


def as_begun(data: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as JSON as it was when the run began, which a run that was made to go on keeps as its identity."""
    begun = {name: part for name, part in data.items() if name != "first_steps"}
    return {**begun, "steps": data["first_steps"]} if data.get("first_steps") else begun


def template(spec: RunSpec, agent: Agent | None = None, env: Env | None = None) -> Setting:
    """The values that a spec describes, with what every setting has in common; files that it names stay names.

    `agent` and `env` bring what only Python can hold. Raises ValueError or TypeError where a part cannot be built.
    """
    return Setting(
        _built(AGENTS, spec.agent, spec.fields, agent),
        _built(ENVS, spec.env, spec.env_fields, env),
    )


def resolved(spec: RunSpec, agent: Agent | None = None, env: Env | None = None) -> RunSpec:
    """The spec with every field of both values, defaults too: a later change of a default does not change it.

    What varies is left to the sweeps. Parameters and errors as those of `template`.
    """
    first = (spec.settings() or [{}])[0]
    made = apply(template(spec, agent, env), first)
    varying = split(first)
    fields, env_fields = (_without(describe_fields(value), names) for value, names in zip(made, varying, strict=True))
    return dataclasses.replace(spec, fields=fields, env_fields=env_fields)


def differences(old: RunSpec, new: RunSpec) -> list[str]:
    """What changed between two specs: `steps: 256 -> 512`, `env.gravity: 9.8 -> 5.0`."""
    before, after = _flat(old), _flat(new)
    names = [*before, *(name for name in after if name not in before)]
    return [
        f"{name}: {before.get(name, 'the default')} -> {after.get(name, 'the default')}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def opaque_fields(spec: RunSpec) -> list[str]:
    """Fields that only Python can hold, so that a run with them is resumed and loaded from Python.

    A class of a script or notebook itself counts as one, named `agent` or `env`: no other process can import it.
    """
    homeless = [kind for kind in ("agent", "env") if getattr(spec, kind).startswith("__main__:")]
    return homeless + [path for path, part in spec.parts() if part.kind == "only_in_python"]


def spec_for(agent: str | Agent, env: str | Env, **options: Any) -> RunSpec:
    """A spec from names or values, e.g. `spec_for(PPO(learning_rate=np.asarray([1e-4, 3e-4])), "CartPole-v1")`.

    Every field of a value is written down; a one-dimensional array in a traced field is a sweep. Raises ValueError for
    a field that has both one value and several in `options`.
    """
    parts: dict[str, Any] = {}
    for prefix in ("", "env_"):
        for name in {*options.get(f"{prefix}fields", {})} & {*options.get(f"{prefix}sweep", {})}:
            raise ValueError(f"{name} is in {prefix}fields and in {prefix}sweep: give it one value, or several.")
    for kind, given, registry, prefix in (("agent", agent, AGENTS, ""), ("env", env, ENVS, "env_")):
        if isinstance(given, str):
            parts[kind] = given
            continue
        parts[kind] = name_of(given, registry)[0]
        fields, swept = _fields_of(given)
        sweep = {**swept, **options.pop(f"{prefix}sweep", {})}
        fields = {**_without(fields, sweep), **options.pop(f"{prefix}fields", {})}
        parts[f"{prefix}fields"] = fields
        parts[f"{prefix}sweep"] = {path: values for path, values in sweep.items() if path not in fields}
    return RunSpec(**parts, **options)


def changes_of(value: Agent | Env, registry: Registry) -> tuple[dict[str, Any], dict[str, list]]:
    """The fields of a value that differ from its registered defaults: (single values, lists of values to sweep)."""
    name, is_registered = name_of(value, registry)
    preset = registry[name].preset if is_registered else {}
    fields, swept = _fields_of(value)
    usual = {field.name: describe(preset.get(field.name, field.default)) for field in dataclasses.fields(value)}  # type: ignore[arg-type]  # a struct
    return {name: part for name, part in fields.items() if part != usual[name]}, swept


def plain(value: Any) -> Any:
    """What was given as JSON can hold it: `inf`, which JSON lacks, as a string."""
    return to_json(_python(value))


def _built(registry: Registry, name: str, described: Mapping[str, Any], value: Any) -> Any:
    """A value of a registered name with these fields, or the value that was given with them."""
    known = {
        path: part
        for path, part in described.items()
        if value is None or not any(p.kind == "only_in_python" for _, p in inside(part))
    }
    fields = {path: build(part) for path, part in known.items()}
    own = {path: part for path, part in fields.items() if "." not in path}
    if value is None:
        value = registry[name].build(**own)
    else:
        value = replaced(value, own)
    prefix = "env." if registry is ENVS else ""
    return replaced(value, {path: part for path, part in fields.items() if "." in path}, prefix)


def _fields_of(value: Agent | Env) -> tuple[dict[str, Any], dict[str, list]]:
    """All fields of a value but those that it sweeps, described, and these: one-dimensional arrays, by path."""
    swept = {path: np.asarray(part).tolist() for path, part in traced_parts(value) if np.ndim(part) == 1}
    first = replaced(value, {path: values[0] for path, values in swept.items()})
    return _without(describe_fields(first), swept), swept


def _without(fields: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def _flat(spec: RunSpec) -> dict[str, Any]:
    """Every number of a spec by its path, as the file has it."""
    flat = spec.to_json()
    fields = _opened(join(flat.pop("fields"), flat.pop("env_fields")))
    swept = {**join(flat.pop("sweep"), flat.pop("env_sweep")), **flat.pop("points", {})}
    return {**flat, **fields, **swept}


def _opened(fields: Mapping[str, Any]) -> dict[str, Any]:
    opened: dict[str, Any] = {}
    for path, data in fields.items():
        if isinstance(data, Mapping) and "fields" in data:
            opened[path] = next(name for kind, name in data.items() if kind != "fields")
            opened |= _opened({f"{path}.{name}": part for name, part in data["fields"].items()})
        else:
            opened[path] = data
    return opened


def _python(value: Any) -> Any:
    """Numbers of NumPy and JAX as Python's own, also within lists; anything else as it is."""
    if isinstance(value, (np.generic, np.ndarray, jax.Array)):
        return np.asarray(value).tolist()
    if isinstance(value, Mapping):
        return {name: _python(part) for name, part in value.items()}
    return [_python(v) for v in value] if isinstance(value, (list, tuple)) else value


def _whole(name: str, given: Any) -> int:
    number = python_number(given)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number != number // 1:
        raise ValueError(f"{name}={given!r} must be a whole number.")
    return int(number)
