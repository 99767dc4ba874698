"""`--dry-run`: describe runs before they start: sizes, shapes, memory, schedule and an estimate of time."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax

from shoal.core.keys import make_key
from shoal.core.secrets import redacted
from shoal.specs.changes import with_whole_numbers
from shoal.specs.describe import Described
from shoal.specs.settings import join, separate
from shoal.tracking.text import duration
from shoal.training.layers import layers
from shoal.training.plan import Plan
from shoal.training.reading import read_json
from shoal.training.shapes import FILES

if TYPE_CHECKING:
    from shoal.studies.planned import PlannedStudy  # which imports Optuna

SHOWN = 8  # values shown for a hyperparameter of settings that are not a grid


def describe(plans: list[Plan], root: Path) -> str:
    """A text with a paragraph for every run. `root` is searched for earlier runs, to estimate the time."""
    groups = f"{len(plans)} run{'s' * (len(plans) != 1)}"
    return "\n\n".join([f"dry run: {groups}; nothing was compiled", *(_one(plan, root) for plan in plans)])


def _one(plan: Plan, root: Path) -> str:
    spec, placement = plan.spec, plan.placement
    env = plan.env
    waves = f" in {len(plan.waves)} parts of {plan.waves[0].stop}" if len(plan.waves) > 1 else ""
    rows = [
        ("agent", f"{spec.agent}  {_words(with_whole_numbers(spec.fields))}"),
        ("environment", f"{spec.env_name}  {_words(with_whole_numbers(spec.env_fields))}"),
        ("observation", f"{env.observation_space}"),
        ("action", f"{env.action_space}"),
        ("weights", _weights(plan)),
        ("members", f"{plan.members} = {len(plan.settings)} setting(s) x {spec.seeds} seed(s){waves}"),
        (
            "updates",
            f"{plan.updates_per_member:,} x {plan.agent.steps_per_update:,} steps = {plan.steps:,} steps per member"
            f"{plan.warning}",
        ),
        (
            "records",
            f"{plan.records}, {_evaluations(plan)} of them evaluated on {spec.eval_episodes} episodes per member",
        ),
        ("devices", placement.describe()),
        ("memory", _memory(plan)),
        ("time", _time(plan, root, plan.members)),
    ]
    swept = join(spec.sweep, spec.env_sweep)
    if isinstance(spec.selector, Described):
        rows.insert(2, ("selector", f"{spec.selector.name.rpartition(':')[2]}  {_words(spec.selector.fields)}"))
    rows[2:2] = [("settings", f"{name}: {_in_short(values)}") for name, values in spec.points.items()]
    rows[2:2] = [("sweep", f"{name}: {', '.join(map(str, values))}") for name, values in swept.items()]
    return _in_lines(rows)


def describe_study(planned: "PlannedStudy", workers: int = 1, cluster: str | None = None) -> str:
    """A text about a study: what its trials search, how many there are, and a line for each of its programs.

    workers: how many share its trials; cluster: the address of the Ray cluster on which they run, if on one.
    The folder in which that of the study lies is searched for earlier runs, to estimate the time.
    """
    spec, groups = planned.spec, planned.groups
    run, plan = spec.run, groups[0].plan
    members = spec.trials * run.seeds
    fixed = {path: value for path, value in join(run.fields, run.env_fields).items() if path not in spec.search}
    fields, env_fields = separate(fixed)
    rows = [
        ("folder", f"{planned.folder.path}"),
        ("agent", f"{run.agent}  {_words(with_whole_numbers(fields))}"),
        ("environment", f"{run.env_name}  {_words(with_whole_numbers(env_fields))}"),
        *(("search", f"{path}: {_span(span)}") for path, span in spec.search.items()),
        ("sampler", f"{spec.sampler}{f', after {len(planned.queue)} trial(s) of the queue' if planned.queue else ''}"),
        ("pruner", spec.pruner),
        ("objectives", f"{', '.join(spec.objectives)}; the return is the {spec.score} over the members of a trial"),
        (
            "trials",
            f"{spec.trials} x {run.seeds} seed(s) x {plan.steps:,} steps in {plan.records} records, at most "
            f"{members * plan.steps:,} steps; {spec.parallel} at a time",
        ),
        ("storage", redacted(planned.folder.storage(spec))),
        *([("workers", _workers(workers, cluster))] if workers > 1 or cluster else []),
        ("devices", plan.placement.describe()),
        ("time", f"at most, without pruning: {_time(plan, planned.folder.path.parent, members)}"),
    ]
    if spec.fresh_seeds and len(spec.objectives) == 1:
        rows.insert(-3, ("at the end", f"the best trial again, on {spec.fresh_seeds} fresh seeds"))
    for group, shape in zip(groups, planned.space.shapes, strict=True):
        slots = f"{group.slots} trial(s) = {group.plan.members} members at a time"
        rows.append(
            (group.name, f"{_words(shape)}  {slots}, weights: {_weights(group.plan)}, memory: {_memory(group.plan)}")
        )
    programs = f"{len(groups)} program{'s' * (len(groups) > 1)}"
    return f"dry run: a study with {programs}; nothing was compiled or written\n\n{_in_lines(rows)}"


def _workers(count: int, cluster: str | None) -> str:
    where = "this machine" if cluster is None else f"the Ray cluster {cluster} (not asked)"
    return f"{count} on {where}; each has the programs below"


def _in_lines(rows: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"  {name:12}{text.strip()}" for name, text in rows)


def _span(described: Mapping[str, Any]) -> str:
    """What a dimension of a study chooses from: `0.0001 to 0.01, log`, or `64,64 | 128,128`."""
    if "values" in described:
        return " | ".join(",".join(map(str, v)) if isinstance(v, list) else str(v) for v in described["values"])
    scale = "" if described["scale"] == "linear" else f", {described['scale']}"
    return f"{described['low']} to {described['high']}{scale}"


def _weights(plan: Plan) -> str:
    return f"{sum(leaf.size for leaf in jax.tree.leaves(_policy(plan))):,} numbers per member"


def _memory(plan: Plan) -> str:
    return f"about {_mib(plan.member_bytes)} per member, {_mib(plan.member_bytes * plan.placement.members)} at once"


def layer_rows(plan: Plan) -> list[tuple[str, str, int]]:
    """(Layer, its arrays with their shapes, how many numbers they hold) for each layer of a member's policy."""
    return [(layer.name or "policy", layer.arrays, layer.numbers) for layer in layers(_policy(plan))]


def _in_short(values: Sequence[Any]) -> str:
    more = f", ... ({len(values)} values)" if len(values) > SHOWN else ""
    return ", ".join(map(str, values[:SHOWN])) + more


def _evaluations(plan: Plan) -> str:
    wanted, made = plan.spec.evaluations, len(plan.eval_records)
    return f"{made} (not {wanted})" if wanted > made else str(made)


def _policy(plan: Plan) -> Any:
    return jax.eval_shape(lambda a, e: a.policy_state(a.init(make_key(0), e)), plan.agent, plan.env)


def _time(plan: Plan, root: Path, members: int) -> str:
    """An estimate for `members` that are trained once, from the steps per second of earlier runs under the same root.

    They are those of the same agent and environment.
    """
    pair = (plan.spec.agent, plan.spec.env_name)
    found = [summary for summary in map(_read, root.glob("**/summary.json")) if summary]
    same = [summary for summary in found if (summary.get("agent"), summary.get("env")) == pair]
    rates = [rate for summary in same if (rate := summary.get("steps_per_second"))]  # an exported policy has none
    if not rates:
        return f"unknown: there is no earlier run of {plan.spec.agent} on {plan.spec.env_name} under {root}"
    rate = statistics.median(rates)
    total = duration(plan.steps * members / rate)
    return f"about {total} of training at {rate:,.0f} steps/s, the median of {len(rates)} earlier run(s)"


def _read(path: Path) -> dict[str, Any]:
    """A `summary.json`; an empty dict if the file is not a valid one."""
    try:
        return read_json(path, FILES["summary.json"])
    except (OSError, ValueError):
        return {}


def _words(fields: Mapping[str, Any], prefix: str = "") -> str:
    """Fields as text, including those of values inside, by path: `env=CartPole-v1 env.gravity=9.8 n=4`."""
    words = []
    for name, value in fields.items():
        if isinstance(value, Described) and value.kind == "array":
            words.append(f"{prefix}{name}=...")  # weights
        elif isinstance(value, Described):
            of_class = [f"{prefix}{name}={value.name.rpartition(':')[2]}"] * (value.kind != "dict")
            words += [*of_class, _words(value.fields, f"{prefix}{name}.")]
        elif isinstance(value, tuple):
            words.append(f"{prefix}{name}=({', '.join(map(str, value))}{',' * (len(value) == 1)})")
        else:
            words.append(f"{prefix}{name}={value}")
    return " ".join(filter(None, words))


def _mib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
