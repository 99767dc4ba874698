"""`shoal eval`, `render`, `plot`, `report`, `export` and `record`: the commands that read run folders."""

import argparse
import itertools
from pathlib import Path
from typing import Any

from shoal.cli.compare import add_grouping, grouping
from shoal.cli.options import given
from shoal.cli.parser import Line, Named, Parser, file_ending_in, read_member, whole_number
from shoal.cli.wraps import add_wrap, env_of, wrapped

WHICH = ("last", "best")
BOT = "babyai-bot"  # what `shoal record` may record instead of a run
MOST_PIXELS = 4096  # of a picture


def eval_parser() -> Parser:
    """The options of `shoal eval`; the fields of the run's environment are flags too."""
    parser = Parser("eval", evaluate_run, "RUN [options]", named=_env_of_run, opens_run=True)
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("--episodes", type=whole_number, default=100, metavar="N", help="per member (default 100)")
    parser.add_argument("--member", default="all", metavar="M", help="a number, `best`, or `all` (default)")
    parser.add_argument("--which", default="last", choices=("last", "best"), help="last weights (default) or the best")
    parser.add_argument("--sample", action="store_true", help="only sampled actions, as in training")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the episodes (default 0)")
    limit = "cut episodes off after N steps (default: the environment's time limit, or 1,000 where it has none)"
    parser.add_argument("--max-steps", type=whole_number, default=0, metavar="N", help=limit)
    parser.add_argument("--gymnasium", metavar="ID", help="play in this environment of Gymnasium instead")
    return parser


def evaluate_run(line: Line) -> None:
    """Evaluate a run in fresh episodes, with greedy and with sampled actions. A comma-separated list for a field of the
    environment evaluates with every value.

      shoal eval runs/ppo-CartPole-v1
      shoal eval runs/ppo-CartPole-v1 --env.gravity 5,10,15 --member best
    """
    import numpy as np

    from shoal.cli.table import SCORE_HEAD, cut_off, score_cells, setting_words, table
    from shoal.specs.settings import is_static_part
    from shoal.training.playing import evaluate
    from shoal.training.policy import load_policies
    from shoal.training.records import score_summary
    from shoal.training.result import load_result

    arguments, env_values = line.options, line.env
    if arguments.member != "all":
        read_member(arguments.member, ", `best` or `all`")  # raises before the run is loaded
    _, policies = load_policies(arguments.run, arguments.which, trust_source=arguments.trust_source)
    result = load_result(arguments.run)
    if static := [name for name in env_values.sweep if is_static_part(policies.env, name)]:
        raise ValueError(f"{static[0]} is a static field, which cannot be swept: give one value at a time.")
    if arguments.gymnasium and (env_values.fixed or env_values.sweep):
        raise ValueError(
            "--env.* changes the environment of the run, and --gymnasium replaces it: leave out one of them."
        )
    chosen = _chosen(result, policies, arguments.member, arguments.which)
    settings = [setting_words(s) for s in result.settings] if arguments.member == "all" else ["all"]
    swept = len(settings) > 1
    rows, cut, played, longest = [], 0, 0, 0
    for values in itertools.product(*env_values.sweep.values()):
        fields = {**env_values.fixed, **dict(zip(env_values.sweep, values, strict=True))}
        for greedy in (False,) if arguments.sample else (True, False):
            how = {"episodes": arguments.episodes, "seed": arguments.seed, "max_steps": arguments.max_steps}
            env = f"gymnasium/{arguments.gymnasium}" if arguments.gymnasium else None
            done = evaluate(chosen, env, greedy=greedy, env_fields=fields, **how)
            cut += int((~done.finished).sum())
            played += done.finished.size
            longest = max(longest, int(done.episode_length.max()))
            returns = np.asarray(done.episode_return).reshape(-1, arguments.episodes).mean(axis=1)
            actions = "greedy" if greedy else "sampled"
            for setting, scores in zip(settings, np.split(returns, len(settings)), strict=True):  # setting-major
                row = [setting_words(fields), actions, *score_cells(score_summary(scores))]
                rows.append([setting, *row] if swept else row)
    weights = result.exported.get("weights", arguments.which)  # an exported policy has one kind, so --which is ignored
    about = "" if arguments.sample else "; `shoal train` reports greedy actions"
    print(f"mean return of {arguments.episodes} episodes, over members ({weights} weights){about}")
    head = ("environment", "actions", *SCORE_HEAD)
    print(table(("setting", *head) if swept else head, rows))
    if cut:
        print(cut_off(cut, played, longest, "--max-steps"))


def render_parser() -> Parser:
    """The options of `shoal render`; the fields of an environment are flags too."""
    parser = Parser("render", render, "RUN|ENV [options]", named=env_unless_run, opens_run=True)
    parser.add_argument("what", metavar="RUN|ENV", help="a run folder, or the name of an environment")
    parser.add_argument("--member", metavar="M", help="only this member of the run: a number, or `best`")
    parser.add_argument("--members", metavar="M,M|all", help="these members of the run side by side, in one file")
    parser.add_argument("--columns", type=whole_number, metavar="N", help="of pictures side by side")
    parser.add_argument("--size", type=whole_number, metavar="N", help="of each picture, in pixels (default 300)")
    parser.add_argument("--which", choices=WHICH, help="last weights (default) or the best")
    add_wrap(parser)
    parser.add_argument("--seed", type=whole_number, metavar="N", help="of the episode")
    parser.add_argument("--max-steps", type=whole_number, metavar="N", help="end the episode after N steps")
    parser.add_argument("--sample", action="store_true", help="sample actions, as in training, instead of greedy ones")
    about = ".gif or .mp4 (default: GIFs in the run's videos/, or ENV.gif)"
    parser.add_argument("--out", type=file_ending_in(".gif", ".mp4"), metavar="FILE", help=about)
    return parser


def render(line: Line) -> None:
    """Make videos of an episode: of a run's best, median and worst member, or of an environment (random actions).

    shoal render runs/ppo-CartPole-v1
    shoal render runs/ppo-CartPole-v1 --members all --columns 8 --size 120
    shoal render CartPole-v1 --env.gravity 20 --out cartpole.gif
    shoal render MiniGrid-LavaGapS5-v0 --wrap NoDeath:objects=lava --wrap TimeLimit:max_steps=50
    """
    from shoal.specs.spec import run_name
    from shoal.viz.videos import render as render_videos

    options = line.options
    if options.max_steps is not None and options.max_steps < 1:
        raise ValueError(f"--max-steps {options.max_steps} must be at least 1.")
    for name in ("size", "columns"):
        if getattr(options, name) is not None and not 1 <= getattr(options, name) <= MOST_PIXELS:
            raise ValueError(f"--{name} {getattr(options, name)} must be from 1 to {MOST_PIXELS:,}.")
    if not is_run(options.what):
        for_runs = ("member", "members", "which", "sample", "trust_source")
        refuse_for_env(options, for_runs, options.what, "shown with random actions")
    if options.member and options.members:
        raise ValueError("--member makes a video of one member, --members of several in one file: give only one.")
    if options.columns and not options.members:
        raise ValueError("--columns is for pictures side by side: give --members too, as in `--members all`.")
    fixed_only(line)
    member = None if options.member is None else read_member(options.member)
    is_wrapped, out = bool(options.wrap), options.out
    if is_wrapped and not out:
        out = f"{run_name(options.what)}.gif"
    paths = render_videos(
        env_of(line) if is_wrapped else options.what,
        member=member,
        members=_member_numbers(options.members),
        greedy=not options.sample,
        env_fields={} if is_wrapped else line.env.fixed,
        out=out,
        **given(options, "which", "seed", "max_steps", "size", "columns", "trust_source"),
    )
    print("\n".join(str(path) for path in paths))


def plot_parser() -> Parser:
    """The options of `shoal plot`."""
    parser = Parser("plot", plot, "RUN... [options]")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders")
    parser.add_argument("--x", default="steps", choices=("steps", "wall"), help="environment steps or seconds")
    parser.add_argument("--metric", default="", metavar="NAME", help="any column of curves.npz (default: the returns)")
    parser.add_argument("--by", default="", metavar="FIELD[,FIELD]", help="pool settings by a swept hyperparameter")
    parser.add_argument("--log", action="store_true", help="a logarithmic y axis")
    about = ".png, .svg or .pdf (default: in the run's figures/, or curves.png)"
    parser.add_argument("--out", type=file_ending_in(".png", ".svg", ".pdf"), metavar="FILE", help=about)
    return parser


def plot(line: Line) -> None:
    """Plot learning curves: the interquartile mean over seeds with its 95 % interval. --by draws a curve for each value
    of a swept hyperparameter or, with two of them, a heatmap.

      shoal plot runs/ppo-CartPole-v1
      shoal plot runs/a runs/b --x wall --out both.png
      shoal plot runs/a --metric value_loss --log
      shoal plot runs/grid --by learning-rate,env.gravity
    """
    arguments = line.options
    from shoal.training.folder import RunFolder
    from shoal.viz.curves import plot_figures, plot_run, plot_runs
    from shoal.viz.heatmap import plot_sweep
    from shoal.viz.run_data import RunData

    runs, fields = arguments.runs, arguments.by.split(",") if arguments.by else []
    how: dict[str, Any] = {"metric": arguments.metric, "log": arguments.log}
    if len(runs) > 1:
        if fields:
            raise ValueError("--by is for one run: it pools the settings of a sweep.")
        print(plot_runs(runs, arguments.out or "curves.png", arguments.x, **how))
        return
    (run,) = runs
    out = arguments.out or ("curves.png" if RunFolder(run).policy.is_dir() else None)
    if len(fields) > 1:
        if arguments.log or arguments.x != "steps":
            raise ValueError("--log and --x are for curves, but two fields in --by make a heatmap.")
        data = RunData(run)
        print(plot_sweep(run, out, [data.field(name) for name in fields], arguments.metric or "eval_return"))
    elif out or fields or arguments.metric or arguments.log or arguments.x != "steps":
        print(plot_run(run, out, arguments.x, by="".join(fields), **how))
    else:
        print("\n".join(map(str, plot_figures(run))))


def report_parser() -> Parser:
    """The options of `shoal report`."""
    parser = Parser("report", write_report, "RUN... [options]", opens_run=True)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, or the folder of a study")
    add_grouping(parser)
    about = "a page, .html (default: report.html in the folder of the run, or here if there are several)"
    parser.add_argument("--out", type=file_ending_in(".html", ".htm"), metavar="FILE", help=about)
    return parser


def write_report(line: Line) -> None:
    """Write one HTML page that shows everything about a run: result, curves, tables, hyperparameters, videos,
    provenance, and how to repeat it. Several runs are compared with the first one, or in groups over all their
    environments. The page is one file that loads nothing from a network.

      shoal report runs/ppo-CartPole-v1
      shoal report runs/a runs/b --out a-or-b.html
      shoal report zoo:ppo/CartPole-v1
    """
    from shoal.reports.report import report

    arguments = line.options
    path = report(*arguments.runs, out=arguments.out, trust_source=arguments.trust_source, **grouping(arguments))
    print(f"{path} ({path.stat().st_size / 1000:,.0f} kB)")


def export_parser() -> Parser:
    """The options of `shoal export`."""
    parser = Parser("export", export, "RUN [options]", opens_run=True)
    parser.add_argument("run", metavar="RUN", help="a run folder")
    _add_member(parser)
    about = "shoal (default), numpy, torch, onnx or jax"
    parser.add_argument("--format", default="shoal", metavar="NAME", help=about)
    parser.add_argument("--out", metavar="FOLDER", help="folder to write (default: RUN-policy, or RUN-FORMAT)")
    parser.add_argument("--half", action="store_true", help="store weights in half precision, in half the space")
    return parser


def export(line: Line) -> None:
    """Write one member's policy, with its spec and its learning curve, to a folder that is small enough to share. It
    can be loaded, evaluated, rendered and played like a run. With --format, the folder is for programs without shoal
    instead: its policy.py needs only NumPy, torch, ONNX Runtime or JAX.

      shoal export runs/ppo-CartPole-v1 --out my-policy
      shoal eval my-policy
      shoal export runs/ppo-CartPole-v1 --format numpy --out on-the-robot
    """
    from shoal.specs.spec import NAMED, ZOO_PREFIX
    from shoal.training.export import export as write

    arguments = line.options
    source = str(Path(arguments.run))
    if source.startswith(NAMED):  # write to the current folder, not into the package
        source = source[len(ZOO_PREFIX) :].replace("/", "-")
    out = arguments.out or f"{source}-{'policy' if arguments.format == 'shoal' else arguments.format}"
    how = given(arguments, "which", "half", "format", "trust_source")
    path = write(arguments.run, out, read_member(arguments.member), **how)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    print(f"{path} ({size / 1000:.0f} kB)")


def record_parser() -> Parser:
    """The options of `shoal record`."""
    parser = Parser("record", record, "RUN|babyai-bot ENV [options]", named=_env_of_bot, opens_run=True)
    parser.add_argument("run", metavar="RUN|babyai-bot", help="a run folder, zoo:AGENT/ENV, or babyai-bot")
    parser.add_argument("env", metavar="ENV", nargs="?", default="", help="the level that babyai-bot plays")
    parser.add_argument(
        "--steps", type=whole_number, default=10_000, metavar="N", help="steps to record (default 10,000)"
    )
    _add_member(parser)
    parser.add_argument("--sample", action="store_true", help="sample actions, as in training, instead of greedy ones")
    parser.add_argument("--seed", type=whole_number, default=0, metavar="N", help="of the episodes (default 0)")
    about = "the file to write (default demonstrations.npz)"
    parser.add_argument("--out", type=file_ending_in(".npz"), default="demonstrations.npz", metavar="FILE", help=about)
    return parser


def record(line: Line) -> None:
    """Write the observations and actions of a policy to a file, as demonstrations for behaviour cloning (`bc`). The
    policy is that of a run, or the bot that MiniGrid has for BabyAI's levels.

      shoal record runs/ppo-CartPole-v1 --steps 2000 --out expert.npz
      shoal train bc CartPole-v1 --demonstrations expert.npz --steps 200_000
      shoal record babyai-bot BabyAI-GoToLocal-v0 --steps 50_000 --out bot.npz
    """
    from shoal.training import playing
    from shoal.training.recording import save_demonstrations
    from shoal.training.result import load

    arguments = line.options
    if arguments.run == BOT:
        from shoal.envs.babyai.bot import record_bot

        fixed_only(line)
        demonstrations, report = record_bot(env_of(line), arguments.steps, seed=arguments.seed)
        print(report)
    else:
        how = given(arguments, "which", "trust_source")
        policy = load(arguments.run, read_member(arguments.member), **how)
        demonstrations = playing.record(policy, arguments.steps, greedy=not arguments.sample, seed=arguments.seed)
    path = save_demonstrations(arguments.out, demonstrations)
    print(f"{path} ({len(demonstrations):,} steps, {path.stat().st_size / 1000:.0f} kB)")


def is_run(what: str | None) -> bool:
    """Whether a word names a run folder, an exported policy or a policy of the zoo, and not an environment."""
    from shoal.specs.spec import NAMED

    return bool(what) and (what.startswith(NAMED) or (Path(what) / "spec.json").is_file())


def env_unless_run(options: argparse.Namespace) -> Named:
    """The environment of a line of `render` or `play` in its wrappers; nothing where the line names a run.

    Raises ValueError or FileNotFoundError for a word that names neither.
    """
    if not options.what:
        return {"env": ""}
    if is_run(options.what):
        if options.wrap:
            raise ValueError(f"--wrap is for an environment, but {options.what} is a run, which has its own.")
        return {}
    from shoal.core.registry import ENVS
    from shoal.training.folder import RunFolder

    if ("/" in options.what or Path(options.what).exists()) and ":" not in options.what and options.what not in ENVS:
        RunFolder(options.what).read_spec()  # raises FileNotFoundError with the nearest run
    return {"env": wrapped(options.what, options.wrap)}


def refuse_for_env(options: argparse.Namespace, names: tuple[str, ...], env: str, instead: str) -> None:
    """Raise ValueError if one of the options `names`, which are for runs only, is given with the environment `env`."""
    for name in names:
        if getattr(options, name):
            raise ValueError(
                f"--{name.replace('_', '-')} is for a run, but {env} is an environment, which is {instead}."
            )


def fixed_only(line: Line) -> None:
    """Raise ValueError if a field of the environment has several values."""
    for name in line.env.sweep:
        option = f"--env.{name.replace('_', '-')}"
        raise ValueError(f"{option} has several values, but one environment is shown at a time: give one value.")


def _env_of_run(options: argparse.Namespace) -> Named:
    if not options.run:
        return {}
    from shoal.specs.spec import template
    from shoal.training.folder import RunFolder
    from shoal.training.policy import check_complete

    spec = check_complete(RunFolder(options.run), trust_source=options.trust_source)
    return {"env": template(spec).env}


def _env_of_bot(options: argparse.Namespace) -> Named:
    """The environment of a line of `record` with the bot. Raises ValueError where it is missing, or not for a run."""
    if options.run == BOT and not options.env:
        raise ValueError(f"record {BOT} needs a level, as in `shoal record {BOT} BabyAI-GoToLocal-v0`.")
    if options.run != BOT and options.env:
        raise ValueError(
            f"{options.env!r} is left over: record needs one run, which has its own environment. Only {BOT} is "
            "followed by an environment."
        )
    if options.run == BOT:
        if options.sample or options.member != "best" or options.which != "last":
            raise ValueError(f"--member, --which and --sample are for a run, and {BOT} is none: leave them out.")
        return {"env": options.env}
    return {}


def _add_member(parser: Parser) -> None:
    parser.add_argument("--member", default="best", metavar="M", help="a number, or `best` (default)")
    parser.add_argument("--which", default="last", choices=WHICH, help="last weights (default) or the best")


def _member_numbers(text: str | None) -> list[int] | str | None:
    """The members that `--members` names: a list of numbers, or `all`. Raises ValueError for anything else."""
    if text is None or text == "all":
        return text
    words = text.split(",")
    if not all(word.isdecimal() and len(word) <= 10 for word in words):
        raise ValueError(f"--members {text:.40} is unknown: give numbers separated by commas, as in 0,1,2, or `all`.")
    return [int(word) for word in words]


def _chosen(result: Any, policies: Any, member: str, which: str) -> Any:
    if member == "all":
        return policies
    return policies[result.number_of(read_member(member, ", `best` or `all`"), which)]
