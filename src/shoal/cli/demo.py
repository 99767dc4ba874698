"""`shoal demo`: train a population on CartPole, write a page about it, and print what to do next."""

import shlex
from typing import Any

from shoal.cli.options import add_options, given
from shoal.cli.parser import Line, Parser

AGENT, ENV = "ppo", "CartPole-v1"
STEPS, SEEDS = 500_000, 16


def demo_parser() -> Parser:
    """The options of the command: those of `shoal train` that a first look may need."""
    parser = Parser("demo", demo, "[options]")
    steps = f"environment steps of each agent (default {STEPS:,}, which are enough to solve the task)"
    add_options(parser, steps=steps, seeds=f"number of agents (default {SEEDS})", root="", progress="")
    return parser


def demo(line: Line) -> None:
    """Train 16 agents that differ in their seed on CartPole, in one program, and write learning curves, videos and an
    HTML page about the run. It takes about a minute on two free cores, and overwrites nothing.

      shoal demo
      shoal demo --steps 20_000 --seeds 4    a shorter one, which does not solve the task
    """
    from shoal.cli.train import report
    from shoal.reports.report import report as write_page
    from shoal.studies.runs import train

    options = line.options
    chosen: dict[str, Any] = {"steps": STEPS, "seeds": SEEDS} | given(options, "steps", "seeds", "root")
    result = train(AGENT, ENV, progress=options.progress is None, cache=not options.no_cache, **chosen)
    folder, run = result.folder, shlex.quote(str(result.folder))
    same = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    print(f"""{report(result)}

learning curves      {folder / "figures" / "learning_curves.png"}
agents at work       {folder / "videos"}
all of it on a page  {write_page(folder)}

The same run, written out:
  shoal train {AGENT} {ENV} {shlex.join(same)}
Try next: poles of other lengths, an agent at work in this terminal, two learning rates with 8 seeds each
  shoal eval {run} --env.length 0.1,0.5,2
  shoal play {run}
  shoal train {AGENT} {ENV} --learning-rate 1e-4,1e-3 --seeds 8""")
