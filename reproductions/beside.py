"""Measure other libraries beside shoal; one that cannot be measured here is a sentence on the page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from reproductions.reproduction import Need, NotMeasured, unmet
from reproductions.workspace import Workspace
from shoal.training.result import Result, load_result


class Peer(NamedTuple):
    """Another library: its script in `benchmarks/workers`, and the packages that the script needs."""

    name: str
    script: str
    needs: Sequence[Need]
    beside: Sequence[str] = ()  # other packages whose versions are stated
    threads: int = 0  # of XLA; 0: one on each core


class Trained(NamedTuple):
    """A training run in a process of its own."""

    seconds: float  # of the process, with imports and compilation
    result: Result
    command: str


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


def train(work: Workspace, name: str, agent: str, env: str, *words: Any) -> Trained:
    """Train with `shoal train` in a fresh process, without presets, pictures and evaluations (unless `words` ask)."""
    fixed = ("--preset", "none", "--no-figures", "--no-progress", "--name", name)
    evaluations = () if "--evaluations" in words else ("--evaluations", 0)
    command = ("train", agent, env, *words, *evaluations, *fixed)
    shown = f"shoal {' '.join(map(str, command))}"
    work.say(f"  {shown}")
    done = work.shoal(*command)
    return Trained(done.seconds, load_result(work.folder / "runs" / name), shown)
