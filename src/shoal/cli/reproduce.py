"""`shoal reproduce`: measure the numbers of a published source again, beside the published ones."""

import textwrap
from typing import Any

from shoal.cli.parser import Line, Parser

EXAMPLES = """  shoal reproduce
  shoal reproduce gridworld --dry-run
  shoal reproduce doors --only compiled,shoal
  shoal reproduce doors --python .venv-peers/bin/python
  shoal reproduce --resume runs/reproduce-doors"""
WRAPPED = textwrap.TextWrapper(100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
MAY_CHANGE = ("resume", "python", "dry_run", "no_cache", "debug")  # options that are allowed beside --resume


def reproduce_parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        "reproduce",
        "[NAME] [options]",
        "Measure the numbers of an article again and write a page with published and measured numbers side by side. "
        "Without a name it lists what can be reproduced.",
        EXAMPLES,
    )
    parser.add_argument("what", nargs="?", default="", metavar="NAME", help="a reproduction, such as doors")
    parser.add_argument(
        "--full", action="store_true", help="the sizes of the source; by default those for two processor cores"
    )
    parser.add_argument("--only", default="", metavar="PART,...", help="parts to measure (default: all)")
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


def reproduce(line: Line) -> None:
    """List the reproductions, or plan and run one, or resume a folder; print where the page is."""
    from shoal.reproductions import run

    options = line.options
    if options.resume is not None:
        _check_alone(options)
        planned = run.plan_resumed(options.resume, options.python)
    elif not options.what:
        print(_listing())
        return
    else:
        only = [word.strip() for word in options.only.split(",") if word.strip()]
        planned = run.plan_reproduction(options.what, full=options.full, only=only, python=options.python)
    if options.dry_run:
        print(_plan_text(planned))
        return
    result = run.run_reproduction(planned, name=options.name, root=options.root, resume=options.resume)
    print(f"\n{len(result.parts)} of {len(planned.parts)} parts measured in {result.seconds:.0f} s\n{result.page}")


def _check_alone(options: Any) -> None:
    """Raise ValueError if options beside `--resume` would change the run."""
    usual = vars(reproduce_parser().split([]).options)
    if any(value != usual[name] and name not in MAY_CHANGE for name, value in vars(options).items()):
        raise ValueError(
            "--resume goes on as the run was started: leave other options but --python out, as in "
            "`shoal reproduce --resume RUN`."
        )


def _listing() -> str:
    from shoal.cli.table import table
    from shoal.reproductions.reproduction import reproductions

    rows = [
        [name, f"{each.source.title} ({each.source.author})", " ".join(part.name for part in each.parts)]
        for name, each in reproductions().items()
    ]
    return f"{table(('name', 'source', 'parts'), rows)}\n\n`shoal reproduce NAME` measures one and writes a page."


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
