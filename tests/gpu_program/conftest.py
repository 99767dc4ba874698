"""Make `benchmarks/cuda_program` and `benchmarks/gpu_program.py` importable."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
