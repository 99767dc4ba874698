"""Measure the gradient of the encoder of instructions, with each text read once and for every sample.

    python benchmarks/instructions.py

512 samples, as in a minibatch, have 12, 64 or 512 different instructions of 5 or 18 words. The two forms alternate. The
numbers are milliseconds of one core for a value and its gradient: medians of ROUNDS, each of STEPS gradient steps.
"""

import os
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")

import shoal  # noqa: E402

shoal.prepare()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from shoal.core.form import CPU, in_form  # noqa: E402
from shoal.core.keys import make_key  # noqa: E402
from shoal.nn.instructions import WordGRU  # noqa: E402

SAMPLES, WORDS, STEPS, ROUNDS = 512, 52, 20, 7
ENCODER = WordGRU(WORDS)


def loss_of(weights, texts):
    """The mean square of the vectors of all texts."""
    return jnp.square(jnp.asarray(ENCODER.apply(weights, texts))).mean()


def gradient_steps(weights, texts):
    """The losses of STEPS gradient steps."""

    def step(weights, _):
        loss, gradient = jax.value_and_grad(loss_of)(weights, texts)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradient), loss

    return jax.lax.scan(step, weights, None, STEPS)[1]


def main() -> None:
    """Print a table."""
    forms = {"every sample": CPU._replace(texts_once=False), "each text once": CPU}
    print(f"{'words':>5} {'different':>9}  " + "  ".join(f"{name:>14}" for name in forms))
    for length, different in ((5, 12), (5, 64), (5, SAMPLES), (18, 12), (18, 64), (18, SAMPLES)):
        rng = np.random.default_rng(0)
        texts = rng.integers(1, WORDS, (different, length)).astype(np.uint8)
        texts = jnp.asarray(texts[np.arange(SAMPLES) % different])
        weights = ENCODER.init(make_key(0), texts)
        programs = {name: jax.jit(in_form(gradient_steps, form)) for name, form in forms.items()}
        times = {name: [] for name in forms}
        for turn in range(ROUNDS + 1):
            for name, program in programs.items():
                begin = time.process_time()
                jax.block_until_ready(program(weights, texts))
                if turn:  # the first one compiles
                    times[name].append((time.process_time() - begin) / STEPS * 1e3)
        print(f"{length:5} {different:9}  " + "  ".join(f"{np.median(found):14.2f}" for found in times.values()))


if __name__ == "__main__":
    main()
