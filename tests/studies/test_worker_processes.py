"""Several worker processes on one machine: their output, exit statuses and signals."""

import os
import signal
import sys
import threading
import time

import pytest

from shoal.studies.worker_processes import run_workers, worker_names

STOPS = (
    "import signal, sys, time\n"
    "signal.signal(signal.SIGINT, lambda *_: (print('saved'), sys.exit(130)))\n"
    "print('ready', flush=True)\n"
    "time.sleep(60)"
)


def command(program):
    return [sys.executable, "-c", program]


def run(tmp_path, *programs, **options):
    said = []
    commands = {f"w{i}": command(program) for i, program in enumerate(programs)}
    return run_workers(commands, tmp_path, said.append, **options), said


def test_output_and_exit_statuses_are_reported(tmp_path):
    killed = "import os; print('begun', flush=True); os.kill(os.getpid(), 9)"
    failed = "import os, sys; print('pass', os.environ['PGPASSWORD']); sys.exit('no storage')"
    statuses, said = run(tmp_path, "print('one'); print('two')", failed, killed, env={"PGPASSWORD": "word"})
    assert statuses == {"w0": 0, "w1": 1, "w2": 137}
    assert [line for line in said if line.startswith("[w0]")] == ["[w0] one", "[w0] two"]
    assert {"[w1] pass word", "[w1] no storage", "[w2] begun"} <= set(said)
    assert any(line.startswith("worker w") and line.endswith("; no other worker is left") for line in said)
    ends = [line.rpartition(";")[0] for line in said if line.startswith("worker")]
    assert sorted(ends) == ["worker w1 ended with exit status 1", "worker w2 ended with signal SIGKILL"]
    assert (tmp_path / "w0" / "output.txt").read_text() == "one\ntwo\n"


def test_ctrl_c_reaches_every_worker(tmp_path):
    before = signal.getsignal(signal.SIGINT)

    def interrupt():
        end = time.monotonic() + 60
        files = [tmp_path / name / "output.txt" for name in ("w0", "w1")]
        while time.monotonic() < end and not all(file.exists() and file.read_text() for file in files):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    statuses, said = run(tmp_path, STOPS, STOPS)
    assert statuses == {"w0": 130, "w1": 130}
    assert {*said} == {f"[{name}] {word}" for name in ("w0", "w1") for word in ("ready", "saved")}  # none was lost
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tell the cores of a process")
def test_workers_share_the_cores(tmp_path):
    cores = sorted(os.sched_getaffinity(0))
    # The process has begun before it gets its cores.
    show = "import os, time; time.sleep(1); print(sorted(os.sched_getaffinity(0)))"
    statuses, said = run(tmp_path, show, show)
    shares = [cores[0::2], cores[1::2]] if len(cores) >= 2 else [cores, cores]
    assert sorted(said) == [f"[w{i}] {share}" for i, share in enumerate(shares)] and set(statuses.values()) == {0}


def test_names_and_numbers_of_workers():
    assert worker_names(3) == ["w0", "w1", "w2"]
    for count in (0, 65):
        with pytest.raises(ValueError, match=f"--workers {count}: give 1 to 64"):
            worker_names(count)
