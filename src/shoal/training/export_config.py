"""Write the hyperparameters of a run as a preset file. `training/preset_table.py` describes the format."""

import dataclasses
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from shoal.core.kinds import checked_kinds
from shoal.core.registry import AGENTS, ENVS, Registry
from shoal.core.schedules import Scheduled, is_written, with_peaks
from shoal.core.struct import info_of
from shoal.specs.changes import changed_fields
from shoal.specs.describe import Described, describe, from_json, inside, to_json
from shoal.specs.disk import replace
from shoal.specs.roster import NOBODY
from shoal.specs.settings import separate, setting_in_words
from shoal.specs.sources import files_of
from shoal.specs.spec import NAMED, RunSpec, opaque_fields, short
from shoal.specs.toml import lines_of, text_of
from shoal.training.folder import RunFolder
from shoal.training.lives import best_members
from shoal.training.preset_table import NONE, OPTIONS, OTHERS
from shoal.training.records import member_scores
from shoal.training.result import Result

LINE = 118  # characters of a comment


@checked_kinds()
def export_config(run: Path | str, out: Path | str | None = None, member: SupportsIndex | str = "best") -> str:
    """Return the hyperparameters of a run as the text of a preset file, and write it to `out` if that is given.

    The file has all fields of agent and environment and the options of the run, so training with it repeats the run
    with one setting: the best one of a sweep, the hyperparameters of the best living member of a run with a selector,
    or what an evolution has found. Structs that were found are not written: the file refers to the run with `found`.
    `member` is a number for the setting of that member instead. Nothing of the run is built or executed.

    Raises FileNotFoundError if there is no run, FileExistsError if `out` exists, IndexError for a member that does not
    exist, and ValueError for parts that were given in Python and for a run without any score.
    """
    result = Result(run)
    spec = result.spec
    if opaque := opaque_fields(spec):
        raise ValueError(
            f"{run} has parts that were given in Python, which no file can hold: {', '.join(opaque)}. If their classes "
            f"are defined in a script or notebook, move them to a file of their own."
        )
    values, what, score = _best(result) if member == "best" else _of_member(result, member)
    found = result.folder.resolve() if member == "best" and _found(result) else None
    where = run if str(run).startswith(NAMED) else result.folder.resolve()
    origin = [f"{what[:1].upper()}{what[1:]} of {where}.", score]
    if spec.first_steps:
        origin += [f"The run was extended to {spec.steps:,} steps; its schedules end at the steps below."]
    text = preset_text(spec, values, origin, f"{what} of {result.folder.name}: {score}", found)
    if out is not None:
        write_preset(out, text)
    return text


def write_preset(out: Path | str, text: str) -> Path:
    """Write the text of a preset file. Raises ValueError without the ending .toml, FileExistsError for a used name."""
    out = Path(out)
    if out.suffix != ".toml":
        raise ValueError(f"a preset file named {out.name!r} would not be taken for one: end its name in .toml.")
    if out.exists():
        raise FileExistsError(f"{out} exists already: choose another name.")
    out.parent.mkdir(parents=True, exist_ok=True)
    replace(out, lambda path: path.write_text(text, encoding="utf-8"))
    return out


def preset_text(
    spec: RunSpec, values: Mapping[str, Any], origin: Sequence[str], evidence: str, found: Path | None = None
) -> str:
    """Return the text of a preset file: all fields of a spec, with these `values` by path, and its options.

    `origin` are sentences for the comment at the top. With `found`, the structs with arrays among the values are left
    out, and the file refers to the run at that path, which has found them. Raises ValueError for an agent with a field
    that the format takes for an option of the run.
    """
    trees = {path for path, value in values.items() if isinstance(value, Described) and _holds_arrays(value)}
    left_out = trees if found is not None else set()
    own, of_env = separate({path: value for path, value in values.items() if path not in left_out})
    fields, env_fields = _merged(spec.fields, own), _merged(spec.env_fields, of_env)
    fields = {path: value for path, value in fields.items() if path not in left_out}
    env_fields = {path: value for path, value in env_fields.items() if f"env.{path}" not in left_out}
    if hidden := [name for name in fields if name in OTHERS]:
        raise ValueError(
            f"{spec.agent} has a field {hidden[0]!r}, which is an option of the run in a preset file: rename the field."
        )
    options = _options(spec) | ({"found": str(found)} if left_out else {})
    is_own = ":" in spec.env
    names = "" if is_own or ":" in spec.agent else f"{spec.agent} {spec.env} "
    lines = [*_comment([*origin, f"Use: shoal train {names}--preset THIS_FILE"]), "", f"[{text_of(spec.env_name)}]"]
    lines += lines_of({"agent": spec.agent, **options, "evidence": evidence})
    lines += _fields(spec.agent, fields, AGENTS, "")
    if is_own:
        lines += ["", "# The environment"]
        lines += lines_of({"env": _as_toml(Described("class", spec.env, env_fields))})
    else:
        lines += _fields(spec.env, env_fields, ENVS, "env.")
    described = [part for value in (*fields.values(), *env_fields.values()) for _, part in inside(value)]
    files = files_of([*described, Described("class", spec.agent), Described("class", spec.env)])
    if files:
        lines += ["", "# Files of your own, with their SHA-256: a changed one is executed with --trust-source only"]
        lines += lines_of({"sources": {file: spec.sources[file] for file in files if file in spec.sources}})
    return "\n".join(lines) + "\n"


def _best(result: Result) -> tuple[dict[str, Any], str, str]:
    """Return (the values that differ between members, by path; what they are; a sentence about their score)."""
    if found := _found(result):
        return found, "what the search has found", _score_of_search(result)
    if _has_lives(result):
        return _of_life(result, None)
    scores = _scores(result)
    settings = result.settings
    if len(settings) == 1:
        return settings[0], "the hyperparameters", _sentence(result, scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a setting without any score
        means = np.nanmean(scores.reshape(len(settings), -1), axis=1)
    if np.isnan(means).all():
        raise ValueError(f"{result.folder} was not evaluated, so no setting is the best: give the number of a member.")
    best = int(np.nanargmax(means))
    what = f"the best of {len(settings)} settings ({setting_in_words(short(settings[best]))})"
    return settings[best], what, _sentence(result, scores.reshape(len(settings), -1)[best])


def _of_member(result: Result, member: Any) -> tuple[dict[str, Any], str, str]:
    number = result.number_of(member)
    if not 0 <= number < result.spec.members:
        raise IndexError(f"member={number} does not exist: {result.folder} has members 0 to {result.spec.members - 1}.")
    if _has_lives(result):
        return _of_life(result, number)
    setting = number // result.spec.seeds
    scores = _scores(result).reshape(len(result.settings), -1)[setting]
    return result.settings[setting], f"the hyperparameters of member {number}", _sentence(result, scores)


def _of_life(result: Result, member: int | None) -> tuple[dict[str, Any], str, str]:
    """Return the same of a run with a selector: of a member, or of the best one that is still trained at the end."""
    curves = result.curves
    slots = len(curves["occupant"][-1])
    idle = curves["occupant"][-1] == NOBODY
    members = best_members(curves, slots)
    living = [best for best in members if not idle[best["member"]] and not np.isnan(best["score"])]
    chosen = next((best for best in (living or members) if member in (None, best["member"])), None)
    if member is None and not living:
        raise ValueError(f"{result.folder} has no member with a score that is still trained: give the number of one.")
    if chosen is None:
        chosen = next(best for best in members if best["member"] == member)
    life = result.lives[chosen["occupant"]]
    varying = result.spec.settings()[chosen["member"] // result.spec.seeds]
    values = {path: _number(result.spec, path, column[-1]) for path, column in life.hyperparameters.items()}
    values = {path: _scaled(result.spec, path, value) for path, value in values.items()}
    what = f"the hyperparameters that member {chosen['member']} had at the end"
    what = f"{what}, the best of {slots} members" if member is None else what
    copies = len(chosen["lineage"]) - 1
    history = f" It descends from {copies} other members by copying." if copies else ""
    return {**varying, **values}, what, f"Mean return {chosen['score']:.6g} at the end.{history}"


def _has_lives(result: Result) -> bool:
    return result.spec.selector is not None and "occupant" in result.curves


def _found(result: Result) -> dict[str, Any]:
    """Return what the selector of a run has found, described, by path; empty without it. Nothing is built."""
    return {path: from_json(data) for path, data in RunFolder(result.folder).read_found().items()}


def _score_of_search(result: Result) -> str:
    best = best_members(result.curves, 1)[0] if "occupant" in result.curves else None
    score = "" if best is None else f"; the best member of the last generation returned {best['score']:.6g} on average"
    return f"These values are the mean of the search, which was not trained itself{score}."


def _scores(result: Result) -> np.ndarray:
    """Return the last evaluation of each member [M]; NaN without one."""
    try:
        return member_scores(result.curves)
    except FileNotFoundError:  # no record yet
        return np.full(result.spec.members, np.nan)


def _sentence(result: Result, scores: np.ndarray) -> str:
    finite = scores[np.isfinite(scores)]
    if not len(finite):
        return "It was not evaluated."
    seeds = f"{len(finite)} seeds" if len(finite) > 1 else "one seed"
    failed = f"; {len(scores) - len(finite)} stopped early" if len(finite) < len(scores) else ""
    episodes = result.spec.eval_episodes
    return f"Mean return {finite.mean():.6g} of {seeds} in the last evaluation, {episodes} episodes each{failed}."


def _options(spec: RunSpec) -> dict[str, Any]:
    """Return the options of a run for a preset. Those that a selector gives another meaning are left out."""
    names = [name for name in OPTIONS if name in RunSpec.__dataclass_fields__]
    if spec.selector is not None:
        names = [name for name in names if name not in ("seeds", "evaluations")]
    options = {name: getattr(spec, name) for name in names}
    options["steps"] = spec.first_steps or spec.steps
    return {name: value for name, value in options.items() if value or name in ("seed", "evaluations")}


def _fields(name: str, fields: Mapping[str, Any], registry: Registry, prefix: str) -> Iterator[str]:
    """Yield the lines for fields: first those that differ from the defaults, where the class is registered."""
    changed = changed_fields(name, fields, registry) if ":" not in name else fields
    usual = {path: value for path, value in fields.items() if path not in changed}
    what = "environment" if prefix else "agent"
    for values, title in ((changed, f"# Fields of the {what}"), (usual, f"# Fields of the {what} that have defaults")):
        if values:
            yield from ("", title)
            yield from lines_of({path: _as_toml(value) for path, value in values.items()}, prefix)


def _merged(fields: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return described fields with other values by path, also inside of descriptions."""
    merged = dict(fields)
    for path, value in values.items():
        name, _, inner = path.partition(".")
        merged[name] = _replaced(merged[name], inner, describe(value)) if inner else describe(value)
    return merged


def _replaced(described: Any, path: str, value: Any) -> Any:
    if not path:
        return value
    name, _, inner = path.partition(".")
    if isinstance(described, tuple):
        return tuple(_replaced(part, inner, value) if str(i) == name else part for i, part in enumerate(described))
    part = _replaced(described.fields.get(name), inner, value)
    return dataclasses.replace(described, fields={**described.fields, name: part})


def _scaled(spec: RunSpec, path: str, value: Any) -> Any:
    """Return a value of a hyperparameter; where the run gave it a schedule, the schedule with this number as peak."""
    given = [setting[path] for setting in spec.settings() if path in setting] or [spec.fields.get(path)]
    if not any(is_written(one) for one in given):
        return value
    if len(set(given)) > 1:
        raise ValueError(f"{path} has several schedules in this run, and the curves do not say which a member has.")
    return with_peaks(Scheduled.of(given[0]), value).written()


def _number(spec: RunSpec, path: str, value: np.generic) -> Any:
    """Return a hyperparameter of the curves in the kind that its field has: the name of a choice, a whole number."""
    agent, env = separate({path: None})
    name, registry = next(iter(env or agent)), ENVS if env else AGENTS
    of = spec.env if env else spec.agent
    field = registry[of].cls.__dataclass_fields__.get(name) if ":" not in of else None
    if field is not None and (names := info_of(field).names):
        return names[int(value)]
    if field is not None and isinstance(field.default, bool):
        return bool(value)
    if float(value).is_integer() and (field is None or isinstance(field.default, int)):
        return int(value)
    return float(str(np.float32(value)))  # the shortest number that is this one in 32 bits


def _as_toml(described: Any) -> Any:
    """Return a description as data for TOML, in the form that `preset_table` reads."""
    if described is None:
        return NONE
    if isinstance(described, tuple):
        return [_as_toml(part) for part in described]
    if not isinstance(described, Described):
        return described
    if described.kind == "array":
        return to_json(described)
    fields = {name: _as_toml(part) for name, part in described.fields.items()}
    return {described.kind: described.name, **({"fields": fields} if fields else {})}


def _holds_arrays(described: Described) -> bool:
    return any(part.kind == "array" for _, part in inside(described))


def _comment(sentences: Sequence[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(
            sentence, LINE, initial_indent="# ", subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
        )
