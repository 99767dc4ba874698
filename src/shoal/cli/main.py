"""`shoal`: the command. Finds the subcommand, sets the host up, imports what that one needs, and says errors in a line.

Nothing at the top of this file imports JAX: `shoal --help` answers at once.
"""

import argparse
import importlib
import os
import sys
import traceback
from typing import NamedTuple

from shoal.cli.parser import hyphened, value_after, whole_number


class Command(NamedTuple):
    """A subcommand: the module and function behind it, and what `shoal --help` says of it."""

    module: str
    function: str
    summary: str
    wakes_jax: bool = True


COMMANDS = {
    "train": Command("shoal.cli.train", "train", "train a population of agents into a run folder"),
    "eval": Command("shoal.cli.runs", "evaluate_run", "evaluate a run, also in changed worlds"),
    "render": Command("shoal.cli.runs", "render", "film a run's members, or a world under random actions"),
    "play": Command("shoal.cli.play", "play", "play a world by hand in the terminal, or watch a policy play"),
    "plot": Command("shoal.cli.runs", "plot", "draw the learning curves of one run or several"),
    "compare": Command("shoal.cli.runs", "compare_runs", "is run A better than run B, over the seeds they share?"),
    "export": Command("shoal.cli.runs", "export", "write one member's policy to a small folder, to share"),
    "record": Command("shoal.cli.runs", "record", "write what a policy does to a file, for another to imitate"),
    "zoo": Command("shoal.cli.listing", "zoo", "list the trained policies that come with shoal", wakes_jax=False),
    "envs": Command("shoal.cli.listing", "envs", "list environments, or show the manual page of one"),
    "agents": Command("shoal.cli.listing", "agents", "list agents, or show the fields and presets of one"),
    "bsuite": Command("shoal.cli.bsuite", "bsuite", "score an agent on bsuite's experiments, and draw its radar"),
    "bench": Command("shoal.cli.measure", "measure", "measure steps per second on this machine"),
    "doctor": Command("shoal.cli.doctor", "doctor", "devices, cache, known bugs, what to install"),
}
EXAMPLES = """examples:
  shoal train ppo CartPole-v1
  shoal train ppo CartPole-v1 --seeds 64 --learning-rate 1e-4,3e-4 --steps 500_000
  shoal train ppo my_env.py:MyEnv --env.gravity 5,10,15 --dry-run
  shoal train --resume runs/ppo-CartPole-v1
  shoal eval runs/ppo-CartPole-v1 --env.gravity 5,10,15
  shoal render runs/ppo-CartPole-v1
  shoal play zoo:ppo/CartPole-v1
  shoal compare runs/a runs/b
"""
INTERRUPTED, MISTAKE = 130, 2


def main(words: list[str] | None = None) -> int:
    """Run a command line and return the exit status: 0, 2 for a mistake in the input, 130 after Ctrl-C.

    `shoal doctor` also ends with 1, where something needs attention.
    """
    as_command = words is None
    words = list(sys.argv[1:] if words is None else words)
    words = [hyphened(word) for word in words]
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        return _dispatch(words)
    except KeyboardInterrupt:
        print("shoal: interrupted.", file=sys.stderr)
        if as_command:
            sys.stdout.flush()
            os._exit(INTERRUPTED)  # threads that compile or train are not waited for: files survive a kill
        return INTERRUPTED
    except BrokenPipeError:  # `shoal envs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug or not _is_mistake(error):
            raise
        print(f"shoal: {_in_one_line(error)}", file=sys.stderr)
        return MISTAKE


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version"):
        import shoal

        print(f"shoal {shoal.__version__}")
        return 0
    name = words.pop(0)
    if name not in COMMANDS:
        from shoal.core.errors import did_you_mean

        raise ValueError(f"unknown command {name!r}.{did_you_mean(name, COMMANDS)} `shoal --help` lists all.")
    command = COMMANDS[name]
    if command.wakes_jax and "jax" not in sys.modules and not _only_help(name, words):
        from shoal.training.host import prepare

        if name == "bench" and value_after("--device", words) == "cpu":
            os.environ["JAX_PLATFORMS"] = "cpu"  # JAX takes the best there is otherwise
        prepare(cache="--no-cache" not in words, threads=_threads(words), small_loop=_small_loop(name, words))
    function = getattr(importlib.import_module(command.module), command.function)
    return function([word for word in words if word != "--no-cache"]) or 0


def _help() -> str:
    rows = "\n".join(f"  {name:8}  {command.summary}" for name, command in COMMANDS.items())
    return (
        f"usage: shoal COMMAND ...\n\nReinforcement learning by the thousand, in one compiled program.\n\n{rows}\n\n"
        f"  --help, --version; --debug shows where an error comes from; --no-cache compiles everything anew\n"
        f"  `shoal COMMAND --help` says more, `shoal train AGENT ENV --help` lists every hyperparameter.\n\n{EXAMPLES}"
    )


def _small_loop(name: str, words: list[str]) -> int:
    from shoal.training.host import SMALL_LOOP, STEPPING_LOOP

    without_network = name == "bench" and value_after("--policy", words) != "mlp"
    return STEPPING_LOOP if without_network else SMALL_LOOP


def _only_help(name: str, words: list[str]) -> bool:
    return name in ("train", "bsuite") and words[:1] in ([], ["--help"], ["-h"])


def _threads(words: list[str]) -> int:
    """What `--threads` asks for; 0 where it asks for nothing, or for what the command will refuse."""
    try:
        return max(whole_number(value_after("--threads", words) or "0"), 0)
    except argparse.ArgumentTypeError:
        return 0


def _is_mistake(error: Exception) -> bool:
    """Whether shoal itself raised it, on purpose, or a file is the reason: any other error is a bug, with traceback."""
    if isinstance(error, OSError) and error.filename is not None:
        return True
    if not isinstance(error, (ValueError, TypeError, OSError, ImportError, NotImplementedError, IndexError)):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return bool(frames) and os.path.abspath(frames[-1].filename).startswith(here)


def _in_one_line(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        text = f"{error.filename}: {error.strerror}"
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
