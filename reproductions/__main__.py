"""`python -m reproductions`, from the root of the repository: list what can be measured again, or measure it."""

import contextlib
import sys
import textwrap
import traceback
from pathlib import Path
from typing import Any

import shoal
from reproductions import COMMAND
from shoal.cli import terminal
from shoal.cli.parser import Parser, RawLine
from shoal.core.errors import printable
from shoal.training import host
from shoal.training.stopping import Stopped

WRAPPED = textwrap.TextWrapper(100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
ALWAYS = ("dry_run", "no_cache", "debug")  # options that are allowed without a name and beside --resume
OURS = [Path(folder).parent for folder in (shoal.__file__, __file__)]
MISTAKE = 2


def main(words: list[str] | None = None) -> int:
    """Run a command line, by default that of this process, and return the exit status.

    The status is 0, or 2 for a mistake in the input. If a signal stopped the measurement, it is 128 plus the number of
    the signal.
    """
    if words is not None:
        return _run(words)
    terminal.take_over(reports_only=True)
    return terminal.leave(_run(sys.argv[1:]))


def _run(words: list[str]) -> int:
    """Run a command line; print an error in one line and turn it into an exit status."""
    try:
        with contextlib.redirect_stdout(terminal.Printable(sys.stdout)):  # type: ignore[type-var]  # a text stream
            measure(words)
        return 0
    except (Stopped, ValueError, TypeError, OSError) as error:
        if "--debug" in words or not _is_for_the_user(error):
            raise
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        print(f"reproductions: {printable(' '.join(text.split()))}", file=sys.stderr)
        return 128 + error.signal if isinstance(error, Stopped) else MISTAKE


def measure(words: list[str]) -> None:
    """Measure the numbers of an article again and write a page with published and measured numbers side by side.
    Without a name it lists what can be measured again.

      python -m reproductions
      python -m reproductions gridworld --dry-run
      python -m reproductions doors --only compiled,shoal
      python -m reproductions doors --only torch --size torch.trials=20
      python -m reproductions doors --python .venv-peers/bin/python
      python -m reproductions --resume runs/reproduce-doors
    """
    parser = command_parser()
    raw = parser.start(words)
    if raw.wants_help:
        print(parser.format_help())
        return
    _explain_flags(raw)
    options = parser.finish(raw).options
    if "jax" not in sys.modules:  # in tests it runs already
        host.prepare(cache=not options.no_cache)
        host.check_platform()
    from reproductions import run
    from reproductions.sizes import read_sizes

    if options.resume is not None:
        if _changed(parser, options, ("resume", "python", *ALWAYS)):
            raise ValueError(
                "--resume goes on as the run was started: leave other options but --python out, as in "
                f"`{COMMAND} --resume RUN`."
            )
        planned = run.plan_resumed(options.resume, options.python)
    elif not options.what:
        if changed := _changed(parser, options, ALWAYS):
            raise ValueError(f"--{changed[0]} is for a reproduction: name one first, as in `{COMMAND} doors`.")
        print(_listing())
        return
    else:
        only = [word.strip() for word in options.only.split(",") if word.strip()]
        sizes = read_sizes(run.find(options.what), options.size)
        planned = run.plan_reproduction(options.what, full=options.full, only=only, python=options.python, sizes=sizes)
    if options.dry_run:
        print(_plan_text(planned))
        return
    result = run.run_reproduction(planned, name=options.name, root=options.root, resume=options.resume)
    print(f"\n{len(result.parts)} of {len(planned.parts)} parts measured in {result.seconds:.0f} s\n{result.page}")


def command_parser() -> Parser:
    """The options of the command."""
    parser = Parser("", measure, "[NAME] [--only PART,...] [options]", program=COMMAND)
    parser.add_argument("what", nargs="?", default="", metavar="NAME", help="a reproduction, such as doors")
    parser.add_argument(
        "--full", action="store_true", help="the sizes of the source; by default those for two processor cores"
    )
    parser.add_argument("--only", default="", metavar="PART,...", help="parts to measure (default: all)")
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="PART.NAME=VALUE",
        help="another size, of those that --dry-run prints; may be given several times",
    )
    parser.add_argument(
        "--python",
        default="",
        metavar="PATH",
        help="interpreter that has the packages of others, such as torch (default: this one)",
    )
    parser.add_argument("--name", default="", metavar="NAME", help="name of the run folder (default reproduce-NAME)")
    parser.add_argument("--root", default="runs", metavar="DIR", help="parent folder of run folders (default runs)")
    parser.add_argument("--resume", metavar="RUN", help="go on in this folder at the part that was not finished")
    parser.add_argument("--dry-run", action="store_true", help="print the parts and their sizes; measure nothing")
    return parser


def _explain_flags(raw: RawLine) -> None:
    """Raise ValueError for an unknown flag that means `--only` or a size. The parser refuses all others."""
    for option, text in raw.others.items():
        name = option.removeprefix("--").replace("-", "_")
        if name in ("part", "parts"):
            raise ValueError(f"unknown flag {option}. Did you mean --only?")
        from reproductions.reproduction import reproductions

        found = reproductions().get(raw.options.what)
        owners = [part.name for part in found.parts if name in part.here] if found else []
        if owners:
            write = " or ".join(f"--size {owner}.{name}={text or 'VALUE'}" for owner in owners)
            raise ValueError(f"unknown flag {option}, but a size has this name: write {write}.")


def _changed(parser: Parser, options: Any, allowed: tuple[str, ...]) -> list[str]:
    """The options that differ from their default, without the allowed ones."""
    usual = vars(parser.start([]).options)
    return [name for name, value in vars(options).items() if value != usual[name] and name not in allowed]


def _listing() -> str:
    from reproductions.reproduction import reproductions
    from shoal.cli.table import table

    rows = [
        [
            name,
            f"{reproduction.source.title} ({reproduction.source.author})",
            " ".join(part.name for part in reproduction.parts),
        ]
        for name, reproduction in reproductions().items()
    ]
    return (
        f"{table(('name', 'source', 'parts'), rows)}\n\n`{COMMAND} NAME` measures one and writes a page. "
        "docs/sources.md lists claims, figures and\nnotebooks of these sources, each with its command and its result."
    )


def _plan_text(planned: Any) -> str:
    lines = []
    for part, sizes in planned.parts:
        lines.append(f"{part.name}: {part.title}")
        if missing := planned.missing.get(part.name):
            lines.append(f"  not measured here: {missing}")
        lines += [WRAPPED.fill(f"{name}: {_words(value)}") for name, value in sizes.items()]
    count = f"{len(planned.parts)} part{'s' * (len(planned.parts) > 1)}"
    return "\n".join([*lines, "", f"{count}; nothing was measured."])


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _is_for_the_user(error: BaseException) -> bool:
    """Whether the user can repair this error: shoal or this program raised it, or a file is the reason."""
    if isinstance(error, Stopped) or isinstance(error, OSError) and error.filename:
        return True
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    return any(last.is_relative_to(folder) for folder in OURS)


if __name__ == "__main__":
    sys.exit(main())
