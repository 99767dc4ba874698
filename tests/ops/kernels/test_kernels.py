"""The package of kernels."""

import subprocess
import sys


def test_importing_kernels_imports_neither_pallas_nor_a_device():
    code = (
        "import sys, jax, shoal.ops.kernels.gradient, shoal.ops.kernels.loop\n"
        "print('jax.experimental.pallas' in sys.modules, jax._src.xla_bridge.backends_are_initialized())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
