"""The selector of a run at work: which changes of the population it asks for, from the state and the records."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import numpy as np

from shoal.core.keys import Key, stream
from shoal.specs.describe import describe, to_json
from shoal.specs.selector import Standing, Turnover, check_turnover, taken_turnover
from shoal.training.lives import newest_returns, training_returns
from shoal.training.plan import Plan, schedule_of
from shoal.training.run_state import RunState


class Selection:
    """The selector of a plan, with its random keys; without a selector nothing changes.

    Only its own state changes here. The run carries out the turnovers.
    """

    def __init__(self, plan: Plan, run_key: Key) -> None:
        """Use the selector of a plan."""
        self._plan, self._selector, self._key = plan, plan.selector, run_key

    @cached_property
    def _is_scored_by_evaluations(self) -> bool:
        return schedule_of(self._plan).is_scored_by_evaluations

    def first_state(self) -> RunState:
        """Return the state of a run that begins."""
        return RunState.first(self._plan.roster, self._selector, stream(self._key, "selector"))

    def fill(self, state: RunState) -> tuple[RunState, Turnover | None]:
        """Return the state before a chunk, and the turnover that the selector asks for then; None for no change."""
        if self._selector is None:
            return state, None
        selector_state, turnover = self._selector.fill(state.selector, state.roster)
        if turnover is not None:
            check_turnover(turnover, state.roster)
        return state.replace(selector=selector_state), turnover

    def is_due(self, record: int) -> bool:
        """Return whether the selector is asked after this record: it is every `selector.every` records."""
        return self._selector is not None and (record + 1) % self._selector.every == 0

    def select(
        self, state: RunState, record: int, ages: np.ndarray, alive: np.ndarray, columns: Mapping[str, Any]
    ) -> tuple[RunState, Turnover]:
        """Return the state after a record for which the selector is due, and its turnover.

        `ages` [M] are the updates of the members, `alive` [M] says whether they are finite. `columns` are those of all
        records so far.
        """
        assert self._selector is not None
        standing = Standing(
            record=record,
            updates=state.updates,
            roster=state.roster,
            age=ages,
            score=newest_returns(columns, record, of_evaluations=self._is_scored_by_evaluations),
            alive=alive & ~state.roster.is_idle,
            returns=training_returns(columns, record, self._selector.every),
        )
        key = jax.random.fold_in(stream(self._key, "select"), record)
        selector_state, turnover = taken_turnover(self._selector.select(state.selector, standing, key), standing)
        return state.replace(selector=selector_state), turnover

    def found(self, state: RunState) -> dict[str, Any]:
        """Return the values that the selector has found so far, by path, as data for JSON."""
        found = {} if self._selector is None else self._selector.found(state.selector, state.roster)
        return {path: to_json(describe(value)) for path, value in found.items()}

    def columns(self, state: RunState) -> dict[str, np.ndarray]:
        """Return the columns [M] of a record that only runs with a selector have.

        These are the occupant, the selector's own columns, the parent, and after it the hyperparameters.
        """
        if self._selector is None:
            return {}
        roster, own = state.roster, self._selector.columns(state.selector)
        return {"occupant": roster.occupant, **own, "parent": roster.parent, **roster.numbers}
