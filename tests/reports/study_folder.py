"""A small study folder as `shoal tune` and its results write it, made by hand for tests of reports."""

import csv
import json
from pathlib import Path

RUN = {"agent": "ppo", "env": "CartPole-v1", "fields": {"num_steps": 32}, "env_fields": {}, "steps": 20_000, "seeds": 4}
SEARCH = {"learning_rate": [1e-4, 1e-1, "log"], "clip": [0.1, 0.3, "linear"], "optimizer": ["adam", "sgd"]}
ASKED = {"name": "cart", "run": RUN, "search": SEARCH, "trials": 8, "parallel": 4, "sampler": "tpe"}
ASKED |= {"pruner": "hyperband", "score": "mean", "storage": "postgresql://me:secret@db.example.org/studies"}
HEAD = ["number", "state", "score", "records", "worker", "group", "seconds", "learning_rate", "clip", "optimizer"]
ROWS = [
    [0, "COMPLETE", 120.5, 20, "a", 0, 3.1, 0.001, 0.2, "adam"],
    [1, "COMPLETE", 310.25, 20, "a", 0, 3.2, 0.003, 0.15, "adam"],
    [2, "PRUNED", 22.0, 4, "b", 1, 0.7, 0.09, 0.3, "sgd"],
    [3, "COMPLETE", 480.0, 20, "b", 0, 3.3, 0.004, 0.22, "adam"],
    [4, "FAIL", "", 0, "b", 0, 0.1, 0.05, 0.11, "sgd"],
    [5, "COMPLETE", 410.0, 20, "a", 0, 3.0, 0.006, 0.25, "adam"],
    [6, "RUNNING", "", 3, "a", 0, 0.5, 0.005, 0.21, "adam"],
]
BEST = '["CartPole-v1"]\nsteps = 20_000\nevidence = "trial 3"\nlearning_rate = 0.004\n'


def write_study(folder: Path, rows: list = ROWS, head: list[str] = HEAD, **changes) -> Path:
    """Write the folder of a study with these trials; `changes` replace entries of study.json."""
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps({**ASKED, **changes}))
    with open(folder / "trials.csv", "w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    workers = {"a": {"chunks": 20, "seconds": 60.0, "busy": 0.95, "busy_until_last": 0.99, "training": 0.8}}
    best = {"number": 3, "score": 480.0, "values": {"learning_rate": 0.004}}
    summary = {"trials": {"complete": 4, "pruned": 1, "fail": 1}, "best": best, "workers": workers}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "best.toml").write_text(BEST)
    return folder
