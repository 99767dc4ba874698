"""How to make a run again, in what surroundings it was made, and its whole description."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.reports.facts import Facts
from shoal.reports.markup import Html, code_block, joined, pairs, tag
from shoal.reports.page import Section, data_address, folded
from shoal.reports.python_call import in_python
from shoal.reports.words import counted
from shoal.specs.spec import opaque_fields

LONGEST_SPEC = 200_000  # characters of spec.json that the page shows; a longer one can be saved from it


def reproduce_section(facts: Facts) -> Section:
    """Return the section on making the run again: the command that started it, its spec, and Python."""
    spec, parts = facts.spec, []
    if command := started_with(facts.provenance):
        parts += [tag("p", "It was started with this command:"), code_block(command)]
        if not command.startswith("shoal "):
            parts.append(
                tag("p", "This is a script of the user's own, which the run folder does not hold.", class_="soft")
            )
    whole = json.dumps(facts.spec_data, indent=1)
    saved = tag("a", "spec.json", href=data_address("application/json", whole.encode()), download="spec.json")
    if opaque := opaque_fields(spec):
        names = joined((tag("code", path) for path in opaque), ", ")
        words = " cannot be written to a file (a lambda, or a class of a notebook): give it again in Python."
        parts.append(tag("p", "The spec alone does not repeat this run: ", names, words))
    else:
        about = (
            " holds every field of this run, defaults too. This command repeats it from its folder, also with a "
            "later version of shoal; with a copy of the file saved from this page, give the path of the copy:"
        )
        parts += [tag("p", saved, about), code_block(f"shoal train --spec {shlex.quote(facts.shown_path)}")]
        parts += [
            tag("p", "The same in Python, with this version of shoal:"),
            code_block(in_python(spec, facts.shown_path)),
        ]
    if spec.sources:
        files = joined((tag("code", path) for path in spec.sources), ", ")
        parts.append(
            tag("p", "It needs ", files, ", of which the run folder keeps a copy in ", tag("code", "source/"), ".")
        )
    same = (
        "With the same versions of shoal and JAX on the same kind of machine, the result is the same to the last bit. "
        "Elsewhere rounding may differ, and single seeds may then learn differently."
    )
    parts.append(tag("p", same, class_="soft"))
    return Section("reproduce", "How to reproduce it", parts)


def provenance_section(facts: Facts) -> Section:
    """Return the section on where and when the run was made, and with which versions; and its spec."""
    made, summary = facts.provenance, facts.summary
    packages = made.get("packages", {})
    times = {
        "compiling": summary.get("compile_seconds"),
        "training": summary.get("train_seconds"),
        "evaluating": summary.get("eval_seconds"),
        "other work": summary.get("other_seconds"),
    }
    known = ", ".join(f"{seconds:,.1f} s {name}" for name, seconds in times.items() if seconds is not None)
    rate = summary.get("steps_per_second")
    rows = [
        ("folder", tag("code", facts.shown_path)),
        ("started", str(made.get("time", "")).replace("T", " ")),
        ("time", known),
        ("speed", f"{rate:,.0f} environment steps per second, while training" if rate else None),
        ("shoal", _version(packages, made)),
        ("packages", ", ".join(f"{name} {version}" for name, version in packages.items() if name != "shoal")),
        ("Python", made.get("python")),
        ("machine", ", ".join(filter(None, (made.get("cpu"), made.get("platform"))))),
        ("devices", _devices(made)),
        ("revision of the environment", made.get("env_revision")),
        ("XLA flags", tag("code", made["xla_flags"]) if made.get("xla_flags") else None),
        ("exported from", _origin(made)),
    ]
    parts: list[Any] = [pairs(rows)]
    if not made:
        parts = [tag("p", "The folder has no provenance.json, so versions and machine are not known.")]
    text = json.dumps(facts.spec_data, indent=1)
    if len(text) <= LONGEST_SPEC:
        parts.append(folded("The whole spec", tag("pre", tag("code", text), class_="long", tabindex="0")))
    return Section("provenance", "Provenance", parts)


def started_with(provenance: Mapping[str, Any]) -> str:
    """Return the command line that started a run, empty if it is not known."""
    words = provenance.get("argv", [])
    if not words or not words[0]:
        return ""
    program = Path(words[0])
    if program.name in ("shoal", "__main__.py"):
        return shlex.join(["shoal", *words[1:]])
    return shlex.join(["python", *words]) if program.suffix == ".py" else shlex.join(words)


def _version(packages: Mapping[str, str], made: Mapping[str, Any]) -> Any:
    commit = made.get("commit", "")
    version = packages.get("shoal", "")
    return joined([version, ", commit ", tag("code", commit[:12])]) if commit else version


def _devices(made: Mapping[str, Any]) -> str:
    devices = made.get("devices", [])
    kinds = {kind: devices.count(kind) for kind in devices}
    words = ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items())
    cores = f"{counted(made['cores'], 'core')}" if made.get("cores") else ""
    return ", ".join(filter(None, (words, cores)))


def _origin(made: Mapping[str, Any]) -> Html | None:
    if not (origin := made.get("exported")):
        return None
    return joined([f"member {origin.get('member')} ({origin.get('name')}) of ", tag("code", str(origin.get("run")))])
