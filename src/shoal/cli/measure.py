"""`shoal bench`: the command around `bench.py`."""

import argparse
from pathlib import Path

from shoal.cli.parser import Parser, real_number, whole_number


def measure(words: list[str]) -> None:
    """Step every registered environment, or those named, and say how fast."""
    parser = Parser(
        prog="shoal bench",
        description="Steps a second of environments with automatic resets, every observation produced.",
        epilog="examples:\n  shoal bench\n  shoal bench CartPole-v1 --policy mlp --sizes 1,64,4096 --out bench.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="ENV", help="environments (default: all that are registered)")
    parser.add_argument("--policy", default="random", choices=("random", "mlp"), help="who acts (default random)")
    parser.add_argument("--sizes", default="", metavar="N,N", help="numbers of parallel environments")
    parser.add_argument(
        "--seconds", type=real_number, default=0.5, metavar="X", help="of each measurement (default 0.5)"
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), help="where to run (default: what JAX prefers)")
    parser.add_argument("--out", default="bench.json", metavar="FILE", help="JSON to write (default bench.json)")
    arguments = parser.parse_all(words)
    try:
        sizes = [whole_number(part) for part in arguments.sizes.split(",") if part.strip()]
    except argparse.ArgumentTypeError:
        raise ValueError(f"--sizes {arguments.sizes} is not a list of whole numbers, as in 1,64,4096.") from None

    import jax

    from shoal.cli.bench import bench, report
    from shoal.core.registry import ENVS

    for name in arguments.names:
        ENVS[name].build()  # every mistake before any measurement
    _check_writable(Path(arguments.out))

    if arguments.device not in (None, jax.default_backend()):  # `main` asked for a CPU, JAX prefers a GPU
        raise ValueError(f"--device {arguments.device}: JAX sees none here. `shoal doctor` says more.")
    rows = []
    print(f"{'world':32} {'policy':7} {'envs':>9} {'steps/s':>16} {'compile s':>10} {'reused':>7}")
    for row in bench(arguments.names, policy=arguments.policy, sizes=sizes, seconds=arguments.seconds):
        rows.append(row)
        print(
            f"{row.env:32} {row.policy:7} {row.num_envs:9,} {row.steps_per_second:16,.0f} {row.compile_seconds:10.2f} "
            f"{row.resets_reused:7}",
            flush=True,
        )
    report(rows, Path(arguments.out))
    print(arguments.out)


def _check_writable(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    with path.open("a"):  # what is there stays as it is
        pass
    if is_new:
        path.unlink()
