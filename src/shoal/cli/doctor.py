"""`shoal doctor`: print the devices, what JAX uses of them, known bugs of the installed JAX, and advice."""

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from shoal.cli.parser import Line, Parser
from shoal.training.host import host_bytes, unused_gpu, usable_cores

PACKAGES = ("shoal", "jax", "jaxlib", "flax", "optax", "numpy", "matplotlib", "pillow", "rich")


def doctor_parser() -> Parser:
    """The options of the command: none."""
    return Parser("doctor", "", "Show devices, cache, known bugs, and what to install.")


def doctor(line: Line) -> int:
    """Print facts about the machine and the installation, then problems and notes. Returns 1 for a problem, else 0."""
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
    problem, notes = unused_gpu(), list(_notes(devices[0].platform))
    print(f"\n! {problem}" if problem else "\nnothing needs attention")
    for note in notes:
        print(f"note: {note}")
    return 1 if problem else 0


def _notes(platform_of_jax: str) -> Iterator[str]:
    from shoal.training.linear_algebra import ENOUGH_THREADS, can_deadlock

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
    return f"{host_bytes() / 2**30:.0f} GiB of memory"


def _cache(directory: str | None) -> str:
    if not directory:
        return "off"
    files = [path for path in Path(directory).glob("**/*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    return f"{directory}: {len(files)} files, {size:.1f} MiB"
