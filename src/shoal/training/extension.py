"""A run that goes on beyond the steps that it was begun with."""

from shoal.core.agent import Agent
from shoal.core.struct import hyper_fields
from shoal.training.folder import RunFolder
from shoal.training.spec import RunSpec


def extend(folder: RunFolder, spec: RunSpec, agent: Agent) -> str:
    """Write down that a run goes on, where `spec` has more steps than its folder says. Returns what to tell the user.

    The summary of the shorter run is removed first: a run without one is known to be unfinished.
    """
    data = folder.read_json("spec.json")
    before = data["steps"]
    if spec.steps <= before:
        return ""
    (folder.path / "summary.json").unlink(missing_ok=True)
    folder.write_json("spec.json", {**data, "steps": spec.steps, "first_steps": spec.first_steps})
    return f"goes on from {before:,} to {spec.steps:,} steps{_changed(spec, agent, before)}"


def _changed(spec: RunSpec, agent: Agent, before: int) -> str:
    """Which schedules span the whole run, and so are another one now."""
    spanning = [
        name
        for name, field in hyper_fields(agent).items()
        if field.metadata["spans_run"] and name not in spec.varying and not spec.fields.get(name, field.default)
    ]
    if not spanning:
        return ""
    return (
        f"; {' and '.join(spanning)} was as long as the run, so what it schedules spans {spec.steps:,} steps from here "
        f"on, not {before:,}: it goes back to where a run of that length would be"
    )
