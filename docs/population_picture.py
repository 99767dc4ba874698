"""Make docs/images/population.gif: 24 agents of one population at work, one episode of each, side by side.

Rows are pole lengths, columns are seeds. Run it from the root of the repository; it takes about a minute.
"""

import tempfile
from pathlib import Path

import jax
import numpy as np

import shoal
from shoal.training.policy import load_policies
from shoal.viz.gif import write_gif
from shoal.viz.videos import EpisodeRecorder

LENGTHS = [0.3, 0.5, 0.8, 1.1]  # half of the pole's length, in meters
SEEDS = 6
FRAMES = range(0, 161, 2)
SHRINK = 5  # a picture of 600 x 400 pixels becomes 120 x 60, without the rows below the track


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = shoal.train(
            "ppo",
            "CartPole-v1",
            env_fields={"reset_low": -0.15, "reset_high": 0.15},
            env_sweep={"length": LENGTHS},
            seeds=SEEDS,
            steps=200_000,
            evaluations=1,
            figures=False,
            folder=f"{folder}/run",
        )
        policies = load_policies(result.folder)[1]
    members = len(LENGTHS) * SEEDS
    recorder = EpisodeRecorder(policies.actor, policies.env, FRAMES.stop, members=members)
    episodes = jax.tree.map(
        np.asarray, recorder.record(policies.actor, policies.weights, policies.env, shoal.make_key(1))
    )
    frames = (grid([picture(policies.env, episodes.state, m, t) for m in range(members)]) for t in FRAMES)
    write_gif(frames, Path(__file__).parent / "images" / "population.gif", fps=25)


def picture(envs, states, member: int, time: int) -> np.ndarray:
    env = jax.tree.map(lambda x: x[member], envs)
    pixels = env.render(jax.tree.map(lambda x: x[member, time], states))
    rows = pixels[10:310].reshape(300 // SHRINK, SHRINK, 600 // SHRINK, SHRINK, 3)
    return rows.mean(axis=(1, 3)).astype(np.uint8)


def grid(pictures: list) -> np.ndarray:
    framed = [np.pad(p, ((1, 1), (1, 1), (0, 0)), constant_values=215) for p in pictures]
    return np.concatenate([np.concatenate(framed[i : i + SEEDS], axis=1) for i in range(0, len(framed), SEEDS)])


if __name__ == "__main__":
    main()
