"""Measure what a record costs in a run of many records, such as an evolution: `python benchmarks/record_cost.py`.

Prints the CPU time of one record (curves and their hash) after `--records` records of `--members` members with the
columns of PPO and a selector, and of writing `curves.npz` whole, as a record would cost if it were not appended.
"""

import argparse
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from shoal.core.agent import Metrics
from shoal.rollouts.episodes import EpisodeStats
from shoal.training.folder import RunFolder
from shoal.training.records import Records

LOSSES = ("loss", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")
MEASURED = 500  # records that are timed


def main() -> None:
    """Print the seconds of a record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--members", type=int, default=64)
    options = parser.parse_args()
    members = options.members
    stats = jax.tree.map(lambda x: np.ones((members, *x.shape), x.dtype), EpisodeStats.zero())
    metrics = Metrics(stats, {name: np.zeros(members, np.float32) for name in LOSSES})
    slots = {
        "occupant": np.arange(members),
        "parent": np.arange(members),
        "learning_rate": np.ones(members, np.float32),
    }
    records, alive = Records(members), np.ones(members, bool)

    def add() -> None:
        records.append(len(records), float(len(records)), metrics, alive, None, slots)

    with tempfile.TemporaryDirectory() as path:
        folder = RunFolder(Path(path))
        for _ in range(options.records):
            add()
        start = time.process_time()
        records.save(folder)
        whole = time.process_time() - start
        start = time.process_time()
        for _ in range(MEASURED):
            add()
            records.save(folder)
            records.fingerprint()
        seconds = (time.process_time() - start) / MEASURED
    print(
        f"{options.records:,} records of {members} members: {1e3 * seconds:.2f} ms for a record, {whole:.2f} s for all"
    )


if __name__ == "__main__":
    main()
