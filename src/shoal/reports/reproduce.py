"""How to make a run again, in what surroundings it was made, and its whole description."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.reports.facts import Facts
from shoal.reports.markup import render
from shoal.reports.page import Section, data_address
from shoal.reports.python_call import in_python
from shoal.reports.words import counted
from shoal.specs.spec import opaque_fields

LONGEST_SPEC = 200_000  # characters of spec.json that the page shows; a longer one can be saved from it


def reproduce_section(facts: Facts) -> Section:
    """Return the section on making the run again: the command that started it, its spec, and Python."""
    made = render(
        "reproduce",
        command=started_with(facts.provenance),
        again=f"shoal train --spec {shlex.quote(facts.given)}",
        python=in_python(facts.spec, facts.given),
        opaque=opaque_fields(facts.spec),
        saved=data_address("application/json", json.dumps(facts.spec_data, indent=1).encode()),
        sources=facts.spec.sources,
    )
    return Section("reproduce", "How to reproduce it", [made])


def provenance_section(facts: Facts) -> Section:
    """Return the section on where and when the run was made, and with which versions; and its spec."""
    made, summary = facts.provenance, facts.summary
    names = {"compile": "compiling", "train": "training", "eval": "evaluating", "other": "other work"}
    times = {words: summary.get(f"{name}_seconds") for name, words in names.items()}
    packages = dict(made.get("packages", {}))
    text = json.dumps(facts.spec_data, indent=1)
    content = render(
        "provenance",
        path=facts.given,
        made=made,
        times=", ".join(f"{seconds:,.1f} s {name}" for name, seconds in times.items() if seconds is not None),
        rate=summary.get("steps_per_second"),
        shoal=packages.pop("shoal", ""),
        packages=packages,
        devices=_devices(made),
        verified=facts.verified,
        spec=text if len(text) <= LONGEST_SPEC else "",
    )
    return Section("provenance", "Provenance", [content])


def started_with(provenance: Mapping[str, Any]) -> str:
    """Return the command line that started a run, empty if it is not known."""
    words = provenance.get("argv", [])
    if not words or not words[0]:
        return ""
    program = Path(words[0])
    if program.name in ("shoal", "__main__.py"):
        return shlex.join(["shoal", *words[1:]])
    return shlex.join(["python", *words]) if program.suffix == ".py" else shlex.join(words)


def _devices(made: Mapping[str, Any]) -> str:
    devices = made.get("devices", [])
    kinds = {kind: devices.count(kind) for kind in devices}
    words = ", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items())
    cores = f"{counted(made['cores'], 'core')}" if made.get("cores") else ""
    return ", ".join(filter(None, (words, cores)))
