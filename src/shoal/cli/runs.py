"""`shoal eval`, `render`, `plot`, `compare`, `export` and `record`: what to do with run folders."""

import argparse
import itertools
import math
from pathlib import Path
from typing import Any

from shoal.cli.parser import Parser, whole_number


def evaluate_run(words: list[str]) -> None:
    """`shoal eval`: a table of greedy and sampled returns, also in changed worlds."""
    parser = _parser(
        "eval",
        "RUN [options]",
        "Evaluate a run on fresh episodes, acting greedily and as in training. A comma list on a constant of the world "
        "tries every value.",
        "shoal eval runs/ppo-CartPole-v1\n  shoal eval runs/ppo-CartPole-v1 --env.gravity 5,10,15 --member best",
    )
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("--episodes", type=whole_number, default=100, metavar="N", help="of each member (default 100)")
    parser.add_argument("--member", default="all", metavar="M", help="a number, `best`, or `all` (default)")
    parser.add_argument("--which", default="last", choices=("last", "best"), help="last weights (default) or the best")
    parser.add_argument("--sample", action="store_true", help="only as in training, not greedily")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the episodes (default 0)")
    flags = _world_flags(parser, parser.positional("run", words))
    arguments = parser.parse_all(words)

    import numpy as np

    from shoal.cli.fields import read_flags
    from shoal.cli.table import SCORE_HEAD, score_cells, setting_words, table
    from shoal.training.playing import evaluate
    from shoal.training.policy import load_policies
    from shoal.training.records import score_summary
    from shoal.training.result import load_result

    given = read_flags(arguments, flags)
    if given.variants:
        raise ValueError(f"{next(iter(given.variants))} shapes the program: give one value at a time.")
    _, policies = load_policies(arguments.run, arguments.which)
    result = load_result(arguments.run)
    chosen = _chosen(result, policies, arguments.member, arguments.which)
    settings = [setting_words(s) for s in result.settings] if arguments.member == "all" else ["all"]
    swept = len(settings) > 1
    rows = []
    for values in itertools.product(*given.sweep.values()):
        world = {**given.fixed, **dict(zip(given.sweep, values, strict=True))}
        for greedy in (False,) if arguments.sample else (True, False):
            done = evaluate(chosen, episodes=arguments.episodes, greedy=greedy, seed=arguments.seed, env_fields=world)
            returns = np.asarray(done.episode_return).reshape(-1, arguments.episodes).mean(axis=1)
            actions = "greedy" if greedy else "sampled"
            for setting, scores in zip(settings, np.split(returns, len(settings)), strict=True):  # setting-major
                row = [setting_words(world), actions, *score_cells(score_summary(scores))]
                rows.append([setting, *row] if swept else row)
    weights = result.exported.get("weights", arguments.which)  # an exported policy has one kind, whatever is asked for
    print(f"mean return of {arguments.episodes} episodes, over members ({weights} weights)")
    head = ("world", "actions", *SCORE_HEAD)
    print(table(("setting", *head) if swept else head, rows))


def render(words: list[str]) -> None:
    """`shoal render`: GIFs of a run's best, median and worst member, or of a world under random actions."""
    parser = _parser(
        "render",
        "RUN|ENV [options]",
        "Film one episode: of a run's best, median and worst member, or of a world under random actions.",
        "shoal render runs/ppo-CartPole-v1\n  shoal render CartPole-v1 --out cartpole.gif",
    )
    parser.add_argument("what", metavar="RUN|ENV", help="a run folder, or the name of an environment")
    parser.add_argument("--member", metavar="M", help="only this member of the run: a number, or `best`")
    parser.add_argument("--which", choices=("last", "best"), help="last weights (default) or the best")
    parser.add_argument("--seed", type=whole_number, metavar="N", help="of the episode")
    parser.add_argument("--max-steps", type=whole_number, metavar="N", help="end the episode here")
    parser.add_argument("--sample", action="store_true", help="act as in training, not greedily")
    parser.add_argument("--out", metavar="FILE", help="a GIF (default: in the run's videos/, or ENV.gif)")
    arguments = parser.parse_all(words)
    if arguments.max_steps is not None and arguments.max_steps < 1:
        raise ValueError(f"--max-steps {arguments.max_steps} must be at least 1.")

    from shoal.training.folder import locate

    if (locate(arguments.what) / "spec.json").is_file():
        paths = _film_run(arguments)
    else:
        paths = [_film_chance(arguments)]
    print("\n".join(str(path) for path in paths))


def plot(words: list[str]) -> None:
    """`shoal plot`: learning curves of runs, one figure."""
    parser = _parser(
        "plot",
        "RUN... [options]",
        "Draw learning curves: interquartile mean over seeds with its 95 % interval.",
        "shoal plot runs/ppo-CartPole-v1\n  shoal plot runs/a runs/b --x wall --out both.png",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    parser.add_argument("--x", default="steps", choices=("steps", "wall"), help="environment steps or seconds")
    parser.add_argument(
        "--out", metavar="FILE", help=".png, .svg or .pdf (default: in the run's figures/, or curves.png)"
    )
    arguments = parser.parse_all(words)

    from shoal.training.folder import RunFolder
    from shoal.viz.curves import plot_run, plot_runs

    if len(arguments.runs) == 1:
        is_exported = RunFolder(arguments.runs[0]).policy.is_dir()
        print(plot_run(arguments.runs[0], arguments.out or ("curves.png" if is_exported else None), arguments.x))
    else:
        print(plot_runs(arguments.runs, arguments.out or "curves.png", arguments.x))


def compare_runs(words: list[str]) -> None:
    """`shoal compare`: two runs, over the seeds that both have."""
    parser = _parser(
        "compare",
        "A B [options]",
        "Compare two runs by their members' returns: difference of means with a paired bootstrap interval over common "
        "settings and seeds, and the probability that a member of A beats one of B.",
        "shoal compare runs/a runs/b",
    )
    parser.add_argument("a", metavar="A", help="a run folder")
    parser.add_argument("b", metavar="B", help="another")
    parser.add_argument("--metric", default="last", choices=("last", "best"), help="which evaluation (default last)")
    arguments = parser.parse_all(words)

    from shoal.cli.table import table
    from shoal.training.comparison import ENOUGH_PAIRS, compare

    found = compare(arguments.a, arguments.b, arguments.metric)
    rows = [
        [label, path, count, mean, _interval(*interval)]
        for label, path, count, mean, interval in zip(
            "AB", (found["a"], found["b"]), found["members"], found["mean"], found["interval"], strict=True
        )
    ]
    print(table(("", "run", "members", "mean", "95 % interval"), rows))
    if found["pairs"]:
        low, high = found["difference_interval"]
        verdict = "A is better" if low > 0 else "B is better" if high < 0 else "no clear difference"
        if found["pairs"] < ENOUGH_PAIRS:
            verdict = "too few pairs to say"
        print(
            f"A - B = {found['difference']:.4g}, 95 % interval {_interval(low, high)} over {found['pairs']} pairs of "
            f"the same setting and seed: {verdict}"
        )
    else:
        print("no setting and seed is in both, so nothing can be paired")
    for label, count in zip("AB", found["dropped"], strict=True):
        if count:
            print(f"{count} member{'s' * (count > 1)} of {label} left out: no finite score")
    print(f"probability that a member of A beats one of B: {found['probability_of_improvement']:.3f}")


def _interval(low: float, high: float) -> str:
    return "-" if math.isnan(low) else f"[{low:.4g}, {high:.4g}]"


def export(words: list[str]) -> None:
    """`shoal export`: one member's policy as a small folder to share."""
    parser = _parser(
        "export",
        "RUN [options]",
        "Write one member's policy, with its spec and its learning curve, to a folder that is small enough to share. "
        "It can be loaded, evaluated, filmed and watched like a run.",
        "shoal export runs/ppo-CartPole-v1 --out my-policy\n  shoal eval my-policy",
    )
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("--member", default="best", metavar="M", help="a number, or `best` (default)")
    parser.add_argument("--which", default="last", choices=("last", "best"), help="last weights (default) or the best")
    parser.add_argument("--out", metavar="FOLDER", help="where to (default: RUN-policy)")
    parser.add_argument("--half", action="store_true", help="weights in half precision, in half the room")
    arguments = parser.parse_all(words)

    from shoal.training.export import export as write
    from shoal.training.folder import ZOO_PREFIX

    member = "best" if arguments.member == "best" else member_number(arguments.member)
    beside = str(Path(arguments.run))
    if beside.startswith(ZOO_PREFIX):  # not into the package
        beside = beside.removeprefix(ZOO_PREFIX).replace("/", "-")
    path = write(arguments.run, arguments.out or f"{beside}-policy", member, arguments.which, arguments.half)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"{path} ({size / 1000:.0f} kB)")


def record(words: list[str]) -> None:
    """`shoal record`: what a policy does, for another to imitate."""
    parser = _parser(
        "record",
        "RUN [options]",
        "Write what a policy sees and does to a file, for behaviour cloning.",
        "shoal record runs/ppo-CartPole-v1 --steps 2000 --out expert.npz\n"
        "  shoal train bc CartPole-v1 --demonstrations expert.npz --steps 200_000",
    )
    parser.add_argument("run", metavar="RUN", help="a run folder, or zoo:AGENT/ENV")
    parser.add_argument("--steps", type=whole_number, default=10_000, metavar="N", help="how many (default 10,000)")
    parser.add_argument("--member", default="best", metavar="M", help="a number, or `best` (default)")
    parser.add_argument("--which", default="last", choices=("last", "best"), help="last weights (default) or the best")
    parser.add_argument("--sample", action="store_true", help="act as in training, not greedily")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the episodes (default 0)")
    parser.add_argument("--out", default="demonstrations.npz", metavar="FILE", help="(default demonstrations.npz)")
    arguments = parser.parse_all(words)

    from shoal.training import playing
    from shoal.training.recording import save_demonstrations
    from shoal.training.result import load

    member = "best" if arguments.member == "best" else member_number(arguments.member)
    policy = load(arguments.run, member, arguments.which)
    told = playing.record(policy, arguments.steps, greedy=not arguments.sample, seed=arguments.seed)
    path = save_demonstrations(arguments.out, told)
    print(f"{path} ({len(told):,} steps, {path.stat().st_size / 1000:.0f} kB)")


def _parser(name: str, usage: str, description: str, examples: str) -> Parser:
    return Parser(
        prog=f"shoal {name}",
        usage=f"shoal {name} {usage}",
        description=description,
        epilog=f"examples:\n  {examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _world_flags(parser: Parser, run: str) -> list:
    """Add flags for the constants of the world that a run was made in; none where no run is named."""
    if not run:
        return []
    from shoal.cli.fields import add_flags, flags_of
    from shoal.core.registry import ENVS
    from shoal.training.folder import RunFolder
    from shoal.training.policy import check_complete

    folder = RunFolder(run)
    spec = check_complete(folder)
    flags = flags_of(ENVS[spec.env].cls, ENVS[spec.env].preset, prefix="env.")
    add_flags(parser, f"the world {spec.env}", flags)
    return flags


def _chosen(result: Any, policies: Any, member: str, which: str) -> Any:
    if member == "all":
        return policies
    number = member if member == "best" else member_number(member, ", `best` or `all`")
    return policies[result.number_of(number, which)]


def member_number(text: str, others: str = " or `best`") -> int:
    """The number that was given for `--member`, which may also be `others`. Raises ValueError for anything else."""
    if not text.lstrip("-").isdigit():
        raise ValueError(f"--member {text} is unknown: give a number{others}.")
    return int(text)


def _film_run(arguments: argparse.Namespace) -> list[Path]:
    from shoal.core.keys import make_key
    from shoal.training.folder import run_name
    from shoal.training.policy import load_policies
    from shoal.training.result import load_result
    from shoal.viz.videos import camera_for, draw_members, film

    which, greedy = arguments.which or "last", not arguments.sample
    result = load_result(arguments.what)
    ranking = result.ranking(which)
    plan, policies = load_policies(arguments.what, which)
    horizon = arguments.max_steps or plan.horizon
    is_exported = bool(result.exported)
    if arguments.member is None and not arguments.out and not is_exported:
        camera = camera_for(plan, horizon, greedy)
        key = None if arguments.seed is None else make_key(arguments.seed)
        return draw_members(plan, policies, ranking, result.folder / "videos", camera, key)
    asked = arguments.member or "best"
    member = result.number_of(asked if asked == "best" else member_number(asked), which)
    policy = policies[member]
    name = f"{run_name(result.spec.env)}.gif" if is_exported else f"videos/member-{member}.gif"
    out = Path(arguments.out or (name if is_exported else result.folder / name))
    return [film(policy, make_key(arguments.seed or 0), horizon, out, policy.name, greedy)]


def _film_chance(arguments: argparse.Namespace) -> Path:
    from shoal.core.keys import make_key
    from shoal.core.registry import make
    from shoal.core.struct import to_arrays
    from shoal.training.policy import Chance, Policy
    from shoal.viz.videos import film

    if Path(arguments.what).exists() and ":" not in arguments.what:
        raise FileNotFoundError(f"{arguments.what} is not a run folder: it has no spec.json.")
    for option in ("member", "which", "sample"):
        if getattr(arguments, option):
            raise ValueError(f"--{option} is for a run; {arguments.what} is a world, filmed under random actions.")
    world = make(arguments.what)
    horizon = arguments.max_steps or min(int(world.max_steps or 500), 500)
    policy = Policy(Chance(world.action_space), None, to_arrays(world), "random actions")
    out = Path(arguments.out or f"{arguments.what.rpartition(':')[2]}.gif")
    return film(policy, make_key(arguments.seed or 0), horizon, out, "random actions", greedy=False)
