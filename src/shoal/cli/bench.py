"""`shoal bench`: measure environment steps per second on this machine."""

import argparse
from pathlib import Path

from shoal.cli.numbers import short
from shoal.cli.parser import Line, Parser, real_number, whole_number
from shoal.cli.wraps import add_wrap, wrapped

MOST_ENVS = 2**30
LONGEST_SECONDS = 3600  # of one measurement


def bench_parser() -> Parser:
    """The options of the command."""
    parser = Parser("bench", bench, "[ENV ...] [options]")
    parser.add_argument("names", nargs="*", metavar="ENV", help="environments (default: all that are registered)")
    add_wrap(parser)
    parser.add_argument(
        "--policy", default="random", choices=("random", "mlp"), help="chooses actions (default random)"
    )
    parser.add_argument("--sizes", default=[], type=_sizes, metavar="N,N", help="numbers of parallel environments")
    parser.add_argument(
        "--seconds", type=real_number, default=0.5, metavar="X", help="of each measurement (default 0.5)"
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), help="where to run (default: what JAX prefers)")
    parser.add_argument("--out", metavar="FILE", help="also write the table to this file, as JSON")
    return parser


def bench(line: Line) -> None:
    """Measure steps per second of environments, with automatic resets and every observation computed.

    shoal bench
    shoal bench CartPole-v1 --policy mlp --sizes 1,64,4096 --out bench.json
    shoal bench CartPole-v1 --wrap FrameStack:n=4
    """
    import jax

    from shoal.core.registry import ENVS
    from shoal.studies.throughput import report, throughput

    arguments = line.options
    if not 0 <= arguments.seconds <= LONGEST_SECONDS:
        raise ValueError(f"--seconds {arguments.seconds:g} must lie between 0 and {LONGEST_SECONDS:,}.")
    if arguments.wrap and not arguments.names:
        raise ValueError("--wrap needs an environment, as in `shoal bench CartPole-v1 --wrap FrameStack`.")
    names = [wrapped(name, arguments.wrap) for name in arguments.names]
    for name in () if arguments.wrap else names:
        ENVS[name].build()  # raises for a wrong name before any measurement
    if arguments.out:
        _check_writable(Path(arguments.out))
    if arguments.device not in (None, jax.default_backend()):  # `main` has set the platform for --device cpu
        raise ValueError(f"--device {arguments.device}: JAX finds no such device. `shoal doctor` prints details.")
    rows = []
    print(f"{'environment':32} {'policy':7} {'envs':>9} {'steps/s':>16} {'compile s':>10} {'reused':>7}")
    for row in throughput(names, policy=arguments.policy, sizes=arguments.sizes, seconds=arguments.seconds):
        rows.append(row)
        print(
            f"{row.env:32} {row.policy:7} {row.num_envs:9,} {row.steps_per_second:16,.0f} {row.compile_seconds:10.2f} "
            f"{row.resets_reused:7}",
            flush=True,
        )
    if arguments.out:
        report(rows, Path(arguments.out))
        print(arguments.out)


def _sizes(text: str) -> list[int]:
    try:
        sizes = [whole_number(part) for part in text.split(",")]
    except argparse.ArgumentTypeError:
        sizes = []
    if not sizes or min(sizes) < 1 or max(sizes) > MOST_ENVS:
        raise argparse.ArgumentTypeError(f"{short(text)} is not a list of whole numbers from 1 to {MOST_ENVS:,}")
    return sizes


def _check_writable(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a"):  # raises if it cannot be written, and does not change it
        pass
    if is_new:
        path.unlink()
