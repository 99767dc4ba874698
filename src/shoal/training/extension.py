"""Changes of a resumed run: it may get more steps, and the options `MAY_CHANGE` may be others."""

from shoal.core.agent import Agent
from shoal.core.struct import hyper_fields, info_of, schedules_in
from shoal.specs.options import MAY_CHANGE, OPTIONS
from shoal.specs.spec import RunSpec
from shoal.training.folder import RunFolder


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
    return f"ends at {spec.steps:,} steps now, no longer at {before:,}{_changed(spec, agent, before)}"


def change_options(folder: RunFolder, spec: RunSpec) -> str:
    """Write the options that may change to the folder. Returns a message about those that change results, or "".

    Checkpoints do not depend on them.
    """
    data = folder.read_json("spec.json")
    now = {name: getattr(spec, name) for name in MAY_CHANGE}
    before = {name: data.get(name, OPTIONS[name].default) for name in MAY_CHANGE}
    if now == before:
        return ""
    folder.write_json("spec.json", {**data, **{name: value for name, value in now.items() if value != before[name]}})
    of_member, earlier = now["devices_per_member"], before["devices_per_member"]
    if of_member == earlier:
        return ""
    return (
        f"devices for each member: {of_member or 1} now, no longer {earlier or 1}; from here on other samples share a "
        "minibatch, so the results differ from those of a run that was not stopped"
    )


def _changed(spec: RunSpec, agent: Agent, before: int) -> str:
    """Return a message about the schedules that span the whole run, since they change; empty where there are none."""
    spanning = [
        name
        for name, field in hyper_fields(agent).items()
        if info_of(field).spans_run and name not in spec.varying and not spec.fields.get(name, field.default)
    ]
    spanning += [f"the schedule of {name}" for name in schedules_in(agent)]
    if not spanning:
        return ""
    return (
        f"; schedules span all steps of a run, so from here on {' and '.join(spanning)} is that of a run of "
        f"{spec.steps:,} steps"
    )
