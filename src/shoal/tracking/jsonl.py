"""Records as lines of JSON: `metrics.jsonl` of a run folder, which `tail -f` follows."""

import json
from pathlib import Path
from typing import Any

from shoal.tracking.events import Event, Recorded, Sink


class JsonLines(Sink):
    """Appends a line to a file for every record."""

    def __init__(self, path: Path) -> None:
        """Write to this file, which need not exist yet."""
        self.path = path

    def hear(self, event: Event) -> None:
        """Append a record."""
        if isinstance(event, Recorded):
            with open(self.path, "a") as file:  # not flushed: a resumed run writes the file anew from its curves
                file.write(as_line(event.line))


def as_line(record: Any) -> str:
    """One record as a line of JSON."""
    return json.dumps(record) + "\n"
