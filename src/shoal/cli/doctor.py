"""`shoal doctor`: what this machine offers, what JAX makes of it, and what to do about the difference."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from shoal.cli.parser import Line, Parser
from shoal.training.host import host_bytes, usable_cores
from shoal.training.linear_algebra import ENOUGH_THREADS, can_deadlock

PACKAGES = ("shoal", "jax", "jaxlib", "flax", "optax", "numpy", "matplotlib", "pillow", "rich")


def doctor_parser() -> Parser:
    """The options of the command: none."""
    return Parser("doctor", "", "Devices, cache, known bugs, what to install.")


def doctor(line: Line) -> int:
    """Print the facts, then advice. Returns 1 where there is some."""
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
    advice = list(_advice(devices[0].platform))
    print("\n" + "\n".join(f"! {line}" for line in advice) if advice else "\nnothing needs attention")
    return 1 if advice else 0


def _advice(seen: str) -> Iterator[str]:
    if nvidia_present() and seen == "cpu":
        yield "an NVIDIA GPU is here, but JAX does not see it: pip install 'shoal[cuda12]' (or [cuda13])"
    if seen == "cpu" and can_deadlock(_version("jaxlib"), os.environ.get("NPROC", "")):
        yield (
            f"jaxlib {_version('jaxlib')} can wait forever on CPU in batched linear algebra (jnp.linalg.qr, solve). "
            f"shoal has none; a network of your own that has (flax's orthogonal initializer) needs `--threads "
            f"{ENOUGH_THREADS}`"
        )
        if sys.version_info >= (3, 12):
            yield "a jaxlib without that bug is out for this Python: pip install --upgrade jax"


def nvidia_present() -> bool:
    """Whether the driver of an NVIDIA GPU is loaded."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


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
