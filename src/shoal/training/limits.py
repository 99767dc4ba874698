"""What a job may use of its machine: the memory and processor time of its Linux control groups.

Batch systems and containers give a part of a machine that way, and nothing else says so: a process that takes more
memory is killed, one with more threads waits. Source: Linux, Documentation/admin-guide/cgroup-v2.rst (memory.max,
cpu.max) and cgroup-v1/memory.rst and scheduler/sched-bwc.rst (memory.limit_in_bytes, cpu.cfs_quota_us).
"""

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path("/")
MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")


def memory_limit(root: Path = ROOT) -> float:
    """The least memory, in bytes, that a control group of this process is held to; infinite where none is."""
    numbers = [_words(group / name) for group in _groups("memory", root) for name in MEMORY_FILES]
    return min((int(words[0]) for words in numbers if words and words[0].isdigit()), default=math.inf)


def processor_limit(root: Path = ROOT) -> float:
    """How many processors' time this process may take; infinite where nothing limits it."""
    quotas = []
    for group in _groups("cpu", root):
        quotas.append(_words(group / "cpu.max"))
        quotas.append(_words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us"))
    limited = [words for words in quotas if len(words) == 2 and words[0].isdigit()]  # else `max`, or -1
    return min((int(quota) / int(period) for quota, period in limited), default=math.inf)


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of this process's groups and of all that they lie in, for a limit on any of them counts.

    A container sees its own group as the outermost, whatever its path is outside.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        place = mounted / controller if controllers else mounted  # version 1 has one tree for each controller
        inner = PurePosixPath(path.lstrip("/"))
        yield from (place / part for part in (inner, *inner.parents))


def _words(file: Path) -> list[str]:
    lines = _lines(file)
    return lines[0].split() if lines else []


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
