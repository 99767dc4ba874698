"""Measure what a record costs in a run of several processes: sending members to process 0, and saving them.

    python benchmarks/exchange.py [--mib 256] [--rounds 3]
    python benchmarks/exchange.py --sizes

With `--sizes`, prints the bytes of one member of PPO and of DQN on CartPole. Without it, a second process sends its
members over loopback, as `--distributed` does; then they are saved as a checkpoint. The median rate of each is printed
in MiB/s. The members are 1,024 vectors of float32.
"""

import argparse
import multiprocessing
import socket
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from shoal.training import checkpoint
from shoal.training.jobs import make_job
from shoal.training.memory import state_bytes
from shoal.training.processes import Peer, lasting

MEMBERS = 1_024


def main() -> None:
    """Measure both rates and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256, help="size of all members together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", action="store_true", help="print the bytes of a member instead")
    options = parser.parse_args()
    if options.sizes:
        for agent in ("ppo", "dqn"):
            plan = make_job(agent, "CartPole-v1").plan()
            print(f"{agent}: {state_bytes(plan.agent, plan.env):,} bytes for each member")
        return
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = (server.getsockname()[1], options.mib, options.rounds)
        other = multiprocessing.get_context("spawn").Process(target=send, args=arguments)
        other.start()
        peer = Peer("process 1", lasting(server.accept()[0]))
    receiving, saving = [], []
    for _ in range(options.rounds):
        peer.send({"call": "to_host"})
        started = time.perf_counter()
        _, members = peer.receive()
        receiving.append(options.mib / (time.perf_counter() - started))
        with tempfile.TemporaryDirectory(dir=".") as folder:
            started = time.perf_counter()
            checkpoint.save(Path(folder) / "step-1", {checkpoint.LEARNERS: members}, "", {})
            saving.append(options.mib / (time.perf_counter() - started))
    other.join()
    print(
        f"{options.mib} MiB, medians of {options.rounds}: received from another process at "
        f"{statistics.median(receiving):,.0f} MiB/s, saved as a checkpoint at {statistics.median(saving):,.0f} MiB/s"
    )


def send(port: int, mib: int, rounds: int) -> None:
    """The other process: send the members whenever it is asked to."""
    peer = Peer("process 0", lasting(socket.create_connection(("127.0.0.1", port))))
    members = np.random.default_rng(0).standard_normal((MEMBERS, mib * 2**18 // MEMBERS), np.float32)
    for _ in range(rounds):
        peer.receive()
        peer.send({"signal": 0}, [members])


if __name__ == "__main__":
    main()
