"""The hyperparameters of a run beside their defaults, with what was changed first."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.agents import presets
from shoal.core.registry import AGENTS, ENVS, Registry
from shoal.core.struct import info_of
from shoal.reports.facts import Facts
from shoal.reports.markup import code, render, soft, table, tag
from shoal.reports.page import Section
from shoal.reports.words import counted, few
from shoal.specs.describe import Described, describe
from shoal.specs.settings import is_of_env, join
from shoal.specs.spec import RunSpec, plain
from shoal.training.lives import hyperparameters_in
from shoal.viz.words import exact, number

MISSING = object()  # the default of a field that is not known
ORIGINS = {"set": "set by the user", "preset": "from the preset", "varies": "varies", "changes": "changes in training"}


class Field(NamedTuple):
    """One hyperparameter of a run."""

    path: str
    value: str
    default: str  # empty if it is not known
    origin: str  # "preset", "set", "varies" or "changes"; empty for the default
    about: str  # what it means


def fields_of(facts: Facts) -> list[Field]:
    """Return every hyperparameter of agent and environment, those of the agent first, in order of declaration."""
    spec = facts.spec
    known = _declared(spec)
    preset = presets.find(spec.agent, spec.env) if _is_known(spec.agent, AGENTS) and _is_known(spec.env, ENVS) else None
    of_preset = {} if preset is None else join(preset.fields, preset.env_fields)
    changing = _changing(facts)
    values = {**{path: describe(default) for path, (default, _) in known.items()}, **join(spec.fields, spec.env_fields)}
    paths = list(dict.fromkeys([*values, *known, *spec.varying, *changing]))
    paths.sort(key=is_of_env)
    found = []
    for path in paths:
        default, about = known.get(path, (MISSING, ""))
        words = "" if default is MISSING else exact(describe(default))
        if path in spec.varying:
            found.append(Field(path, _values_in_words(spec, path), words, "varies", about))
        elif path in changing:
            found.append(Field(path, changing[path], words, "changes", about))
        else:
            value = values[path]
            is_default = default is not MISSING and plain(describe(default)) == plain(value)
            is_preset = path in of_preset and plain(describe(of_preset[path])) == plain(value)
            origin = "" if is_default else "preset" if is_preset else "set" if default is not MISSING else ""
            found.append(Field(path, exact(value), words, origin, about))
            found += [Field(p, exact(v), "", "", "") for p, v in _inside(path, value)]
    return found


def hyperparameters_section(facts: Facts) -> Section:
    """Return the section with all hyperparameters of a run: those that differ from their defaults, then the others."""
    fields, spec = fields_of(facts), facts.spec
    selector = _inside("", spec.selector) if isinstance(spec.selector, Described) else ()
    made = render(
        "hyperparameters",
        facts=facts,
        spec=spec,
        changed=[field for field in fields if field.origin],
        others=[field for field in fields if not field.origin],
        missing=_not_in_spec(spec),
        selector=[(code(path), _clipped(exact(value))) for path, value in selector if path != "first_given"],
        settings=len(facts.result.settings),
        origins=ORIGINS,
        clipped=_clipped,
    )
    return Section("hyperparameters", "Hyperparameters", [made])


def differences_section(runs: Sequence[Facts], names: Sequence[str]) -> Section:
    """Return the section with the hyperparameters that differ between runs, a column for each run."""
    columns = [{field.path: field.value for field in fields_of(facts)} for facts in runs]
    for column, facts in zip(columns, runs, strict=True):
        column |= {name: exact(getattr(facts.spec, name)) for name in ("steps", "seeds", "seed", "eval_episodes")}
        column |= {"agent": facts.spec.agent, "environment": facts.spec.env_name}
    paths = list(dict.fromkeys(["agent", "environment", *(path for column in columns for path in column)]))
    differing = [path for path in paths if len({column.get(path, "") for column in columns}) > 1]
    if not differing:
        same = "The runs have the same agent, environment, hyperparameters, steps and seeds."
        return Section("differences", "What differs", [tag("p", same)])
    rows = [[code(path), *(_clipped(column.get(path, "–"), 60) for column in columns)] for path in differing]
    about = soft(f"{counted(len(paths) - len(differing), 'other hyperparameter')} are the same in all runs.")
    return Section("differences", "What differs", [table(["hyperparameter", *names], rows), about])


def fields_to_set(spec: RunSpec) -> dict[str, Any]:
    """Return the values, by path, that differ from this version's defaults: what `train` needs without a preset."""
    known = _declared(spec)
    values = join(spec.fields, spec.env_fields)
    return {
        path: value
        for path, value in values.items()
        if path not in known or plain(describe(known[path][0])) != plain(value)
    }


def _declared(spec: RunSpec) -> dict[str, tuple[Any, str]]:
    """Return (default, what it means) of the fields of a registered agent and environment, by path."""
    found: dict[str, tuple[Any, str]] = {}
    for name, registry, prefix in ((spec.agent, AGENTS, ""), (spec.env, ENVS, "env.")):
        if not _is_known(name, registry):
            continue  # a class of a file of the user's own, which a report does not run
        entry = registry[name]
        for field in dataclasses.fields(entry.cls):
            default = entry.preset.get(field.name, field.default)
            names = info_of(field).names
            if names and isinstance(default, int):
                default = names[default]
            if default is dataclasses.MISSING or not field.init or info_of(field).bind:
                continue
            if default is None and info_of(field).static:
                continue  # unused unless it is set
            found[f"{prefix}{field.name}"] = (default, info_of(field).help)
    return found


def _is_known(name: str, registry: Registry) -> bool:
    return ":" not in name and name in registry


def _changing(facts: Facts) -> dict[str, str]:
    """Return the hyperparameters that a selector changes, with the range of their values in the run."""
    if not facts.selector or not facts.curves:
        return {}
    ranges = {}
    for path in hyperparameters_in(facts.curves):
        values = facts.curves[path]
        ranges[path] = f"{number(float(values.min()))} to {number(float(values.max()))}"
    return ranges


def _values_in_words(spec: RunSpec, path: str) -> str:
    values = {**join(spec.sweep, spec.env_sweep), **spec.points}[path]
    if len(values) > 12 and all(isinstance(v, int | float) for v in values):
        return f"{len(values):,} values from {number(min(values))} to {number(max(values))}"
    return few([exact(value) for value in values])


def _inside(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of the fields inside a described value."""
    if not isinstance(value, Described) or value.kind in ("array", "dtype", "function"):
        return
    for name, inner in value.fields.items():
        whole = f"{path}.{name}" if path else name
        if isinstance(inner, Described) and inner.kind == "dict":
            yield from _inside(whole, inner)
        else:
            yield whole, inner
            yield from _inside(whole, inner)


def _not_in_spec(spec: RunSpec) -> list[str]:
    given: Mapping[str, Any] = join(spec.fields, spec.env_fields)
    return [path for path in _declared(spec) if path not in given and path not in spec.varying]


def _clipped(words: str, most: int = 120) -> str:
    return words if len(words) <= most else f"{words[:most]}…"
