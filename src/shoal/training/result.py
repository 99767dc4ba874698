"""The result of a run, read from its folder: scores, curves, members and policies."""

import re
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from shoal.core.agent import Agent
from shoal.core.aliases import RESULT_METHODS
from shoal.core.env import Env
from shoal.core.errors import CheckpointError, need, refuse_attributes
from shoal.core.kinds import checked_kinds, python_number, shown
from shoal.specs.describe import build, from_json
from shoal.specs.sources import values_with_trusted_files
from shoal.specs.spec import RunSpec
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.lives import Life, best_members, hyperparameters_in, lineage, lives_in
from shoal.training.policy import Policies, Policy, checkpoint_of, load_policies
from shoal.training.reading import damaged
from shoal.training.records import member_scores


class Result:
    """The result of a run. Each part is read from the run folder when it is first used."""

    def __init__(
        self, folder: Path | str, agent: Agent | None = None, env: Env | None = None, *, trust_source: bool = False
    ) -> None:
        """Open a run. `agent` and `env` are needed where no file can describe them (a lambda, a class of a notebook).

        `trust_source` allows running the code that the folder names, and its copy of a Python file of your own where
        the file itself is gone or has changed (`specs/consent.py`).
        """
        self._files = RunFolder(folder)
        self._trust_source = trust_source
        self._load = partial(load_policies, agent=agent, env=env, trust_source=trust_source)
        self.spec: RunSpec = self._files.read_spec()

    @property
    def folder(self) -> Path:
        """The path of the run folder."""
        return self._files.path

    @property
    def summary(self) -> dict[str, Any]:
        """The data of `summary.json`: scores overall, per setting and per member, and the times in seconds."""
        summary = self._files.read_json("summary.json")
        settings, members = len(self.settings), self.spec.members
        if (len(summary["settings"]), len(summary["per_member"])) != (settings, members):
            reason = f"it does not have the {settings} settings and {members} members of spec.json"
            raise damaged(self.folder / "summary.json", reason)
        return summary

    @cached_property
    def curves(self) -> dict[str, np.ndarray]:
        """The learning curves by name: `env_steps` and `wall_seconds` [records], all others [records, M].

        Raises CheckpointError for damaged ones, and for a folder whose spec is that of another run than its checkpoint.
        """
        self._check_spec()
        return self._files.read_curves(self.spec.members)

    def _check_spec(self) -> None:
        try:
            newest = checkpoint_of(self._files, "last")
            there = checkpoint.spec_of(newest)
        except CheckpointError:  # there is none yet, or it is damaged, which is said where policies are read
            return
        if there != self._files.spec_hash:
            raise checkpoint.of_another_run(newest, there, self._files.spec_hash)

    @property
    def found(self) -> dict[str, Any]:
        """The best hyperparameters that the selector of this run has found, by path; empty without such a selector.

        Raises TypeError or ValueError for values of a class that this process cannot build; ValueError too where the
        class is in a Python file that is gone or has changed, unless the result was opened with `trust_source=True`.
        """
        return built_values(self._files.read_found(), self.spec, self.folder, trust_source=self._trust_source)

    @property
    def exported(self) -> dict[str, Any]:
        """The origin of an exported policy (run, member, which weights); empty for a run."""
        return self._files.read_json("provenance.json").get("exported", {}) if self._files.policy.is_dir() else {}

    @property
    def settings(self) -> list[dict[str, Any]]:
        """The varying values of each setting, in order; `[{}]` where nothing varies, or a selector changes them."""
        return self.spec.kept_settings()

    @property
    def members(self) -> list[dict[str, Any]]:
        """The varying values and the seed index of every member, in order.

        With a selector: the occupant of every slot in the newest record, and its hyperparameters.
        """
        if self.spec.selector is not None:
            if "occupant" not in self.curves:
                raise damaged(self.folder / "curves.npz", "it does not say who was in each slot")
            newest = {name: self.curves[name][-1] for name in ("occupant", *hyperparameters_in(self.curves))}
            return [{name: values[m].item() for name, values in newest.items()} for m in range(self.spec.members)]
        if exported := re.search(r"(?:^| )(occupant|seed)=(\d+)", self.exported.get("name", "")):
            return [{exported[1]: int(exported[2])}]
        return [{**setting, "seed": seed} for setting in self.settings for seed in self.spec.seed_indices]

    @cached_property
    def policies(self) -> Policies:
        """The last policies of all members."""
        return self._load(self.folder, "last")[1]

    def policy(self, member: SupportsIndex | str = "best", which: str = "last") -> Policy:
        """Return one member's policy, by default the best member's: the last one, or that of its best evaluation.

        `which` is "last" or "best". Raises IndexError for a member that does not exist, and ValueError for
        `member="best"` where several members were never evaluated.
        """
        number = self.number_of(member, which)
        return (self.policies if which == "last" else self.best_policies)[number]

    @cached_property
    def best_policies(self) -> Policies:
        """The policies of all members at their best evaluation."""
        return self._load(self.folder, "best")[1]

    def ranking(self, which: str = "last") -> list[int]:
        """Return the members from best to worst, by their last or best evaluation; those without one come last."""
        _check_which(which)
        score = member_scores(self.curves, which)
        return np.argsort(-np.where(np.isnan(score), -np.inf, score), kind="stable").tolist()

    def number_of(self, member: Any, which: str = "last") -> int:
        """Return the number of a member: of the best one for "best", otherwise `member` as an integer.

        Raises ValueError for another text, and for "best" where several members were never evaluated.
        """
        if not isinstance(member, str):
            _check_which(which)
            if type(number := python_number(member)) is not int:
                raise TypeError(f"member={shown(member)} must be a whole number, or 'best'.")
            return number
        if member != "best":
            raise ValueError(f"member={member!r} is unknown. Give a number, or 'best'.")
        ranking = self.ranking(which)
        if len(ranking) > 1 and np.isnan(member_scores(self.curves, which)).all():
            if self._files.has("found.json"):
                raise ValueError(
                    f"{self.folder} is a search, whose members are candidates that were not evaluated, so none is "
                    f"the best: train with what it has found (`shoal train AGENT ENV --found {self.folder}`), or give "
                    f"the number of a member."
                )
            raise ValueError(f"{self.folder} has not been evaluated, so no member is the best yet: give a number.")
        return ranking[0]

    @cached_property
    def lives(self) -> dict[int, Life]:
        """Every occupant of a run with a selector, by its number: slot, parent, scores and hyperparameters over time.

        Raises ValueError for a run without a selector.
        """
        return lives_in(self.curves)

    def lineage(self, occupant: int | None = None) -> list[Life]:
        """Return the life of an occupant, of the one that it was copied from, and so on to the first ancestor.

        Default: the best occupant at the end. Raises ValueError for one that never was trained.
        """
        chosen = best_members(self.curves, 1)[0]["occupant"] if occupant is None else occupant
        if chosen not in self.lives:
            raise ValueError(f"{self.folder} has no occupant {chosen}: its occupants are 0 to {max(self.lives)}.")
        return [self.lives[ancestor] for ancestor in lineage(self.lives, chosen)]

    def to_frame(self) -> Any:
        """Return the curves as a pandas table, a row for each record and member. Raises ImportError without pandas."""
        pandas = need("pandas", "frames", "to_frame()")
        rows, members = self.curves["eval_return"].shape
        table = {
            name: np.repeat(values, members) if values.ndim == 1 else values.reshape(-1)
            for name, values in self.curves.items()
        }
        identity = {"member": np.tile(np.arange(members), rows)}
        for name in self.members[0]:
            identity[name] = np.tile(np.asarray([member[name] for member in self.members]), rows)
        return pandas.DataFrame({**identity, **table})

    def __repr__(self) -> str:
        return f"<Result {self.headline()}>"

    def _repr_html_(self) -> str:
        if not self.is_finished:
            return f"<p>{self.headline()}</p>"
        rows = "".join(
            f"<tr><td>{_words(s['setting'])}</td><td>{s.get('mean', float('nan')):.4g}</td>"
            f"<td>{s.get('iqm', float('nan')):.4g}</td><td>{s['members']}</td></tr>"
            for s in self.summary["settings"]
        )
        head = "<tr><th>setting</th><th>mean return</th><th>IQM</th><th>members</th></tr>"
        return f"<p>{self.headline()}</p><table>{head}{rows}</table>"

    @property
    def is_finished(self) -> bool:
        """Whether the run is complete, so that it has a summary."""
        return self._files.has("summary.json")

    def headline(self) -> str:
        """Return one line: agent, environment, mean return (of the best setting), number of members, folder."""
        what = f"{self.spec.agent} on {self.spec.env_name}"
        if not self.is_finished:
            return f"{what}: not finished, in {self.folder}"
        members = f"{self.summary['members']} member{'s' * (self.summary['members'] > 1)}"
        return f"{what}: {self._score_in_words()}, {members}, in {self.folder}"

    def _score_in_words(self) -> str:
        """Return the mean return; of several settings, that of the best one, because their mean describes none."""
        last, settings = self.summary["last"], self.summary["settings"]
        if not last["members"]:
            return "no evaluation"
        if best := self.summary.get("best_members"):
            among = f"with the best of {self.summary['members']} members"
            return f"mean return {best[0]['score']:.4g} {among}, {_words(_shortened(best[0]['hyperparameters']))}"
        if len(settings) == 1:
            return f"mean return {last['mean']:.4g}"
        best = max((s for s in settings if s["members"]), key=lambda s: s["mean"])
        return f"mean return {best['mean']:.4g} with the best of {len(settings)} settings, {_words(best['setting'])}"


refuse_attributes(Result, RESULT_METHODS)  # set here, so that type checkers do not see them


@checked_kinds("folder")
def load(
    folder: Path | str,
    member: SupportsIndex | str = "best",
    which: str = "last",
    agent: Agent | None = None,
    env: Env | None = None,
    trust_source: bool = False,
) -> Policy:
    """Return a trained policy; `policy(obs)` is its action.

    `member` is a number, or "best" (by its last evaluation, or by its best one with `which="best"`). Raises
    FileNotFoundError if there is no run, CheckpointError for a damaged one, and ValueError if the run needs code that
    you have neither named nor used on this machine, or if a Python file of your own is gone or has changed;
    `trust_source=True` then runs it, or its copy in the folder.
    """
    return Result(folder, agent, env, trust_source=trust_source).policy(member, which)


@checked_kinds("folder")
def load_result(
    folder: Path | str, agent: Agent | None = None, env: Env | None = None, trust_source: bool = False
) -> Result:
    """Return the result of a run that was made before. The parameters are those of `Result`."""
    return Result(folder, agent, env, trust_source=trust_source)


def built_values(data: Mapping[str, Any], spec: RunSpec, folder: Path, *, trust_source: bool = False) -> dict[str, Any]:
    """Return the values that a run has found, by path, from the data of its `found.json`. Raises as `Result.found`."""
    described = {path: from_json(value) for path, value in data.items()}
    may_run = values_with_trusted_files(described, spec, folder, trust_source=trust_source)
    return {path: build(value) for path, value in may_run.items()}


def _check_which(which: str) -> None:
    if which not in ("last", "best"):
        raise ValueError(f"which={which!r} is unknown. Choose 'last' or 'best'.")


def _shortened(setting: dict[str, Any]) -> dict[str, Any]:
    return {path: float(f"{value:.4g}") if isinstance(value, float) else value for path, value in setting.items()}


def _words(setting: dict[str, Any]) -> str:
    return ", ".join(f"{k} = {v}" for k, v in setting.items()) or "all members"
