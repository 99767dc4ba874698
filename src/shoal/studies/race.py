"""`shoal.race`: train seeds in batches until it is decided which of several learners is better.

After every batch the scores of the seeds are tested (`ops/sequential.py`), with looks that are fixed before the first
seed is trained. Contestants all of whose comparisons are decided are not trained further. The seeds are ordinary runs
in folders of their own below that of the race, and what is decided follows from their files alone: a race that was
killed goes on by training what is missing.
"""

import dataclasses
import math
import signal
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import DamagedError
from shoal.core.kinds import checked_kinds
from shoal.ops.sequential import (
    EXHAUSTIVE,
    FIRST,
    NO_DIFFERENCE,
    OPEN,
    Design,
    Pair,
    Verdict,
    interval,
    looks_of,
    verdicts,
)
from shoal.specs.options import OF_RACE, RaceOptions, target_of
from shoal.specs.sources import keep
from shoal.specs.spec import RunSpec, run_name
from shoal.studies.contestants import Contestant, Given, check_seeds, in_errors, make_contestants, notes_of
from shoal.studies.runs import run_job
from shoal.tracking.events import Sink, Sinks
from shoal.tracking.progress import OnlyMessages, StillCompiling, shown
from shoal.tracking.request import Track, tracking_of
from shoal.training.claim import locked
from shoal.training.folder import RunFolder, about_folder, named, new_folder
from shoal.training.host import keep_programs
from shoal.training.jobs import Job
from shoal.training.own_code import check_user_env
from shoal.training.policy import check_complete
from shoal.training.processes import group
from shoal.training.program_store import ProgramStore
from shoal.training.result import Result
from shoal.training.stopping import Stopped

FILE = "race.json"
ASSUMPTION = (
    "For each seed, contestants without a difference are exchangeable, so that a difference of their scores is as "
    "likely to be positive as negative. Equal means are not enough."
)


class PairResult(NamedTuple):
    """The comparison of two contestants of a race."""

    first: str
    second: str
    outcome: str  # "first" or "second" is better, "no difference" (larger than the margin), or "open"
    seeds: int  # after which it was decided; of an open one, the seeds so far
    difference: float  # mean score of the first one minus that of the second one; of steps to a return too
    low: float  # of an interval that is valid at every look, at the level of the test; NaN where there is none
    high: float
    p: float  # of the test for a difference at its last look
    bound: float  # the p with which it decides then
    sentence: str


class RaceResult:
    """The result of a race, read from its folder."""

    def __init__(self, folder: Path | str) -> None:
        """Open a race. Raises FileNotFoundError if there is none, DamagedError for a damaged file."""
        self._files = RunFolder(folder)
        self._content = self._files.read_json(FILE)

    @property
    def folder(self) -> Path:
        """The path of the folder of the race."""
        return self._files.path

    @property
    def is_over(self) -> bool:
        """Whether all comparisons are decided, or all seeds are trained."""
        return self._content["over"]

    @property
    def pairs(self) -> list[PairResult]:
        """The result of every pair of contestants."""
        return [PairResult(**_numbers(row)) for row in self._content["pairs"]]

    @property
    def scores(self) -> dict[str, Float[np.ndarray, "_"]]:
        """The scores of the seeds of every contestant, by its name; of steps to a return the steps."""
        return {name: np.array(values, float) for name, values in self._content["scores"].items()}

    @property
    def looks(self) -> list[dict[str, Any]]:
        """The looks so far: the number of seeds, and `p`, `bound` and outcome of every pair that was open."""
        return self._content["looks"]

    @cached_property
    def runs(self) -> dict[str, list[Result]]:
        """The results of the runs of every contestant, by its name."""
        found = {}
        for row in self._content["contestants"]:
            folders = [path.parent for path in (self.folder / row["folder"]).glob("*/summary.json")]
            folders.sort(key=lambda path: int(path.name.split("-")[1]))
            found[row["name"]] = [Result(path) for path in folders]
        return found

    def __repr__(self) -> str:
        return "\n".join(pair.sentence for pair in self.pairs)


@checked_kinds("contestants")
def race(  # noqa: PLR0913  # written out, for editors
    *contestants: Given,
    env: str | Env | None = None,
    at_most: int | None = None,
    batch: int | None = None,
    alpha: float | None = None,
    margin: float | None = None,
    fitness: str | None = None,
    steps: int | None = None,
    env_fields: Mapping[str, Any] | None = None,
    seed: int | None = None,
    first_seed: int | None = None,
    records: int | None = None,
    evaluations: int | None = None,
    eval_episodes: int | None = None,
    eval_max_steps: int | None = None,
    prng: str | None = None,
    name: str = "",
    root: Path | str = "runs",
    resume: Path | str | None = None,
    trust_source: bool = False,
    progress: bool = True,
    sinks: Sequence[Sink] = (),
    track: Track = None,
    cache: bool = True,
    check: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
) -> RaceResult:
    """Train the seeds of several contestants in batches, until it is decided which of them is better.

        shoal.race("ppo", "dqn", env="CartPole-v1")
        shoal.race(shoal.PPO(), shoal.PPO(learning_rate=1e-3), env="CartPole-v1", margin=10)
        shoal.race("ppo", {"agent": "ppo", "selector": "pbt", "seeds": 16}, env="CartPole-v1", steps=100_000)

    A contestant is the name of an agent, an agent, a preset file, or a dict of arguments of `shoal.train`: agent,
    fields, preset, selector, seeds, steps, seed, init, found, and a name. After each `batch` (8) of seeds the scores of
    every pair are compared by a test that holds `alpha` (0.05), the probability that the whole race makes a false
    decision, also when it stops early. Contestants that are decided about are not trained further; the race ends when
    all pairs are decided, or after `at_most` (64) seeds. With a `margin`, "no difference larger than this" is an answer
    too.

    The score of a seed, its `fitness`, is its "last" evaluation, the mean return of the "whole" training, or with
    "reach:475" the number of steps until an evaluation reaches 475. Seed number i has the bits that it has in
    `shoal.train(..., seeds=64)`; `first_seed=64` races again on other seeds. A contestant with a selector has a
    population of `seeds` members for each seed of the race, and the score is that of its best member.

    The test assumes that the scores of contestants without a difference are exchangeable for each seed (see
    `shoal.ops.sequential`). The other arguments are those of `shoal.train`. The race is a folder under `root`, with
    race.json and an ordinary run folder for each batch; `resume` goes on with a race that was stopped or killed, and
    then comes to the same decisions. Contestants that no file can describe are then given again.

    Raises ValueError or TypeError, before anything compiles, for fewer than two contestants, two that are the same,
    different environments, and options that are out of range. Raises `Stopped` after a signal such as Ctrl-C.
    """
    given = locals()
    if group().size > 1:
        raise ValueError("a race is run by one process: start it without --distributed.")
    tracking_of(track)  # raises for mistakes
    say = Sinks([OnlyMessages(sink) for sink in (shown(progress), *sinks)])
    how = {"sinks": [say, StillCompiling(say.say)], "track": track, "trust_source": trust_source}
    asked = {name: given[name] for name in OF_RACE if given[name] is not None}
    of_run = ("steps", "env_fields", "seed", "first_seed", "records", "evaluations", "eval_episodes", "eval_max_steps")
    options = {name: given[name] for name in (*of_run, "prng") if given[name] is not None}
    if resume is not None:
        if wrong := [*asked, *options, *(["env"] if env is not None else []), *(["name"] if name else [])]:
            raise ValueError(f"resume goes on with {resume} as it is, with its looks: leave {wrong[0]} out.")
        folder = RunFolder(resume)
        found, rules = _read(folder, contestants, trust_source)
    else:
        found, rules = make_contestants(contestants, env, options, trust_source=trust_source), RaceOptions(**asked)
        folder = None
    _check(found, rules, (devices, memory_limit_gb))
    if folder is None:
        if check:
            check_user_env(found[0].job.first.env)
        stem = run_name("race", found[0].job.spec.env_name)
        folder = RunFolder(named(Path(root), name)) if name else new_folder(Path(root), stem)
        _begin(folder, found, rules)
    if cache:
        keep_programs()
    for note in notes_of(found):
        say.say(f"note: {note}")
    try:
        with locked(folder.path):
            return _Race(folder, found, rules, (devices, memory_limit_gb), how).run()
    except (KeyboardInterrupt, Stopped) as stopped:  # between two runs, or in one of them, which is saved
        number = getattr(stopped, "signal", signal.SIGINT)
        raise Stopped(f"stopped. Continue with: shoal race --resume {folder.path}", number) from stopped


class _Race:
    """A race that goes on: what it trains, and what is known so far."""

    def __init__(
        self,
        folder: RunFolder,
        contestants: Sequence[Contestant],
        rules: RaceOptions,
        placed: tuple[int, float],
        how: Mapping[str, Any],
    ) -> None:
        self.folder, self.rules, self.how, self.placed = folder, rules, dict(how), placed
        self.contestants, self.names = contestants, [contestant.name for contestant in contestants]
        self.store = ProgramStore()
        first = contestants[0].job.spec
        self.design = Design(looks_of(rules.at_most, rules.batch), rules.alpha, rules.margin, first.seed % 2**63)
        self.scores: list[np.ndarray] = [np.zeros(0) for _ in contestants]
        self.looks: list[dict[str, Any]] = []
        self.results: dict[Pair, PairResult] = {}
        self.env_name = first.env_name
        self.sinks: Sinks = self.how["sinks"][0]
        # Runs end with whole updates, so that their steps differ a little: seeds that never reach a return are equal.
        self.most_steps = min(contestant.job.plan(*placed).steps for contestant in contestants)

    def run(self) -> RaceResult:
        """Train batch after batch until all pairs are decided or all seeds are trained; write the result after each."""
        known: dict[Pair, Verdict] = {}
        before = 0
        for look, seeds in enumerate(self.design.looks):
            is_open = [pair for pair in _pairs(len(self.names)) if not known or known[pair].outcome == OPEN]
            for number in sorted({number for pair in is_open for number in pair}):
                more = self._train(number, before, seeds)
                self.scores[number] = np.concatenate([self.scores[number], more])
            known, before = verdicts(self.scores, self.design), seeds
            self._note(look, [(pair, known[pair]) for pair in is_open])
            is_over = look + 1 == len(self.design.looks) or all(v.outcome != OPEN for v in known.values())
            self._write(known, is_over)
            if is_over:
                break
        return RaceResult(self.folder.path)

    def _train(self, number: int, first: int, last: int) -> Float[np.ndarray, "S"]:
        """Return the scores of the seeds of a contestant from `first` to `last`, trained unless they were before."""
        contestant, scores = self.contestants[number], []
        for path, job in contestant.jobs(first, last).items():
            folder = RunFolder(self.folder.path / path)
            if not folder.has("summary.json"):
                self._train_run(number, job, folder)
            scores.append(contestant.scores(Result(folder.path).curves, self.rules.fitness, self.most_steps))
        found = np.concatenate(scores)
        self._check_known(contestant.name, found, first)
        return found

    def _train_run(self, number: int, job: Job, folder: RunFolder) -> None:
        """Train one run folder of a contestant, or go on with it."""
        contestant, plan = self.contestants[number], job.plan(*self.placed)
        what = f"{plan.members} members of " if contestant.is_population else ""
        self.sinks.say(f"training {what}{contestant.name}, {folder.path.name.replace('-', ' ', 1)}")
        run_job(
            job,
            plan,
            folder,
            resume=folder.has("spec.json"),
            figures=False,
            sinks=self.how["sinks"],
            track=self.how["track"],
            within=self.folder.path,
            store=self.store,
        )

    def _check_known(self, name: str, scores: np.ndarray, first: int) -> None:
        """Raise DamagedError if race.json has other scores of these seeds: a run was replaced since."""
        before = np.array(self._kept.get(name, [])[first : first + len(scores)], float)
        now = self._shown(np.where(np.isfinite(scores), scores, np.nan))[: len(before)]
        if not np.array_equal(before, now, equal_nan=True):
            raise DamagedError(
                f"the runs of {name} in {self.folder.path} have other scores than {FILE}: they were changed since the "
                f"race used them. Restore them, or start a new race."
            )

    @cached_property
    def _kept(self) -> dict[str, list]:
        return self.folder.read_json(FILE)["scores"]

    def _shown(self, scores: Any) -> Any:
        """Return scores as they are shown: of steps to a return, the steps."""
        return -scores if target_of(self.rules.fitness) is not None else scores

    def _note(self, look: int, verdicts: Sequence[tuple[Pair, Verdict]]) -> None:
        """Keep and tell what a look has found about the pairs that were open."""
        seeds, words = self.design.looks[look], []
        for (a, b), verdict in verdicts:
            p, bound = (float(values[look]) for values in verdict.path[:2])
            self.looks.append(
                {"look": look + 1, "seeds": seeds, "first": self.names[a], "second": self.names[b]}
                | {"outcome": verdict.outcome, "p": p, "bound": bound, "level": verdict.level}
            )
            needed = f"needs {bound:.2g}" if bound else "no p decides yet"
            words.append(f"{_in_brief(self.names[a], self.names[b], verdict.outcome)} (p {p:.2g}, {needed})")
        self.sinks.say(f"look {look + 1} of {len(self.design.looks)}, {seeds} seeds: {'; '.join(words)}")

    def _write(self, known: Mapping[Pair, Verdict], is_over: bool) -> None:
        for pair, verdict in known.items():
            if pair not in self.results or self.results[pair].outcome == OPEN:
                self.results[pair] = self._pair_result(pair, verdict)
        content = {
            **self.folder.read_json(FILE),
            "looks": self.looks,
            "pairs": [result._asdict() for result in self.results.values()],
            "scores": {n: self._shown(s).tolist() for n, s in zip(self.names, self.scores, strict=True)},
            "over": is_over,
        }
        self.folder.write_json(FILE, content)

    def _pair_result(self, pair: Pair, verdict: Verdict) -> PairResult:
        """Return what is known of a pair, with the seeds until it was decided."""
        a, b = pair
        count = min(len(self.scores[a]), len(self.scores[b]))
        seeds = count if verdict.outcome == OPEN else self.design.looks[verdict.look]
        differences = self.scores[a][:seeds] - self.scores[b][:seeds]
        differences = np.where(np.isfinite(differences), differences, np.nan)
        # Two one-sided tests at a level leave an interval at twice this level.
        level = verdict.level * (2 if verdict.outcome == NO_DIFFERENCE else 1)
        mean = float(np.nanmean(differences)) if np.isfinite(differences).any() else np.nan
        low, high = interval(differences, self.design, level)
        if target_of(self.rules.fitness) is not None:
            mean, low, high = -mean, -high, -low
        names = self.names[a], self.names[b]
        sentence = self._sentence(names, verdict.outcome, seeds, (mean, low, high))
        p, bound = float(verdict.path.p[-1]), float(verdict.path.bound[-1])
        return PairResult(*names, verdict.outcome, seeds, mean, low, high, p=p, bound=bound, sentence=sentence)

    def _sentence(self, names: tuple[str, str], outcome: str, seeds: int, found: tuple[float, float, float]) -> str:
        """Return a sentence about a pair, which begins with the better one."""
        (first, second), of, on = names, self.rules.at_most, f"on {self.env_name}"
        mean, low, high = found
        if outcome not in (FIRST, OPEN, NO_DIFFERENCE):
            first, second, mean, low, high = second, first, -mean, -high, -low
        target = target_of(self.rules.fitness)
        what = "" if target is None else f" steps to {target:g}"
        numbers = f"{mean:+.4g}{what} {_in_brackets(low, high)}"
        if outcome == OPEN:
            return f"not decided between {first} and {second} {on}: {numbers} after {seeds} of {of} seeds"
        after = f"decided after {seeds} of {of} seeds"
        if outcome == NO_DIFFERENCE:
            margin = f"{self.rules.margin:g}"
            return f"no difference larger than {margin} between {first} and {second} {on}: {numbers}, {after}"
        return f"{first} is better than {second} {on}: {numbers}, {after}"


def _check(found: Sequence[Contestant], rules: RaceOptions, placed: tuple[int, float]) -> None:
    """Raise ValueError or TypeError for what cannot work. Nothing is compiled or written."""
    check_seeds(found, rules.at_most)
    _check_can_decide(rules, len(_pairs(len(found))))
    for contestant in found:
        first = next(iter(contestant.jobs(0, rules.batch).values()))  # the others differ in their seeds
        with in_errors(contestant.name):
            plan = first.plan(*placed)
        if not plan.eval_records and rules.fitness != "whole":
            raise ValueError(
                f"fitness={rules.fitness} scores evaluations, and {contestant.name} has none: ask for some "
                f"(evaluations=5), or take fitness=whole."
            )


def _check_can_decide(rules: RaceOptions, pairs: int) -> None:
    """Raise ValueError if no scores could decide the first pair: of n seeds, the smallest p is 2 / 2^n."""
    level, tried = rules.alpha / pairs, min(rules.at_most, EXHAUSTIVE)
    if 2 / 2**tried > level:
        enough = math.ceil(math.log2(2 / level))
        advice = f"give at_most={enough} or more" if enough <= EXHAUSTIVE else "give a larger alpha"
        raise ValueError(
            f"at_most={rules.at_most} seeds can decide nothing at alpha={rules.alpha:g} between {pairs} pair"
            f"{'s' * (pairs > 1)}, also if one contestant wins on all of them: {advice}."
        )


def _begin(folder: RunFolder, found: Sequence[Contestant], rules: RaceOptions) -> None:
    """Write the folder of a new race. Raises FileExistsError if it holds one."""
    if folder.has(FILE):
        raise FileExistsError(
            f"{folder.path} already holds a race. Continue it with `shoal race --resume {folder.path}`, or choose "
            f"another --name."
        )
    folder.create()
    for contestant in found:
        keep(folder.path, contestant.job.spec)
    folder.write_json(
        FILE,
        {
            "contestants": [{"name": c.name, "folder": c.folder, "spec": c.job.spec.to_json()} for c in found],
            "options": dataclasses.asdict(rules),
            "assumption": ASSUMPTION,
            "looks": [],
            "pairs": [],
            "scores": {},
            "over": False,
        },
    )


def _read(folder: RunFolder, given: Sequence[Given], trust_source: bool) -> tuple[list[Contestant], RaceOptions]:
    """Return the contestants and the rules of a race that goes on.

    `given` are the contestants again, in their order, where agents cannot be described by a file; or none.
    """
    if not folder.has(FILE):
        raise FileNotFoundError(f"{folder.path} is no race: {about_folder(folder.path, FILE)}")
    content = folder.read_json(FILE)
    if given and len(given) != len(content["contestants"]):
        raise ValueError(f"{folder.path} is a race of {len(content['contestants'])}: give all of them again, or none.")
    found = []
    for i, row in enumerate(content["contestants"]):
        value = given[i] if given else None
        value = value.get("agent") if isinstance(value, Mapping) else value
        agent = value if isinstance(value, Agent) else None
        spec = check_complete(folder, agent, trust_source=trust_source, spec=RunSpec.from_json(row["spec"]))
        found.append(Contestant(row["name"], Job(spec, agent)))
    return found, RaceOptions(**content["options"])


def _pairs(count: int) -> list[Pair]:
    return [(a, b) for a in range(count) for b in range(a + 1, count)]


def _in_brief(first: str, second: str, outcome: str) -> str:
    if outcome == OPEN:
        return f"{first} and {second} open"
    if outcome == NO_DIFFERENCE:
        return f"no difference between {first} and {second}"
    return f"{first} > {second}" if outcome == FIRST else f"{second} > {first}"


def _in_brackets(low: float, high: float) -> str:
    if np.isnan([low, high]).any():
        return "(no interval: the differences are not symmetric)"
    return f"[{low:+.4g}, {high:+.4g}]" if np.isfinite([low, high]).all() else "(too few seeds for an interval)"


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of race.json with NaN for numbers that JSON lacks."""
    numbers = {name: np.nan if row[name] is None else float(row[name]) for name in ("difference", "low", "high")}
    return {**row, **numbers}
