"""Measure what a record costs in a run of several processes: sending members to process 0, and saving them.

    python benchmarks/exchange.py [--mib 256] [--rounds 5] [--folder /dev/shm]
    python benchmarks/exchange.py --sizes

With `--sizes`, prints the bytes of one member of PPO and of DQN on CartPole. Without it, a second process sends its
members over loopback, as `--distributed` does where it does not see the run folder; then they are saved in a folder,
flushed to disk, in several ways, one after another in every round:

    checkpoint          as a run of one process saves them
    two processes       as a run of two processes saves them, in which each has so many and writes its own
    savez, then hash    the same file with `np.savez`, which is then read again for its SHA-256
    write               their bytes alone, to one file
    sha256              no file, only the hash of their bytes
    orbax               orbax's asynchronous checkpoint with its defaults (OCDBT, zarr, compressed), no hash
    orbax, plain        the same without compression

Printed are the median rate of each in MiB/s, from the first byte until the files have their final name and are flushed,
and the median CPU seconds of process 0, which other programs on the machine change less: of all its threads, and of its
main thread, which writes while another one hashes. The members of a process are 1,024, in 32 leaves of float32.
"""

import argparse
import hashlib
import logging
import multiprocessing
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shoal.specs.disk import flush
from shoal.training import checkpoint
from shoal.training.jobs import make_job
from shoal.training.memory import state_bytes
from shoal.training.processes import Peer, lasting

MEMBERS, LEAVES = 1_024, 32


def main() -> None:
    """Measure all rates and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256, help="size of the members of a process")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=".", help="where the files are saved, such as /dev/shm")
    parser.add_argument("--sizes", action="store_true", help="print the bytes of a member instead")
    options = parser.parse_args()
    if options.sizes:
        for agent in ("ppo", "dqn"):
            plan = make_job(agent, "CartPole-v1").plan()
            print(f"{agent}: {state_bytes(plan.agent, plan.env):,} bytes for each member")
        return
    logging.disable(logging.WARNING)  # of orbax
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = (server.getsockname()[1], options.mib, options.rounds)
        other = multiprocessing.get_context("spawn").Process(target=answer, args=arguments)
        other.start()
        peer = Peer("process 1", lasting(server.accept()[0]))
    peer.receive()  # it has made its members
    ways = {"checkpoint": save_checkpoint, "two processes": partial(save_in_two_processes, peer), **OTHERS}
    seconds: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ("receive", *ways)}
    for _ in range(options.rounds):
        peer.send({"call": "to_host"})
        members: list[Any] = []
        seconds["receive"].append(timed(receive, peer, members))
        for name, save in ways.items():
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                seconds[name].append(timed(save, Path(folder) / "step-1", members))
    other.join()
    print(f"{options.mib} MiB, medians of {options.rounds} rounds (slowest to fastest)")
    for name, rounds in seconds.items():
        wall, cpu, of_main = zip(*rounds, strict=True)
        mib = options.mib * (2 if name == "two processes" else 1)
        rates = [mib / second for second in (statistics.median(wall), max(wall), min(wall))]
        cpus = f"{statistics.median(cpu):.2f} CPU s, {statistics.median(of_main):.2f} of the main thread"
        print("{:18}{:7,.0f} MiB/s ({:,.0f} to {:,.0f})".format(name, *rates), f"  {cpus}")


def timed(run: Callable[..., object], *arguments: Any) -> tuple[float, float, float]:
    """Return the elapsed seconds of a call, and the CPU seconds of all threads and of this one."""
    elapsed, cpu, of_main = time.perf_counter(), time.process_time(), time.thread_time()
    run(*arguments)
    return time.perf_counter() - elapsed, time.process_time() - cpu, time.thread_time() - of_main


def receive(peer: Peer, members: list[Any]) -> None:
    """Receive the members of the other process."""
    members.extend(peer.receive()[1])


def save_checkpoint(path: Path, members: list[Any]) -> None:
    """Save the members as a run does."""
    checkpoint.save(path, {checkpoint.LEARNERS: members}, "", {})


def save_in_two_processes(peer: Peer, path: Path, members: list[Any]) -> None:
    """Save the members as process 0 of a run; the other process saves its own."""

    def write_members(folder: Path) -> dict[str, Any]:
        peer.send({"folder": str(folder.absolute())})
        entries = checkpoint.write_parts(folder, {checkpoint.LEARNERS: members})
        return {**entries, **peer.receive()[0]["entries"]}

    checkpoint.save(path, {}, "", {}, write_more=write_members)


def save_then_hash(path: Path, members: list[Any]) -> None:
    """Save the members with NumPy, and hash the file."""
    np.savez(path.with_suffix(".npz"), *members)
    checkpoint.hash_of_file(path.with_suffix(".npz"))
    flush(path.with_suffix(".npz"))


def write(path: Path, members: list[Any]) -> None:
    """Write the bytes of the members."""
    with open(path, "wb") as file:
        for member in members:
            file.write(member.data)
    flush(path)


def sha256(path: Path, members: list[Any]) -> None:
    """Hash the bytes of the members; no file is written."""
    del path
    digest = hashlib.sha256()
    for member in members:
        digest.update(member.data)


def save_orbax(path: Path, members: list[Any], **options: Any) -> None:
    """Save the members with orbax, and wait until they are complete; `options` are those of its handler."""
    import orbax.checkpoint as ocp  # flax needs it, so it is always installed

    with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path.absolute(), args=ocp.args.PyTreeSave(members))  # pyright: ignore[reportCallIssue]  # has fields
    for file in path.rglob("*"):
        flush(file)


def save_orbax_plain(path: Path, members: list[Any]) -> None:
    """Save the members with orbax without compression, which needs the third format of zarr."""
    save_orbax(path, members, use_zarr3=True, use_compression=False)


OTHERS = {
    "savez, then hash": save_then_hash,
    "write": write,
    "sha256": sha256,
    "orbax": save_orbax,
    "orbax, plain": save_orbax_plain,
}


def answer(port: int, mib: int, rounds: int) -> None:
    """The other process: send the members, or write them into a folder, as it is asked to."""
    peer = Peer("process 0", lasting(socket.create_connection(("127.0.0.1", port))))
    key = np.random.default_rng(0)
    members = [key.standard_normal((MEMBERS, mib * 2**18 // MEMBERS // LEAVES), np.float32) for _ in range(LEAVES)]
    peer.send({})
    for _ in range(2 * rounds):
        head, _ = peer.receive()
        if "folder" in head:
            entries = checkpoint.write_parts(Path(head["folder"]), {checkpoint.LEARNERS: members}, 1)
            peer.send({"entries": entries})
        else:
            peer.send({}, members)


if __name__ == "__main__":
    main()
