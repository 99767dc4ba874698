"""The hyperparameters of a run beside their defaults, with what was changed first."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from shoal.agents import presets
from shoal.core.registry import AGENTS, ENVS, Registry
from shoal.core.struct import info_of
from shoal.reports.facts import Facts
from shoal.reports.markup import Cell, Html, joined, pairs, table, tag
from shoal.reports.page import Section, folded
from shoal.reports.words import counted, exact, few, number
from shoal.specs.describe import Described, describe
from shoal.specs.settings import is_of_env, join
from shoal.specs.spec import RunSpec, plain
from shoal.training.lives import hyperparameters_in

MISSING = object()  # the default of a field that is not known


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
    fields = fields_of(facts)
    changed, others = [f for f in fields if f.origin], [f for f in fields if not f.origin]
    parts: list[Any] = []
    if changed:
        parts.append(_table(changed))
    else:
        parts.append(tag("p", "All hyperparameters have their default values."))
    if missing := _not_in_spec(facts.spec):
        parts.append(tag("p", _about_missing(missing), class_="soft"))
    if others:
        same = counted(len(others), "hyperparameter")
        parts.append(
            folded(f"{same} with {'its' if len(others) == 1 else 'their'} default value", _table(others, False))
        )
    if isinstance(facts.spec.selector, Described):
        rows = [(path, value) for path, value in _inside("", facts.spec.selector) if path not in ("first_given",)]
        own = [(tag("code", path), _clipped(exact(value))) for path, value in rows]
        parts += [tag("h3", f"Selector: {facts.selector}"), pairs(own)]
    parts += [tag("h3", "Training"), _training(facts)]
    return Section("hyperparameters", "Hyperparameters", parts)


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
    rows = [
        [tag("code", path), *(Cell(_clipped(column.get(path, "–"), 60)) for column in columns)] for path in differing
    ]
    about = f"{counted(len(paths) - len(differing), 'other hyperparameter')} are the same in all runs."
    return Section(
        "differences", "What differs", [table(["hyperparameter", *names], rows), tag("p", about, class_="soft")]
    )


def _table(fields: Sequence[Field], with_origin: bool = True) -> Html:
    words = {
        "set": "set by the user",
        "preset": "from the preset",
        "varies": "varies",
        "changes": "changes in training",
    }
    head = ["hyperparameter", "value", *(["default", "why"] if with_origin else []), "what it is"]
    rows = [
        [
            Cell(tag("code", field.path)),
            Cell(tag("strong", _clipped(field.value)) if with_origin else _clipped(field.value)),
            *(
                [Cell(_clipped(field.default)), Cell(tag("span", words[field.origin], class_="tag"))]
                if with_origin
                else []
            ),
            Cell(field.about, class_="words"),
        ]
        for field in fields
    ]
    return table(head, rows)


def _training(facts: Facts) -> Html:
    spec, settings = facts.spec, len(facts.result.settings)
    limit = number(spec.eval_max_steps) if spec.eval_max_steps else "that of the environment, or 1,000"
    init = spec.init
    rows = [
        ("steps of each member", f"{spec.steps:,}"),
        ("steps before it was extended", f"{spec.first_steps:,}" if spec.first_steps else None),
        ("settings", f"{settings:,}" if settings > 1 else None),
        ("members" if facts.selector else "seeds of each setting", f"{spec.members_of_setting:,}"),
        ("base seed", f"{spec.seed}"),
        ("records", f"{spec.records:,}"),
        ("evaluations", f"{spec.evaluations:,}, each of {counted(spec.eval_episodes, 'episode')} for a member"),
        ("steps of an evaluation episode", f"at most {limit}"),
        ("first policies", f"member {init['member']} of {init['run']} ({init['which']} weights)" if init else None),
        ("random numbers", spec.prng),
        ("devices that share a member", spec.devices_per_member or None),
    ]
    return pairs(rows)


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


def _about_missing(missing: Sequence[str]) -> Html:
    names = joined((tag("code", path) for path in missing[:4]), ", ")
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    words = " are not in spec.json, which an older version of shoal wrote. Shown are the defaults of this version."
    return joined([names, f"{more}{words}"])


def _clipped(words: str, most: int = 120) -> str:
    return words if len(words) <= most else f"{words[:most]}…"
