"""A sink that writes each record as a line of JSON: the file `metrics.jsonl` of a run folder."""

import json
from pathlib import Path
from typing import Any

from shoal.tracking.events import Event, Recorded, Sink


class JsonLines(Sink):
    """Appends a line to a file for every record."""

    def __init__(self, path: Path) -> None:
        """Append to this file, or create it."""
        self.path = path

    def receive(self, event: Event) -> None:
        if isinstance(event, Recorded):
            with open(self.path, "a") as file:  # no fsync: a resumed run writes the file again from its curves
                file.write(as_line(event.line))


def as_line(record: Any) -> str:
    """Return a record as a line of JSON, with the newline."""
    return json.dumps(record) + "\n"
