"""Extend a run: resume it with more steps than it was started with."""

from shoal.core.agent import Agent
from shoal.core.struct import hyper_fields
from shoal.training.folder import RunFolder
from shoal.training.spec import RunSpec


def extend(folder: RunFolder, spec: RunSpec, agent: Agent) -> str:
    """Write the steps of `spec` to the folder if they are more than before. Returns a message, or an empty text.

    The summary of the shorter run is removed first, because a run with a summary counts as complete.
    """
    data = folder.read_json("spec.json")
    before = data["steps"]
    if spec.steps <= before:
        return ""
    (folder.path / "summary.json").unlink(missing_ok=True)
    folder.write_json("spec.json", {**data, "steps": spec.steps, "first_steps": spec.first_steps})
    return f"goes on from {before:,} to {spec.steps:,} steps{_changed(spec, agent, before)}"


def _changed(spec: RunSpec, agent: Agent, before: int) -> str:
    """Return a message about the schedules that span the whole run, since they change; empty where there are none."""
    spanning = [
        name
        for name, field in hyper_fields(agent).items()
        if field.metadata["spans_run"] and name not in spec.varying and not spec.fields.get(name, field.default)
    ]
    if not spanning:
        return ""
    return (
        f"; {' and '.join(spanning)} was as long as the run, so its schedule spans {spec.steps:,} steps from here on, "
        f"not {before:,}: its value becomes that of a run of this length"
    )
