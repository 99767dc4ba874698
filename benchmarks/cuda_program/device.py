"""Compile a JAX function for a GPU that is not there, and read what XLA writes about the program.

`prepare` must run before JAX is imported. XLA finds ptxas, nvlink and libdevice in /usr/local/cuda, or in the Python
packages nvidia-cuda-nvcc and nvidia-nvvm. Autotuning needs a device, so matrix products are Triton kernels with default
tiles here, and it is not known which launches would become CUDA graphs.
"""

import importlib.util
import os
import re
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from cuda_program.hlo import Module
from cuda_program.thunks import Thunk, parse_thunks

COMPILER = Path(__file__).with_name("compiler.txt")
H100 = Path(__file__).with_name("h100.txtpb")


class Compiled(NamedTuple):
    """The CUDA program of a function."""

    module: Module
    thunks: list[Thunk]
    trace_seconds: float
    compile_seconds: float


def missing() -> str:
    """Why the programs cannot be compiled in this Python; empty if they can. Imports nothing."""
    remedy = "`make gpu-program` makes an environment that has it"
    wanted = re.findall(r"^jax-cuda13-plugin==(\S+)", COMPILER.read_text(), re.MULTILINE)[0]
    try:
        found = version("jax-cuda13-plugin")
    except PackageNotFoundError:
        return f"the compiler for CUDA, jax-cuda13-plugin {wanted}, is not installed: {remedy}"
    if found != wanted:
        return f"jax-cuda13-plugin is {found}, which makes other programs than {wanted}: {remedy}"
    return ""


def prepare(folder: Path) -> None:
    """Let XLA write about its programs into a folder, and JAX run on the CPU."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # a program from the cache is not written about
    flags = ["--xla_dump_hlo_as_text", f"--xla_dump_to={folder}", "--xla_gpu_autotune_level=0"]
    nvidia = importlib.util.find_spec("nvidia")
    for root in (nvidia.submodule_search_locations or []) if nvidia else []:
        if (Path(root) / "cu13" / "nvvm").is_dir():
            flags.append(f"--xla_gpu_cuda_data_dir={Path(root) / 'cu13'}")
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])


def compile_for_gpu(function: Any, arguments: tuple, options: dict[str, Any]) -> Compiled:
    """Compile a function of these arguments (arrays or their shapes) with compiler options for an H100."""
    import jax
    from jax.experimental import topologies
    from jax.sharding import AbstractDevice, AbstractMesh

    folder = Path(os.environ["XLA_FLAGS"].rpartition("--xla_dump_to=")[2].partition(" ")[0])
    begin, before = time.perf_counter(), set(folder.iterdir())
    gpu = topologies.get_topology_desc("", "cuda", target_config=H100.read_text(), topology="1x1x1").devices[0]
    kernels_ask_for = AbstractDevice(gpu.device_kind, gpu.core_count, "gpu")  # Pallas chooses its compiler by it
    with jax.sharding.use_abstract_mesh(AbstractMesh((), (), abstract_device=kernels_ask_for)):
        # Without `keep_unused`, a program that uses no argument would not be for the GPU.
        lowered = jax.jit(function, keep_unused=True).lower(*_on(gpu, arguments))
    traced = time.perf_counter()
    lowered.compile(compiler_options=options)
    compiled = time.perf_counter()
    written = set(folder.iterdir()) - before

    def text(ending: str) -> str:
        return max((p for p in written if p.name.endswith(ending)), key=lambda p: p.stat().st_size).read_text()

    module = Module(text("gpu_after_optimizations.txt"))
    thunks = parse_thunks(text("thunk_sequence.txt"), text("thunk_metadata.txt"))
    return Compiled(module, thunks, traced - begin, compiled - traced)


def _on(device: Any, tree: Any) -> Any:
    """The shapes of a tree as arrays on a device."""
    import jax

    sharding = jax.sharding.SingleDeviceSharding(device)

    def shape(x: Any) -> Any:
        dtype = x.dtype if hasattr(x, "dtype") else jax.numpy.result_type(x)
        return jax.ShapeDtypeStruct(jax.numpy.shape(x), dtype, sharding=sharding)

    return jax.tree.map(shape, tree)
