"""What a run is, as plain data: enough to start it again on another machine and get the same numbers."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import did_you_mean
from shoal.core.keys import IMPLEMENTATIONS, check_seed
from shoal.core.registry import AGENTS, ENVS, Registry
from shoal.core.struct import Struct, static_fields
from shoal.training.settings import join

PLAIN = (str, bool, int, float, type(None))
ENDLESS = ("inf", "-inf", "nan")  # numbers that JSON has no word for
MOST_STEPS = 10**15  # of a member; float64 still counts them exactly


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """One run: an agent, an environment, which of their fields differ from the defaults or vary, and how long.

    `sweep` and `env_sweep` map traced fields to lists of values: every combination is a setting, and each setting is
    trained with every seed, all in one program. Nothing here changes results except what says so.
    """

    agent: str
    env: str
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    env_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sweep: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # lists of values, or arrays
    env_sweep: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    steps: int = 500_000  # of each member, in environment steps; rounded up to whole updates
    seeds: int = 1  # members per setting
    seed: int = 0  # the base that every random number of the run derives from
    records: int = 20  # points on the curves; a checkpoint is written at each
    evaluations: int = 5  # spread over the records, the last at the end
    eval_episodes: int = 100
    eval_max_steps: int = 0  # horizon of an evaluation episode; 0: the longest one, or 1,000 where nobody says
    prng: str = "mix32"
    block: int = 0  # members that run together; 0: mostly 1 on CPU, as many as fit elsewhere. Changes the last digits.

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            if field.type is int:
                object.__setattr__(self, field.name, _whole(field.name, given))
            elif field.name in ("sweep", "env_sweep"):
                object.__setattr__(self, field.name, {name: _python(values) for name, values in given.items()})
            elif isinstance(given, Mapping):
                object.__setattr__(self, field.name, {name: _number(value) for name, value in given.items()})
        for name in ("steps", "seeds", "records", "eval_episodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1.")
        if self.steps > MOST_STEPS:
            raise ValueError(f"steps must be at most {MOST_STEPS:,}, which no run gets near.")
        check_seed(self.seed)
        for name in ("evaluations", "eval_max_steps", "block"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)} must not be negative.")
        if self.prng not in IMPLEMENTATIONS:
            raise ValueError(f"prng={self.prng!r} is unknown. Choose one of: {', '.join(IMPLEMENTATIONS)}.")

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; what only Python can hold (functions, networks) appears by name, and `inf` as a string."""
        return plain(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunSpec":
        """The inverse of `to_json`. Raises TypeError for fields this version does not know."""
        known = {f.name for f in dataclasses.fields(cls)}
        for name in data:
            if name not in known:
                raise TypeError(f"a run has no field {name!r}.{did_you_mean(name, known)}")
        nested = {k: {n: _tuples(v) for n, v in data[k].items()} for k in ("fields", "env_fields") if k in data}
        swept = {k: {n: list(_tuples(v)) for n, v in data[k].items()} for k in ("sweep", "env_sweep") if k in data}
        return cls(**{**data, **nested, **swept})

    def settings(self) -> list[dict[str, Any]]:
        """Every combination of swept values, in order; environment fields are written `env.name`."""
        axes = join(self.sweep, self.env_sweep)
        return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def differences(old: RunSpec, new: RunSpec) -> list[str]:
    """What changed between two specs: `steps: 256 -> 512`, `env.gravity: the default -> 5.0`."""
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
    given = join(spec.fields, spec.env_fields)
    homeless = [kind for kind in ("agent", "env") if getattr(spec, kind).startswith("__main__:")]
    return homeless + [name for name, value in given.items() if not _is_plain(value)]


def fields_of(value: Agent | Env, preset: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list]]:
    """The fields of a value that differ from its registered defaults: (single values, lists of values to sweep).

    A one-dimensional array in a traced field is a sweep.
    """
    fixed, swept = {}, {}
    for field in dataclasses.fields(value):  # type: ignore[arg-type]  # agents and environments are structs
        if not field.init:
            continue  # follows from the others
        given = getattr(value, field.name)
        if field.name not in static_fields(value) and np.ndim(given) == 1:
            swept[field.name] = np.asarray(given).tolist()
        elif not _equal(given, preset.get(field.name, field.default)):
            fixed[field.name] = given
    return fixed, swept


def name_of(value: Struct, registry: Registry) -> tuple[str, Mapping[str, Any]]:
    """(name, preset fields) under which a value's class is registered; otherwise its import path."""
    for name in registry:
        entry = registry[name]
        if entry.cls is type(value) and all(_equal(getattr(value, k), v) for k, v in entry.preset.items()):
            return name, entry.preset
    return f"{type(value).__module__}:{type(value).__qualname__}", {}


def spec_for(agent: str | Agent, env: str | Env, **options: Any) -> RunSpec:
    """A spec from names or values, e.g. `spec_for(PPO(learning_rate=np.asarray([1e-4, 3e-4])), "CartPole-v1")`.

    Raises ValueError for a field that has both one value and several in `options`.
    """
    parts: dict[str, Any] = {}
    for prefix in ("", "env_"):
        for name in {*options.get(f"{prefix}fields", {})} & {*options.get(f"{prefix}sweep", {})}:
            raise ValueError(f"{name} is in {prefix}fields and in {prefix}sweep: give it one value, or several.")
    for kind, given, registry, prefix in (("agent", agent, AGENTS, ""), ("env", env, ENVS, "env_")):
        if isinstance(given, str):
            parts[kind] = given
            continue
        name, preset = name_of(given, registry)
        fixed, swept = fields_of(given, preset)
        parts[kind] = name
        parts[f"{prefix}fields"] = {**fixed, **options.pop(f"{prefix}fields", {})}
        parts[f"{prefix}sweep"] = {**swept, **options.pop(f"{prefix}sweep", {})}
    return RunSpec(**parts, **options)


def _flat(spec: RunSpec) -> dict[str, Any]:
    flat = spec.to_json()
    for part in ("fields", "sweep"):
        flat |= join(flat.pop(part), flat.pop(f"env_{part}"))
    return flat


def plain(value: Any) -> Any:
    """What was given as JSON can hold it: `inf`, which JSON lacks, as a string that `RunSpec.from_json` reads back."""
    value = _python(value)
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, PLAIN):
        return value
    return getattr(value, "__qualname__", repr(value))


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(v) for v in value)
    return isinstance(value, PLAIN)


def _python(value: Any) -> Any:
    """Numbers of NumPy and JAX as Python's own, also within lists; anything else as it is."""
    if isinstance(value, (np.generic, np.ndarray, jax.Array)):
        return np.asarray(value).tolist()
    return [_python(v) for v in value] if isinstance(value, (list, tuple)) else value


def _number(value: Any) -> Any:
    """An array that is a single number as Python's own; anything else as it is."""
    is_single = isinstance(value, (np.generic, np.ndarray, jax.Array)) and value.ndim == 0
    return _python(value) if is_single else value


def _whole(name: str, given: Any) -> int:
    number = _python(given)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number != number // 1:
        raise ValueError(f"{name}={given!r} must be a whole number.")
    return int(number)


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    return float(value) if value in ENDLESS else value


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(np.all(np.asarray(a == b)))
    except (TypeError, ValueError):
        return False
