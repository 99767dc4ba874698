"""What must be decided before JAX starts: its thread pool, its small loops, and where compiled programs are kept.

Everything already set in the environment is honored. Only what comes later, `check_platform` and `keep_programs`,
imports JAX.
"""

import math
import os
import sys
from pathlib import Path

from shoal.training.limits import memory_limit, processor_limit

# A loop that touches at most this many bytes a turn becomes one kernel on a CPU: the steps of a few small environments
# under a small policy, which as kernels of their own cost more to start than to run. In a larger loop the matrix
# products matter more, and XLA computes those well only outside of such a kernel.
SMALL_LOOP = 100_000
# Where no network is in the loop, as when environments are stepped with random actions, much larger ones gain.
STEPPING_LOOP = 4_000_000

UNKNOWN_MEMORY = 8 * 2**30  # taken to be there where nobody says; `--memory-limit-gb` does


def prepare(*, cache: bool = True, threads: int = 0, small_loop: int = SMALL_LOOP) -> None:
    """Keep compiled programs, size the thread pool and make small loops fast. Call it before JAX is imported.

    `threads=0` is one for each core. Loops that touch up to `small_loop` bytes a turn become one kernel on a CPU. The
    `shoal` command does all this on its own; a script or notebook that does it in its first lines starts faster the
    next time. Raises RuntimeError when JAX has already been imported, because then part of it would be ignored.

        import shoal

        shoal.prepare()
    """
    if "jax" in sys.modules:
        raise RuntimeError("shoal.prepare() must come before JAX is imported: move it to the first lines, or restart.")
    if threads:
        os.environ["NPROC"] = str(threads)
    os.environ.setdefault("NPROC", str(usable_cores()))
    os.environ["XLA_FLAGS"] = with_small_loops(os.environ.get("XLA_FLAGS", ""), small_loop)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA's remarks on cached CPU programs are not for users
    if cache:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_dir()))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")
    else:
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"


def check_platform() -> None:
    """Raise ValueError where `JAX_PLATFORMS` names what is not here. Imports JAX, and starts its devices."""
    wanted = os.environ.get("JAX_PLATFORMS", "")
    if wanted in ("", "cpu"):
        return
    import jax

    try:
        jax.local_devices()
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(
            f"JAX_PLATFORMS={wanted}, but JAX cannot start that here ({str(error).strip() or 'it gives no reason'}). "
            "Unset it to use what there is, or install what is missing: pip install 'shoal[cuda12]' for NVIDIA GPUs."
        ) from error


def with_small_loops(flags: str, size: int = SMALL_LOOP) -> str:
    """`XLA_FLAGS` under which loops that touch up to `size` bytes a turn are one kernel, unless they say otherwise."""
    if "xla_backend_extra_options" in flags:
        return flags
    return f"{flags} --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={size}".strip()


def keep_programs() -> None:
    """Keep compiled programs between runs from here on, in a process that has imported JAX without `prepare`.

    Does nothing where JAX's cache has a directory already, or is turned off (`JAX_ENABLE_COMPILATION_CACHE=false`).
    """
    import jax

    settings = jax.config.values
    if settings["jax_compilation_cache_dir"] or not settings["jax_enable_compilation_cache"]:
        return
    jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


def usable_cores() -> int:
    """Cores that this process may run on, or whose time its job may take."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return math.ceil(min(cores, processor_limit()))


def host_bytes() -> int:
    """Memory of this machine, or that its job may take; `UNKNOWN_MEMORY` on Windows, which does not say."""
    if not hasattr(os, "sysconf"):
        return UNKNOWN_MEMORY
    return int(min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), memory_limit()))


def cache_dir() -> Path:
    """Where compiled programs are kept: of this user, shared by all runs."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "shoal" / "programs"
