"""The limits on memory and processor time of this process, from its Linux control groups and `ulimit -v`.

Batch systems and containers limit a job this way. A process that uses more memory is killed, and one that runs more
threads must wait. Source: Linux, Documentation/admin-guide/cgroup-v2.rst (memory.max,
cpu.max) and cgroup-v1/memory.rst and scheduler/sched-bwc.rst (memory.limit_in_bytes, cpu.cfs_quota_us).
"""

import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

try:
    import resource
except ImportError:  # Windows: there are no such limits
    resource = None

ROOT = Path("/")
LEAST_ADDRESSES = 2e9  # bytes; with 1.0 GB XLA aborts a small run, with 1.4 GB Python runs out of memory
MEMORY_FILES = ("memory.max", "memory.limit_in_bytes")


def memory_limit(root: Path = ROOT) -> float:
    """Return the smallest memory limit, in bytes, of this process or its control groups; infinite without limits."""
    numbers = [_words(group / name) for group in _groups("memory", root) for name in MEMORY_FILES]
    return min([int(words[0]) for words in numbers if words and words[0].isdigit()] + [address_limit()])


def address_limit() -> float:
    """Return how many bytes this process may address (`ulimit -v`); infinite without a limit."""
    soft = resource.getrlimit(resource.RLIMIT_AS)[0] if resource else -1
    return math.inf if soft < 0 else soft


def check_address_limit() -> None:
    """Raise MemoryError if this process may address so little that JAX ends it without a message."""
    if address_limit() < LEAST_ADDRESSES:
        raise MemoryError(
            f"`ulimit -v` lets this process address {address_limit() / 1e9:.2g} GB, and JAX needs "
            f"{LEAST_ADDRESSES / 1e9:.2g}: raise it, as with `ulimit -v unlimited`"
        )


def processor_limit(root: Path = ROOT) -> float:
    """Return how many processors this process may use at a time, a float; infinite without limits."""
    quotas = []
    for group in _groups("cpu", root):
        quotas.append(_words(group / "cpu.max"))
        quotas.append(_words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us"))
    limited = [words for words in quotas if len(words) == 2 and words[0].isdigit()]  # without a limit it is `max` or -1
    return min((int(quota) / int(period) for quota, period in limited), default=math.inf)


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the folders of this process's control groups and of all outer groups: the limits of each apply.

    Inside a container, the group of the container appears as the outermost one.
    """
    mounted = root / "sys/fs/cgroup"
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        tree = mounted / controller if controllers else mounted  # version 1 has one tree for each controller
        inner = PurePosixPath(path.lstrip("/"))
        yield from (tree / part for part in (inner, *inner.parents))


def _words(file: Path) -> list[str]:
    lines = _lines(file)
    return lines[0].split() if lines else []


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
