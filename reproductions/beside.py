"""Runs of the parts: commands of shoal, and other libraries beside it.

A library that cannot be measured here is a sentence on the page.
"""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple

from reproductions.reproduction import Need, NotMeasured, unmet
from reproductions.workspace import Workspace
from shoal.reports.words import counted
from shoal.training.result import Result, load_result


class Peer(NamedTuple):
    """Another library: its script in `benchmarks/workers`, and the packages that the script needs."""

    name: str
    script: str
    needs: Sequence[Need]
    beside: Sequence[str] = ()  # other packages whose versions are stated
    threads: int = 0  # of XLA; 0: one on each core


class Run(NamedTuple):
    """A run of shoal, in a process of its own."""

    seconds: float  # of the process, with imports and compilation
    cpu_seconds: float  # of all its threads together
    folder: Path
    command: str

    @property
    def result(self) -> Result:
        """The result that the run wrote into its folder."""
        return load_result(self.folder)


def measure_peer(work: Workspace, peer: Peer, notes: list[str], *words: Any) -> dict[str, Any] | None:
    """Return what a peer's script measured; None if it cannot run in `work.python`. `notes` get a sentence on it."""
    work.say(f"  {peer.name} {' '.join(map(str, words))}")
    missing, found = unmet(peer.needs, work.python), None
    try:
        if missing:
            sentence = f"not measured here: needs {' and '.join(need.in_words() for need in missing)}."
        else:
            found = work.peer(peer.script, *words, threads=peer.threads)
            names = ["python", *(need.what for need in peer.needs), *peer.beside]
            known = [f"{name} {found['versions'][name]}" for name in names if name in found["versions"]]
            sentence = f"{', '.join(known)}."
    except NotMeasured as error:
        sentence = f"not measured here: {error}."
    if f"{peer.name}: {sentence}" not in notes:
        notes.append(f"{peer.name}: {sentence}")
    return found


def run(work: Workspace, name: str, *words: Any) -> Run:
    """Run a command of shoal that writes a run folder of this name, without pictures."""
    words = (*words, "--no-figures", "--no-progress", "--name", name)
    command = shlex.join(["shoal", *map(str, words)])
    work.say(f"  {shorten(command, 110, placeholder=' ...')}")
    done = work.shoal(*words)
    return Run(done.seconds, done.cpu_seconds, work.folder / "runs" / name, command)


def train(work: Workspace, name: str, agent: str, env: str, *words: Any) -> Run:
    """Run `shoal train` without presets, and without evaluations unless `words` ask for them."""
    evaluations = () if "--evaluations" in words else ("--evaluations", 0)
    return run(work, name, "train", agent, env, *words, *evaluations, "--preset", "none")


def bench(work: Workspace, envs: Sequence[str], sizes: Sequence[int], *words: Any) -> dict[str, dict[int, float]]:
    """Run `shoal bench`: steps per second by environment and number of environments."""
    copies = " and ".join(f"{size:,}" for size in sizes)
    work.say(f"  shoal bench: {counted(len(envs), 'environment')}, {copies} copies in a call")
    work.shoal("bench", *envs, "--sizes", ",".join(map(str, sizes)), *words, "--out", "bench.json")
    rates: dict[str, dict[int, float]] = {env: {} for env in envs}
    for row in json.loads((work.folder / "bench.json").read_text())["rows"]:
        rates[row["env"]][row["num_envs"]] = row["steps_per_second"]
    return rates
