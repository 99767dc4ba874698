"""The Python face of shoal: train, load, evaluate, roll out, compare. The command line is made of the same calls.

For example:

    result = shoal.train("ppo", "CartPole-v1", seeds=16)
    shoal.evaluate(result.folder, episodes=100, env_fields={"gravity": 15})
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex

import jax
import numpy as np

from shoal.agents import presets
from shoal.core.agent import Agent
from shoal.core.env import Env, Key
from shoal.core.errors import unknown_field
from shoal.core.keys import make_key, stream
from shoal.core.registry import AGENTS, ENVS, make
from shoal.core.spaces import alike
from shoal.core.struct import static_fields, to_arrays
from shoal.ops.statistics import bootstrap_interval, paired_difference_interval, probability_of_improvement
from shoal.rollouts.demonstrations import Demonstrations
from shoal.rollouts.evaluate import Evaluation
from shoal.rollouts.evaluate import evaluate as evaluate_one
from shoal.rollouts.rollout import Rollout
from shoal.tracking.reporter import Reporter
from shoal.training.folder import RunFolder, new_path
from shoal.training.host import keep_programs
from shoal.training.loop import Run
from shoal.training.plan import Plan, default_horizon, make_plan
from shoal.training.policy import Chance, Function, Policies, Policy, load_policies, open_run, without
from shoal.training.records import member_scores
from shoal.training.result import Result
from shoal.training.spec import RunSpec, differences, spec_for

ROLLOUT_PARTS = (
    "obs",
    "mask",
    "action",
    "reward",
    "terminated",
    "truncated",
    "is_first",
    "episode_return",
    "episode_length",
)


class register:  # noqa: N801  # reads as a namespace: @shoal.register.env("Drift-v0")
    """Decorators that give an environment or an agent a name: `@shoal.register.env("Drift-v0", wind=2.0)`."""

    env = staticmethod(ENVS.register)
    agent = staticmethod(AGENTS.register)


UNKNOWN = (math.nan, math.nan)  # the interval of a single number
ENOUGH_PAIRS = 6  # fewer differences of one sign are no proof: by chance that happens more often than once in twenty


class Job(NamedTuple):
    """One run to be: what, and the values that only Python can hold."""

    spec: RunSpec
    agent: Agent | None = None
    env: Env | None = None

    def plan(self, devices: int = 0, memory_limit_gb: float = 0, *, resume: bool = False) -> Plan:
        """Everything the run needs to know. Raises ValueError or TypeError for what cannot work; compiles nothing."""
        if not math.isfinite(memory_limit_gb):
            raise ValueError(f"the memory limit of {memory_limit_gb} GB is no size; 0 means all there is.")
        limit = round(memory_limit_gb * 1024**3)
        plan = make_plan(self.spec, self.agent, self.env, devices=devices, memory_limit=limit)
        if self.spec.block and plan.placement.mesh and not resume:  # a run made on a CPU may go on here
            raise ValueError(
                f"block={self.spec.block} is for CPUs; here it is {plan.placement.describe()}. Leave it out."
            )
        return plan


def train(
    agent: str | Agent | None = None,
    env: str | Env | None = None,
    *,
    steps: int | None = None,
    seeds: int | None = None,
    fields: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    env_fields: Mapping[str, Any] | None = None,
    env_sweep: Mapping[str, Sequence[Any]] | None = None,
    preset: str | None = "",
    name: str = "",
    root: Path | str | None = None,
    folder: Path | str | None = None,
    resume: Path | str | None = None,
    figures: bool = True,
    progress: bool | Reporter = True,
    cache: bool = True,
    devices: int = 0,
    memory_limit_gb: float = 0,
    **options: Any,
) -> Result:
    """Train a population, `seeds` members (1) for every combination of swept values, in one compiled program.

    `agent` and `env` are registered names or values. A value is taken as it is; a name comes with its preset for this
    environment where there is one (`preset=None` for none, `preset="fast"` for a variant), and what is given in
    `fields`, `sweep` and `steps` wins over it. `sweep={"learning_rate": [1e-4, 3e-4]}` and `env_sweep` vary traced
    fields. Other `options` are those of `RunSpec`: `seed`, `records`, `evaluations`, `eval_episodes`, `prng`, ...

    Everything is written to `folder`, or to a new folder under `root` ("runs"). `resume="runs/x"` continues a run that
    was stopped; anything else that is given must then agree with it. Ctrl-C finishes the chunk and raises `Stopped`.

    Compiled programs are kept between runs: unless JAX's persistent cache is set up or turned off already, it is set up
    here, for the rest of the process. `cache=False` leaves it alone.
    """
    if folder is not None and (name or root is not None):
        raise ValueError(f"folder={str(folder)!r} says where the run goes: leave name and root out.")
    given = _given(steps, seeds, fields, sweep, env_fields, env_sweep, options)
    if resume is not None:
        _refuse_on_resume(
            resume, name=name or None, root=root, folder=folder, preset=None if preset == "" else preset or "none"
        )
        job = job_to_resume(resume, agent, env, given)
    else:
        if agent is None or env is None:
            raise TypeError('train needs an agent and an environment: shoal.train("ppo", "CartPole-v1").')
        job = make_job(agent, env, preset=preset, **given)
    plan = job.plan(devices, memory_limit_gb, resume=resume is not None)  # every mistake before a folder is made
    if cache:
        keep_programs()
    return run_job(
        job,
        plan,
        RunFolder(resume or folder or _new_folder(Path(root or "runs"), name, job.spec)),
        resume=resume is not None,
        figures=figures,
        reporter=_reporter(progress),
    )


def make_job(
    agent: str | Agent,
    env: str | Env,
    *,
    preset: str | None = "",
    steps: int | None = None,
    fields: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Any] | None = None,
    env_fields: Mapping[str, Any] | None = None,
    env_sweep: Mapping[str, Any] | None = None,
    **options: Any,
) -> Job:
    """The run that `train` would start with the same arguments."""
    fields, sweep = dict(fields or {}), dict(sweep or {})
    env_fields, env_sweep = dict(env_fields or {}), dict(env_sweep or {})
    agent = AGENTS[agent].name if isinstance(agent, str) else agent  # an unknown one is said before anything else
    env = ENVS[env].name if isinstance(env, str) else env  # and not an alias
    if preset and not (isinstance(agent, str) and isinstance(env, str)):
        raise ValueError(f"preset={preset!r} needs agent and environment by name: a value is taken as it is.")
    if isinstance(agent, str) and isinstance(env, str):
        found = presets.find(agent, env, preset or "") if preset is not None else None
        if found is not None:
            fields = {k: v for k, v in found.fields.items() if k not in sweep} | fields
            env_fields = {k: v for k, v in found.env_fields.items() if k not in env_sweep} | env_fields
            steps = found.steps if steps is None else steps
    if steps is not None:
        options["steps"] = steps
    changes = {"fields": fields, "sweep": sweep, "env_fields": env_fields, "env_sweep": env_sweep}
    spec = spec_for(agent, env, **changes, **options)
    return Job(spec, _unless_name(agent), _unless_name(env))


def run_job(
    job: Job,
    plan: Plan,
    folder: RunFolder,
    *,
    resume: bool = False,
    figures: bool = True,
    reporter: Reporter | None = None,
) -> Result:
    """Run a job in a folder, as planned, to its end; then draw it."""
    reporter = reporter or Reporter()
    if resume:
        folder.check_writable()
    else:
        folder.create()
    studio = _Studio(plan, folder, reporter) if figures else None
    try:
        run = Run(plan, folder, studio or reporter)
        run.train(resume=resume)
        if studio is not None:
            studio.draw(run)
    finally:
        reporter.close()
    return Result(folder.path, job.agent, job.env)


def load(
    folder: Path | str,
    member: SupportsIndex | str = "best",
    which: str = "last",
    agent: Agent | None = None,
    env: Env | None = None,
) -> Policy:
    """A trained policy that acts on observations: `policy(obs)`.

    `member` is a number, or "best" (by its last evaluation, or by its best one with `which="best"`). Raises
    FileNotFoundError where there is no run, CheckpointError for a damaged one.
    """
    return Result(folder, agent, env).policy(member, which)


def load_result(folder: Path | str, agent: Agent | None = None, env: Env | None = None) -> Result:
    """The result of a run that was made before."""
    return Result(folder, agent, env)


def preset(agent: str, env: str, variant: str = "") -> presets.Preset:
    """Known good hyperparameters: `preset("ppo", "CartPole-v1").build()`. Raises ValueError where there are none."""
    found = presets.find(AGENTS[agent].name, ENVS[env].name, variant)
    if found is None:
        raise ValueError(f"{agent} has no preset for {env}. It has: {', '.join(presets.presets(agent)) or 'none'}.")
    return found


def evaluate(
    policy: Policy | Policies | Path | str,
    env: str | Env | None = None,
    *,
    episodes: int = 100,
    greedy: bool = True,
    seed: int = 0,
    max_steps: int = 0,
    env_fields: Mapping[str, Any] | None = None,
) -> Evaluation:
    """The first episode of each of N fresh environments, with NumPy leaves: [N] for a policy, [M, N] for a population.

    `policy` may be a run folder, which means all its members. `env` (or some `env_fields` of the one it was trained
    in) tries it in another world. `max_steps` ends episodes there; by default the time limit or the world itself does,
    or 1,000 steps where neither will.
    """
    if episodes < 1:
        raise ValueError(f"episodes={episodes} must be at least 1.")
    if max_steps < 0:
        raise ValueError(f"max_steps={max_steps} must not be negative; 0 means the world's time limit.")
    if isinstance(policy, (str, Path)):
        policy = load_policies(policy)[1]
    many = isinstance(policy, Policies)
    world = _world(policy, env, env_fields or {})
    horizon = max_steps or default_horizon([world])
    key = stream(make_key(seed), "evaluate")
    run = _evaluate_many if many else _evaluate_one
    result = run(policy.actor, policy.weights, world, key, episodes, horizon, greedy)
    return jax.tree.map(np.asarray, result)


def rollout(
    policy: Any,
    env: str | Env | None = None,
    key: Key | int = 0,
    *,
    num_steps: int,
    num_envs: int | None = None,
    keep: Sequence[str] = ("reward", "terminated", "truncated"),
    greedy: bool = False,
) -> dict[str, Any]:
    """Play on, with automatic resets: single, batch or population, writing only what is asked for.

    `policy` is a `Policy`, a population of them (`result.policies`), a pure function `(observation, key) -> action`,
    or "random". Leaves of the answer are [T] for one environment, [T, E] with `num_envs`, and lead with [M] for a
    population. `keep` names parts: obs, mask, action, reward, terminated, truncated, is_first, episode_return (so far),
    episode_length. `episodes`, sums over the episodes that ended, is always there.
    """
    unknown = [part for part in keep if part not in ROLLOUT_PARTS]
    if unknown:
        raise ValueError(
            f"keep names {unknown[0]!r}, which a rollout does not have. It has: {', '.join(ROLLOUT_PARTS)}."
        )
    if not isinstance(policy, (Policy, Policies)):
        policy = _stand_in(policy, env)
    world = _world(policy, env, {})
    key = make_key(key) if isinstance(key, int) else key
    sizes = _rollout_sizes(world, num_envs or 1, num_steps, isinstance(policy, Policies))
    run = _rollout_many if isinstance(policy, Policies) else _rollout_one
    return run(policy.actor, policy.weights, world, key, sizes, tuple(keep), greedy, num_envs is None)


def record(
    policy: Policy | Path | str, steps: int = 10_000, *, num_envs: int = 16, greedy: bool = True, seed: int = 0
) -> Demonstrations:
    """What a policy sees and does in `steps` steps of its world, for `BC` to imitate. A run folder means its best.

    `save_demonstrations(path, ...)` of `shoal.training.recording` keeps it, as `shoal record` does. Raises ValueError
    for less than one step.
    """
    if steps < 1 or num_envs < 1:
        raise ValueError(f"steps={steps} and num_envs={num_envs} must both be at least 1.")
    if not isinstance(policy, Policy):
        policy = load(policy)
    keep = ("obs", "mask", "action")
    num_envs = min(num_envs, steps)
    told = rollout(policy, key=seed, num_steps=-(-steps // num_envs), num_envs=num_envs, keep=keep, greedy=greedy)
    flat = [jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:])[:steps], told[name]) for name in keep]
    return Demonstrations(obs=flat[0], mask=flat[1], action=flat[2])


def compare(a: Path | str, b: Path | str, metric: str = "last") -> dict[str, Any]:
    """How run `a` did against run `b`, over the seeds that both have: by the last evaluation, or the best.

    Gives the difference of means with a paired 95 % bootstrap interval where settings and random numbers match (base
    seed, generator and seed index), and the probability that a random member of `a` beats a random member of `b`. The
    interval of a single member or pair is NaN, and one of fewer than six pairs says little.
    Members without a finite score are left out: `dropped` says how many. Raises ValueError where no score is left.
    """
    if metric not in ("last", "best"):
        raise ValueError(f"metric={metric!r} is unknown. Choose 'last' or 'best'.")
    runs = [Result(folder) for folder in (a, b)]
    scores = [_scores(run, metric) for run in runs]
    common = [name for name in scores[0] if name in scores[1]]
    pooled = [np.asarray(list(s.values())) for s in scores]
    answer: dict[str, Any] = {
        "a": str(a),
        "b": str(b),
        "members": [len(s) for s in scores],
        "dropped": [len(run.members) - len(s) for run, s in zip(runs, scores, strict=True)],
        "mean": [float(p.mean()) for p in pooled],
        "interval": [bootstrap_interval(p, np.mean) if len(p) > 1 else UNKNOWN for p in pooled],
        "probability_of_improvement": probability_of_improvement(*pooled),
        "pairs": len(common),
    }
    if common:
        first, second = (np.asarray([s[name] for name in common]) for s in scores)
        answer["difference"] = float((first - second).mean())
        answer["difference_interval"] = paired_difference_interval(first, second) if len(common) > 1 else UNKNOWN
    return answer


def agent_class(name: str) -> type:
    """The class of a registered agent by its Python name, e.g. `PPO`. Raises AttributeError if there is none."""
    for entry in AGENTS.values():
        if entry.cls.__name__ == name:
            return entry.cls
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def run_name(*parts: str) -> str:
    """A folder name that says what a run is, from agents, worlds and suites; of a file or module, its class alone."""
    return "-".join(part.rpartition(":")[2] for part in parts).replace("/", "-")


# Pictures, prepared while the device trains.


class _Studio(Reporter):
    """Passes reports on; while the device trains, imports what draws and compiles what records the videos."""

    def __init__(self, plan: Plan, folder: RunFolder, heard_by: Reporter) -> None:
        self.plan, self.folder, self.heard_by = plan, folder, heard_by
        self._camera: Any = None

    def compiling(self, plan: Plan) -> None:
        self.heard_by.compiling(plan)

    def compiled(self, seconds: float) -> None:
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(1)
        self._camera = pool.submit(self._prepare)
        pool.shutdown(wait=False)  # training begins meanwhile
        self.heard_by.compiled(seconds)

    def record(self, done: int, line: dict[str, Any], steps_per_second: float, seconds_left: float) -> None:
        self.heard_by.record(done, line, steps_per_second, seconds_left)

    def message(self, text: str) -> None:
        self.heard_by.message(text)

    def finished(self, summary: dict[str, Any]) -> None:
        self.heard_by.finished(summary)

    def draw(self, run: Run) -> None:
        """The learning curve and the videos of a finished run."""
        from shoal.viz.curves import plot_run
        from shoal.viz.videos import draw_members

        try:
            plot_run(self.folder.path)
        except ValueError as error:  # a run so short that nothing has ended in it is whole all the same
            self.message(f"no learning curve: {error}")
        try:
            camera = self._camera.result()
            if camera is None:
                self.message(f"no videos: {self.plan.spec.env} has no picture (define render(state) in its class)")
                return
            draw_members(self.plan, run.policies(), Result(self.folder.path).ranking(), self.folder.videos, camera)
        except Exception as error:  # whatever the user's own `render` raises; the run is whole, and its table follows
            again = f"`shoal render {self.folder.path} --debug` shows where"
            self.message(f"no videos: drawing {self.plan.spec.env} failed with {error!r}; {again}")

    def _prepare(self) -> Any:
        from shoal.viz.curves import preload
        from shoal.viz.videos import camera_for, has_picture, video_key

        preload()
        if not has_picture(self.plan.env):
            return None
        camera = camera_for(self.plan)
        weights = jax.eval_shape(_fresh_policies, camera.actor, camera.env, video_key(self.plan))
        camera.compile(weights, video_key(self.plan))
        return camera


def _fresh_policies(agent: Agent, env: Env, key: Key) -> Any:
    return jax.vmap(lambda a, e: a.policy_state(a.init(key, e)))(agent, env)


# Jobs.


def _given(
    steps: Any, seeds: Any, fields: Any, sweep: Any, env_fields: Any, env_sweep: Any, options: dict[str, Any]
) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(RunSpec)}
    for name in options:
        if name not in known:
            raise unknown_field("train", name, known)
    parts = {"fields": fields, "sweep": sweep, "env_fields": env_fields, "env_sweep": env_sweep}
    plain = {"steps": steps, "seeds": seeds, **options}
    return {k: v for k, v in plain.items() if v is not None} | {k: dict(v) for k, v in parts.items() if v}


def _refuse_on_resume(path: Path | str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}={str(value)!r} is for a new run; resume continues {path} as it is. Leave it out.")


def _new_folder(root: Path, name: str, spec: RunSpec) -> Path:
    return root / name if name else new_path(root, run_name(spec.agent, spec.env))


def job_to_resume(path: Path | str, agent: Any, env: Any, given: dict[str, Any]) -> Job:
    """The job in a folder. Raises ValueError listing what was given and differs from it."""
    if RunFolder(path).policy.is_dir():
        raise ValueError(f"{path} holds an exported policy, not a run that can go on.")
    values = (_unless_name(agent), _unless_name(env))
    folder, _ = open_run(path, *values)
    old = folder.read_spec()
    named = (("agent", agent, AGENTS), ("env", env, ENVS))
    asked = {**given, **{kind: registry[name].name for kind, name, registry in named if isinstance(name, str)}}
    for part in ("fields", "sweep", "env_fields", "env_sweep"):
        if part in asked:
            asked[part] = {**getattr(old, part), **asked[part]}
    new = dataclasses.replace(old, **asked)
    changed = differences(old, new)
    for kind, value in zip(("agent", "env"), values, strict=True):
        if value is not None:
            changed += differences(old, _with_value(old, kind, value, given))
    if changed:
        raise ValueError(
            f"{path} cannot be resumed with changes ({'; '.join(changed)}). Leave them out to continue it as it was, "
            f"or start a new run."
        )
    return Job(without(old, folder.only_in_python()), *values)


def _with_value(old: RunSpec, kind: str, value: Any, given: Mapping[str, Any]) -> RunSpec:
    """A spec with what a value of an agent or an environment says, and what was given beside it."""
    prefix = "" if kind == "agent" else "env_"
    parts = (f"{prefix}fields", f"{prefix}sweep")
    pair = {"agent": old.agent, "env": old.env, kind: value}
    new = spec_for(pair["agent"], pair["env"], **{name: given[name] for name in parts if name in given})
    said = {name: {**getattr(old, name), **getattr(new, name)} for name in parts}
    return dataclasses.replace(old, **{kind: getattr(new, kind)}, **said)


def _unless_name(value: Any) -> Any:
    return None if isinstance(value, str) else value


def _reporter(progress: bool | Reporter) -> Reporter:
    if isinstance(progress, Reporter):
        return progress
    if not progress:
        return Reporter()
    from shoal.tracking.progress import reporter_for_terminal

    return reporter_for_terminal()


# Evaluation and rollouts.


@partial(jax.jit, static_argnums=(4, 5, 6))
def _evaluate_one(actor: Any, weights: Any, env: Env, key: Key, episodes: int, horizon: int, greedy: bool) -> Any:
    return evaluate_one(actor, weights, env, key, episodes, horizon, greedy)


@partial(jax.jit, static_argnums=(4, 5, 6))
def _evaluate_many(actor: Any, weights: Any, env: Env, key: Key, episodes: int, horizon: int, greedy: bool) -> Any:
    def one(parts: tuple) -> Evaluation:
        actor, weights, env = parts
        return evaluate_one(actor, weights, env, key, episodes, horizon, greedy)

    return jax.lax.map(one, (actor, weights, env))


@partial(jax.jit, static_argnums=(4, 5, 6, 7))
def _rollout_one(
    actor: Any, weights: Any, env: Env, key: Key, sizes: Rollout, keep: tuple, greedy: bool, alone: bool
) -> dict[str, Any]:
    return _roll(actor, weights, env, key, sizes, keep, greedy, alone)


@partial(jax.jit, static_argnums=(4, 5, 6, 7))
def _rollout_many(
    actor: Any, weights: Any, env: Env, key: Key, sizes: Rollout, keep: tuple, greedy: bool, alone: bool
) -> dict[str, Any]:
    return jax.vmap(lambda a, w, e: _roll(a, w, e, key, sizes, keep, greedy, alone))(actor, weights, env)


def _roll(
    actor: Any, weights: Any, env: Env, key: Key, sizes: Rollout, keep: tuple, greedy: bool, alone: bool
) -> dict[str, Any]:
    k_init, k_act, k_env = jax.random.split(key, 3)

    def behave(obs: Any, mask: Any, keys: Key, carry: Any) -> tuple:
        action, carry = jax.vmap(lambda o, c, k, m: actor.act(weights, o, c, k, greedy, m))(obs, carry, keys, mask)
        return action, None, carry

    start = jax.tree.map(
        lambda x: jax.numpy.broadcast_to(x, (sizes.num_envs, *jax.numpy.shape(x))), actor.initial_carry()
    )
    keys = jax.random.split(k_act, (sizes.num_steps, sizes.num_envs))
    _, trajectory, _ = sizes.collect(env, sizes.init(env, k_init), behave, keys, k_env, start, first_carry=start)
    parts = {name: getattr(trajectory, name) for name in keep}
    if alone:
        parts = jax.tree.map(lambda x: x[:, 0], parts)
    return {**parts, "episodes": trajectory.episodes()}


def _rollout_sizes(world: Env, num_envs: int, num_steps: int, many: bool) -> Rollout:
    return Rollout.for_env(jax.tree.map(lambda x: x[0], world) if many else world, num_envs, num_steps)


def _stand_in(policy: Any, env: str | Env | None) -> Policy:
    if env is None:
        raise TypeError("rollout needs env= with a policy that was not trained here.")
    world = _env_value(env)
    if policy is None or policy == "random":
        return Policy(Chance(world.action_space), None, world, "random")
    if callable(policy):
        return Policy(Function(policy), None, world)
    raise TypeError(
        f"policy={policy!r} is none: give a policy, result.policies, a function of (obs, key), or 'random'."
    )


def _env_value(env: str | Env) -> Env:
    return make(env) if isinstance(env, str) else env


def _world(policy: Policy | Policies, env: str | Env | None, fields: Mapping[str, Any]) -> Env:
    """The world to play in; for a population every leaf leads with [M]."""
    members = len(policy) if isinstance(policy, Policies) else 0
    if env is None and not fields:
        return to_arrays(policy.env)
    if env is not None:
        world = _env_value(env).replace(**fields)
        _check_same_spaces(policy, world)
        return to_arrays(_for_all(world, members) if members else world)
    world = _one_world(policy).replace(**fields)
    _check_same_spaces(policy, world)
    if not members:
        return to_arrays(world)
    shaping = static_fields(world)
    everywhere = {k: getattr(world, k) if k in shaping else _for_all(getattr(world, k), members) for k in fields}
    return to_arrays(policy.env.replace(**everywhere))


def _for_all(value: Any, members: int) -> Any:
    return jax.tree.map(lambda x: np.broadcast_to(x, (members, *np.shape(x))), value)


def _one_world(policy: Policy | Policies) -> Env:
    """The world a policy was trained in; of a population, that of its first member."""
    return jax.tree.map(lambda x: x[0], policy.env) if isinstance(policy, Policies) else policy.env


def _check_same_spaces(policy: Policy | Policies, world: Env) -> None:
    trained = _one_world(policy)
    for kind in ("observation_space", "action_space"):
        there, here = getattr(trained, kind), getattr(world, kind)
        if not alike(there, here):
            raise ValueError(f"the policy was trained with {kind} {there}; {type(world).__name__} has {here}.")


def _scores(run: Result, metric: str) -> dict[str, float]:
    """Return of every member that has a finite one, by setting and by what its random numbers derive from."""
    values = member_scores(run.curves, metric)
    if np.isnan(values).all():
        raise ValueError(f"{run.folder} has no evaluation to compare: train with --evaluations 1 or more.")
    if not np.isfinite(values).any():
        raise ValueError(f"{run.folder} has no finite score to compare.")
    luck = f"{run.spec.prng} {run.spec.seed}"
    names = [" ".join([luck, *(f"{k}={v}" for k, v in member.items())]) for member in run.members]
    return {name: float(value) for name, value in zip(names, values, strict=True) if np.isfinite(value)}
