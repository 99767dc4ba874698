"""A checkpoint of a run: everything that it needs to go on with the same bits, written and read as one value."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from shoal.core.agent import Metrics
from shoal.core.errors import CheckpointError
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.plan import Plan
from shoal.training.policy import policy_states, upgraded
from shoal.training.records import Records
from shoal.training.run_state import RunState

NEWEST = 2  # checkpoints that are kept beside those of `keep_checkpoints`: if the newest is damaged, there is another


class Snapshot(NamedTuple):
    """A run between two updates."""

    members: Any  # [M], from `Population.to_host`; None in `write`, because every process writes its own
    state: RunState
    records: Records
    totals: Metrics | None  # sums since the newest record, if a part of a chunk is done: from `Population.totals`
    seconds: float  # since the run began
    is_over: bool


def write(snapshot: Snapshot, write_members: Callable[[Path], dict[str, Any]], plan: Plan, folder: RunFolder) -> None:
    """Write a checkpoint, and remove older ones that are no longer needed; `write_members` as in `checkpoint.save`."""
    state, records = snapshot.state, len(snapshot.records)
    about = {
        **state.data(),
        "env_revision": plan.env.revision,
        "agent_revision": plan.agent.revision,
        "records": records,
        "curves": snapshot.records.fingerprint(),
        "wall_seconds": snapshot.seconds,
        "over": snapshot.is_over,
    }
    parts = {
        checkpoint.RUN: state.arrays(),
        **({} if snapshot.totals is None else {checkpoint.TOTALS: snapshot.totals}),
    }
    every = plan.spec.keep_checkpoints
    stays = every > 0 and records % every == 0 and snapshot.totals is None
    path = folder.checkpoint(state.updates)
    checkpoint.save(path, parts, folder.spec_hash, about, stays=stays, write_more=write_members)
    checkpoint.keep_newest(folder.checkpoints, NEWEST)


def parts_of(population: Any) -> dict[str, Any]:
    """Return the parts of a checkpoint that hold the members of a population of this process: all, and policies."""
    members = population.to_host()
    agents = population.plan.batched(population.roster).agent
    return {checkpoint.LEARNERS: members, checkpoint.POLICIES: policy_states(agents, members.state)}


def read(path: Path, plan: Plan, folder: RunFolder, population: Any, first: RunState) -> Snapshot:
    """Read a checkpoint of the run in a folder, and the curves up to it.

    `population` is that of the plan and gives the shapes; `first` is the state with which the run began. Raises
    CheckpointError or DamagedError if the checkpoint or the curves are damaged or of another run.
    """
    about, spec = checkpoint.read_about(path), folder.spec_hash
    members = checkpoint.restore(path, checkpoint.LEARNERS, population.shapes(), spec)
    _check_revision(plan, policy_states(plan.batched(first.roster).agent, members.state), about)
    arrays = checkpoint.restore(path, checkpoint.RUN, first.arrays(), spec)
    records = Records.load(folder, plan.members, about["records"], about["curves"])
    state, totals = first.restored(about, arrays), None
    if state.updates * plan.agent.steps_per_update > records.env_steps:
        totals = checkpoint.restore(path, checkpoint.TOTALS, population.no_totals(), spec)
    seconds = about.get("wall_seconds") or float(records.columns["wall_seconds"][-1])
    return Snapshot(members, state, records, totals, seconds, about.get("over", False))  # older ones lack both


def _check_revision(plan: Plan, policies: Any, about: Mapping[str, Any]) -> None:
    """Raise CheckpointError if the weights of a checkpoint mean something else to this revision of the agent."""
    now = upgraded(plan.agent, policies, about)
    if now is not policies and not all(map(np.array_equal, jax.tree.leaves(now), jax.tree.leaves(policies))):
        raise CheckpointError(
            f"this run was trained by an older revision of {plan.spec.agent}, to which its weights mean something "
            f"else, so it cannot go on. Its policies can be evaluated, and a new run can begin with them: --init RUN, "
            f"or init= in Python."
        )
