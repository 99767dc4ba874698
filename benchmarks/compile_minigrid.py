"""Measure the compile time of every MiniGrid id: vmapped `reset` and `step`, 2,048 environments, without a cache.

.venv-peers/bin/python benchmarks/compile_minigrid.py [--out benchmarks/results/minigrid-compile.json]
"""

import argparse
import json
from pathlib import Path

from run import machine
from workers.measure import compile_phases

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "minigrid-compile.json")
args = parser.parse_args()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from shoal.core.keys import make_key  # noqa: E402
from shoal.core.registry import ENVS, make  # noqa: E402
from shoal.core.struct import to_arrays  # noqa: E402

NUM_ENVS = 2048


def measure(name):
    """The compile seconds of `reset` and `step` of one id."""
    env, keys = to_arrays(make(name)), jax.random.split(make_key(0), NUM_ENVS)
    _, state = jax.eval_shape(jax.vmap(env.reset), keys)
    actions = jax.ShapeDtypeStruct((NUM_ENVS,), jnp.int32)
    programs = {"reset": (env.reset, keys), "step": (env.step, keys, state, actions)}
    seconds = {
        part: round(compile_phases(jax.vmap(function), *arguments)[1]["compile_s"], 3)
        for part, (function, *arguments) in programs.items()
    }
    jax.clear_caches()
    return seconds


found = {"machine": machine(), "jax": jax.__version__, "seconds": {}}
for name in sorted(name for name in ENVS if name.startswith("MiniGrid-")):
    found["seconds"][name] = measure(name)
args.out.write_text(json.dumps(found, indent=1) + "\n")
worst = max(found["seconds"], key=lambda name: sum(found["seconds"][name].values()))
print(f"{len(found['seconds'])} ids; the longest is {worst}: {found['seconds'][worst]}")
