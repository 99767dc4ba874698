"""Doors: DQN with torch and Gymnasium, with Flax and Gymnasium, and in one compiled program, after Yasin Yousif.

The article trains DQN on a grid with a wall, searches for hyperparameters with Optuna, tracks the search with MLflow,
and compares three ways to do so by time and by the reward per step that they reach.
"""

import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from reproductions.beside import run, train
from reproductions.reproduction import PEERS, Chart, Measured, Need, Part, Reproduction, Row, Source, register
from reproductions.workspace import Workspace
from shoal.core.keys import make_key
from shoal.envs.gridworlds.doors import Doors
from shoal.interop import gymnax
from shoal.studies.study import StudyResult
from shoal.studies.throughput import HORIZON, make_fleet

ENV, ENVS, LIMIT, DISCOUNT = "Doors-v0", 64, 13, 0.99
PUBLISHED_STEPS = 512  # of random actions, in the article's figure
SIZES = (1, 101, 201, 301, 401, 481)
THEIRS = "RTX 5060 Ti, Ryzen 7600X"
COPIES = "random steps of the largest number of copies"
SECONDS = Chart("seconds", "512 steps of all copies", "copies", "seconds", log_y=True)
CALLED, ONE = "shoal, a call for each step", "shoal, one program"
EXPLORES = 0.05  # the article's final epsilon

# The article's search, in environment steps: it counts steps of all 64 copies. Its time limit is searched too, from 10
# to 17 steps; here it is fixed, because the score of a study is the return, which grows with the limit.
RANGES = {
    "learning_rate": "log(1e-4,1e-1)",
    "buffer_size": f"{128 * ENVS}..{1024 * ENVS}",
    "batch_size": "16..128",
    "train_frequency": f"log({4 * ENVS},{24 * ENVS})",
    "optimizer": "adam|sgd",
}
FIXED = ("--env.max-steps", LIMIT, "--num-envs", ENVS, "--num-steps", 4, "--hidden", "64,32",
         "--discount", DISCOUNT, "--learning-starts", 100 * ENVS, "--target-period", 200 * ENVS,
         "--epsilon-end", EXPLORES)  # fmt: skip
CHOSEN = ("--learning-rate", 1e-3, "--buffer-size", 1024 * ENVS, "--batch-size", 128, "--train-frequency", 4 * ENVS,
          "--train-iterations", 2)  # fmt: skip


def environments(work: Workspace, *, envs: Sequence[int], async_envs: Sequence[int], steps: int) -> Measured:
    """Seconds for random steps of copies of Doors: Gymnasium's vector environments, and shoal called step by step."""
    lines: dict[str, tuple[list, list]] = {}
    for kind, name, sizes in (("async", "AsyncVectorEnv", async_envs), ("sync", "SyncVectorEnv", envs)):
        work.say(f"  Gymnasium's {name}")
        words = ("--mode", kind, "--env", ENV, "--steps", steps, "--repeats", 1)
        found = [work.peer("step_called", *words, "--envs", size) for size in sizes]
        lines[f"Gymnasium, {name}"] = list(sizes), [answer["wall_s"][0] for answer in found]
    return Measured(_rates(lines, steps), {"seconds": lines}, notes=["Actions are chosen before the clock starts."])


def compiled(work: Workspace, *, envs: Sequence[int], steps: int) -> Measured:
    """Seconds for random steps of copies of shoal's Doors: one call for each step, and one program for all steps."""
    lines: dict[str, tuple[list, list]] = {}
    for name, measure in ((CALLED, _called), (ONE, _program)):
        work.say(f"  {name}")
        lines[name] = list(envs), [measure(count, steps) for count in envs]
    notes = [
        f"The program returns the sum of all observations and the last states, which are read before the clock stops. "
        f"Its steps come in groups of {HORIZON}, so its seconds are those of {steps // HORIZON * HORIZON or HORIZON}, "
        f"scaled to {steps}.",
        "Compilation is left out: it does not depend on the number of steps.",
    ]
    return Measured(_rates(lines, steps), {"seconds": lines}, notes=notes)


def torch_search(work: Workspace, *, trials: int, steps: int) -> Measured:
    """The article's search with a network in torch, and Doors in NumPy under Gymnasium."""
    return _gymnasium_search(work, "torch", trials, steps)


def flax_search(work: Workspace, *, trials: int, steps: int) -> Measured:
    """The article's search with a network in Flax, and Doors in NumPy under Gymnasium."""
    return _gymnasium_search(work, "flax", trials, steps)


def _gymnasium_search(work: Workspace, network: str, trials: int, steps: int) -> Measured:
    store = f"sqlite:///{work.folder / 'mlflow.db'}"
    sizes = ("--network", network, "--trials", trials, "--steps", steps)
    found = work.peer("doors_study", *sizes, "--prune", "--track", store)
    return Measured(
        {
            f"{network}.reward": found["best"].pop("score"),
            f"{network}.search": _search_in_words(found["seconds"], trials),
            f"{network}.trial": found["seconds"] / trials,
            f"{network}.cpu": found["cpu_seconds"] / trials,
        },
        notes=[
            f"The best trial has {_words(found['best'])}.",
            f"Hyperband ended trials early: on average a trial trained {np.mean(found['trained']):.0%} of its steps. A "
            f"whole trial would take {sum(found['trial_s']) / sum(found['trained']):.0f} s.",
        ],
        data=found,
    )


def shoal_search(work: Workspace, *, trials: int, parallel: int, steps: int, fresh_seeds: int) -> Measured:
    """One training and the whole search with shoal, each in a fresh process with an empty cache."""
    numbers: dict[str, float | str | None] = {"possible": largest_reward_per_step(LIMIT, EXPLORES)}
    numbers["possible.greedy"] = largest_reward_per_step(LIMIT, 0)
    one = train(work, "one", "dqn", ENV, *FIXED, *CHOSEN, "--steps", steps, "--evaluations", 1)
    numbers |= {"one.seconds": one.seconds, "one.cpu": one.cpu_seconds}
    curves = one.result.curves
    rewards = curves["train_return"][:, 0] / curves["train_length"][:, 0]
    numbers |= {"one.reward": float(rewards[-1])}
    numbers["one.greedy"] = float(curves["eval_return"][-1, 0] / curves["eval_length"][-1, 0])
    tracker = ("--track", "mlflow") if importlib.util.find_spec("mlflow") else ()
    ranges = [word for path, text in RANGES.items() for word in ("--search", f"{path}={text}")]
    size = ("--trials", trials, "--parallel", parallel, "--seeds", 1, "--steps", steps, "--records", 27)
    fresh = ("--fresh-seeds", fresh_seeds)
    search = run(work, "search", "tune", "dqn", ENV, *FIXED, "--preset", "none", *ranges, *size, *tracker, *fresh)
    summary = StudyResult(search.folder).summary
    best = summary["best"]
    numbers |= {
        "shoal.reward": best["score"] / LIMIT,
        "shoal.search": _search_in_words(search.seconds, trials),
        "shoal.trial": search.seconds / trials,
        "shoal.cpu": search.cpu_seconds / trials,
        "shoal.fresh": best["fresh_score"] / LIMIT,
    }
    notes = [
        f"The best trial has {_words(best['params'])}. On {fresh_seeds} seeds that no trial had it reaches "
        f"{numbers['shoal.fresh']:.3f}; the search with {fresh_seeds} fresh seeds, compilation and imports is the time "
        "above.",
        "The search was tracked with MLflow." if tracker else "MLflow is not installed here, so nothing was tracked.",
        f"Every episode has {LIMIT} steps, so the reward per step is the return divided by {LIMIT}.",
    ]
    return Measured(
        numbers,
        {"training": {"shoal": (curves["env_steps"].tolist(), rewards.tolist())}},
        notes=notes,
        commands={"One training": one.command, "The search": search.command},
        data={"best": best, "trials": summary["trials"]},
    )


def largest_reward_per_step(limit: int, epsilon: float) -> float:
    """The largest mean return of episodes of `limit` steps, divided by `limit`, if a share of the steps is random.

    By dynamic programming over the cells, for every column of the goal. Exact as long as no episode can reach the goal,
    which takes 14 steps or more.
    """
    rows, columns, gaps = Doors().rows, Doors().columns, Doors().gaps
    row, column = np.mgrid[:rows, :columns]
    total = 0.0
    for goal in range(columns):
        distance = np.hypot(row, column - goal)
        value = np.zeros((rows, columns))
        for _ in range(limit):
            options = []
            for down, right in ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)):
                to = np.clip(row + down, 0, rows - 1), np.clip(column + right, 0, columns - 1)
                is_wall = (to[0] == rows // 2) & ~np.isin(to[1], gaps)
                to = np.where(is_wall, row, to[0]), np.where(is_wall, column, to[1])
                options.append(distance - distance[to] + value[to])
            value = (1 - epsilon) * np.max(options, axis=0) + epsilon * np.mean(options, axis=0)
        total += value[-1].mean()
    return total / columns / limit


def _called(envs: int, steps: int) -> float:
    """Seconds of `steps` calls, each of which steps all copies and is waited for, as in the article."""
    env, params = gymnax.make(ENV)
    key = make_key(0)
    reset, step = (
        jax.jit(jax.vmap(call, axes)) for call, axes in ((env.reset, (0, None)), (env.step, (0, 0, 0, None)))
    )
    keys = jax.random.split(key, (steps, envs))
    actions = jax.random.randint(key, (steps, envs), 0, env.num_actions)
    rows = list(zip(keys, actions, strict=True))
    _, state = reset(keys[0], params)
    jax.block_until_ready(step(keys[0], state, actions[0], params))  # compiles
    begin = time.perf_counter()
    for row_keys, row_actions in rows:
        _, state, *rest = step(row_keys, state, row_actions, params)
        jax.block_until_ready(rest)
    return time.perf_counter() - begin


def _program(envs: int, steps: int) -> float:
    """Seconds of one program that takes about `steps` steps of all copies, scaled to `steps`: the best of three."""
    fleet = make_fleet(Doors(), envs, rounds=max(1, steps // HORIZON))
    fleet.advance()
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        fleet.advance()
        assert np.isfinite(fleet.checksum)
        seconds.append(time.perf_counter() - begin)
    return min(seconds) * steps * envs / fleet.steps


def _rates(lines: dict[str, tuple[list, list]], steps: int) -> dict[str, float]:
    """The steps per second of the largest number of copies, by the name of the line."""
    return {name: envs[-1] * steps / seconds[-1] for name, (envs, seconds) in lines.items()}


def _words(values: dict[str, Any]) -> str:
    """Hyperparameters as a text: `learning_rate 0.001, batch_size 64`."""
    return ", ".join(f"{path} {v:.4g}" if isinstance(v, float) else f"{path} {v}" for path, v in values.items())


def _search_in_words(seconds: float, trials: int) -> str:
    return f"{seconds / 60:.1f} min, {trials} trials"


def _search_rows(key: str, group: str, reward: float, minutes: float) -> tuple[Row, ...]:
    return (
        Row(f"{key}.reward", "rolling reward per step, best trial", reward, "", group, THEIRS, main=True),
        Row(f"{key}.search", "the search", f"{minutes} min, 40 trials", "", group, THEIRS, main=True),
        Row(f"{key}.trial", "the search, per trial", round(minutes * 60 / 40, 1), "s", group, "derived", main=True),
        Row(f"{key}.cpu", "processor time of the search, per trial", None, "s", group, main=True),
    )


def _stack(network: str, title: str, measure: Callable[..., Measured], reward: float, minutes: float) -> Part:
    packages = {"torch": ("torch",), "flax": ("flax", "optax")}[network]
    return Part(
        name=network,
        title=f"DQN with {title} and Gymnasium",
        about=f"The search with Doors in NumPy, 64 copies in Gymnasium's `SyncVectorEnv`, and a network of 64 and 32 "
        f"units in {title}. The article seeds NumPy at every reset with the last positions, so its episodes have few "
        "different starts; here all starts are equally likely. We take the article's minutes for those of its whole "
        "search of 40 trials: for one training they would be 170 milliseconds for each step. It sends four numbers to "
        "MLflow at every step, and we one at every hundredth.",
        measure=measure,
        here={"trials": 4, "steps": 500_000},
        full={"trials": 40},
        rows=_search_rows(network, f"{title}, Gymnasium", reward, minutes),
        needs=(*(Need(name, PEERS) for name in (*packages, "gymnasium", "optuna", "mlflow")),),
    )


PARTS = (
    Part(
        name="environments",
        title="Steps of Doors in Gymnasium",
        about="The article's figure: 512 steps of random actions by the number of copies.",
        measure=environments,
        here={"envs": SIZES, "async_envs": (1, 51, 101), "steps": PUBLISHED_STEPS},
        full={"async_envs": SIZES},
        rows=(
            Row("Gymnasium, SyncVectorEnv", "SyncVectorEnv", round(481 * 512 / 2.758), "steps/s", COPIES, THEIRS),
            Row("Gymnasium, AsyncVectorEnv", "AsyncVectorEnv", round(481 * 512 / 5.45), "steps/s", COPIES, THEIRS),
        ),
        charts=(
            SECONDS._replace(
                published={
                    "Gymnasium, AsyncVectorEnv": (SIZES, (0.033, 0.813, 1.83, 3.06, 4.30, 5.45)),
                    "Gymnasium, SyncVectorEnv": (SIZES, (0.009, 0.580, 1.135, 1.709, 2.303, 2.758)),
                }
            ),
        ),
        needs=(Need("gymnasium", PEERS),),
    ),
    Part(
        name="compiled",
        title="Steps of Doors in JAX",
        about="The same figure for environments in JAX. The article's line `full loop`, 0.07 seconds whatever the "
        "number of copies, is the time of an empty program: its function returns nothing, so the compiler removes the "
        "loop, and what is measured is compilation. Here the program returns what it computed. The article's line for "
        "a call of each step includes the compilation of one step.",
        measure=compiled,
        here={"envs": SIZES, "steps": PUBLISHED_STEPS},
        rows=(
            Row(CALLED, "a call for each step", round(481 * 512 / 1.54), "steps/s", COPIES, THEIRS, main=True),
            Row(ONE, "one program for all steps", None, "steps/s", COPIES, "the time of an empty program", main=True),
        ),
        charts=(
            SECONDS._replace(
                published={
                    "JAX, a call for each step": (SIZES, (1.58, 1.59, 1.54, 1.54, 1.48, 1.54)),
                    "JAX, full loop (an empty program)": (SIZES, (0.088, 0.070, 0.070, 0.071, 0.070, 0.071)),
                }
            ),
        ),
    ),
    _stack("torch", "torch", torch_search, 0.73, 22.5),
    _stack("flax", "Flax", flax_search, 0.64, 22.8),
    Part(
        name="shoal",
        title="Everything in one program",
        about="The article's third way is an environment in JAX and a network in Flax, stepped from Python "
        "with 1,024 copies. Its environment draws the columns of agent and goal from the same key, so they are "
        "always equal, which is easier. In shoal, environment, replay, network and search are one compiled "
        "program. The columns are independent, there are 64 copies as with Gymnasium, and the network reads "
        f"each cell one-hot. The search is that with Gymnasium, with a time limit of {LIMIT} steps, which is "
        "in its range of 10 to 17. With fewer than 14 steps no episode can reach the goal: then the reward per "
        "step says how straight an agent walks towards it. It is that of training episodes with 5 % random "
        "actions, as in the article.",
        measure=shoal_search,
        here={"trials": 40, "parallel": 16, "steps": 500_000, "fresh_seeds": 4},
        full={"fresh_seeds": 16},
        rows=(
            *_search_rows("shoal", "everything in JAX", 0.71, 2.3),
            Row("shoal.fresh", "reward of the best trial on fresh seeds", None, "", "everything in JAX"),
            Row("one.reward", "rolling reward per step", None, "", "one training with shoal", main=True),
            Row("one.seconds", "the whole process", None, "s", "one training with shoal", main=True),
            Row("one.cpu", "its processor time", None, "s", "one training with shoal", main=True),
            Row("one.greedy", "reward per step without random actions", None, "", "one training with shoal"),
            Row("possible", "with 5 % random actions", None, "", f"the largest reward per step, {LIMIT} steps"),
            Row("possible.greedy", "without", None, "", f"the largest reward per step, {LIMIT} steps"),
        ),
        charts=(Chart("training", "One training", "environment steps", "reward per step"),),
    ),
)

register(
    Reproduction(
        name="doors",
        title="Doors: DQN in Gymnasium and in one program",
        source=Source(
            "Speeding up Training of Model-Free Reinforcement Learning: A Comparative Evaluation",
            "Yasin Yousif, 2025",
            "https://www.rlbyexample.net/posts/reinforcement-learning-with-bells-and-whistles",
        ),
        about="An agent walks through a gap in a wall towards a goal. The article trains DQN for 500,000 steps, "
        "searches for its hyperparameters with Optuna, and compares torch and Gymnasium, Flax and Gymnasium, and Flax "
        "with an environment in JAX.",
        parts=PARTS,
    )
)
