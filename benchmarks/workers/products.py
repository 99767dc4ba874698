"""How fast could it be? The matrix products of a learner's gradient steps, and nothing else, on all cores.

Forward and backward through its networks for a batch of the recipe's size, members side by side on each core as shoal
has them: no environment, no sampling, no optimizer. Its rate in environment steps is what XLA's products allow.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor

import measure

parser = argparse.ArgumentParser()
parser.add_argument("--recipe", choices=("dqn", "ppo", "minatar"), default="dqn")
parser.add_argument("--seeds", type=int, default=32)
parser.add_argument("--block", type=int, default=8, help="members that run together")
parser.add_argument("--gradients", type=int, default=1000, help="gradient steps of each member")
args = parser.parse_args()

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import_s = measure.seconds_since_start()
BATCH = 1024 if args.recipe == "minatar" else 128
# Networks that learn, networks that are only asked, and environment steps for each gradient step.
TRAINED, ASKED, STEPS = {
    "dqn": ([(4, 120, 84, 2)], [(4, 120, 84, 2)], 10),
    "ppo": ([(4, 64, 64, 2), (4, 64, 64, 1)], [], 512 // 16),
    "minatar": ([(400, 64, 64, 3), (400, 64, 64, 1)], [], 8192 // 32),
}[args.recipe]


def forward(weights, x):
    layers = [x]
    for w in weights[:-1]:
        layers.append(jnp.maximum(layers[-1] @ w, 0))
    return layers, layers[-1] @ weights[-1]


def backward(weights, layers, slope):
    slopes = []
    for i in reversed(range(len(weights))):
        slopes.append(layers[i].T @ slope)
        if i:
            slope = jnp.where(layers[i] > 0, slope @ weights[i].T, 0)
    return slopes[::-1]


def gradient_step(weights, x):
    trained, asked = weights
    goal = sum(jnp.max(forward(w, x)[1]) for w in asked) if asked else 1.0
    new = []
    for w in trained:
        layers, out = forward(w, x)
        slopes = backward(w, layers, out - goal)
        new.append([old - 1e-9 * s for old, s in zip(w, slopes, strict=True)])  # so that nothing is left out
    return new, asked


@jax.jit
def train(weights, x):
    return jax.lax.fori_loop(0, args.gradients, lambda _, w: jax.vmap(gradient_step)(w, x), weights)


def start(device):
    def network(sizes):
        return [jnp.full((args.block, a, b), 0.01) for a, b in zip(sizes[:-1], sizes[1:], strict=True)]

    weights = [network(s) for s in TRAINED], [network(s) for s in ASKED]
    return jax.device_put((weights, jnp.ones((args.block, BATCH, TRAINED[0][0]))), device)


devices = jax.devices()
blocks = [start(devices[i % len(devices)]) for i in range(args.seeds // args.block)]


def run():
    with ThreadPoolExecutor(len(devices)) as pool:
        list(pool.map(lambda block: jax.block_until_ready(train(*block)), blocks))


seconds = measure.repeat(run, 3)
run_s = sorted(seconds["wall_s"])[1]
# Forward, slopes of weights, and slopes of inputs except the first layer's.
products = sum(3 * a * b for sizes in TRAINED for a, b in zip(sizes[:-1], sizes[1:], strict=True))
products -= sum(sizes[0] * sizes[1] for sizes in TRAINED)
products += sum(a * b for sizes in ASKED for a, b in zip(sizes[:-1], sizes[1:], strict=True))
gradients = len(blocks) * args.block * args.gradients
measure.report(
    steps=gradients * STEPS, import_s=import_s, run_s=run_s, gflops=2e-9 * products * BATCH * gradients / run_s
)
