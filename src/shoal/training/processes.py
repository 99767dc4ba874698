"""The processes of a run that is spread over several processes: how they find each other, and their messages.

`jax.distributed` connects the processes: it reads the variables of SLURM, Open MPI and Cloud TPU jobs, and waits until
all processes have started. Then each process disconnects from it and starts JAX on its own devices, because no compiled
program uses devices of two processes. After that, process 0 has one TCP connection to every other process, over which
arrays and JSON are sent, never code. When a process ends, its connections are closed, so the others notice it.
"""

import hmac
import json
import platform
import secrets
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import numpy as np
from jax._src.distributed import global_state  # JAX has no public name for the store that all processes can read

from shoal.core.keys import IMPLEMENTATIONS, is_key, key_words
from shoal.training.array_files import bytes_of

PATIENCE = 60  # seconds to wait for a connection, once all processes have started
# A machine that loses power does not close its connections. So after 30 s without data the system sends three probes in
# 30 s, and ends the connection if none is answered; also if sent data is not confirmed within 60,000 ms.
KEEPALIVE = {"SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}
LOOPBACK = ("127.0.0.1", "localhost")
LONGEST_GREETING = 1_000  # bytes
FORMS = "`auto` in a job of SLURM, Open MPI or Cloud TPU, or HOST:PORT,PROCESSES,NUMBER, such as 10.0.0.1:9700,4,0"


class Peer:
    """Another process of the run, at the other end of a connection."""

    def __init__(self, name: str, connection: socket.socket) -> None:
        """`name` is for messages, such as `process 1 on node7`."""
        self.name = name
        self._connection = connection

    def send(self, head: dict[str, Any], leaves: Sequence[Any] = ()) -> None:
        """Send data for JSON, and arrays or typed keys. Raises ConnectionError if the process is lost."""
        arrays = [np.asarray(key_words(leaf), order="C") for leaf in leaves]
        kinds = [_generator(leaf) if is_key(leaf) else "" for leaf in leaves]
        table = [[str(a.dtype), list(a.shape), kind] for a, kind in zip(arrays, kinds, strict=True)]
        try:
            _send_json(self._connection, {**head, "leaves": table})
            for array in arrays:
                self._connection.sendall(bytes_of(array))
        except OSError:
            raise self._lost() from None

    def receive(self) -> tuple[dict[str, Any], list[Any]]:
        """Wait for a message of `send`. Raises ConnectionError if the process is lost, or reports an error."""
        try:
            head = _receive_json(self._connection)
            leaves = [_receive_leaf(self._connection, *row) for row in head.pop("leaves")]
        except OSError:
            raise self._lost() from None
        if "error" in head:
            raise ConnectionError(f"{self.name}: {head['error']}")
        return head, leaves

    def close(self) -> None:
        """Close the connection; the other process then gets a ConnectionError."""
        self._connection.close()

    def _lost(self) -> ConnectionError:
        return ConnectionError(f"{self.name} is lost: it has ended, or cannot be reached any more.")


class Group(NamedTuple):
    """The processes of a run: the number of this one, how many there are, and connections to others."""

    number: int  # of this process
    size: int
    peers: Sequence[Peer] = ()  # all other processes in process 0, process 0 in the others

    def shared(self, what: str, read: Callable[[], Any]) -> Any:
        """Return in all processes what `read` returns in process 0, data for JSON; only process 0 needs the files.

        Raises ValueError in all processes if `read` raises, and if they do not ask for the same: `what` names it.
        """
        if self.number:
            (leader,) = self.peers
            leader.send({"asks for": what})
            head = leader.receive()[0]
            if "shared" not in head:
                raise ValueError(head["refusal"])
            return head["shared"]
        try:
            for peer in self.peers:
                if peer.receive()[0].get("asks for") != what:
                    raise ValueError(
                        f"{peer.name} was started for another run than process 0, which reads {what}: give all "
                        "processes the same arguments."
                    )
            data = read()
        except Exception as error:
            for peer in self.peers:
                with suppress(ConnectionError):
                    peer.send({"refusal": str(error)})
            raise
        for peer in self.peers:
            peer.send({"shared": data})
        return data

    def refuse(self, members: int, devices: int) -> None:
        """Raise ValueError for a run that these processes cannot share."""
        if self.size > 1 and devices:
            raise ValueError(
                f"devices={devices} is for a run of one process: each of the {self.size} processes uses all devices "
                "that it sees. Leave it out."
            )
        if self.size > members:
            plural = "s" * (members > 1)
            raise ValueError(
                f"{self.size} processes cannot share {members} member{plural}: start at most {members} process"
                f"{'es' * (members > 1)}, or train more seeds."
            )


ALONE = Group(0, 1)
_group = ALONE


def group() -> Group:
    """Return the group that `join` made; a group of this process alone before that."""
    return _group


def join(distributed: str) -> Group:
    """Connect this process with the others of a run. `distributed` is as in `FORMS`.

    Waits up to 5 minutes until all processes have started. Raises ValueError for another text, and if `auto` finds no
    job; ConnectionError if a process ends while the others wait.
    """
    global _group
    arguments = read_address(distributed)
    jax.config.update("jax_enable_preemption_service", False)  # it would handle SIGTERM instead of this process
    pool = ThreadPoolExecutor(1)  # so that this thread notices Ctrl-C
    try:
        _group = pool.submit(_meet, arguments).result()
    except ValueError as error:
        text = f"--distributed {distributed} found no job of several processes: {error} Use {FORMS}."
        raise ValueError(text) from None
    except OSError as error:
        raise ConnectionError(f"--distributed {distributed}: not all processes could be connected: {error}.") from None
    finally:
        pool.shutdown(wait=False)
    return _group


def _meet(arguments: dict[str, Any]) -> Group:
    jax.distributed.initialize(**arguments)
    number, size = global_state.process_id, global_state.num_processes
    host = str(global_state.coordinator_address).rpartition(":")[0].strip("[]")
    connect = _accept if number == 0 else _connect
    found = Group(number, size, connect(global_state.client, host, number, size)) if size > 1 else ALONE
    jax.distributed.shutdown()
    global_state.process_id, global_state.num_processes = 0, 1  # so that JAX starts with the devices of this process
    return found


def read_address(distributed: str) -> dict[str, Any]:
    """Return the arguments of `jax.distributed.initialize`. Raises ValueError for a text that is not as in `FORMS`."""
    if distributed == "auto":
        return {}
    address, *numbers = distributed.split(",")
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and len(numbers) == 2 and all(text.isdecimal() for text in numbers)):
        raise ValueError(f"--distributed {distributed} is not an address: use {FORMS}.")
    size, number = map(int, numbers)
    if number >= size:
        raise ValueError(f"--distributed {distributed}: {size} processes have the numbers 0 to {size - 1}.")
    arguments = {"coordinator_address": address, "num_processes": size, "process_id": number}
    if host in LOOPBACK:
        arguments["coordinator_bind_address"] = address  # otherwise it listens to other machines too
    return {**arguments, "cluster_detection_method": "deactivate"}


def _accept(store: Any, host: str, number: int, size: int) -> list[Peer]:
    """Process 0: tell the others a port and a password, and return them when all are connected."""
    password, peers = secrets.token_hex(), {}
    with _listening(host) as server:
        server.settimeout(PATIENCE)
        store.key_value_set("shoal/port", json.dumps([server.getsockname()[1], password]))
        while len(peers) < size - 1:
            connection = server.accept()[0]
            connection.settimeout(PATIENCE)
            try:
                given, number, machine = _receive_json(connection, LONGEST_GREETING)
                if not hmac.compare_digest(given, password):
                    raise ValueError("wrong password")
            except (OSError, ValueError, TypeError):
                connection.close()
            else:
                peers[number] = Peer(f"process {number} on {machine}", lasting(connection))
    return [peers[number] for number in range(1, size)]


def _listening(host: str) -> socket.socket:
    """Return a listening socket; other machines can connect to it unless `host` is in `LOOPBACK`."""
    if host in LOOPBACK:
        return socket.create_server((host, 0))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _connect(store: Any, host: str, number: int, size: int) -> list[Peer]:
    """Every other process: connect with process 0."""
    port, password = json.loads(store.blocking_key_value_get("shoal/port", 1_000 * PATIENCE))
    connection = socket.create_connection((host, port), timeout=PATIENCE)
    _send_json(connection, [password, number, platform.node()])
    return [Peer(f"process 0 on {host}", lasting(connection))]


def lasting(connection: socket.socket) -> socket.socket:
    """Return the connection without a time limit for answers, with detection of lost machines, and without delays."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not every system can set the times
            level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
            connection.setsockopt(level, getattr(socket, name), value)
    return connection


# Data on a connection: the length of a JSON text in 8 bytes, the text, and the bytes of each array that it lists.


def _send_json(connection: socket.socket, data: Any) -> None:
    text = json.dumps(data).encode()
    connection.sendall(len(text).to_bytes(8) + text)


def _receive_json(connection: socket.socket, longest: int = 2**32) -> Any:
    length = int.from_bytes(_fill(connection, bytearray(8)))
    if length > longest:
        raise ValueError(f"a message of {length:,} bytes was announced, and at most {longest:,} are taken.")
    return json.loads(_fill(connection, bytearray(length)))


def _receive_leaf(connection: socket.socket, dtype: str, shape: list[int], generator: str) -> Any:
    array = np.empty(shape, jax.numpy.dtype(dtype))
    _fill(connection, bytes_of(array))
    return jax.random.wrap_key_data(jax.numpy.asarray(array), impl=IMPLEMENTATIONS[generator]) if generator else array


def _fill(connection: socket.socket, buffer: Any) -> Any:
    """Receive as many bytes as fit into a buffer, and return it. Raises ConnectionError at the end of the data."""
    view = memoryview(buffer)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionError("the connection was closed")
        view = view[count:]
    return buffer


def _generator(key: Any) -> str:
    """Return the name of the random generator of a typed key."""
    used = jax.random.key_impl(key)
    return next(name for name, impl in IMPLEMENTATIONS.items() if used in (name, impl))
