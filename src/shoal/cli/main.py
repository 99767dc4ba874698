"""The command `shoal`: finds the subcommand, prepares the host for JAX, runs it, and prints an error as one line.

This file imports no JAX at its top, so that `shoal --help` is fast. The module of a subcommand is imported when needed.
"""

import contextlib
import importlib
import os
import shlex
import sys
import textwrap
import traceback
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from shoal.cli import terminal
from shoal.core.errors import CheckError, UntrustedError, printable
from shoal.training.stopping import Stopped

if TYPE_CHECKING:
    from shoal.cli.parser import Parser, RawLine


class Command(NamedTuple):
    """A subcommand: the module and the name of its function, and its line in `shoal --help`."""

    module: str
    function: str
    summary: str
    starts_jax: bool = True

    def load(self) -> ModuleType:
        """The module, which imports no JAX by itself."""
        return importlib.import_module(self.module)

    def parser(self, name: str) -> "Parser":
        """The parser of its options, made by the function `NAME_parser` of the module."""
        return getattr(self.load(), f"{name.replace('-', '_')}_parser")()


COMMANDS = {
    "demo": Command("shoal.cli.demo", "demo", "a first look: train 16 agents on CartPole, in about a minute"),
    "train": Command("shoal.cli.train", "train", "train a population of agents into a run folder"),
    "describe": Command("shoal.cli.train", "describe", "sizes, memory and network of what train would do"),
    "evolve": Command("shoal.cli.evolve", "evolve", "evolve hyperparameters and learned losses over training runs"),
    "trials": Command("shoal.cli.trials", "trials", "list the trials of a study, the best first"),
    "tune": Command("shoal.cli.tune", "tune", "search for hyperparameters with Optuna, many trials in one program"),
    "check": Command("shoal.cli.check", "check", "check an environment or an agent of your own"),
    "eval": Command("shoal.cli.runs", "evaluate_run", "evaluate a run, also in a changed environment"),
    "render": Command("shoal.cli.runs", "render", "make videos of a run's policies, or of an environment"),
    "play": Command("shoal.cli.play", "play", "play an environment in the terminal, or watch a policy play"),
    "plot": Command("shoal.cli.runs", "plot", "plot the learning curves of one or more runs"),
    "report": Command("shoal.cli.runs", "write_report", "write an HTML page about runs, a population or a study"),
    "compare": Command("shoal.cli.compare", "compare_runs", "compare runs or groups of runs, over many environments"),
    "race": Command("shoal.cli.race", "race", "train seeds until it is decided which agent or setting is better"),
    "branch": Command("shoal.cli.branch", "branch", "continue a run from a checkpoint with twins that differ"),
    "verify": Command("shoal.cli.verify", "verify", "execute parts of a run again, and compare every bit"),
    "export": Command("shoal.cli.runs", "export", "write one member's policy to a small folder, to share it"),
    "export-config": Command(
        "shoal.cli.config", "export_config", "write the hyperparameters of a run as a preset file"
    ),
    "record": Command("shoal.cli.runs", "record", "write a policy's observations and actions to a file, for `bc`"),
    "track": Command("shoal.cli.track", "track", "send finished runs to MLflow, TensorBoard or Weights & Biases"),
    "ui": Command("shoal.cli.track", "ui", "open the page of the MLflow store of a folder of runs", starts_jax=False),
    "zoo": Command("shoal.cli.listing", "zoo", "list the trained policies that come with shoal"),
    "envs": Command("shoal.cli.environments", "envs", "list environments, or show the manual page of one"),
    "agents": Command("shoal.cli.listing", "agents", "list agents, or show the fields and presets of one"),
    "selectors": Command("shoal.cli.listing", "selectors", "list selectors (PBT, halving), or show the fields of one"),
    "suites": Command("shoal.cli.suites", "suites", "list suites of environments, and how long they would take here"),
    "bsuite": Command("shoal.cli.bsuite", "bsuite", "score an agent on bsuite's experiments, with a radar figure"),
    "bench": Command("shoal.cli.bench", "bench", "measure environment steps per second on this machine"),
    "doctor": Command("shoal.cli.doctor", "doctor", "show devices, cache, known bugs, and what to install"),
    "completion": Command("shoal.cli.completion", "completion", "print a completion script for bash or zsh"),
}
MISTAKE = 2
NO_THREAD = "can't start new thread"  # in the words of Python


def main(words: list[str] | None = None) -> int:
    """Train many reinforcement-learning agents at once, in one compiled program.

      shoal demo
      shoal train ppo CartPole-v1
      shoal train ppo CartPole-v1 --seeds 64 --learning-rate 1e-4,3e-4 --steps 500_000
      shoal train ppo my_env.py:MyEnv --env.gravity 5,10,15 --dry-run
      shoal train --resume runs/ppo-CartPole-v1
      shoal eval runs/ppo-CartPole-v1 --env.gravity 5,10,15
      shoal render runs/ppo-CartPole-v1
      shoal play zoo:ppo/CartPole-v1
      shoal compare runs/a runs/b
      shoal report runs/ppo-CartPole-v1

    The exit status is 0, or 2 for a mistake in the input. If a signal stopped a run, which was saved first, it is 128
    plus the number of the signal: 130 after Ctrl-C, 143 after SIGTERM, 129 after the terminal was closed. `shoal
    doctor` returns 1 if something needs attention, and `shoal verify` if a run is not verified.
    """
    if words is not None:
        return _run(list(words))
    terminal.take_over(reports_only=sys.argv[1:2] in (["demo"], ["train"], ["evolve"], ["bsuite"]))
    return terminal.leave(_run(sys.argv[1:]))


def _run(words: list[str]) -> int:
    """Run a command line; print an error in one line and turn it into an exit status."""
    debug = "--debug" in words
    try:
        with contextlib.redirect_stdout(terminal.Printable(sys.stdout)):  # type: ignore[type-var]  # a text stream
            return _dispatch(words)
    except KeyboardInterrupt:
        print("shoal: interrupted.", file=sys.stderr)
        return terminal.INTERRUPTED
    except BrokenPipeError:  # `shoal envs | head`
        terminal.silence(sys.stdout)
        return 0
    except BaseException as error:  # code of the user's own may call sys.exit
        if debug or not (isinstance(error, Stopped) or _is_mistake(error) or _line_of_user(error)):
            raise
        text = str(error) if isinstance(error, Stopped) else _in_one_line(error)
        if isinstance(error, UntrustedError):  # how to give the consent that it misses
            text += f" Here: `shoal {shlex.join(words)} --trust-source`."
        print(f"shoal: {printable(text)}", file=sys.stderr)
        return 128 + error.signal if isinstance(error, Stopped) else MISTAKE


def _dispatch(words: list[str]) -> int:
    if words and words[0] in ("-h", "--help", "help") and words[1:2] and words[1] in COMMANDS:
        words = [*words[1:], "--help"]  # `shoal help train`
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0
    if words[0] in ("-V", "--version"):
        import shoal

        print(f"shoal {shoal.__version__}")
        return 0
    if any("\0" in word for word in words):
        raise ValueError("a word on the command line contains the character NUL, which no name or number can contain.")
    words = [word for word in words if word != "--debug"]  # it may stand anywhere
    name = words.pop(0) if words else "--debug"
    if name not in COMMANDS:
        from shoal.cli.hints import unknown_command

        raise unknown_command(name, words, COMMANDS)
    from shoal.core.limits import check_address_limit

    check_address_limit()
    command = COMMANDS[name]
    parser = command.parser(name)
    raw = parser.start(words)
    if raw.wants_help and not raw.names and not getattr(raw.options, "preset", None):
        print(parser.format_help())
        return 0
    distributed = _distributed(raw)
    if distributed.startswith("local:"):
        from shoal.cli.local import start_local

        return start_local(distributed, [name, *words])
    if command.starts_jax:
        _prepare(name, raw)
    if raw.wants_help:
        print(parser.help_for(raw))
        return 0
    return getattr(command.load(), command.function)(parser.finish(raw)) or 0


def _prepare(name: str, raw: "RawLine") -> None:
    """Set threads, cache and platform before JAX starts. Do nothing if JAX was imported already, as in tests."""
    options = raw.options
    distributed = _distributed(raw)
    if "jax" in sys.modules and not distributed:
        return
    from shoal.training.host import SMALL_LOOP, STEPPING_LOOP, check_platform, prepare

    has_network = name != "bench" or options.policy == "mlp"
    if getattr(options, "device", None) == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"  # otherwise JAX prefers an accelerator
    prepare(
        cache=not options.no_cache,
        threads=max(getattr(options, "threads", None) or 0, 0),
        small_loop=SMALL_LOOP if has_network else STEPPING_LOOP,
        distributed=distributed,
    )
    check_platform()


def _distributed(raw: "RawLine") -> str:
    """The value of `--distributed`; empty without it, and where nothing is trained."""
    if raw.wants_help or getattr(raw.options, "dry_run", False):
        return ""
    return getattr(raw.options, "distributed", None) or ""


def _help() -> str:
    about, _, examples = (main.__doc__ or "").partition("\n\n")
    rows = "\n".join(f"  {name:13}  {command.summary}" for name, command in COMMANDS.items())
    return (
        f"usage: shoal COMMAND ...\n\n{about}\n\n{rows}\n\n"
        f"  --help, --version; --debug prints the traceback of an error; --no-cache ignores the compilation cache\n"
        f"  `shoal COMMAND --help` describes a command, `shoal train AGENT ENV --help` lists every hyperparameter.\n\n"
        f"examples:\n{textwrap.dedent(examples).rstrip()}\n"
    )


def _is_mistake(error: BaseException) -> bool:
    """Whether the user can repair this error: shoal raised it on purpose, or a file or the memory is the reason.

    Any other error is a bug and is shown with its traceback, unless code of the user's own raised it.
    """
    if isinstance(error, (CheckError, MemoryError)) or (isinstance(error, OSError) and error.filename is not None):
        return True
    if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
        return True
    if not isinstance(error, (ValueError, TypeError, OSError, ImportError, NotImplementedError, IndexError)):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return bool(frames) and os.path.abspath(frames[-1].filename).startswith(here)


def _line_of_user(error: BaseException) -> str:
    """The file and line of the user's own code that raised an error; empty where there is none in its traceback."""
    from shoal.core.user_code import line_raised

    return line_raised(error)


def _in_one_line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.errno is not None:
        text = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror}"
    if isinstance(error, MemoryError):
        text = f"this needs more memory than this machine has: {text or 'choose smaller sizes'}"
    if text == NO_THREAD:
        text = "this process cannot start another thread: raise `ulimit -u`, or its limit of memory"
    if line := _line_of_user(error):
        from shoal.core.user_code import in_short

        what = text if _is_mistake(error) else f"{in_short(error)} (--debug prints the traceback)"
        text = text if line in text else f"{line}: {what}"
    return " ".join(text.split())


if __name__ == "__main__":
    sys.exit(main())
