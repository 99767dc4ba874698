"""`shoal train --distributed local:N`: all processes of a run on this machine, to try out a run in several processes.

Every process uses the CPU. Ctrl-C and other signals go to process 0, which stops the run in all processes.
"""

import os
import socket
import subprocess
import sys
from types import FrameType

from shoal.training.stopping import handled

MOST_PROCESSES = 64


def start_local(where: str, words: list[str]) -> int:
    """Run the command line `words` in N processes, for `where` = "local:N".

    Returns the first exit status that is not 0, or 0. Raises ValueError if N is not from 1 to 64.
    """
    text = where.removeprefix("local:")
    if not (text.isdecimal() and 1 <= int(text) <= MOST_PROCESSES):
        raise ValueError(f"--distributed {where}: give 1 to {MOST_PROCESSES} processes, as in local:2.")
    count = int(text)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    processes = [_start(words, f"127.0.0.1:{port},{count},{number}") for number in range(count)]

    def forward(signum: int, frame: FrameType | None) -> None:
        processes[0].send_signal(signum)

    with handled(forward):
        statuses = [process.wait() for process in processes]
    return next((status if status > 0 else 128 - status for status in statuses if status), 0)


def _start(words: list[str], address: str) -> subprocess.Popen:
    at = next(i for i, word in enumerate(words) if word.startswith("--distributed"))
    after = words[at + (1 if "=" in words[at] else 2) :]
    command = [sys.executable, "-m", "shoal", *words[:at], "--distributed", address, *after]
    # In a session of its own a process gets no signal from the terminal, which this process forwards.
    return subprocess.Popen(command, env={**os.environ, "JAX_PLATFORMS": "cpu"}, start_new_session=True)
