"""`shoal doctor`: print the devices, what JAX uses of them, known bugs of the installed JAX, and advice."""

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from shoal.cli.parser import Line, Parser
from shoal.training.host import host_bytes, unused_gpu, usable_cores

LEAST_MEMORY = 2**30  # bytes
LEAST_FREE = 2**28  # bytes of a disk
SLOW_SETTINGS = {  # of JAX
    "jax_disable_jit": "nothing is compiled, so that training takes thousands of times as long",
    "jax_debug_nans": "a member whose losses are not finite ends the run, instead of stopping alone",
}
PACKAGES = ("shoal", "jax", "jaxlib", "flax", "optax", "numpy", "matplotlib", "pillow", "rich")


def doctor_parser() -> Parser:
    """The options of the command: none."""
    return Parser("doctor", doctor)


def doctor(line: Line) -> int:
    """Show devices, cache, known bugs, and what to install. The exit status is 1 if something needs attention."""
    import jax

    devices = jax.local_devices()
    rows = [
        ("python", f"{platform.python_version()}  {sys.executable}"),
        ("packages", "  ".join(f"{name} {_version(name)}" for name in PACKAGES)),
        ("system", f"{platform.platform()}, {usable_cores()} usable cores, {_memory()}"),
        ("devices", ", ".join(f"{d.platform}: {d.device_kind}" for d in devices)),
        ("cache", _cache(jax.config.values["jax_compilation_cache_dir"])),
        ("XLA_FLAGS", os.environ.get("XLA_FLAGS", "") or "not set"),
        ("NPROC", os.environ.get("NPROC", "") or "not set"),
    ]
    print("\n".join(f"{name:10} {text}" for name, text in rows))
    problems, notes = [*_problems(jax.config.values)], list(_notes(devices[0].platform))
    print("\n" + ("\n".join(f"! {problem}" for problem in problems) or "nothing needs attention"))
    for note in notes:
        print(f"note: {note}")
    return 1 if problems else 0


def _problems(settings: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on problems that would stop or slow down a run here, with the remedy; `settings` are JAX's."""
    if problem := unused_gpu():
        yield problem
    if missing := [name for name in PACKAGES[1:] if _version(name) == "missing"]:
        yield f"packages are missing: pip install {' '.join(missing)}"
    cache = settings["jax_compilation_cache_dir"]
    if cache and (problem := _unwritable(Path(cache))):
        yield (
            f"the cache of compiled programs, {cache}, {problem}: every command compiles all programs again. Set "
            f"XDG_CACHE_HOME to a folder that can be written"
        )
    if problem := _unwritable(Path.cwd()):
        yield f"this folder, {Path.cwd()}, {problem}: runs need another one (--root)"
    if host_bytes() < LEAST_MEMORY:
        yield f"{_memory()} may be too little: a small run needs about {LEAST_MEMORY / 2**30:.0f} GiB"
    if (threads := os.environ.get("NPROC", "1")) and not (threads.isdecimal() and int(threads)):
        yield f"NPROC={threads} is not a number of threads: unset it, or set it to {usable_cores()}"
    for name, effect in SLOW_SETTINGS.items():
        if settings[name]:
            yield f"{name.upper()} is set: {effect}. Unset it"


def _unwritable(folder: Path) -> str:
    """Why files cannot be written to a folder, which is made if it does not exist; empty where they can."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        return f"cannot be written ({error.strerror or error})"
    return "" if free > LEAST_FREE else f"is on a disk with {free / 2**20:.0f} MiB free"


def _notes(platform_of_jax: str) -> Iterator[str]:
    from shoal.ops.linear_algebra import ENOUGH_THREADS, can_deadlock

    if platform_of_jax == "cpu" and can_deadlock(_version("jaxlib"), os.environ.get("NPROC", "")):
        yield (
            f"jaxlib {_version('jaxlib')} can wait forever on CPU in batched linear algebra (jnp.linalg.qr, solve). "
            f"shoal itself does not use it. If a network of yours does, `shoal.train` avoids the bug, or asks for "
            f"`--threads {ENOUGH_THREADS}`"
        )
        if sys.version_info >= (3, 12):
            yield "there is a jaxlib without that bug for this Python: pip install --upgrade jax"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _memory() -> str:
    return f"{host_bytes() / 2**30:.3g} GiB of memory"


def _cache(directory: str | None) -> str:
    if not directory:
        return "off"
    files = [path for path in Path(directory).glob("**/*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    return f"{directory}: {len(files)} files, {size:.1f} MiB"
