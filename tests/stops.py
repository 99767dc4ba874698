"""Requests to stop that come while a chunk is trained, and the comparison of the runs that were stopped."""

import json
import os
import signal

import numpy as np

import shoal
from shoal.training import checkpoint, pieces
from shoal.training.host_population import HostPopulation
from shoal.training.population import Population
from shoal.training.sharing import SharedPopulation


class Request:
    """Raises SIGINT, as Ctrl-C does, while update `at` of a run is trained. Every piece of a chunk is one update."""

    def __init__(self, monkeypatch):
        """Begin without a request."""
        self.at = 0
        monkeypatch.setattr(pieces, "LONGEST", 1e-9)
        for kind in (Population, HostPopulation, SharedPopulation):
            monkeypatch.setattr(kind, "advance", self._noticing(kind.advance))

    def _noticing(self, advance):
        def advanced(population, clock, updates):
            assert updates == 1
            if self.at == clock + 1:
                self.at = 0
                os.kill(os.getpid(), signal.SIGINT)
            return advance(population, clock, updates)

        return advanced


def assert_stopped_within_a_record(folder, updates, records):
    """The newest checkpoint was made after so many updates and records, and holds the sums of the record."""
    newest = checkpoint.newest(folder / "checkpoints")
    about = checkpoint.read_about(newest)
    assert (about["updates"], about["records"]) == (updates, records)
    assert checkpoint.file_of(newest, checkpoint.TOTALS).exists()


def assert_same_run(folder, other):
    """All numbers of two runs are the same, except times."""
    (arrays, lines), (expected, expected_lines) = map(everything_in, (folder, other))
    assert arrays.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert arrays[name].dtype == array.dtype, name
    assert lines == expected_lines


def everything_in(folder):
    """(arrays of the newest checkpoint, of the best policies and of the curves by name; the lines of metrics.jsonl)."""
    found = {}
    for place in (checkpoint.newest(folder / "checkpoints"), folder / "checkpoints" / "best"):
        for path in place.glob("*.npz"):
            with np.load(path) as file:
                found |= {f"{place.name}/{path.stem}/{name}": file[name] for name in file.files}
    curves = {name: curve for name, curve in shoal.load_result(folder).curves.items() if name != "wall_seconds"}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return found | curves, [{**line, "wall_seconds": 0} for line in lines]
