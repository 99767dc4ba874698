"""gymnax: classic control, MinAtar, bsuite and other environments in JAX, their speeds, baselines and pictures.

Published numbers: the table in the README of RobertTLange/gymnax (commit 086ad95): seconds for 1M steps with random
actions, 2,000 environments, on an A100; and returns of the agents of gymnax-blines.
"""

import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from reproductions.beside import Peer, bench, measure_peer
from reproductions.reproduction import PEERS, Measured, Need, Part, Reproduction, Row, Source, register
from reproductions.workspace import Workspace
from shoal.core.env import Env
from shoal.core.registry import make
from shoal.studies.runs import train
from shoal.viz.videos import render

GYMNAX = Peer("gymnax", "step_gymnax", (Need("gymnax", PEERS),), ("jax",))


class World(NamedTuple):
    """An environment of gymnax's table: the name in shoal, what gymnax's README says, and what shoal trains."""

    shoal: str
    seconds: float | None  # for 1M steps on an A100
    score: float | None  # of the README
    calls: int = 100  # of one measured call of gymnax, in each environment
    preset: str | None = None  # of shoal's PPO; "" is the default one


FAMILIES = {
    "classic control": {
        "Acrobot-v1": World("Acrobot-v1", 0.07, -80, preset=""),
        "Pendulum-v1": World("Pendulum-v1", 0.07, -130, preset=""),
        "CartPole-v1": World("CartPole-v1", 0.05, 500, preset="fast"),
        "MountainCar-v0": World("MountainCar-v0", 0.07, -118, preset=""),
        "MountainCarContinuous-v0": World("MountainCarContinuous-v0", 0.09, 92, preset=""),
    },
    "MinAtar": {
        "Asterix-MinAtar": World("MinAtar/Asterix-v1", 0.92, 15, 20, ""),
        "Breakout-MinAtar": World("MinAtar/Breakout-v1", 0.19, 28, 20, ""),
        "Freeway-MinAtar": World("MinAtar/Freeway-v1", 0.87, 58, 20, ""),
        "Seaquest-MinAtar": World("MinAtar/Seaquest-v1", None, None, 4, ""),
        "SpaceInvaders-MinAtar": World("MinAtar/SpaceInvaders-v1", 0.33, 131, 20, ""),
    },
    "bsuite": {
        "Catch-bsuite": World("bsuite/catch/0", 0.15, 1, preset=""),
        "DeepSea-bsuite": World("bsuite/deep_sea/0", 0.22, 0, preset="8"),
        "MemoryChain-bsuite": World("bsuite/memory_len/4", 0.13, 0.1, preset=""),
        "UmbrellaChain-bsuite": World("bsuite/umbrella_length/9", 0.08, 1, preset=""),
        "DiscountingChain-bsuite": World("bsuite/discounting_chain/0", 0.06, 1.1, preset=""),
        "SimpleBandit-bsuite": World("bsuite/bandit/0", None, None),
    },
    "others": {
        "FourRooms-misc": World("FourRooms-v0", 0.07, 1, preset="visual"),
        "MetaMaze-misc": World("MetaMaze-v0", 0.09, 32),
        "PointRobot-misc": World("PointRobot-Respawn-v0", 0.08, 10),
        "BernoulliBandit-misc": World("BernoulliBandit-v0", 0.08, 90),
        "GaussianBandit-misc": World("GaussianBandit-v0", 0.07, 0),
        "Reacher-misc": World("PlanarReacher-v0", None, None),
        "Swimmer-misc": World("PlanarSwimmer-v0", None, None),
        "Pong-misc": World("PixelPong-v0", None, None),
        "FrozenLake-misc": World("FrozenLake-v1", None, None),
    },
}
WORLDS = {name: world for family in FAMILIES.values() for name, world in family.items()}
TRAINED = [name for name, world in WORLDS.items() if world.preset is not None]
SHORT = [name for name in TRAINED if not name.endswith("MinAtar")]
ZOO = ("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Catch-bsuite")
SEEDS = {"Breakout-MinAtar": 3, "Seaquest-MinAtar": 2}  # of random episodes; with seed 0 they end after 6 and 2 steps
SHOWN = [
    *ZOO,
    "Breakout-MinAtar",
    "Seaquest-MinAtar",
    "FourRooms-misc",
    "MetaMaze-misc",
    "PointRobot-misc",
    "Pong-misc",
]


def speeds(work: Workspace, *, envs: Sequence[str], num_envs: int, seconds: float) -> Measured:
    """Seconds for a million steps with random actions: shoal, and gymnax on this machine."""
    notes: list[str] = []
    rates = bench(work, [WORLDS[name].shoal for name in envs], [num_envs], "--seconds", seconds)
    numbers: dict[str, float] = {}
    for name in envs:
        numbers[f"{name}.shoal"] = 1e6 / rates[WORLDS[name].shoal][num_envs]
        size = ("--env", name, "--envs", num_envs, "--steps", WORLDS[name].calls, "--repeats", 3)
        if found := measure_peer(work, GYMNAX, notes, *size):
            numbers[f"{name}.gymnax"] = 1e6 * statistics.median(found["wall_s"]) / found["steps"]
    ratios = [numbers[f"{name}.gymnax"] / numbers[f"{name}.shoal"] for name in envs if f"{name}.gymnax" in numbers]
    if ratios:
        numbers |= {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    return Measured(numbers, notes=notes)


def returns(work: Workspace, *, envs: Sequence[str], seeds: int, steps: int) -> Measured:
    """Train shoal's PPO with its presets (`steps` 0: as long as they say); greedy returns of the last weights."""
    numbers: dict[str, float] = {}
    commands, trained = {}, []
    for name in envs:
        world, folder = WORLDS[name], name.lower()
        work.say(f"  ppo on {world.shoal}")
        run = train(
            "ppo",
            world.shoal,
            preset=world.preset,
            steps=steps or None,
            seeds=seeds,
            evaluations=1,
            folder=work.folder / folder,
            figures=False,
            progress=False,
        )
        numbers[name] = run.summary["last"]["mean"]
        trained.append(f"{name} {run.summary['steps_per_member']:,}")
        preset = f" --preset {world.preset}" if world.preset else ""
        words = f"{preset} --steps {steps}" if steps else preset
        commands[name] = f"shoal train ppo {world.shoal}{words} --seeds {seeds} --evaluations 1"
    notes = [f"Environment steps of each seed: {', '.join(trained)}."]
    return Measured(numbers, notes=notes, commands=commands)


def visualizer(work: Workspace, *, envs: Sequence[str], steps: int, size: int) -> Measured:
    """Count the environments that can be drawn, and draw an episode of some."""
    drawn = [name for name, world in WORLDS.items() if can_be_drawn(world.shoal)]
    pictures, begin = {}, time.perf_counter()
    for name in envs:
        env, file = WORLDS[name].shoal, f"{name.lower()}.gif"
        trained = name in ZOO
        shown, seed = f"zoo:ppo/{env}" if trained else env, SEEDS.get(name)
        render(shown, seed=seed, max_steps=steps, out=work.folder / file, size=size)
        pictures[file] = f"{name}, {'a trained policy of `shoal zoo`' if trained else 'random actions'}."
    numbers = {"drawn": f"{len(drawn)} of {len(WORLDS)}", "seconds": (time.perf_counter() - begin) / max(len(envs), 1)}
    missing = [name for name in WORLDS if name not in drawn]
    notes = [f"Without a picture: {', '.join(missing)}."] if missing else []
    return Measured(numbers, notes=notes, pictures=pictures)


def can_be_drawn(name: str) -> bool:
    """Whether an environment of shoal has a picture of its state."""
    return type(make(name)).render is not Env.render


def _speed_rows() -> list[Row]:
    rows = []
    for family, worlds in FAMILIES.items():
        for name, world in worlds.items():
            published, where = world.seconds, "A100" if world.seconds else ""
            rows.append(Row(f"{name}.gymnax", f"{name}: gymnax", published, "s", family, where))
            rows.append(Row(f"{name}.shoal", f"{name}: shoal", None, "s", family))
    group = "gymnax's seconds / shoal's"
    least, most = Row("least", "the smallest ratio", None, "", group), Row("most", "the largest ratio", None, "", group)
    return [*rows, Row("median", "median of the environments", None, "", group, main=True), least, most]


def _return_rows() -> list[Row]:
    rows = []
    for family, worlds in FAMILIES.items():
        for name, world in worlds.items():
            if world.score is not None:
                rows.append(Row(name, name, world.score, "", family, "" if world.preset is not None else "ES"))
    return rows


PARTS = (
    Part(
        name="speeds",
        title="Seconds for a million steps",
        about="The README's table: random actions, 2,000 environments in one compiled call, on an A100. Its script "
        "counts whole episodes until it passes a million steps: it takes up to four million, and does not wait for "
        "the last result. Here both libraries step exactly as often as is counted, with automatic resets, and every "
        "observation is added up so that none can be left out. MinAtar's games have sticky actions in shoal, DeepSea "
        "has 10 rows (gymnax: 8), and UmbrellaChain 20 distractors (gymnax: none). `MNISTBandit-bsuite` is left out: "
        "it needs files.",
        measure=speeds,
        here={"envs": list(WORLDS), "num_envs": 2048, "seconds": 0.3},
        full={"seconds": 3.0},
        rows=_speed_rows(),
    ),
    Part(
        name="returns",
        title="Returns of trained agents",
        about="The README's returns are the best of PPO and evolution strategies (ES) in gymnax-blines. Here PPO is "
        "trained with shoal's presets; the return is the mean of 100 fresh episodes of each seed, with greedy actions "
        "and the last weights. MinAtar's games, 3 to 10 million steps each, are trained with `--full` only; they have "
        "sticky actions in shoal, and SpaceInvaders had four more aliens in gymnax when its agent was trained. In "
        "DeepSea 0 is the return of never going right, and 0.99 the largest one. The meta-learning environments at "
        "the end are not trained here.",
        measure=returns,
        here={"envs": SHORT, "seeds": 2, "steps": 0},
        full={"envs": TRAINED, "seeds": 16},
        rows=_return_rows(),
    ),
    Part(
        name="visualizer",
        title="The visualizer",
        about="gymnax draws 15 of its 26 environments. Here is an episode of some of them, drawn by `shoal render`: "
        "by trained policies that come with shoal where there are any, otherwise by random actions.",
        measure=visualizer,
        here={"envs": SHOWN, "steps": 100, "size": 160},
        full={"envs": list(WORLDS), "steps": 500},
        rows=(
            Row("drawn", "environments with a picture", "15 of 26"),
            Row("seconds", "seconds for one GIF, with compilation", None, "s"),
        ),
    ),
)

register(
    Reproduction(
        name="gymnax",
        title="gymnax: environments in JAX",
        source=Source("gymnax", "Robert Lange, 2022", "https://github.com/RobertTLange/gymnax"),
        about="gymnax rewrites classic control, MinAtar, a part of bsuite and other environments in JAX. Its README "
        "has a table of their speeds and of the returns of trained agents, and shows its visualizer.",
        parts=PARTS,
    )
)
