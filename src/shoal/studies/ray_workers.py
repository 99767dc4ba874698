"""The workers of a study on the machines of a Ray cluster: an actor of Ray for each, which runs its process.

The actors count in Ray's accounts of CPUs and GPUs, and begin when a node has room. Each starts the same command as a
worker on this machine, with the interpreter of its node: a process of its own gets signals in its main thread, and sets
JAX up before it imports it. All nodes must see the folder of the study.
"""

import dataclasses
import logging
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from shoal.core.errors import need
from shoal.studies.worker_processes import News, Statuses, WorkerProcess
from shoal.training.stopping import handled

MOST_ON_A_CLUSTER = 1000
POLLED = 0.5  # seconds between two polls of the actors
CONNECT_SECONDS = 10
SEEN_SECONDS = 10.0  # after which a file must be visible on all machines of a shared file system
WAITED = 15.0  # seconds without a place for a worker, after which a message says so
REFUSED, LOST = 2, 128 + 9  # statuses of workers that could not begin, and of those whose actor or node died
# The process of a worker gets SIGTERM if its actor dies (1 is PR_SET_PDEATHSIG, which exec keeps), as Ray does not end
# the processes of an actor that was killed. Ray blocks signals in its processes, which their children inherit.
# Arguments: the actor's process, the cores, the command.
PRELUDE = """
import ctypes, os, signal, sys
parent, cores, *command = sys.argv[1:]
signal.pthread_sigmask(signal.SIG_SETMASK, [])
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 15)
if os.getppid() != int(parent):
    sys.exit("the actor has ended")
if cores:
    os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
os.execv(command[0], command)
"""


class RayWorker(WorkerProcess):
    """An actor of Ray, with the process of a worker on its node."""

    def node(self) -> tuple[str, str]:
        """The name of this machine, and Ray's name of the node."""
        ray = need("ray", "ray", "a worker on a cluster")
        return socket.gethostname(), ray.get_runtime_context().get_node_id()

    def start(
        self,
        command: Sequence[str],
        folder: str,
        proof: str,
        directory: str,
        env: Mapping[str, str],
        cores: range,
        gpus: float,
    ) -> str:
        """Start the process. Returns why it cannot, as the end of a sentence, or an empty text.

        command: its first word is replaced by the interpreter of this node. folder: gets the file with the output.
        proof: a file that the driver has written, which must be visible here. directory: where the process runs, if it
        exists here. env: further variables. cores: which of the cores of this machine it uses, all if there are fewer.
        gpus: how many of them Ray gave this actor, which has set CUDA_VISIBLE_DEVICES; with 0 JAX uses the CPU.
        """
        end = time.monotonic() + SEEN_SECONDS
        while not Path(proof).exists():
            if time.monotonic() > end:
                return f"does not see the folder {Path(proof).parent}: all nodes need a file system that they share"
            time.sleep(0.2)
        variables = dict(env)
        if not gpus:
            variables.setdefault("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
        elif gpus < 1:  # several workers share its memory
            share = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * gpus:.2f}")
            variables.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", share)
        mine = ",".join(map(str, _cores()[cores.start : cores.stop])) if cores.stop <= len(_cores()) else ""
        words = [sys.executable, "-c", PRELUDE, str(os.getpid()), mine, sys.executable, *command[1:]]
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.begin(words, Path(folder), variables, directory if Path(directory).is_dir() else folder)
        except OSError as error:
            return f"cannot begin in {folder}: {error.strerror or error}"
        return ""


def _cores() -> list[int]:
    """The cores of this machine that this process may use; none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


class _Worker:
    """A worker as the driver sees it."""

    def __init__(self, actor: Any) -> None:
        self.actor, self.pending = actor, actor.node.remote()  # pending: the answer that is waited for
        self.began, self.is_placed, self.has_begun = time.monotonic(), False, False
        self.node, self.share = "", 0  # Ray's name of the node, and which share of its cores the worker has


def check_cluster(address: str, cpus: int, gpus: float) -> None:
    """Raise ValueError for an address or for numbers that `RayWorkers` cannot take. Nothing is connected."""
    if cpus < 1:
        raise ValueError(f"--worker-cpus {cpus}: a worker needs at least 1.")
    if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
        raise ValueError(f"--worker-gpus {gpus:g}: give 0, a part of a GPU such as 0.5, or a whole number.")
    host, colon, port = address.rpartition(":")
    if address != "auto" and not (colon and host and port.isdigit() and "/" not in host):
        raise ValueError(f"--ray {address}: give `auto`, or the address of the cluster as in --ray 10.0.0.1:6379.")


class RayWorkers:
    """A connection to a cluster, on which `run` places workers. Close it at the end."""

    def __init__(self, address: str = "auto", cpus: int = 1, gpus: float = 0.0) -> None:
        """Connect to the cluster. Each worker gets `cpus` CPUs and `gpus` GPUs; a fraction shares a GPU.

        address: "auto" is the cluster of this machine, or of the variable RAY_ADDRESS; otherwise "HOST:PORT". A
        connection that the program has already is used, and stays open.
        Raises ImportError where Ray is missing, ValueError where no cluster answers and for other numbers.
        """
        check_cluster(address, cpus, gpus)
        self.ray, self.cpus, self.gpus = need("ray", "ray", "--ray"), cpus, gpus
        self._is_ours = not self.ray.is_initialized()
        if not self._is_ours:
            return
        before = signal.getsignal(signal.SIGTERM)
        try:
            if address != "auto":  # otherwise Ray waits for a long time
                host, _, port = address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
            self.ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"--ray {address}: no cluster of Ray can be used there ({_first_line(error)}). Start one with `ray "
                f"start --head` on one machine and `ray start --address HOST:6379` on the others, this one included."
            ) from error
        finally:
            with suppress(ValueError):  # not the main thread
                signal.signal(signal.SIGTERM, before)

    def close(self) -> None:
        """Disconnect from the cluster, unless the program was connected before."""
        if self._is_ours:
            self.ray.shutdown()

    def run(
        self,
        commands: Mapping[str, Sequence[str]],
        folder: Path,
        say: Callable[[str], object],
        env: Mapping[str, str] | None = None,
    ) -> dict[str, int]:
        """Run one command for each worker, by name, as `worker_processes.run_workers` does on this machine.

        The first word of a command is replaced by the interpreter of the node. A worker begins when a node has room;
        one that has not begun when another ends with status 0, or when a signal asks to stop, does not begin any more.
        Returns the exit statuses: 137 for a worker whose actor or node died, 2 for one that could not begin. Variables
        are arguments of a call, because Ray shows those of an actor's environment on its pages.
        """
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        proof = folder / f".seen-{uuid.uuid4().hex}"
        proof.touch()
        signals: list[int] = []
        kind = self.ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_restarts=0)(RayWorker)
        workers: dict[str, _Worker] = {}
        try:
            with handled(lambda signum, frame: signals.append(signum)):
                workers |= {name: _Worker(kind.remote()) for name in commands}
                watch = _Watch(self, workers, commands, folder, proof, Statuses(commands, say), env or {})
                while watch.statuses.running:
                    watch.poll(signals)
                return watch.statuses.ended
        finally:
            for worker in workers.values():
                self.ray.kill(worker.actor)
            proof.unlink(missing_ok=True)


@dataclasses.dataclass
class _Watch:
    """Starts the processes of actors that have a place, and follows them until all have ended."""

    cluster: RayWorkers
    workers: Mapping[str, _Worker]
    commands: Mapping[str, Sequence[str]]
    folder: Path
    proof: Path
    statuses: Statuses
    env: Mapping[str, str]
    stop: int = 0  # the signal that asked to stop
    has_said_waiting: bool = False

    def poll(self, signals: list[int]) -> None:
        """Pass signals on, read the answers that have come, and ask again."""
        while signals:
            self.stop = signals.pop(0)
            for name in self.statuses.running:
                self.workers[name].actor.send.remote(self.stop)
        pending = {self.workers[name].pending: name for name in self.statuses.running}
        answers, _ = self.cluster.ray.wait([*pending], num_returns=len(pending), timeout=POLLED)
        for answer in answers:
            self._read(pending[answer], answer)
        is_finished = 0 in self.statuses.ended.values()
        for name in self.statuses.running:
            if not self.workers[name].is_placed and (self.stop or is_finished):
                self.statuses.end(name, 0 if is_finished else 128 + self.stop)
        self._say_waiting()
        if len(answers) == len(pending):
            time.sleep(POLLED)

    def _read(self, name: str, answer: Any) -> None:
        worker = self.workers[name]
        try:
            found = self.cluster.ray.get(answer)
        except self.cluster.ray.exceptions.RayError as error:
            if isinstance(error, self.cluster.ray.exceptions.ActorUnavailableError) and worker.has_begun:
                worker.pending = (
                    worker.actor.news.remote()
                )  # the network failed, or the actor died: the next answer says
                return
            if isinstance(error, self.cluster.ray.exceptions.RayTaskError) or not worker.is_placed:
                self._lose(name, REFUSED, f"cannot begin: {_last_line(error)}")
            else:
                self._lose(name, LOST, f"was lost, because its actor or node {worker.node[:8]} died")
            return
        if not worker.is_placed:
            self._start(name, *found)
        elif not worker.has_begun:
            if found:
                self._lose(name, REFUSED, found)
                return
            worker.has_begun = True
            worker.pending = worker.actor.news.remote()
            if self.stop:  # it came before the process began
                worker.actor.send.remote(self.stop)
        else:
            self._show(name, found)

    def _start(self, name: str, host: str, node: str) -> None:
        worker, cpus = self.workers[name], self.cluster.cpus
        taken = {self.workers[other].share for other in self.statuses.running if self.workers[other].node == node}
        worker.share = next(share for share in range(len(taken) + 1) if share not in taken)
        worker.node, worker.is_placed = node, True
        self.statuses.say(f"worker {name} is on {host} (node {node[:8]})")
        worker.pending = worker.actor.start.remote(
            list(self.commands[name]),
            str(self.folder / name),
            str(self.proof),
            os.getcwd(),
            dict(self.env),
            range(worker.share * cpus, (worker.share + 1) * cpus),
            self.cluster.gpus,
        )

    def _show(self, name: str, found: News) -> None:
        self.statuses.show(name, found)
        if found.status is None:
            self.workers[name].pending = self.workers[name].actor.news.remote()
        else:
            self.cluster.ray.kill(self.workers[name].actor)  # frees its CPUs for a worker that waits

    def _lose(self, name: str, status: int, how: str) -> None:
        self.cluster.ray.kill(self.workers[name].actor)
        self.statuses.end(name, status, how)

    def _say_waiting(self) -> None:
        now = time.monotonic()
        waiting = [
            name
            for name in self.statuses.running
            if not self.workers[name].is_placed and now - self.workers[name].began > WAITED
        ]
        if not waiting or self.has_said_waiting:
            return
        self.has_said_waiting = True
        nodes = [node["Resources"] for node in self.cluster.ray.nodes() if node["Alive"]]
        sizes = sorted((node.get("CPU", 0), node.get("GPU", 0)) for node in nodes)
        has = ", ".join(f"{cpus:g} and {gpus:g}" for cpus, gpus in sizes)
        self.statuses.say(
            f"{', '.join(waiting)}: waiting for a node with {self.cluster.cpus} free CPUs and {self.cluster.gpus:g} "
            f"GPUs; the nodes have {has}"
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].rstrip(".")
