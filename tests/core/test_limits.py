"""Memory and processor limits of control groups, read from files as Linux shows them."""

import math
import subprocess
import sys

import pytest

from shoal.cli.main import main
from shoal.core import limits
from shoal.core.limits import memory_limit, processor_limit
from shoal.specs.spec import RunSpec
from shoal.training import host, memory, plan
from shoal.training.plan import make_plan

UNLIMITED = "9223372036854771712\n"  # of version 1, which has no word for it
MACHINES = {  # files, bytes, processors
    "no control groups": ({}, math.inf, math.inf),
    "version 2, without limits": (
        {"proc/self/cgroup": "0::/user.slice\n", "sys/fs/cgroup/user.slice/memory.max": "max\n"},
        math.inf,
        math.inf,
    ),
    "a SLURM job, limited above its step": (
        {
            "proc/self/cgroup": "0::/system.slice/job_7/step_0\n",
            "sys/fs/cgroup/system.slice/job_7/step_0/memory.max": "max\n",
            "sys/fs/cgroup/system.slice/job_7/memory.max": "4000000000\n",
            "sys/fs/cgroup/system.slice/memory.max": "9000000000\n",
            "sys/fs/cgroup/system.slice/job_7/cpu.max": "max 100000\n",
        },
        4e9,
        math.inf,
    ),
    "a container, which sees its own group as the outermost": (
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "2000000000\n",
            "sys/fs/cgroup/cpu.max": "150000 100000\n",
        },
        2e9,
        1.5,
    ),
    "version 1, in a container that does not see its path": (
        {
            "proc/self/cgroup": "4:memory:/docker/a1\n3:cpu,cpuacct:/docker/a1\n1:name=systemd:/\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        1e9,
        0.5,
    ),
    "version 1, without limits": (
        {
            "proc/self/cgroup": "4:memory:/\n1:cpu:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED,
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        },
        float(UNLIMITED),
        math.inf,
    ),
}


@pytest.mark.parametrize(("files", "memory", "processors"), MACHINES.values(), ids=MACHINES)
def test_limits_of_a_control_group_are_read_at_every_level(files, memory, processors, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_limit(tmp_path) == memory and processor_limit(tmp_path) == processors


def test_a_run_uses_no_more_than_the_limits_of_its_control_group(monkeypatch):
    monkeypatch.setattr(host, "memory_limit", lambda: 10**9)
    monkeypatch.setattr(host, "processor_limit", lambda: 0.5)
    assert host.host_bytes() == 10**9 and host.usable_cores() == 1
    assert memory.available_bytes() == 8 * 10**8


def test_waves_fit_whole_members_on_each_accelerator(monkeypatch):
    def waves(devices):
        monkeypatch.setattr(plan, "accelerators", lambda asked: devices)
        return [w.stop - w.start for w in make_plan(RunSpec(agent="ppo", env="CartPole-v1", seeds=5)).waves]

    member_bytes = make_plan(RunSpec(agent="ppo", env="CartPole-v1")).member_bytes
    monkeypatch.setattr(memory, "available_bytes", lambda: int(1.9 * member_bytes))
    assert waves(1) == [1, 1, 1, 1, 1]
    assert waves(3) == [3, 2]  # one on each, although 5.7 would fit if a member could lie on two


def shoal_within(limits):
    """The status and the error of `shoal envs` under limits of the shell."""
    command = f"ulimit {limits} && {sys.executable} -m shoal envs"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    return ended.returncode, ended.stderr.strip()


def test_a_small_address_space_is_one_line():
    for kilobytes in (300_000, 1_000_000):  # NumPy could not be imported; XLA would abort
        status, error = shoal_within(f"-v {kilobytes}")
        assert status == 2 and "raise it, as with `ulimit -v unlimited`" in error and len(error.splitlines()) == 1


def test_the_address_space_bounds_the_memory_of_a_run(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "address_limit", lambda: 10**9)
    assert memory_limit(tmp_path) == 10**9
    with pytest.raises(MemoryError, match="lets this process address 1 GB, and JAX needs 2"):
        make_plan(RunSpec("ppo", "CartPole-v1"))


def test_threads_that_cannot_start_are_one_line(monkeypatch, capsys):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("shoal.cli.main._dispatch", refuse)
    assert main(["train"]) == 2
    error = capsys.readouterr().err
    assert "this process cannot start another thread: raise `ulimit -u`" in error and len(error.splitlines()) == 1
