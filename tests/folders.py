"""Folders of runs and of a study, made by hand without training, for tests of reports."""

import csv
import io
import json
from pathlib import Path

import numpy as np
from PIL import Image

PACKAGES = {"shoal": "0.1.0", "jax": "0.10.2", "numpy": "2.4.6"}
ARGV = ["/home/me/bin/shoal", "train", "ppo", "CartPole-v1", "--seeds", "4"]
PROVENANCE = {"time": "2026-01-02T03:04:05+0000", "argv": ARGV, "python": "3.11.7", "packages": PACKAGES}
PROVENANCE |= {"cpu": "A processor", "devices": ["cpu: cpu"], "xla_flags": "", "platform": "Linux", "commit": "0a" * 20}
SECONDS = {"compile_seconds": 1.0, "train_seconds": 2.0, "eval_seconds": 0.5, "total_seconds": 4.0}


def write_run(folder: Path, scores, records: int = 6, summary=True, provenance=PROVENANCE, columns=(), **spec) -> Path:
    """A run whose members have these scores [settings, seeds] in their last evaluation, and half of that before.

    In record t of R, member m returns (t + 1) / R of its score in training. `columns` are more columns of its curves.
    """
    scores = np.atleast_2d(np.asarray(scores, float))
    members = scores.reshape(-1)
    part = (np.arange(records)[:, None] + 1) / records
    train = part * members
    evaluated = np.full_like(train, np.nan)
    evaluated[-1], evaluated[records // 2 - 1] = members, members / 2
    curves = {"train_return": train, "alive": np.isfinite(train), "eval_return": evaluated, **dict(columns)}
    spec = {"agent": "ppo", "env": "CartPole-v1", "seeds": scores.shape[1], "steps": 1000 * records, **spec}
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(spec))
    steps, seconds = 1000 * (np.arange(records) + 1), 0.5 * np.arange(records)
    np.savez(folder / "curves.npz", env_steps=steps, wall_seconds=seconds, **curves)
    if provenance:
        (folder / "provenance.json").write_text(json.dumps(provenance))
    if summary:
        score = {"members": len(members)}
        each = [{"member": m, "name": "", "last": s, "best": s, "alive": True} for m, s in enumerate(members.tolist())]
        data = {"agent": spec["agent"], "env": spec["env"], "steps_per_member": spec["steps"], "members": len(members)}
        data |= {"episodes_per_evaluation": 100, "last": score, "best": score, "per_member": each, **SECONDS}
        data |= {"settings": [{"setting": {}, **score}] * len(scores), "steps_per_second": 12345.0}
        (folder / "summary.json").write_text(json.dumps({**data, **(summary if isinstance(summary, dict) else {})}))
    return folder


def change_curves(folder: Path, **changes) -> None:
    """Apply a function to arrays of `curves.npz`, in place."""
    with np.load(folder / "curves.npz") as file:
        arrays = {name: file[name] for name in file.files}
    for name, change in changes.items():
        change(arrays[name])
    np.savez(folder / "curves.npz", **arrays)


def gif(size: int = 8, frames: int = 2) -> bytes:
    """A GIF of a few pictures."""
    pictures = [Image.new("RGB", (size, size), (80 * i, 0, 0)) for i in range(frames)]
    file = io.BytesIO()
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:])
    return file.getvalue()


def write_population(folder: Path, selector: str = "pbt") -> Path:
    """Three slots over four records. After record 1 the member of slot 2 ends: a copy of the one in slot 0 replaces it.

    With "halving" it is dropped instead, and the slot is idle. Scores are 10, 20, 30, 40 in slot 0, 5, 5, 5, 5 in slot
    1, and 1, 2, then 35 and 45 of the copy in slot 2.
    """
    copied = selector == "pbt"
    after = [3, 3] if copied else [-1, -1]
    score = np.array(
        [[10, 5, 1], [20, 5, 2], [30, 5, 35 if copied else np.nan], [40, 5, 45 if copied else np.nan]], float
    )
    rate = np.array([[0.1, 0.01, 0.001]] * 2 + [[0.1, 0.01, 0.12 if copied else 0.001]] * 2)
    columns = {
        "train_return": score,
        "eval_return": score,
        "alive": np.ones((4, 3), bool),
        "occupant": np.array([[0, 1, 2], [0, 1, 2], [0, 1, after[0]], [0, 1, after[1]]]),
        "parent": np.array([[-1, -1, -1]] * 2 + [[-1, -1, 0 if copied else -1]] * 2),
        "learning_rate": rate,
    }
    chosen = {"selector": selector, "fields": {"every": 1, "vary": {"dict": "", "fields": {}}}}
    folder = write_run(folder, [[40, 5, 45]], records=4, columns=columns.items(), selector=chosen, summary=False)
    one = {"members": 3, "last": {"members": 3}, "best": {"members": 3}, "settings": [{"setting": {}, "members": 3}]}
    each = [{"member": m, "name": "", "last": 1.0, "best": 1.0, "alive": True} for m in range(3)]
    about = {"agent": "ppo", "env": "CartPole-v1", "steps_per_member": 4000, "episodes_per_evaluation": 100}
    (folder / "summary.json").write_text(json.dumps({**about, **one, "per_member": each}))
    return folder


def write_evolution(folder: Path) -> Path:
    """Two generations of two candidates, each of two seeds: fitness 4 and 15, then 10 and 30; it found a rate of 0.002.

    The first is the example of `tests/population/test_evolve.py`.
    """
    returns = np.array([[1, 5, 10, 20], [3, 7, np.nan, 20], [10, 10, 30, 30], [10, 10, 30, 30]], float)
    occupant = np.repeat(np.arange(8).reshape(2, 4), 2, axis=0)
    columns = {"train_return": returns, "eval_return": np.full((4, 4), np.nan), "alive": np.ones((4, 4), bool)}
    columns |= {"occupant": occupant, "parent": np.full((4, 4), -1), "learning_rate": np.full((4, 4), 0.001)}
    fields = {"every": 2, "seeds": 2, "fitness": "whole", "vary": [["learning_rate", 1e-4, 1e-2, "log"]]}
    chosen = {"class": "shoal.population.evolve:Evolve", "fields": fields}
    folder = write_run(folder, [[1, 5, 10, 20]], records=4, columns=columns.items(), selector=chosen)
    data = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(data))
    (folder / "found.json").write_text(json.dumps({"learning_rate": 0.002}))
    return folder


RUN = {"agent": "ppo", "env": "CartPole-v1", "fields": {"num_steps": 32}, "env_fields": {}, "steps": 20_000, "seeds": 4}
SEARCH = {"learning_rate": [1e-4, 1e-1, "log"], "clip": [0.1, 0.3, "linear"], "optimizer": ["adam", "sgd"]}
ASKED = {"name": "cart", "run": RUN, "search": SEARCH, "trials": 8, "parallel": 4, "sampler": "tpe"}
ASKED |= {"pruner": "hyperband", "score": "mean", "storage": "postgresql://me:secret@db.example.org/studies"}
HEAD = ["number", "state", "score", "records", "worker", "group", "seconds", "learning_rate", "clip", "optimizer"]
TRIALS = [
    [0, "COMPLETE", 120.5, 20, "a", 0, 3.1, 0.001, 0.2, "adam"],
    [1, "COMPLETE", 310.25, 20, "a", 0, 3.2, 0.003, 0.15, "sgd"],
    [2, "PRUNED", 22.0, 4, "b", 1, 0.7, 0.09, 0.3, "sgd"],
    [3, "COMPLETE", 480.0, 20, "b", 0, 3.3, 0.004, 0.22, "adam"],
    [4, "FAIL", "", 0, "b", 0, 0.1, 0.05, 0.11, "sgd"],
    [5, "COMPLETE", 410.0, 20, "a", 0, 3.0, 0.006, 0.25, "adam"],
    [6, "RUNNING", "", 3, "a", 0, 0.5, 0.005, 0.21, "adam"],
]
BEST = '["CartPole-v1"]\nsteps = 20_000\nevidence = "trial 3"\nlearning_rate = 0.004\n'


def write_study(folder: Path, trials: list = TRIALS, head: list[str] = HEAD, fresh=None, **changes) -> Path:
    """A study with these trials. `fresh` are the scores of the best one on new seeds; `changes` are for study.json."""
    folder.mkdir(parents=True)
    (folder / "study.json").write_text(json.dumps({**ASKED, **changes}))
    with open(folder / "trials.csv", "w", newline="") as file:
        csv.writer(file).writerows([head, *trials])
    workers = {"a": {"chunks": 20, "seconds": 60.0, "busy": 0.95, "busy_until_last": 0.99, "training": 0.8}}
    best = {"number": 3, "score": 480.0, "values": {"learning_rate": 0.004}}
    summary = {"trials": {"complete": 4, "pruned": 1, "fail": 1}, "best": best, "workers": workers}
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "best.toml").write_text(BEST)
    if fresh is not None:
        write_run(folder / "fresh", fresh)
    return folder
