"""Make docs/images/learning.gif: agents of one population before, while and after they learn, above their curves.

    python docs/learning_picture.py [FOLDER]

Rows are learning rates, columns are seeds. At four moments of training all agents play one episode with the weights
that they had then; the ground turns red where the pole has fallen or the cart has left the track. Below, a thin curve
is the mean return of one agent in 20 other episodes, a thick one the mean of a row. Run it from the root of the
repository; it takes some minutes on a CPU, and 1 GB of disk for the weights of every update. The run is kept in
FOLDER, and read from there the next time; without FOLDER it is removed.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import UInt8

import shoal
from shoal.core.env import Env
from shoal.core.keys import make_key
from shoal.rollouts.evaluate import Episode
from shoal.training.folder import RunFolder
from shoal.training.policy import load_policies, restored_policies
from shoal.viz.gif import write_gif
from shoal.viz.style import INK, PALE_INK, PALETTE, figure_style
from shoal.viz.videos import EpisodeRecorder

OUT = Path(__file__).parent / "images" / "learning.gif"
RATES, SEEDS, STEPS, PER_UPDATE = [1e-4, 3e-4, 1e-3], 6, 200_000, 512
MOMENTS = (1, 16, 75, -(-STEPS // PER_UPDATE))  # updates that the agents have learned from
SHOWN, EVERY, HOLD = 400, 8, 16  # steps of an episode; steps from one frame to the next; frames that the last one stays
FPS = 14
WIDTH, HEIGHT, DPI = 740, 460, 100  # pixels
LEFT, TOP, GAP = 74, 40, 6  # pixels: of the first tile, and between two
VIEW = (slice(108, 328), slice(90, 510))  # rows and columns of a picture of CartPole that a tile shows
SMALLER = 4  # pixels of the picture, in each direction, for one of a tile
FALLEN = np.array([247, 208, 194])
CURVES = (0.1, 0.115, 0.88, 0.37)  # left, bottom, width and height of the axes, as fractions of the picture


def train(folder: Path) -> None:
    """Train the population; the checkpoint of every update stays."""
    updates = -(-STEPS // PER_UPDATE)
    options: Any = {"records": updates, "evaluations": updates // 3, "eval_episodes": 20, "keep_checkpoints": 1}
    options |= {"seeds": SEEDS, "steps": STEPS, "sweep": {"learning_rate": RATES}, "figures": False}
    shoal.train("ppo", "CartPole-v1", folder=folder, **options)


def episodes(folder: Path) -> Iterator[tuple[Env, Episode]]:
    """(environments [M], episodes [M, ...] of all members) with the weights of each moment in turn."""
    plan, policies = load_policies(folder)
    recorder = EpisodeRecorder(policies.actor, policies.env, SHOWN, members=len(policies))
    run = RunFolder(folder)
    for update in MOMENTS:
        saved = run.checkpoints / f"step-{update:012d}"
        weights = restored_policies(plan.agent, saved, policies.weights, run.spec_hash)
        played = recorder.record(policies.actor, weights, policies.env, make_key(2))
        yield policies.env, jax.tree.map(np.asarray, played)


def tile(env: Env, state: Any, has_fallen: bool) -> UInt8[np.ndarray, "h w 3"]:
    """One environment, seen from nearer than in its own picture."""
    view = np.asarray(env.render(state))[VIEW].astype(float)
    height, width = (size // SMALLER for size in view.shape[:2])
    small = view[: height * SMALLER, : width * SMALLER].reshape(height, SMALLER, width, SMALLER, 3).mean((1, 3))
    return (small * (FALLEN / 255 if has_fallen else 1.0)).round().astype(np.uint8)


def ground(curves: Any, update: int) -> UInt8[np.ndarray, "H W 3"]:
    """The picture without its tiles: words, and the curves up to an update."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(WIDTH / DPI, HEIGHT / DPI), dpi=DPI)
        write_words(figure, update)
        draw_curves(figure.add_axes(CURVES), curves, update * PER_UPDATE)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def write_words(figure: Any, update: int) -> None:
    """Write the heading, and the learning rate of each row."""
    word = {MOMENTS[0]: "Before: ", MOMENTS[-1]: "After: "}.get(update, "")
    heading: Any = {"y": 1 - 15 / HEIGHT, "va": "center"}
    figure.text(0.01, s=f"{word}{update * PER_UPDATE:,} steps of training", size=15, **heading)
    count = f"{len(RATES) * SEEDS} agents, one program"
    figure.text(0.99, s=count, size=11, ha="right", color=PALE_INK, **heading)
    height, _ = tile_size()
    for row, rate in enumerate(RATES):
        middle = TOP + row * (height + GAP) + height / 2
        label: Any = {"size": 10, "color": PALETTE[row], "ha": "center", "va": "center"}
        figure.text(LEFT / 2 / WIDTH, 1 - middle / HEIGHT, f"learning\nrate\n{rate:g}", **label)


def draw_curves(axes: Any, curves: Any, until: int) -> None:
    """Draw the returns of all evaluations up to a number of steps."""
    steps, returns = np.asarray(curves["env_steps"]), np.asarray(curves["eval_return"])
    shown = (steps <= until) & ~np.isnan(returns).all(axis=1)
    for member, values in enumerate(returns.T):
        axes.plot(steps[shown], values[shown], color=PALETTE[member // SEEDS], linewidth=0.9, alpha=0.4)
    for row in range(len(RATES)):
        mean = returns[shown, row * SEEDS : (row + 1) * SEEDS].mean(axis=1)
        axes.plot(steps[shown], mean, color=PALETTE[row], linewidth=2.2)
    axes.axvline(until, color=INK, linewidth=0.8)
    axes.set(xscale="log", xlim=(PER_UPDATE, STEPS * 1.05), ylim=(0, 510), xlabel="environment steps of each agent")
    axes.set_ylabel("return (500: solved)", size=10)


def tile_size() -> tuple[int, int]:
    """Height and width of a tile in pixels."""
    return (VIEW[0].stop - VIEW[0].start) // SMALLER, (VIEW[1].stop - VIEW[1].start) // SMALLER


def frames(folder: Path) -> Iterator[UInt8[np.ndarray, "H W 3"]]:
    """All frames: for each moment those of the episodes, the last of which stays for a while."""
    from shoal.training.result import load_result

    curves = load_result(folder).curves
    height, width = tile_size()
    for update, (envs, played) in zip(MOMENTS, episodes(folder), strict=True):
        lengths = played.valid.sum(axis=1)
        picture = ground(curves, update)
        for time in range(0, SHOWN + 1, EVERY):
            for m, length in enumerate(lengths):
                at = min(time, int(length))
                state = jax.tree.map(lambda x, m=m, at=at: x[m, at], played.state)
                env = jax.tree.map(lambda x, m=m: np.asarray(x)[m], envs)
                top, left = TOP + m // SEEDS * (height + GAP), LEFT + m % SEEDS * (width + GAP)
                picture[top : top + height, left : left + width] = tile(env, state, time >= length < SHOWN)
            yield picture.copy()
        yield from [picture] * HOLD


def main(folder: Path) -> None:
    if not (folder / "run" / "summary.json").is_file():
        train(folder / "run")
    write_gif(frames(folder / "run"), OUT, fps=FPS)
    print(f"{OUT}: {OUT.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
