"""What a run tells the outside while it goes: override what you want to hear."""

from typing import Any


class Reporter:
    """Hears of everything a run does, and by default says nothing. `tracking/progress.py` has two that speak."""

    def compiling(self, plan: Any) -> None:
        """Compilation of a `training.plan.Plan` starts."""

    def compiled(self, seconds: float) -> None:
        """Compilation is over."""

    def record(self, done: int, line: dict[str, Any], steps_per_second: float, seconds_left: float) -> None:
        """A record was written; `done` updates of each member are behind us."""

    def message(self, text: str) -> None:
        """Something worth a sentence happened."""

    def finished(self, summary: dict[str, Any]) -> None:
        """The run is over."""

    def close(self) -> None:
        """No more will come, whether the run ended or was interrupted."""
