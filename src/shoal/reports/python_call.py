"""Python code that makes a run again."""

import math
from typing import Any

from shoal.reports.hyperparameters import fields_to_set
from shoal.specs.describe import Described
from shoal.specs.options import GIVEN, OPTIONS
from shoal.specs.settings import separate
from shoal.specs.spec import RunSpec

MOST_LISTED = 40  # settings that a call lists
ALWAYS = ("steps", "seeds", "seed")  # given even where they have their default values
FROM_SPEC = """\
from shoal.studies.runs import run_job
from shoal.training.folder import RunFolder
from shoal.training.jobs import job_from_spec

job = job_from_spec({path!r})
result = run_job(job, job.plan(), RunFolder("runs/again"))"""


def in_python(spec: RunSpec, path: str) -> str:
    """Return code that makes a run again: a call of `shoal.train` if literals describe the run, else from its spec.

    `path` is that of the run folder.
    """
    if not _is_literal(spec):
        return FROM_SPEC.format(path=path)
    options = {name: getattr(spec, name) for name in sorted(GIVEN, key=lambda name: name not in ALWAYS)}
    arguments: dict[str, Any] = {k: v for k, v in options.items() if k in ALWAYS or v != OPTIONS[k].default}
    fields, env_fields = separate(fields_to_set(spec))
    parts = {"fields": fields, "env_fields": env_fields, "sweep": spec.sweep, "env_sweep": spec.env_sweep}
    arguments |= {name: dict(part) for name, part in parts.items() if part}
    arguments |= {"settings": spec.settings()} if spec.points else {}
    lines = [f"    {name}={literal(value, deep=True)}," for name, value in arguments.items()]
    call = ["result = shoal.train(", f"    {spec.agent!r},", f"    {spec.env!r},", "    preset=None,", *lines, ")"]
    return "\n".join(["import shoal", "", *call])


def literal(value: Any, deep: bool = False) -> str:
    """Return a number, text, list, tuple or dict as Python code. With `deep`, each item of the outermost has a line."""
    between, start, end = (",\n        ", "\n        ", ",\n    ") if deep else (", ", "", "")
    if isinstance(value, dict):
        return f"{{{start}{between.join(f'{name!r}: {literal(part)}' for name, part in value.items())}{end}}}"
    if isinstance(value, list):
        return f"[{start}{between.join(map(literal, value))}{end}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return repr(value) if is_finite else f'float("{value}")'


def _is_literal(spec: RunSpec) -> bool:
    """Return whether a call of `shoal.train` with numbers, texts, lists and tuples describes the whole run."""
    if spec.selector is not None or spec.init or spec.branch or spec.first_steps or spec.devices_per_member:
        return False
    if ":" in spec.agent + spec.env or any(isinstance(part, Described) for _, part in spec.parts()):
        return False
    return not spec.points or not (len(spec.settings()) > MOST_LISTED or spec.sweep or spec.env_sweep)
