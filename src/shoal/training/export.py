"""Export one trained policy to a small folder, to share it. The policies of the zoo are such folders.

It can be used like a run folder with one member (`shoal.load`, `shoal eval`, `shoal render`, `shoal play`). It holds
the spec, the provenance, the learning curve, and the weights that acting needs. Nothing in it is ever unpickled.
"""

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsIndex

import jax
import numpy as np

from shoal.core.kinds import checked_kinds
from shoal.core.registry import AGENTS, ENVS
from shoal.ops.running import RunningStats
from shoal.specs.changes import changed_fields
from shoal.specs.settings import AgentEnv, get, separate, setting_in_words
from shoal.specs.sources import keep, without_folders
from shoal.specs.spec import RunSpec, opaque_fields, resolved, short
from shoal.training import checkpoint, curve_files
from shoal.training.folder import RunFolder, hash_of_spec
from shoal.training.plan import Plan
from shoal.training.policy import Policies, checkpoint_of, load_policies
from shoal.training.policy_formats import check_format, return_in_words, write_portable
from shoal.training.records import member_scores
from shoal.training.result import Result

LICENCE = "shoal, which wrote the code, and the policies of its zoo: Apache-2.0. Other weights: as their owner says."
ABSOLUTE_FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^/\s:=,]+/)+")  # in a word of a command line: `/home/me/` of a file


@checked_kinds()
def export(
    run: Path | str,
    out: Path | str,
    member: SupportsIndex | str = "best",
    which: str = "last",
    half: bool = False,
    *,
    format: str = "shoal",
    trust_source: bool = False,
) -> Path:
    """Write one member's policy to the folder `out` and return it.

    `member` is a number, or "best": the member whose last evaluation is highest, or with `which="best"` the one whose
    best evaluation is. Of a run that is not finished, the last policy is that of the newest checkpoint. With `half`,
    weights are kept in half precision, which needs half the space: actions may then differ a little, while the scores
    in the folder are those of full precision. `trust_source` is as in `shoal.load`. The folder names no folder of this
    machine: a Python file of your own is in it as a copy, which `trust_source` then allows to run.

    Another `format` than "shoal" makes a folder for programs without shoal, with `policy.py`, a README that says what
    the policy is, and its weights: "numpy" (NumPy alone is needed), "torch", "onnx" (ONNX Runtime), "jax" (a program of
    `jax.export`). Its class `Policy` returns the best action for an observation, as `shoal.load` does.

    Raises FileExistsError if `out` holds a run already, CheckpointError for a run without a checkpoint, and
    ValueError for one with parts that no file can describe, or that the format cannot hold.
    """
    check_format(format, half)
    result = Result(run)
    if opaque := opaque_fields(result.spec):
        raise ValueError(f"{run} cannot be exported: no file can hold {', '.join(opaque)}, given in Python.")
    chosen, members = result.number_of(member, which), result.spec.members
    if not 0 <= chosen < members:
        raise ValueError(f"member={member!r} is unknown: give 'best', or a number from 0 to {members - 1}.")
    plan, policies = load_policies(run, which, trust_source=trust_source)
    curves = _curves_of(result, chosen)
    summary = _summary_of(result, curves, policies.names[chosen], chosen, plan.agent.steps_per_update)
    if format != "shoal":
        about = _card(result, plan, policies, chosen, which, int(curves["env_steps"][-1]))
        return write_portable(policies[chosen], Path(out), format, about)
    folder = RunFolder(out)
    folder.create("--out", "--out")
    about = {
        "run": result.folder.name,
        "member": chosen,
        "name": policies.names[chosen],
        "weights": which,
        "half": half,
        "agent_revision": plan.agent.revision,
    }
    weights = jax.tree.map(lambda x: np.asarray(x[chosen])[None], policies.weights)
    weights = jax.tree.map(_halved, weights, is_leaf=_is_statistic) if half else weights
    own = _spec_of(plan, policies, chosen)
    spec = without_folders(own).to_json()
    checkpoint.save(folder.policy, {checkpoint.POLICIES: weights}, hash_of_spec(spec), about)
    curve_files.write_whole(folder.path, curves, compressed=True)
    origin = RunFolder(run).read_json("provenance.json")
    argv = [ABSOLUTE_FOLDERS.sub("", word) for word in origin["argv"]]
    folder.write_json("provenance.json", {**origin, "argv": argv, "exported": about})
    folder.write_json("summary.json", summary)
    keep(folder.path, own)
    folder.write_json("spec.json", spec)  # last, because a folder with this file is complete
    return folder.path


def _is_statistic(part: Any) -> bool:
    return isinstance(part, RunningStats)


def _halved(part: Any) -> Any:
    """Return a float32 array in half precision; unchanged if it is too large for that, or an observation statistic."""
    if _is_statistic(part) or part.dtype != np.float32 or np.any(np.abs(part) > np.finfo(np.float16).max):
        return part
    return part.astype(np.float16)


def _spec_of(plan: Plan, policies: Policies, member: int) -> RunSpec:
    """Return the complete spec of a run with only this member's setting. Its seed index is in the provenance."""
    spec, setting = plan.spec, plan.settings[member // plan.spec.seeds]
    if plan.selector is not None:  # it may have changed the hyperparameters
        own = AgentEnv(policies[member].actor, policies[member].env)
        setting = {**setting, **{path: get(own, path) for path in plan.roster.hyperparameters}}
    fields, env_fields = separate(setting)
    one = dataclasses.replace(
        spec,
        fields={**spec.fields, **fields},
        env_fields={**spec.env_fields, **env_fields},
        sweep={},
        env_sweep={},
        points={},
        selector=None,
        seeds=1,
    )
    return resolved(one)


def _curves_of(result: Result, member: int) -> dict[str, np.ndarray]:
    """Return the curves of one member, up to the newest checkpoint: those of a run that goes on may be longer."""
    done = slice(None) if result.is_finished else slice(_newest_of(result)["records"])
    return {name: x[done] if x.ndim == 1 else x[done, member : member + 1] for name, x in result.curves.items()}


def _newest_of(result: Result) -> dict[str, Any]:
    return checkpoint.read_about(checkpoint_of(RunFolder(result.folder), "last"))


def _summary_of(
    result: Result, curves: Mapping[str, np.ndarray], name: str, member: int, steps_per_update: int
) -> dict[str, Any]:
    """Return the summary of one member: as in that of the run, or from its `curves` where the run is not finished."""
    steps = int(curves["env_steps"][-1])
    if result.is_finished:
        found = result.summary["per_member"][member]
    else:
        last, alive, newest = float(member_scores(dict(curves))[0]), bool(curves["alive"][-1, 0]), _newest_of(result)
        best, steps = newest["best_return"][member], newest["updates"] * steps_per_update
        found = {"name": name, "last": None if np.isnan(last) else last, "best": best, "alive": alive}
    one = {**found, "member": 0}
    score = _score(one["last"])
    setting = short(result.settings[member // result.spec.members_of_setting])
    return {
        "agent": result.spec.agent,
        "env": result.spec.env_name,
        "steps_per_member": steps,
        "episodes_per_evaluation": result.spec.eval_episodes,
        "members": 1,
        "last": score,
        "best": _score(one["best"]),
        "settings": [{"setting": setting, **score}],
        "per_member": [one],
    }


def _card(result: Result, plan: Plan, policies: Policies, member: int, which: str, steps: int) -> dict[str, str]:
    """Return the facts about a policy for the README of another format, as text by name."""
    own, provenance = _spec_of(plan, policies, member), RunFolder(result.folder).read_json("provenance.json")
    fields = own.fields if ":" in own.agent else changed_fields(own.agent, own.fields, AGENTS)
    env_fields = own.env_fields if ":" in own.env else changed_fields(own.env, own.env_fields, ENVS)
    state = "" if result.is_finished else " (the run is not finished)"
    return {
        "trained": f"{own.agent} on {own.env_name}, {steps:,} steps{state}",
        "return": return_in_words(policies[member], own.eval_max_steps),
        "agent": setting_in_words(short(fields)) or "default hyperparameters",
        "environment": setting_in_words(short(env_fields)),
        "run": f"{result.folder.name}, member {member} ({policies.names[member]}), {which} weights",
        "versions": ", ".join(f"{name} {version}" for name, version in provenance.get("packages", {}).items()),
        "licence": LICENCE,
    }


def _score(value: float | None) -> dict[str, Any]:
    """Return the score summary of one member; of none where it was never evaluated."""
    return {"members": 0} if value is None else {"members": 1, "mean": value, "min": value, "max": value}
