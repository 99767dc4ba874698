"""The options of a run, of a study and of the commands. Each is declared once: its default, bounds, words and group.

From there follow the checks and their messages, the shape of `spec.json` and `study.json`, what a preset may set, the
flags of the command line, and what a resumed run or study may change. Tests compare the classes with the written-out
parameters of `shoal.train` and `shoal.tune`. A new option is a field here, a parameter there, and the code that acts on
it.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

MOST_STEPS = 10**15  # of a member; float64 still counts them exactly
MOST_SEEDS = 2**31  # seed indices are int32
WHAT, OUT, HOW = "what to run", "what to write", "how to run it"  # the groups of flags
SEARCH, SAMPLING = "what to search", "how to search"
RACE = "when the race is decided"
METAVARS = {int: "N", float: "X"}  # by the type of the default


def option(
    default: Any,
    *,
    help: str,  # noqa: A002
    group: str = "",
    least: int | None = None,
    most: int | None = None,
    metavar: str = "",
    when_default: str | None = None,
    may_change: bool = False,
    is_omitted: bool = False,
) -> Any:
    """Declare an option of a run, with the bounds `least` and `most` of a number.

    `group` is that of its flag; without one it is not the user's to set, or its commands name it. `when_default` says
    in the help what the default does, where that is not a value; empty: the help says it already. An option that
    `may_change` can be another one when the run is resumed. `is_omitted`: `spec.json` leaves it out where it has its
    default.
    """
    about = {
        "help": help,
        "group": group,
        "least": least,
        "most": most,
        "metavar": metavar or METAVARS.get(type(default), "NAME"),
        "when_default": _default_in_words(default) if when_default is None else when_default,
        "may_change": may_change,
        "is_omitted": is_omitted,
    }
    return dataclasses.field(default=default, metadata=about)


def _default_in_words(default: Any) -> str:
    if isinstance(default, bool) or default in (None, ""):
        return ""
    return f"default {default:_}" if isinstance(default, int) else f"default {default}".removesuffix(".0")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The base class of options that are kept in a file. They are checked when they are given."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of bounds, and for numbers that are not whole."""
        for field in dataclasses.fields(self):
            if "help" not in field.metadata:
                continue
            if field.type is int:
                object.__setattr__(self, field.name, _whole_number(field.name, getattr(self, field.name)))
            _check_bounds(field.name, getattr(self, field.name), field.metadata["least"], field.metadata["most"])


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """How long, how often and with which random numbers a run trains, and what it writes."""

    steps: int = option(500_000, least=1, most=MOST_STEPS, group=WHAT, help="environment steps of each member")
    first_steps: int = option(0, least=0, is_omitted=True, help="of a run that was extended: its steps before that")
    seeds: int = option(1, least=1, group=WHAT, help="members for each setting")
    seed: int = option(0, group=WHAT, help="determines all random numbers")
    first_seed: int = option(
        0,
        least=0,
        most=MOST_SEEDS - 1,
        group=WHAT,
        help="index of the first seed: 8 more members of a run with 8 have --first-seed 8",
        when_default="",
        is_omitted=True,
    )
    records: int = option(20, least=1, most=10**6, group=OUT, help="points of the curves, each with a checkpoint")
    evaluations: int = option(5, least=0, group=OUT, help="number of records with an evaluation")
    eval_episodes: int = option(100, least=1, most=10**6, group=OUT, help="per member and evaluation")
    eval_max_steps: int = option(
        0, least=0, most=2**31 - 1, group=OUT, help="of an episode", when_default="default the time limit"
    )
    stop_at: float | None = option(
        None,
        group=WHAT,
        metavar="RETURN",
        help="end a member when an evaluation of it reaches this return, and the run when all have",
        is_omitted=True,
    )
    stop_at_mean: bool = option(
        False,
        group=WHAT,
        help="with --stop-at: compare the mean over the members, and end the run",
        is_omitted=True,
    )
    videos_every: int = option(
        0,
        least=0,
        most=10**6,
        group=OUT,
        help="also make a video of the best member at every Nth record",
        when_default="",
        is_omitted=True,
    )
    keep_checkpoints: int = option(
        0,
        least=0,
        most=10**6,
        group=OUT,
        help="keep the checkpoint of every Nth record from now on, beside the two newest",
        when_default="",
        may_change=True,
        is_omitted=True,
    )
    prng: str = option("mix32", group=HOW, help="random generator: mix32 or threefry2x32")
    block: int = option(0, least=0, group=HOW, help="members per call of the program (CPU only)", when_default="")
    devices_per_member: int = option(
        0,
        least=0,
        group=HOW,
        help="split the environments of each member over N devices (ppo, a2c, rl2, pqn)",
        when_default="",
        may_change=True,
        is_omitted=True,
    )

    overlap: bool = option(
        False,
        group=HOW,
        help="step environments in Python while the agent learns, with weights one update old (agents with a replay "
        "buffer)",
        is_omitted=True,
    )

    def __post_init__(self) -> None:
        """Raise ValueError, also for options that contradict each other."""
        from shoal.core.keys import IMPLEMENTATIONS, check_seed  # which import JAX; the help of a command does not

        super().__post_init__()
        check_seed(self.seed)
        if self.first_seed and self.first_seed + self.seeds > MOST_SEEDS:  # otherwise they do not fit into memory
            raise ValueError(
                f"first_seed={self.first_seed} and seeds={self.seeds} number seeds up to "
                f"{self.first_seed + self.seeds - 1:,}, and the largest number is {MOST_SEEDS - 1:,}: give fewer."
            )
        if self.stop_at is not None:
            object.__setattr__(self, "stop_at", float(self.stop_at))
        if self.stop_at is not None and not math.isfinite(self.stop_at):
            raise ValueError(f"stop_at={self.stop_at} must be a finite number: the return at which a member ends.")
        if self.stop_at_mean and self.stop_at is None:
            raise ValueError("stop_at_mean says whose return is compared with stop_at: give stop_at too.")
        if self.stop_at is not None and not self.evaluations:
            raise ValueError("stop_at compares evaluations, and evaluations=0 makes none: ask for some.")
        if self.prng not in IMPLEMENTATIONS:
            raise ValueError(f"prng={self.prng!r} is unknown. Choose one of: {', '.join(IMPLEMENTATIONS)}.")
        if self.devices_per_member == 1:
            object.__setattr__(self, "devices_per_member", 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyOptions(Options):
    """How a study searches, and for how long. The options of its trials are those of a run."""

    trials: int = option(100, least=1, group=SEARCH, may_change=True, help="that are complete or pruned at the end")
    parallel: int = option(16, least=1, group=SAMPLING, help="trials at a time")
    sampler: str = option(
        "tpe", group=SAMPLING, help="tpe, random, qmc, gp, cmaes, nsga2, bohb, grid, or a function as file.py:make"
    )
    pruner: str = option(
        "",
        group=SAMPLING,
        help="hyperband (default), halving, median, percentile, none, or a function as file.py:make; with options as "
        "in 'hyperband(min_resource=2, eta=4)'",
    )
    score: str = option("mean", group=SEARCH, help="over the members: mean, iqm, min, or q25 for a quantile")
    objectives: Sequence[str] = option(("return",), help="all are maximized (`shoal.studies.objectives`)")
    storage: str = option(
        "",
        group=SAMPLING,
        metavar="URL",
        help="journal:PATH (default: in the folder), sqlite:PATH, postgresql://..., memory",
    )
    fresh_seeds: int = option(
        16,
        least=0,
        may_change=True,
        help="seeds on which the best trial is trained again at the end",
        when_default="default 16; 0: it is not",
    )
    importance: str = option(
        "ped-anova", may_change=True, help="of the hyperparameters, in the figures: ped-anova or fanova"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaceOptions(Options):
    """When a race ends, and by which scores it decides. All of it is fixed before the first seed is trained."""

    at_most: int = option(64, least=2, most=MOST_SEEDS, group=RACE, help="seeds of each contestant")
    batch: int = option(8, least=1, group=RACE, help="seeds between two looks")
    alpha: float = option(0.05, group=RACE, help="probability of a false decision in the whole race")
    margin: float = option(0.0, group=RACE, help="a difference that is not worth knowing", when_default="default none")
    fitness: str = option(
        "last",
        group=RACE,
        help="score of a seed: last (evaluation), whole (mean return of the training), or reach:RETURN (steps to it)",
    )

    def __post_init__(self) -> None:
        """Raise ValueError for values out of bounds, and for a fitness that is unknown."""
        super().__post_init__()
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha={self.alpha:g} must lie between 0 and 1: the probability of a false decision.")
        if not 0 <= self.margin < math.inf:
            raise ValueError(f"margin={self.margin:g} must be a finite number, 0 or more, in units of the score.")
        if self.at_most < self.batch:
            raise ValueError(
                f"at_most={self.at_most} seeds end before the first look, which comes after batch={self.batch} seeds: "
                f"give more seeds or a smaller batch."
            )
        target_of(self.fitness)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """How and where the commands that train work. No file of a run has these options.

    One that is True by default has a flag that turns it off, such as `--no-figures`.
    """

    name: str = option("", help="name of the run folder", when_default="default AGENT-ENV")
    root: str = option("runs", metavar="DIR", help="parent folder of run folders")
    resume: str = option("", metavar="RUN", help="continue the run in this folder, bit for bit")
    preset: str = option("", help="a variant of the environment's preset, or `none`")
    suite: str = option("", help="train in all environments of a suite: a name (`shoal suites`), or FILE.toml")
    skip_unfit: bool = option(False, help="with --suite: leave out environments in which the agent cannot act")
    found: str = option("", metavar="RUN", help="take the hyperparameters that `shoal evolve` found in this run")
    figures: bool = option(True, help="make no figures")
    progress: bool = option(True, help="print only warnings until the end")
    check: bool = option(True, help="do not check an environment of your own before the run")
    dry_run: bool = option(False, help="print sizes, memory and schedule; compile nothing")
    devices: int = option(0, help="devices to use", when_default="default all")
    memory_limit_gb: float = option(0.0, help="train the population in parts that fit", when_default="")
    distributed: str = option(
        "",
        metavar="WHERE",
        help="share the members with other processes: auto (SLURM, Open MPI, Cloud TPU), HOST:PORT,PROCESSES,NUMBER, "
        "or local:PROCESSES to start them all on this machine's CPU",
    )
    worker: str = option("w0", help="of this process, one of several")
    workers: int = option(1, help="processes on this machine, or with --ray on a cluster")
    worker_cpus: int = option(1, help="with --ray: CPUs of each worker")
    worker_gpus: float = option(0.0, help="with --ray: GPUs of each worker; 0.5 shares one")
    grace: float = option(120.0, metavar="SECONDS", help="without a heartbeat, after which a worker counts as dead")
    yes: bool = option(False, help="compile more than 8 programs if the search needs them")


OPTIONS = {field.name: field for field in dataclasses.fields(RunOptions)}
OF_STUDY = {field.name: field for field in dataclasses.fields(StudyOptions)}
OF_RACE = {field.name: field for field in dataclasses.fields(RaceOptions)}
OF_COMMAND = {field.name: field for field in dataclasses.fields(CommandOptions)}
MAY_CHANGE = tuple(name for name, field in OPTIONS.items() if field.metadata["may_change"])
MAY_CHANGE_OF_STUDY = tuple(name for name, field in OF_STUDY.items() if field.metadata["may_change"])
GIVEN = tuple(name for name, field in OPTIONS.items() if field.metadata["group"])  # those that a user may set


def target_of(fitness: str) -> float | None:
    """Return the return that `reach:RETURN` names; None for `last` and `whole`. Raises ValueError for another text."""
    if fitness in ("last", "whole"):
        return None
    kind, _, text = fitness.partition(":")
    try:
        target = float(text)
    except ValueError:
        target = math.nan
    if kind != "reach" or not math.isfinite(target):
        raise ValueError(
            f"fitness={fitness!r:.60} is unknown: choose last (evaluation), whole (mean return of the training), or "
            f"reach:RETURN (steps until an evaluation reaches this return), as in reach:475."
        )
    return target


def _whole_number(name: str, value: Any) -> int:
    from shoal.core.kinds import python_number

    number = python_number(value)
    if isinstance(number, bool) or not isinstance(number, (int, float)) or number != number // 1:
        raise ValueError(f"{name}={value!r} must be a whole number.")
    if not -(2**63) <= number < 2**63:  # Python refuses to print a number of thousands of digits
        raise ValueError(f"{name} does not fit in 64 bits: choose a smaller number.")
    return int(number)


def _check_bounds(name: str, value: Any, least: int | None, most: int | None) -> None:
    if least is not None and value < least:
        raise ValueError(f"{name}={value} {'must not be negative' if least == 0 else f'must be at least {least}'}.")
    if most is not None and value > most:
        raise ValueError(f"{name}={value} must be at most {most:,}.")
