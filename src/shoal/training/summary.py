"""The scores and the speed of a run: its summary, and the numbers that displays show while it trains."""

from typing import Any

import numpy as np

from shoal.specs.settings import setting_in_words
from shoal.specs.spec import short
from shoal.training.lives import best_members, hyperparameters_in
from shoal.training.plan import Plan
from shoal.training.records import Records, member_scores, score_summary
from shoal.training.run_state import RunState


def summary_of(plan: Plan, state: RunState, records: Records, total_seconds: float) -> dict[str, Any]:
    """Return scores of the last and the best evaluation (overall, per setting, per member) and the times in s."""
    parts = {name: getattr(state, name) for name in ("compile_seconds", "train_seconds", "eval_seconds")}
    return {
        **results_of(plan, state, records),
        **parts,
        "other_seconds": total_seconds - sum(parts.values()),  # set up members, write records and checkpoints, select
        "total_seconds": total_seconds,
    }


def results_of(plan: Plan, state: RunState, records: Records) -> dict[str, Any]:
    """Return the parts of the summary that follow from the curves and the newest checkpoint."""
    curves = records.arrays()
    last = member_scores(curves)
    names, best = plan.names(state.roster), state.best_return
    return {
        "agent": plan.spec.agent,
        "env": plan.spec.env_name,
        "steps_per_member": state.updates * plan.agent.steps_per_update,
        "members": plan.members,
        "last": score_summary(last),
        "best": score_summary(np.where(np.isfinite(best), best, np.nan)),
        "settings": _scores_of_settings(plan, last),
        "per_member": [
            {"member": m, "name": names[m], "last": last[m], "best": best[m], "alive": bool(alive)}
            for m, alive in enumerate(curves["alive"][-1])
        ],
        **({"best_members": best_members(curves)} if hyperparameters_in(curves) else {}),
        "episodes_per_evaluation": plan.spec.eval_episodes,
        "longest_evaluation_episode": plan.horizon,
        "evaluation_episodes_cut_off": state.eval_cut,  # of all members together, in the last evaluation
        "steps_per_second": _steps_trained(plan, state) / max(state.train_seconds, 1e-9),
    }


def newest_of_settings(plan: Plan, records: Records) -> list[tuple[str, float]]:
    """Return (name, newest mean score) of every setting; nothing if there is only one setting, or a selector."""
    if plan.selector is not None or len(plan.settings) < 2:
        return []
    scores = records.newest_scores().reshape(len(plan.settings), -1).mean(axis=1)
    return [(setting_in_words(setting), float(score)) for setting, score in zip(plan.settings, scores, strict=True)]


def seconds_left(plan: Plan, state: RunState) -> float | None:
    """Return about how long the run will go on; None if only its selector knows."""
    if (expected := plan.expected_updates) is None:
        return None
    elapsed = state.train_seconds + state.eval_seconds
    return elapsed / state.updates * max(expected - state.updates, 0)


def _scores_of_settings(plan: Plan, scores: np.ndarray) -> list[dict[str, Any]]:
    """Summarize scores [M] for each setting; for all members together if a selector changes their settings."""
    if plan.selector is not None:
        return [{"setting": {}, **score_summary(scores)}]
    groups = np.split(scores, len(plan.settings))  # members are ordered by setting, then by seed
    pairs = zip(plan.settings, groups, strict=True)
    return [{"setting": short(setting), **score_summary(group)} for setting, group in pairs]


def _steps_trained(plan: Plan, state: RunState) -> int:
    """Return the environment steps that all members together took in this run."""
    born = state.roster.born if plan.spec.branch else 0
    updates = np.full(plan.members, state.updates) - born
    if state.reached is not None:
        updates = np.where(state.reached > 0, np.maximum(state.reached - born, 0), updates)
    return int(updates.sum()) * plan.agent.steps_per_update
