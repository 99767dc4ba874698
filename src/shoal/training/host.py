"""Settings that must be made before JAX starts: its thread pool, small loops, and the cache of compiled programs.

Variables that are already set in the process's environment are not changed. Only `check_platform`, `unused_gpu`,
`keep_programs` and `without_kept_programs`, which are called later, import JAX.
"""

import math
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shoal.core.limits import memory_limit, processor_limit

# A loop that reads and writes at most this many bytes per iteration becomes one kernel on a CPU. It is meant for the
# steps of a few small environments with a small policy: as separate kernels these take longer to start than to run. In
# a larger loop the matrix products matter more, and XLA computes them fast only outside such a kernel.
SMALL_LOOP = 100_000
# In loops without a network, such as environment steps with random actions, the limit that is fastest is much larger.
STEPPING_LOOP = 4_000_000

UNKNOWN_MEMORY = 8 * 2**30  # bytes that are assumed where the system does not say; see `--memory-limit-gb`


def prepare(*, cache: bool = True, threads: int = 0, small_loop: int = SMALL_LOOP, distributed: str = "") -> int:
    """Cache compiled programs on disk, set the size of the thread pool and make small loops fast.

    Call it before JAX is imported. `threads=0` means one for each core. Loops that read and write up to `small_loop`
    bytes per iteration become one kernel on a CPU. The `shoal` command does all this itself; a script or notebook that
    does it in its first lines starts faster the next time. Raises RuntimeError when JAX has already been imported,
    because JAX would then ignore part of it.

        import shoal

        shoal.prepare()

    `distributed` connects this process with others; every later `shoal.train` is then one run of all of them (see
    docs/scale.md). It is "auto" in a job of SLURM, Open MPI or Cloud TPU, otherwise
    "HOST:PORT,PROCESSES,NUMBER": an address of process 0, the number of processes, and the number of this one, from 0.
    Returns the number of this process: 0 for the one that writes the run folder, and without `distributed`.
    """
    if "jax" in sys.modules:
        raise RuntimeError("shoal.prepare() must come before JAX is imported: move it to the first lines, or restart.")
    if threads:
        os.environ["NPROC"] = str(threads)
    os.environ.setdefault("NPROC", str(usable_cores()))
    os.environ["XLA_FLAGS"] = with_small_loops(os.environ.get("XLA_FLAGS", ""), small_loop)
    # Hide XLA's messages about cached CPU programs, and its alarm in a compilation of 2 minutes. Its errors are raised.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if cache:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_dir()))
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")
    else:
        os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    if not distributed:
        return 0
    from shoal.training.processes import join

    return join(distributed).number


def check_platform() -> None:
    """Raise ValueError if `JAX_PLATFORMS` names a platform that cannot start. Imports JAX and starts its devices."""
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


def unused_gpu() -> str:
    """Return a sentence for a machine with an NVIDIA GPU that JAX does not find; "" elsewhere. Starts JAX's devices.

    Return "" also where `JAX_PLATFORMS` asks for a platform.
    """
    import jax

    if os.environ.get("JAX_PLATFORMS") or not nvidia_present() or jax.default_backend() != "cpu":
        return ""
    return "this machine has an NVIDIA GPU, but JAX does not find it: pip install 'shoal[cuda13]' (or [cuda12])"


def nvidia_present() -> bool:
    """Return whether the driver of an NVIDIA GPU is loaded."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def with_small_loops(flags: str, size: int = SMALL_LOOP) -> str:
    """Return `XLA_FLAGS` with the limit `size` of small loops, in bytes per iteration, unless they set one."""
    if "xla_backend_extra_options" in flags:
        return flags
    return f"{flags} --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={size}".strip()


def keep_programs() -> None:
    """Cache compiled programs on disk from now on, in a process that has imported JAX without `prepare`.

    It does nothing where JAX's cache already has a directory, or is turned off (`JAX_ENABLE_COMPILATION_CACHE=false`).
    """
    import jax

    settings = jax.config.values
    if settings["jax_compilation_cache_dir"] or not settings["jax_enable_compilation_cache"]:
        return
    jax.config.update("jax_compilation_cache_dir", str(cache_dir()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


@contextmanager
def without_kept_programs() -> Iterator[None]:
    """Compile everything anew within the block, as if no program was cached on disk."""
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    def use(is_on: bool) -> None:
        jax.config.update("jax_enable_compilation_cache", is_on)
        reset_cache()  # JAX looks at the setting only once

    before = jax.config.values["jax_enable_compilation_cache"]
    use(False)
    try:
        yield
    finally:
        use(before)


def usable_cores() -> int:
    """Return the number of cores that this process may use: by CPU affinity and by the limits of its job."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return math.ceil(min(cores, processor_limit()))


def host_bytes() -> int:
    """Return the bytes of memory of this machine, or the limit of this job if smaller; on Windows `UNKNOWN_MEMORY`."""
    if not hasattr(os, "sysconf"):
        return UNKNOWN_MEMORY
    return int(min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), memory_limit()))


def cache_dir() -> Path:
    """Return the folder of the cache of compiled programs; all runs of a user share it."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "shoal" / "programs"
