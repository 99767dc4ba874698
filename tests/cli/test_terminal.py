"""Commands in a pseudo-terminal: how they end after a signal, and closed or full output streams."""

import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from shoal.cli.terminal import Printable

HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"
# Imports what commands need once, and forks for each of them, before JAX starts its threads. A command begins as a
# terminal starts it, also where the tests themselves run with signals ignored. Prints its pid, then its exit status.
STARTER = """
import fcntl, json, os, signal, sys, termios
import jax, optax, shoal.cli.main, shoal.cli.train, shoal.training.jobs
for line in sys.stdin:
    asked = json.loads(line)
    tty = os.open(asked["tty"], os.O_RDWR | os.O_NOCTTY)
    child = os.fork()
    if child == 0:
        os.setsid()
        fcntl.ioctl(tty, termios.TIOCSCTTY, 0)  # Ctrl-C is a key, and closing the terminal is noticed
        for number in range(3):
            os.dup2(tty, number)
        os.close(tty)
        for name in ("SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.chdir(asked["cwd"])
        sys.argv[1:] = asked["words"]
        exec(asked["code"])
        sys.exit()
    os.close(tty)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
COMMAND = "from shoal.cli.main import main\nsys.exit(main())\n"
LONG = (
    "train q-learning CliffWalking-v1 --steps 100_000_000_000 --records 1_000_000 --evaluations 0 --preset none "
    "--num-steps 64 --no-figures --name r"
)


class Terminal:
    """A pseudo-terminal that runs a command and collects its output."""

    def __init__(self, starter, *words, cwd, code=COMMAND):
        self.ours, theirs = pty.openpty()
        self.painted = b""
        self.answers, self.status = starter.stdout, None
        asked = {"tty": os.ttyname(theirs), "cwd": str(cwd), "words": words, "code": code}
        starter.stdin.write(json.dumps(asked).encode() + b"\n")
        self.pid = int(self.answers.readline())
        os.close(theirs)
        self.reader = threading.Thread(target=self._collect, daemon=True)
        self.reader.start()

    def _collect(self):
        while True:
            try:
                self.painted += os.read(self.ours, 65536)
            except OSError:
                return

    def wait_for(self, what, seconds=200):
        until = time.monotonic() + seconds
        while what not in self.painted:
            assert not self.has_ended() and time.monotonic() < until, self.painted[-500:]
            time.sleep(0.02)

    def press(self, keys):
        os.write(self.ours, keys)

    def send(self, number):
        os.kill(self.pid, number)

    def has_ended(self, seconds=0.0):
        if self.status is None and select.select([self.answers], [], [], seconds)[0]:
            self.status = int(self.answers.readline())
        return self.status is not None

    def end(self, seconds=60):
        """The exit status."""
        assert self.has_ended(seconds), self.painted[-500:]
        self.reader.join(10)
        return self.status


@pytest.fixture(scope="module")
def starter():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", STARTER], **pipes) as process:
        yield process
        process.kill()


@pytest.fixture
def terminal(starter, tmp_path):
    opened = []

    def start(*words, **options):
        opened.append(Terminal(starter, *words, cwd=tmp_path, **options))
        return opened[-1]

    yield start
    for each in opened:
        if not each.has_ended():
            each.send(signal.SIGKILL)
            each.end()


def test_ctrl_c_saves_a_checkpoint_and_shows_the_cursor(terminal, tmp_path):
    run = terminal(*LONG.split())
    run.wait_for(b"steps/s")  # a record was written
    run.press(b"\x03")
    assert run.end() == 130
    assert b"stopping when the training so far is saved" in run.painted
    assert b"Continue with: shoal train --resume runs/r" in run.painted
    assert run.painted.rindex(SHOWN) > run.painted.rindex(HIDDEN)


@pytest.mark.slow
@pytest.mark.parametrize("is_patient", [True, False])
def test_a_second_ctrl_c_ends_a_run_during_a_chunk_and_shows_the_cursor(is_patient, terminal):
    run = terminal(*LONG.replace("--records 1_000_000", "--records 1").split())  # hours
    run.wait_for(b"compiled in")
    time.sleep(0.5)  # into the chunk, whose program runs in a thread of its own
    run.press(b"\x03")
    if is_patient:
        run.wait_for(b"Ctrl-C again stops at once")
    until = time.monotonic() + 60
    while not run.has_ended() and time.monotonic() < until:  # two at the same moment may arrive as one
        time.sleep(0.05)
        run.press(b"\x03")
    assert run.end() == 130  # an aborted process would have ended by a signal
    assert b"FATAL" not in run.painted and b"Traceback" not in run.painted
    assert run.painted.rindex(SHOWN) > run.painted.find(HIDDEN)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.sampled(1)
def test_sigterm_and_sighup_save_a_checkpoint(number, status, terminal, tmp_path):
    run = terminal(*LONG.split())
    run.wait_for(b"steps/s")
    if number == signal.SIGHUP:
        os.close(run.ours)  # message of the kernel
    else:
        run.send(number)
    assert run.end() == status
    saved = sorted((tmp_path / "runs" / "r" / "checkpoints").glob("step-*"))
    with np.load(tmp_path / "runs" / "r" / "curves.npz") as curves:
        assert int(saved[-1].name[5:]) * 64 == curves["env_steps"][-1]  # steps of an update
    if number == signal.SIGTERM:
        assert run.painted.rindex(SHOWN) > run.painted.rindex(HIDDEN)


WAITS = (
    "import sys, time\n"
    "from shoal.cli import terminal\n"
    "terminal.take_over(reports_only=True)\n"
    "print('ready', file=sys.stderr)\n"
    "try:\n"
    "    time.sleep(60)\n"
    "except BaseException as error:\n"  # as an import that is interrupted turns it into an ImportError
    "    raise ImportError('half imported') from error\n"
)


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, b"shoal: interrupted."),
        (signal.SIGTERM, 143, SHOWN),
        (signal.SIGHUP, 129, SHOWN),
        (signal.SIGQUIT, -signal.SIGQUIT, SHOWN),
    ],
)
def test_a_signal_outside_of_training_ends_a_command_immediately(number, status, said, terminal):
    run = terminal(code=WAITS)
    run.wait_for(b"ready", 60)
    run.send(number)
    assert run.end() == status
    assert said in run.painted and SHOWN in run.painted and b"Error" not in run.painted


def test_a_closed_or_full_output_stream_does_not_fail_a_command():
    code = (
        "import os, sys, time\n"
        "from shoal.cli import terminal\n"
        "terminal.take_over(reports_only=True)\n"
        "for stream in (sys.stdout, sys.stderr):\n"
        "    for _ in range(3): print('x' * 100_000, file=stream, flush=True)\n"
        "assert os.open('file', os.O_CREAT | os.O_WRONLY) > 2\n"
        "sys.exit(terminal.leave(0))\n"
    )
    for closed in ("2>&-", "1>&-", "0<&- 1>&- 2>&-", "2> >(true)", "> >(true)", "2> /dev/full"):
        done = subprocess.run(
            ["bash", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code], capture_output=True, timeout=60
        )
        assert done.returncode == 0, (closed, done)


def test_a_stream_that_was_closed_is_not_flushed_again():
    below = io.TextIOWrapper(io.BytesIO())
    stream = Printable(below)
    below.close()
    stream.flush()
    stream.close()
