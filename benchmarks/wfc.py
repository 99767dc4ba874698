"""Measure MiniGrid's WFC levels: what a level and a step cost, in shoal and in MiniGrid itself, on one core each.

.venv-peers/bin/python benchmarks/wfc.py [--out benchmarks/results/minigrid-wfc.json]

MiniGrid's solver is measured as it is, with the pictures of tests/parity/minigrid/wfc_pictures. Its rate and that of
shoal's exact generator include the levels of an episode of 500 steps each, the longest: random actions hardly ever
reach the goal sooner. `pool` steps 2,048 environments with `pool=256`, as `shoal bench` does, and includes resets.
"""

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from run import HERE, machine_without_command

EPISODE, LEVELS, RESETS, STEPS, ENVS = 500, 256, 3, 500, 2048


def main() -> None:
    """Measure every registered level and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "minigrid-wfc.json")
    parser.add_argument("pictures", nargs="*", help="under MiniGrid's names (default: all)")
    options = parser.parse_args()
    from shoal.envs.minigrid.wave_function import WRAPS

    rows = {name: {**ours(name), **theirs(name)} for name in options.pictures or WRAPS}
    for name, row in rows.items():
        row["exact_over_minigrid"] = row["exact_steps_per_second"] / row["minigrid_steps_per_second"]
        row["pool_over_minigrid"] = row["pool_steps_per_second"] / row["minigrid_steps_per_second"]
        print(name, {key: float(f"{value:.3g}") for key, value in row.items()}, flush=True)
    options.out.write_text(json.dumps({"machine": machine_without_command(), "rows": rows}, indent=1) + "\n")


def ours(name: str) -> dict[str, float]:
    """Milliseconds of a core for a level, compile seconds, and steps per second of one core."""
    import jax

    from shoal.core.keys import make_key
    from shoal.core.registry import make
    from shoal.studies.throughput import throughput
    from shoal.training.host import usable_cores

    env, keys = make(f"MiniGrid-WFC-{name}-v0"), jax.random.split(make_key(0), LEVELS)
    began = time.process_time()
    reset = jax.jit(jax.vmap(env.reset)).lower(keys).compile()
    compiled = time.process_time() - began
    began = time.process_time()
    jax.block_until_ready(reset(keys))
    level = (time.process_time() - began) / LEVELS
    (row,) = throughput([env.replace(pool=LEVELS)], sizes=[ENVS])
    step = usable_cores() / row.steps_per_second
    return {
        "reset_compile_s": compiled,
        "level_ms": 1000 * level,
        "exact_steps_per_second": 1 / (step + level / EPISODE),
        "pool_steps_per_second": 1 / step,
    }


def theirs(name: str) -> dict[str, float]:
    """Milliseconds of a core for a reset of MiniGrid's, and its steps per second."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from parity.minigrid.wfc_reference import gymnasium

        env: Any = gymnasium.make(f"MiniGrid-WFC-{name}-v0", disable_env_checker=True).unwrapped
        env.reset(seed=0)
        began = time.process_time()
        for seed in range(1, 1 + RESETS):
            env.reset(seed=seed)
        reset = (time.process_time() - began) / RESETS
        env.action_space.seed(0)
        began = time.process_time()
        for _ in range(STEPS):
            env.step(env.action_space.sample())
        step = (time.process_time() - began) / STEPS
    return {"minigrid_reset_ms": 1000 * reset, "minigrid_steps_per_second": 1 / (step + reset / EPISODE)}


if __name__ == "__main__":
    main()
