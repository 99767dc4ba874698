"""One run in several processes: each trains its share of the members; process 0 does everything else too.

Process 0 runs the loop of the run, with `SharedPopulation` in place of `Population`: each of its methods asks all
processes to do the same with their share, and joins the results. Process 0 reads all files, prints and decides. The
other processes run `run_follower`: they wait for a call of process 0, carry it out, and send the result. They need no
access to the run folder. A process that has it writes its share of a checkpoint itself; otherwise it sends its share.
"""

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.agent import Metrics
from shoal.core.env import Key
from shoal.core.keys import make_key
from shoal.specs.roster import Roster
from shoal.specs.selector import FRESH, REST
from shoal.specs.spec import RunSpec, differences
from shoal.training import checkpoint
from shoal.training.folder import RunFolder, json_ready, versions
from shoal.training.jobs import Job
from shoal.training.placement import make_placement
from shoal.training.plan import Plan
from shoal.training.population import Population, joined
from shoal.training.processes import Group, Peer
from shoal.training.program import Member
from shoal.training.result import Result
from shoal.training.snapshot import parts_of
from shoal.training.stopping import Stopped, stop_requests

# Methods of `Population`: those that process 0 calls in all processes as they are, and others.
JOINED = ("begin", "advance", "end_record", "evaluate", "ages", "to_host", "totals", "no_totals")
CALLS = (*JOINED, "compile", "renew", "load", "load_totals")


def _joined(name: str) -> Any:
    """Return a method that calls the one of this name in all processes, and joins what they return."""

    def method(self: "SharedPopulation", *arguments: Any) -> Any:
        return joined(self._call(name, *arguments))

    return method


class SharedPopulation:
    """The members of M slots in several processes, for process 0. The methods are those of `Population`."""

    def __init__(self, plan: Plan, run_key: Key, group: Group) -> None:
        """Set up the share of process 0. Nothing is compiled, and no member begins."""
        self.peers = group.peers
        self._shares = shares(plan.members, group.size)
        self.own = Population(share(plan, group), run_key)
        self._all = Population(plan, run_key)  # for hyperparameters and shapes of all members; it has no agent states
        self.stop_signal = 0  # the number of a signal that asked another process to stop; 0: none

    def compile(self) -> float:
        """Compile the programs of all processes; return the seconds that this took in process 0."""
        return self._call("compile")[0]

    begin, advance, end_record, evaluate, ages, to_host, totals, no_totals = map(_joined, JOINED)

    def load_totals(self, totals: Metrics) -> None:
        """Continue a record with the sums that came from `totals`."""
        self._call("load_totals", of_members=(totals,))

    def apply(self, source: np.ndarray, roster: Roster, *, new_episodes: bool = False) -> None:
        """Carry out a turnover. Members are copied from process to process through process 0."""
        slots = np.arange(len(source))
        copied = (source >= 0) & (source != slots)
        if copied.any():
            rows = np.where(copied, source, slots)
            self.load(jax.tree.map(lambda x: x[rows], self.to_host()), roster)
        self._all.set_roster(roster)
        self._call("renew", new_episodes, of_members=(copied, source == FRESH, source == REST, roster))

    def load(self, members: Member, roster: Roster) -> None:
        """Replace all members by `members`, which come from `to_host`, and the roster by theirs."""
        self._all.set_roster(roster)
        self._call("load", of_members=(members, roster))

    def shapes(self) -> Member:
        """Return the shapes and dtypes of `to_host()`, without running anything."""
        return self._all.shapes()

    def _call(self, name: str, *same: Any, of_members: tuple = ()) -> list[Any]:
        """Call a method of the population of every process and return all results, in the order of the slots.

        All processes get the arguments `same`. Of those `of_members`, with leaves [M, ...], each gets its own rows.
        """
        rows = [jax.tree.map(lambda x, s=slots: x[s], of_members) for slots in self._shares]
        for peer, of_peer in zip(self.peers, rows[1:], strict=True):
            peer.send({"call": name}, jax.tree.leaves((same, of_peer)))
        results = [getattr(self.own, name)(*same, *rows[0])]
        structure = jax.tree.structure(results[0])
        for peer in self.peers:
            head, leaves = peer.receive()
            self.stop_signal = self.stop_signal or head["signal"]
            results.append(jax.tree.unflatten(structure, leaves))
        return results


def write_members(population: Any, folder: Path) -> dict[str, Any]:
    """Write the members of all processes and their policies into the folder of a checkpoint, as `write_parts`.

    Every other process writes its own, if it sees the folder. Otherwise process 0 receives and writes them.
    """
    own, peers = (population.own, population.peers) if isinstance(population, SharedPopulation) else (population, ())
    for peer in peers:
        peer.send({"folder": str(folder.absolute())})
    parts = parts_of(own)
    structure, entries = jax.tree.structure(parts), checkpoint.write_parts(folder, parts)
    for number, peer in enumerate(peers, 1):
        head, leaves = peer.receive()
        population.stop_signal = population.stop_signal or head["signal"]
        written = head["entries"]
        entries |= written or checkpoint.write_parts(folder, jax.tree.unflatten(structure, leaves), number)
    return entries


def shares(members: int, processes: int) -> list[slice]:
    """Return the slots of each process: M slots in order, with sizes that differ by at most one."""
    ends = [members * n // processes for n in range(processes + 1)]
    return [slice(start, end) for start, end in zip(ends, ends[1:], strict=False)]


def share(plan: Plan, group: Group) -> Plan:
    """Return the plan of the members that this process trains."""
    slots = shares(plan.members, group.size)[group.number]
    members, wave = slots.stop - slots.start, plan.members_at_a_time
    return dataclasses.replace(
        plan,
        roster=jax.tree.map(lambda x: x[slots], plan.roster),
        waves=[slice(start, min(start + wave, members)) for start in range(0, members, wave)],
        placement=make_placement(
            min(members, wave),
            plan.spec.block,
            on_mesh=plan.placement.mesh is not None,
            members_per_call=plan.agent.members_per_call,
            weights_per_step=plan.agent.weights_per_step,
            split=plan.placement.split,
        ),
    )


@contextmanager
def leading(group: Group, folder: RunFolder) -> Iterator[None]:
    """Run the block in process 0, and tell the other processes how it ended: complete, stopped, or with an error."""
    if not group.peers:
        yield
        return
    try:
        yield
    except Stopped as stop:
        _tell(group.peers, {"stopped": stop.signal, "text": str(stop)})
        raise
    except ConnectionError as error:
        again = f" Continue, with any number of processes: shoal train --resume {folder.path}"
        text = f"{error}{again * folder.has('spec.json')}"
        _leave(group.peers, text)
        raise ConnectionError(text) from None
    except BaseException as error:
        _leave(group.peers, str(error) or type(error).__name__)
        raise
    _tell(group.peers, {"complete": str(folder.path.absolute())})


def run_follower(job: Job, plan: Plan, group: Group) -> Any:
    """Train this process's share of the members for process 0, until the run ends. Returns its `Result`.

    Returns `RemoteResult` if this process cannot read the run folder. Raises Stopped as process 0 does, and
    ConnectionError if the run failed.
    """
    (leader,) = group.peers
    population = Population(share(plan, group), make_key(plan.spec.seed, plan.spec.prng))
    with stop_requests(lambda text: print(f"process {group.number}: {text}", file=sys.stderr)) as stop:
        while True:
            head, leaves = leader.receive()
            if "stopped" in head:
                raise Stopped(head["text"], head["stopped"])
            if "complete" in head:
                return _result(head["complete"], job, leader)
            try:
                entries, result = _answer(population, head, leaves, group.number)
            except Exception as error:
                leader.send({"error": f"{type(error).__name__}: {error}"})
                raise
            leader.send({"signal": stop.signal, "entries": entries}, jax.tree.leaves(result))


def check_same_run(specs: Sequence[RunSpec], group: Group) -> None:
    """Raise ValueError, in all processes, if they do not have the same versions, devices and specs of runs."""
    if group.size == 1:
        return
    own = {"versions": versions(), "platform": jax.local_devices()[0].platform, "specs": [s.to_json() for s in specs]}
    own = json.loads(json.dumps(json_ready(own)))  # as the others receive it
    if group.number:
        (leader,) = group.peers
        leader.send(own)
        refusal = leader.receive()[0]["refusal"]
    else:
        others = [(peer.name, peer.receive()[0]) for peer in group.peers]
        refusal = next((text for name, other in others if (text := _why_untrusted(own, name, other))), "")
        _tell(group.peers, {"refusal": refusal})
    if refusal:
        raise ValueError(refusal)


class RemoteResult:
    """The result of `train` in a process that cannot read the run folder. Every use raises FileNotFoundError."""

    def __init__(self, folder: str, where: str) -> None:
        """`folder` is the path in process 0, which `where` names."""
        self._text = f"{folder} was written by {where}, and this process cannot read it: use the result there."

    def __getattr__(self, name: str) -> Any:
        raise FileNotFoundError(self._text)

    def __repr__(self) -> str:
        return f"<RemoteResult: {self._text}>"


def _answer(population: Population, head: dict[str, Any], leaves: list[Any], number: int) -> tuple[dict, Any]:
    """Carry out a message of process 0: (entries in the manifest of a checkpoint, a tree of arrays), one of them empty.

    If process `number` cannot write its share into the folder of the checkpoint, it returns the parts as arrays.
    """
    if "folder" not in head:
        return {}, _carry_out(population, head["call"], leaves)
    parts, folder = parts_of(population), Path(head["folder"])
    with suppress(OSError):  # such as a folder that only process 0 may write
        if folder.is_dir():
            return checkpoint.write_parts(folder, parts, number), ()
    return {}, parts


def _carry_out(population: Population, name: str, leaves: list[Any]) -> Any:
    """Call a method of `CALLS`; `leaves` are the leaves of its arguments."""
    if name not in CALLS:
        raise ValueError(f"process 0 asks for {name!r}, which is not known here.")
    arguments: Any = leaves
    if name == "load":
        arguments = jax.tree.unflatten(jax.tree.structure((population.shapes(), population.roster)), leaves)
    elif name == "load_totals":
        arguments = [jax.tree.unflatten(jax.tree.structure(population.no_totals()), leaves)]
    elif name == "advance":
        arguments = map(int, leaves)
    elif name == "renew":
        arguments = jax.tree.unflatten(jax.tree.structure((0, 0, 0, 0, population.roster)), leaves)
        arguments = (bool(arguments[0]), *arguments[1:])
    return getattr(population, name)(*arguments)


def _result(path: str, job: Job, leader: Peer) -> Any:
    with suppress(OSError, ValueError):  # the path may lead to another run on the disk of this machine
        if RunFolder(path).read_spec() == job.spec:
            return Result(path, job.agent, job.env)
    return RemoteResult(path, leader.name)


def _why_untrusted(own: dict[str, Any], name: str, other: dict[str, Any]) -> str:
    """Return a message about the first difference between another process and process 0; empty if there is none."""
    if "asks for" in other:
        return (
            f"{name} was started for another run than process 0: it reads {other['asks for']}. Give all processes the "
            "same arguments."
        )
    for package, version in own["versions"].items():
        if (found := other["versions"].get(package)) != version:
            return f"{name} has {package} {found}, process 0 has {version}: install the same versions everywhere."
    if other["platform"] != own["platform"]:
        return (
            f"{name} computes on {other['platform']}, process 0 on {own['platform']}: set JAX_PLATFORMS to the same "
            "for all processes."
        )
    if len(other["specs"]) != len(own["specs"]):
        return f"{name} was started for {len(other['specs'])} runs, process 0 for {len(own['specs'])}."
    for here, there in zip(own["specs"], other["specs"], strict=True):
        if here != there:
            changes = differences(RunSpec.from_json(here), RunSpec.from_json(there)) or ["their files differ"]
            return (
                f"{name} was started for another run than process 0 ({'; '.join(changes)}): give all processes the "
                "same arguments and the same files of your own."
            )
    return ""


def _tell(peers: Sequence[Peer], head: dict[str, Any]) -> None:
    for peer in peers:
        with suppress(ConnectionError):
            peer.send(head)


def _leave(peers: Sequence[Peer], error: str) -> None:
    _tell(peers, {"error": error})
    for peer in peers:
        peer.close()
