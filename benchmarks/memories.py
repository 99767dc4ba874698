"""Measure the gradient of each memory over a rollout: `python benchmarks/memories.py [--steps 256]`.

The memories take turns; the numbers are medians over rounds of the processor time of one gradient, in milliseconds, on
one core. Both forms of the linear ones are measured: a loop over time (the form of a CPU), and a tree (that of a GPU).
"""

import argparse
import json
import os
import statistics
import time

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ["NPROC"] = "1"

import jax
import jax.numpy as jnp

from shoal.core.form import CPU, using
from shoal.core.keys import make_key
from shoal.nn.memory import MEMORIES


def main() -> None:
    """Print the times as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=256)
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--size", type=int, default=64, help="inputs and units")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    gradients = {
        f"{name}{', as a tree' * as_trees}": compiled(name, as_trees, options)
        for name in MEMORIES
        for as_trees in ((False, True) if name in ("mingru", "lru") else (False,))
    }
    times = {name: [] for name in gradients}
    for _ in range(options.rounds):
        for name, gradient in gradients.items():
            start = time.process_time()
            for _ in range(5):
                jax.block_until_ready(gradient())
            times[name].append((time.process_time() - start) / 5 * 1e3)
    print(json.dumps({name: round(statistics.median(ms), 2) for name, ms in times.items()}, indent=1))


def compiled(name: str, as_trees: bool, options: argparse.Namespace):
    """A function without arguments that computes one gradient; it has run once."""
    memory, shape = MEMORIES[name](options.size), (options.steps, options.envs)
    inputs = jax.random.normal(make_key(0), (*shape, options.size))
    is_first = jax.random.bernoulli(make_key(1), 0.02, shape)
    weights, carry = memory.init(make_key(2), inputs), memory.initial_carry((options.envs,))

    def loss(weights, inputs):
        return jnp.sum(memory.unroll(weights, inputs, is_first, carry)[0] ** 2)

    with using(CPU._replace(linear_recurrences_as_trees=as_trees)):
        gradient = jax.jit(jax.grad(loss, (0, 1))).lower(weights, inputs).compile()
    jax.block_until_ready(gradient(weights, inputs))
    return lambda: gradient(weights, inputs)


if __name__ == "__main__":
    main()
