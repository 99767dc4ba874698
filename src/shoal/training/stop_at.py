"""The option `stop_at`: a member, or with `stop_at_mean` the run, ends when its evaluation reaches a return."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from shoal.specs.spec import RunSpec
from shoal.training.run_state import RunState


class Reached(NamedTuple):
    """The members and the run that end after an evaluation, because it reached `stop_at`."""

    members: Bool[np.ndarray, "M"]  # those that reached it now, for the first time
    end: str  # why the run ends; empty if it goes on


def reached_goal(
    spec: RunSpec, state: RunState, returns: Float[np.ndarray, "M"], alive: Bool[np.ndarray, "M"]
) -> Reached:
    """Return which members end after an evaluation with these mean returns, and whether the run does.

    The run ends when every member has reached `stop_at` or is not `alive`; with `stop_at_mean` when the mean return of
    all members reaches it. A spec without `stop_at` ends nothing.
    """
    goal, none = spec.stop_at, np.zeros(len(returns), bool)
    if goal is None:
        return Reached(none, "")
    if spec.stop_at_mean:
        mean = returns[~state.roster.is_idle].mean()
        text = f"the mean return of the members, {mean:.4g}, has reached {goal:g}"
        return Reached(none, text if mean >= goal else "")
    new = (returns >= goal) & ~state.has_reached
    is_over = (state.has_reached | new | ~alive).all()
    return Reached(new, f"no member is left that has not reached {goal:g}" if is_over else "")
