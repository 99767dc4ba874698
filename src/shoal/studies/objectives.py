"""Several objectives of a study: what can be asked for, and how each is measured at the end of a trial.

return              the score of the trial in its own environment; every study has it
steps_per_second    environment steps per second of training, of the compiled program in which the trial was trained
return:ENV          the return of the trained policies in another environment

All are maximized. No trial is pruned, because Optuna's pruners compare one score.
"""

import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence

import jax
import numpy as np
import optuna

from shoal.core.env import Env
from shoal.core.errors import unknown_name
from shoal.core.registry import make
from shoal.core.spaces import alike
from shoal.population.slots import Slots, score_of
from shoal.training.loop import Run
from shoal.training.playing import evaluate
from shoal.training.policy import Policies

RETURN, SPEED, ELSEWHERE = "return", "steps_per_second", "return:"
SINGLE = (RETURN,)  # the objectives of a study that asked for none
DIGITS = 2  # significant ones of steps per second: smaller differences are noise


def read_objectives(objectives: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the objectives that were asked for. Raises ValueError for unknown or repeated ones, or without `return`.

    The names of other environments are those of `shoal.make`, which raises ValueError for unknown ones.
    """
    names = (objectives,) if isinstance(objectives, str) else tuple(objectives or SINGLE)
    for name in names:
        if name.startswith(ELSEWHERE):
            make(name.removeprefix(ELSEWHERE))
        elif name not in (RETURN, SPEED):
            about = f"The objectives are: {RETURN}, {SPEED}, and {ELSEWHERE}ENV for the return in another environment."
            raise unknown_name("objective", name, (RETURN, SPEED), about)
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"the objective {repeated[0]} was given twice: leave one out.")
    if RETURN not in names:
        raise ValueError(
            f"the objectives lack {RETURN}, the score in the environment of training: add it, as in "
            f"objectives={[RETURN, *names]} (--objective {RETURN} --objective {names[0]})."
        )
    return names


def check_spaces(objectives: Sequence[str], env: Env, env_name: str) -> None:
    """Raise ValueError if policies for an environment cannot act in that of an objective, because spaces differ.

    `env_name` is the name of `env` in the message.
    """
    for name, other in environments(objectives).items():
        for kind in ("observation_space", "action_space"):
            there, here = getattr(env, kind), getattr(other, kind)
            if not alike(there, here):
                raise ValueError(
                    f"the objective {name} needs an environment with the spaces of {env_name}: its "
                    f"{kind} is {here}, not {there}. Choose another environment, or leave this objective out."
                )


def environments(objectives: Sequence[str]) -> dict[str, Env]:
    """Return the other environments by objective."""
    return {name: make(name.removeprefix(ELSEWHERE)) for name in objectives if name.startswith(ELSEWHERE)}


def name_objectives(study: optuna.Study, objectives: Sequence[str]) -> None:
    """Store the names of the objectives in a study, for its table and its figures."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([*objectives])


class Measures:
    """Measures the objectives of the trials of one run in slots, while it is at the end of a chunk."""

    def __init__(self, objectives: Sequence[str], score: str) -> None:
        """Begin without a chunk. `score`: of a trial over its members, as `Slots.score`."""
        self._objectives, self._score = tuple(objectives), score
        self._elsewhere = environments(objectives)
        self._run: Run  # of the present chunk
        self._before = (0.0, 0)  # seconds of training and updates of the run before the chunk
        self._speeds: dict[int, float] = {}  # steps per second of the chunks that this process trained, by record
        self._policies: tuple[int, Policies] | None = None  # (record, all members)

    def begin_chunk(self, run: Run) -> None:
        """Note how far the run is. Call it before each chunk."""
        self._run, self._before = run, (run.train_seconds, run.updates)

    def end_chunk(self) -> None:
        """Note how fast the chunk was. Call it after each chunk; during its end `values` does so."""
        run = self._run
        seconds, updates = run.train_seconds - self._before[0], run.updates - self._before[1]
        block = None if run.plan.placement.mesh else run.plan.placement.block
        members = computed_members(self._slots.is_busy(run.records.columns), run.plan.waves, block)
        self._speeds[len(run.records)] = updates * run.plan.agent.steps_per_update * members / max(seconds, 1e-9)

    def values(self, number: int, score: float) -> tuple[float, ...]:
        """Return the values of all objectives for a trial in the slots that is complete, with its score."""
        return tuple(
            score if name == RETURN else self._speed(number) if name == SPEED else self._return_in(name, number)
            for name in self._objectives
        )

    @property
    def _slots(self) -> Slots:
        selector = self._run.plan.selector
        assert isinstance(selector, Slots)
        return selector

    def _speed(self, number: int) -> float:
        self.end_chunk()
        newest = len(self._run.records)
        age = self._slots.age_of(self._run.selector_state, number) + 1
        return median_speed(speed for record, speed in self._speeds.items() if record > newest - age)

    def _return_in(self, name: str, number: int) -> float:
        run, everyone = self._run, self._all_policies()
        members = self._slots.members_of(run.selector_state, number)
        parts = (everyone.actor, everyone.weights, everyone.env)
        actor, weights, trained_env = jax.tree.map(lambda x: x[members], parts)
        own, spec = Policies(actor, weights, trained_env, everyone.names[members]), run.plan.spec
        env, episodes = self._elsewhere[name], spec.eval_episodes
        played = evaluate(own, env, episodes=episodes, max_steps=spec.eval_max_steps, seed=spec.seed)
        return score_of(np.asarray(played.episode_return).mean(axis=1), self._score)

    def _all_policies(self) -> Policies:
        """Return the policies of all members, which are fetched once for all trials that end with a record."""
        run = self._run
        if self._policies is None or self._policies[0] != len(run.records):
            self._policies = (len(run.records), run.member_policies())
        return self._policies[1]


def computed_members(is_busy: np.ndarray, waves: Iterable[slice], block: int | None) -> int:
    """Return for how many of the slots a program did its work: those that share a call with a busy one.

    is_busy: bool [M]. waves: the slots that are trained at once. block: the slots of one call; None: all of a wave.
    """
    total = 0
    for wave in waves:
        busy = is_busy[wave]
        size = block or len(busy)
        calls = [busy[start : start + size] for start in range(0, len(busy), size)]
        total += sum(len(call) for call in calls if call.any())
    return total


def median_speed(speeds: Iterable[float]) -> float:
    """Return the median of speeds, rounded to `DIGITS` significant digits."""
    return float(f"{statistics.median(speeds):.{DIGITS - 1}e}")


def front_in_rows(front: Sequence[Mapping]) -> tuple[list[str], list[list]]:
    """Return the head and the rows of a table of the Pareto front, as `summary.json` has it."""
    head = ["trial", *front[0]["scores"], *front[0]["params"]]
    return head, [[trial["trial"], *trial["scores"].values(), *trial["params"].values()] for trial in front]
