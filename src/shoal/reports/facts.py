"""The data of one run folder for a report. Only the spec must be there; damage to other parts becomes a warning."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.errors import CheckpointError
from shoal.reports.markup import Html, with_code
from shoal.reports.words import counted, few
from shoal.specs.describe import Described
from shoal.training.folder import RunFolder
from shoal.training.generations import is_evolution, planned_steps
from shoal.training.layers import Layer, saved_layers
from shoal.training.records import member_scores, score_summary
from shoal.training.result import Result
from shoal.training.verification import ALTERED, in_words
from shoal.viz.run_data import RunData


class Facts:
    """The files of one run. Raises FileNotFoundError if there is no run, DamagedError for a damaged spec."""

    def __init__(self, folder: Path | str, *, trust_source: bool = False) -> None:
        """Read the spec, the curves and the summary. `trust_source` is for found values, as in `Result`."""
        self.given = str(folder)  # as the user wrote it, for commands
        self.result = Result(folder, trust_source=trust_source)
        self.data = RunData(folder)
        self.spec = self.result.spec
        self.spec_data: dict[str, Any] = RunFolder(folder).read_json("spec.json")  # as the file has it
        self.folder = self.result.folder
        self.name = self.given if self.given.startswith("zoo:") else self.folder.resolve().name
        self._damages: list[str] = []
        self.curves: dict[str, np.ndarray] = self._read(lambda: self.result.curves, {})
        self.summary: dict[str, Any] = self._read(lambda: self.result.summary, {}) if self.is_finished else {}
        self.provenance: dict[str, Any] = self._read(lambda: RunFolder(folder).read_json("provenance.json"), {})
        self.verified: str = self._read(lambda: in_words(RunFolder(folder)), "")

    def _read(self, read: Any, otherwise: Any) -> Any:
        try:
            return read()
        except CheckpointError as error:
            self._damages.append(str(error))
        except FileNotFoundError:
            pass  # a warning about the steps that are done says so
        return otherwise

    @property
    def is_finished(self) -> bool:
        """Whether the run is complete."""
        return self.result.is_finished

    @property
    def is_evolution(self) -> bool:
        """Whether the run was made by `shoal.evolve`."""
        return is_evolution(self.result)

    @property
    def has_lives(self) -> bool:
        """Whether a selector could copy and replace members."""
        return "occupant" in self.curves and not self.is_evolution

    @property
    def selector(self) -> str:
        """The name of the selector; empty for a run without one."""
        described = self.spec.selector
        return described.name.rpartition(":")[2] if isinstance(described, Described) else ""

    @property
    def title(self) -> str:
        """The agent and the environment."""
        return f"{self.data.agent} on {self.spec.env_name}"

    @property
    def members(self) -> int:
        """The number of members, M."""
        return self.spec.members

    @cached_property
    def scores(self) -> np.ndarray:
        """The mean return [M] of each member's last evaluation; NaN without one."""
        return member_scores(self.curves) if self.curves else np.full(self.members, np.nan)

    @cached_property
    def best_scores(self) -> np.ndarray:
        """The mean return [M] of each member's best evaluation; NaN without one."""
        return member_scores(self.curves, "best") if self.curves else np.full(self.members, np.nan)

    @cached_property
    def alive(self) -> np.ndarray:
        """Bool [M]: members that were not stopped because of NaN or infinity."""
        return np.asarray(self.curves["alive"][-1], bool) if "alive" in self.curves else np.ones(self.members, bool)

    @cached_property
    def score_of_settings(self) -> list[dict[str, Any]]:
        """The summary of the last evaluation of every setting; of all members together if a selector changes them."""
        groups = np.split(self.scores, len(self.result.settings))
        return [score_summary(group) for group in groups]

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers of a member's policy; none without a checkpoint that can be read."""
        try:
            return saved_layers(RunFolder(self.folder))
        except CheckpointError:
            return []

    @property
    def is_evaluated(self) -> bool:
        """Whether at least one member has been evaluated."""
        return bool(np.isfinite(self.scores).any())

    @property
    def steps_done(self) -> int:
        """The environment steps for which each member was trained so far."""
        return int(self.curves["env_steps"][-1]) if self.curves and len(self.curves["env_steps"]) else 0

    @property
    def seconds(self) -> float | None:
        """The seconds that the run took, as far as they are known."""
        if "total_seconds" in self.summary:
            return self.summary["total_seconds"]
        return float(self.curves["wall_seconds"][-1]) if self.steps_done else None

    def warnings(self) -> list[Html]:
        """Return what a reader must know before trusting the numbers of this run."""
        notes = [with_code(damage) for damage in self._damages]
        if not self.is_finished:
            notes.append(self._unfinished())
        if stopped := np.flatnonzero(~self.alive).tolist():
            notes.append(
                Html(
                    "<strong>{:,} of {} {} stopped early</strong>, because a loss or a weight became infinite or NaN: "
                    "member{} {}. Their last finite weights were evaluated."
                ).format(
                    len(stopped),
                    counted(self.members, "member"),
                    "was" if len(stopped) == 1 else "were",
                    "s" * (len(stopped) > 1),
                    few(stopped),
                )
            )
        if cut := self.summary.get("evaluation_episodes_cut_off"):
            episodes = self.summary["episodes_per_evaluation"] * self.summary["last"]["members"]
            notes.append(
                Html(
                    "<strong>{:,} of {} did not end</strong> within {:,} steps, so their returns are those up to this "
                    "step. <code>--eval-max-steps</code> sets this limit."
                ).format(
                    cut, counted(episodes, "evaluation episode"), self.summary.get("longest_evaluation_episode", 0)
                )
            )
        if self.verified.startswith(ALTERED):
            words = "<strong>The files of this run contradict each other</strong>; <code>shoal verify</code>: {}."
            notes.append(Html(words).format(self.verified))
        if self.curves and not self.is_evaluated and self.is_finished and not self.is_evolution:
            notes.append(Html("The run was trained without evaluations: all returns are those of training."))
        return notes

    def _unfinished(self) -> Html:
        done = "Its first record was never written, so there is nothing to show but its description."
        if self.steps_done:
            planned, slot = planned_steps(self.result), "slot" if self.is_evolution else "member"
            share = f"{100 * self.steps_done / planned:.0f}\u00a0%"
            done = f"Every {slot} was trained for {self.steps_done:,} of {planned:,} steps ({share})."
        words = "<strong>This run is not finished.</strong> {} Continue it with <code>shoal train --resume {}</code>."
        return Html(words).format(done, self.given)
