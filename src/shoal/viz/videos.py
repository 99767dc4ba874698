"""Videos of one episode, as GIF or MP4 files: of members of a run (best, median, worst), or of an environment."""

import operator
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import Env, Key
from shoal.core.host_env import HostEnv
from shoal.core.keys import make_key, stream
from shoal.core.kinds import checked_kinds
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.rollouts.evaluate import Episode, record_episode
from shoal.specs.describe import describe, in_words
from shoal.specs.spec import run_name
from shoal.training.folder import locate
from shoal.training.host_envs import needs_host
from shoal.training.host_evaluation import record_on_host
from shoal.training.plan import Plan
from shoal.training.policy import Policies, Policy, RandomPolicy, load_policies
from shoal.training.result import load_result
from shoal.viz.animation import animate, check_format, fit
from shoal.viz.grid import MOST_PICTURES

MOST_STEPS = 500  # of a video without a time limit from a run or from the user
HOST_PICTURE = 300  # about the longer side, in pixels, of pictures that are kept while Python steps an environment


@checked_kinds("what")
def render(
    what: Path | str | Env | Policy,
    *,
    member: int | str | None = None,
    members: Sequence[int] | str | None = None,
    which: str = "last",
    greedy: bool = True,
    seed: int | None = None,
    max_steps: int = 0,
    env_fields: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    size: int | None = None,
    columns: int | None = None,
    trust_source: bool = False,
) -> list[Path]:
    """Record episodes, draw them as GIF or MP4 files, and return the paths of the files.

        shoal.render("runs/ppo-CartPole-v1")                     # its best, median and worst member
        shoal.render("runs/ppo-CartPole-v1", member=3, out="three.gif")
        shoal.render("runs/ppo-CartPole-v1", members=[0, 1, 2])  # side by side in one GIF; "all" for all members
        shoal.render("CartPole-v1", env_fields={"gravity": 20})  # with random actions
        shoal.render("zoo:ppo/CartPole-v1", out="cartpole.mp4")  # needs the extra shoal[video]

    `what` is a run folder or exported policy, a `Policy`, or an environment by name or as a value. `member` is an index
    or "best"; with None, a run with three or more members gets three videos (best, median, worst), and a smaller one a
    video of its best member. `members` shows several side by side, in `columns` columns, in one file; each picture
    keeps its last state when its episode has ended. `member`, `members`, `which` and `greedy` are for runs,
    `env_fields` for an environment by name. `size` is that of each picture in pixels. By default GIFs are written to
    the run's `videos/`, or to the current folder; the suffix of `out` decides the format of that file. `trust_source`
    is as in `shoal.load`. Raises ValueError for an option that does not apply to `what` and for an unknown suffix,
    ImportError for .mp4 without the extra `video`, and NotImplementedError for an environment without `render`.
    """
    if member is not None and members is not None:
        raise ValueError(f"member={member} makes a video of one member, members={members} of several: give only one.")
    if columns is not None and members is None:
        raise ValueError(f"columns={columns} is for several members: give members too.")
    if max_steps < 0:
        raise ValueError(f"max_steps={max_steps} must not be negative; 0 means the time limit.")
    if out:
        check_format(out)
    if isinstance(what, (str, Path)) and (locate(what) / "spec.json").is_file():
        if env_fields:
            raise ValueError("env_fields is for an environment by name: a run is shown in the one it was trained in.")
        if members is not None:
            how = _Options(greedy, seed, max_steps, size, columns)
            return [_render_side_by_side(what, members, which, how, out, trust_source)]
        return _render_run(what, member, which, _Options(greedy, seed, max_steps, size), out, trust_source)
    if member is not None or members is not None or which != "last":
        raise ValueError(f"member, members and which are for a run, but {what} is not a run.")
    if isinstance(what, Policy):
        policy, title, horizon = what, what.name or "policy", max_steps or _steps_of(what.env)
        name = f"{type(what.env).__name__}.gif"
    else:
        env, name = _env_and_file_name(what, env_fields)
        policy = Policy(RandomPolicy(env.action_space), None, to_arrays(env), "random actions")
        title, horizon, greedy = "random actions", max_steps or _steps_of(env), False
    return [render_episode(policy, make_key(seed or 0), horizon, Path(out or name), title, greedy, size)]


class _Options(NamedTuple):
    """How a run is shown: the options of `render` with these names."""

    greedy: bool
    seed: int | None
    max_steps: int
    size: int | None
    columns: int | None = None


def _env_and_file_name(what: Path | str | Env, fields: Mapping[str, Any] | None) -> tuple[Env, str]:
    """The environment `what` with its fields set, and the file name of its GIF."""
    if not isinstance(what, (str, Path, Env)):
        is_class = isinstance(what, type)
        given = f"the class {what.__name__}: write {what.__name__}()" if is_class else f"{what!r:.60}"
        raise TypeError(f"render needs a run folder, a policy or an environment, not {given}.")
    if isinstance(what, Env):
        return what.replace(**(fields or {})), f"{type(what).__name__}.gif"
    if Path(what).exists() and ":" not in str(what):
        raise FileNotFoundError(f"{what} is not a run folder: it has no spec.json.")
    return make(str(what), **(fields or {})), f"{run_name(str(what).rpartition(':')[2])}.gif"


def _steps_of(env: Env) -> int:
    _, longest = env.limit_range or (None, MOST_STEPS)
    return min(int(longest), MOST_STEPS)


def _render_run(
    run: Path | str,
    member: int | str | None,
    which: str,
    how: _Options,
    out: Path | str | None,
    trust_source: bool,
) -> list[Path]:
    greedy, seed, max_steps, size, _ = how
    result = load_result(run)
    ranking = result.ranking(which)
    if member in (None, "best"):
        result.number_of("best", which)  # raises if no member is the best, before anything compiles
    plan, policies = load_policies(run, which, trust_source=trust_source)
    horizon = max_steps or plan.horizon
    is_exported = bool(result.exported)
    if member is None and not out and not is_exported:
        recorder = recorder_for(plan, horizon, greedy)
        key = None if seed is None else make_key(seed)
        return draw_members(plan, policies, ranking, result.folder / "videos", recorder, key, size)
    number = result.number_of("best" if member is None else member, which)
    policy = policies[number]
    name = f"{run_name(result.spec.env_name)}.gif" if is_exported else f"videos/member-{number}.gif"
    path = Path(out or (name if is_exported else result.folder / name))
    title = _with_short_numbers(policy.name)
    return [render_episode(policy, make_key(seed or 0), horizon, path, title, greedy, size)]


def _render_side_by_side(
    run: Path | str, members: Sequence[int] | str, which: str, how: _Options, out: Path | str | None, trust_source: bool
) -> Path:
    """Draw one episode of each of several members of a run in one file, all with the same random numbers."""
    result = load_result(run)
    rows = _numbers(members, len(result.members))
    plan, policies = load_policies(run, which, trust_source=trust_source)
    _check_picture(plan.env)
    actor, env, weights = jax.tree.map(lambda x: np.asarray(x)[rows], (policies.actor, policies.env, policies.weights))
    recorder = EpisodeRecorder(actor, env, how.max_steps or plan.horizon, how.greedy, len(rows))
    key = video_key(plan) if how.seed is None else make_key(how.seed)
    episodes = jax.tree.map(np.asarray, recorder.record(actor, weights, env, key))
    steps = int(episodes.valid.sum(axis=1).max())  # of the longest episode
    returns = np.pad(np.cumsum(episodes.reward, axis=1), ((0, 0), (1, 0)))
    default = "members.gif" if result.exported else result.folder / "videos" / "members.gif"
    return animate(
        [jax.tree.map(lambda x, i=i: x[i], env) for i in range(len(rows))],
        jax.tree.map(lambda x: np.swapaxes(x[:, : steps + 1], 0, 1), episodes.state),
        returns[:, : steps + 1].T,
        Path(out or default),
        title=f"{result.spec.agent} on {result.spec.env_name}",
        titles=[_with_short_numbers(policies.names[m]) for m in rows],
        size=how.size,
        columns=how.columns,
    )


def _numbers(members: Sequence[int] | str, count: int) -> list[int]:
    """The indices of the members to show. Raises ValueError for "all" of too many, IndexError for an unknown one."""
    if isinstance(members, str) and members != "all":
        raise ValueError(f'members={members!r} is unknown: give a list of indices, or "all".')
    rows = list(range(count)) if isinstance(members, str) else [operator.index(member) for member in members]
    if not 1 <= len(rows) <= MOST_PICTURES:
        raise ValueError(f"{len(rows)} pictures side by side: choose from 1 to {MOST_PICTURES} members.")
    for row in rows:
        if not 0 <= row < count:
            raise IndexError(f"member {row} does not exist: the population has members 0 to {count - 1}.")
    return rows


class EpisodeRecorder:
    """Records one episode of each of K members in one program, which can be compiled before the weights exist.

    Where Python steps the environment, members play one after the other, and no such program exists.
    """

    def __init__(self, actor: Any, env: Any, horizon: int, greedy: bool = True, members: int = 1) -> None:
        """The leaves of `actor` (an agent) and `env`, if any, have a leading axis of the K=`members` shown."""
        self.actor, self.env, self.horizon, self.greedy, self.members = actor, env, horizon, greedy, members
        self._program: Any = None

    def compile(self, weights: Any, key: Key) -> Any:
        """Compile for weights of these shapes [K, ...], and return the program. It is not run."""
        if needs_host(self.env):
            self._program = self._play_on_host
            return self._program
        self._program = jax.jit(self._record).lower(self.actor, weights, self.env, key).compile()
        return self._program

    def record(self, actor: Any, weights: Any, env: Any, key: Key) -> Episode:
        """Record an episode of each of K members, all with the same random numbers. `key` is consumed."""
        program = self.compile(weights, key) if self._program is None else self._program
        return program(actor, weights, env, key)

    def _play_on_host(self, actor: Any, weights: Any, env: Any, key: Key) -> Episode:
        def one(m: int) -> Episode:
            one_actor, policy, one_env = jax.tree.map(lambda x: np.asarray(x)[m], (actor, weights, env))
            shrink = partial(fit, size=HOST_PICTURE)
            return record_on_host(one_actor, policy, one_env, key, min(self.horizon, MOST_STEPS), self.greedy, shrink)

        episodes = [one(m) for m in range(self.members)]
        longest = max(len(episode.valid) for episode in episodes)
        return jax.tree.map(lambda *xs: np.stack(xs), *(_padded(episode, longest) for episode in episodes))

    def _record(self, actor: Any, weights: Any, env: Any, key: Key) -> Episode:
        def one(actor: Any, weights: Any, env: Any) -> Episode:
            return record_episode(actor, weights, env, key, self.horizon, self.greedy)

        return jax.vmap(one, axis_size=self.members)(actor, weights, env)


def _padded(episode: Episode, steps: int) -> Episode:
    """The episode with `steps` steps: the last state is repeated, with `valid` False."""
    missing = steps - len(episode.valid)
    longer = jax.tree.map(lambda x: jnp.concatenate([x, jnp.repeat(x[-1:], missing, axis=0)]), episode)
    is_added = jnp.arange(steps) >= steps - missing
    return longer.replace(valid=~is_added, reward=jnp.where(is_added, 0, longer.reward))


def recorder_for(plan: Plan, horizon: int = 0, greedy: bool = True) -> EpisodeRecorder:
    """A recorder for three members of a run; for one member if the run has fewer than three."""
    shown = 3 if plan.members >= 3 else 1
    actor, env = jax.tree.map(lambda x: x[:shown], plan.batched())
    return EpisodeRecorder(actor, env, horizon or plan.horizon, greedy, shown)


def video_key(plan: Plan) -> Key:
    """The key of the episodes in a run's videos."""
    return stream(make_key(plan.spec.seed, plan.spec.prng), "video")


def members_to_show(ranking: list[int]) -> dict[str, int]:
    """{"best": i, "median": j, "worst": k}: indices of members, from a ranking of all members, best first.

    With fewer than three members only "best".
    """
    if len(ranking) < 3:
        return {"best": ranking[0]}
    return {"best": ranking[0], "median": ranking[len(ranking) // 2], "worst": ranking[-1]}


def render_episode(
    policy: Policy, key: Key, horizon: int, path: Path, title: str, greedy: bool = True, size: int | None = None
) -> Path:
    """Record one episode of a policy in its environment and draw it as a GIF or MP4 file. `key` is consumed."""
    _check_picture(policy.env)
    actor, weights, env = jax.tree.map(lambda x: np.asarray(x)[None], (policy.actor, policy.weights, policy.env))
    episodes = EpisodeRecorder(actor, env, horizon, greedy).record(actor, weights, env, key)
    return draw(policy.env, jax.tree.map(lambda x: np.asarray(x)[0], episodes), path, title, size)


def has_picture(env: Any) -> bool:
    """Whether an environment, or the one inside its wrappers, defines `render`."""
    while hasattr(env, "env"):
        env = env.env
    if isinstance(env, HostEnv):
        return env.has_pictures
    return type(env).render is not Env.render


def _check_picture(env: Any) -> None:
    if isinstance(env, HostEnv) and not env.has_pictures:
        raise NotImplementedError(f"{in_words(describe(env))} has no pictures: its environment cannot draw an array.")
    if not has_picture(env):
        raise NotImplementedError(
            f"{in_words(describe(env))} has no pictures: define render(state) -> uint8 [H, W, 3] in its class."
        )


def draw(env: Any, episode: Episode, path: Path, title: str, size: int | None = None) -> Path:
    """Draw one recorded episode, up to its end, as a GIF or MP4 file. Returns its path."""
    steps = int(np.sum(np.asarray(episode.valid)))
    states = jax.tree.map(lambda x: x[: steps + 1], episode.state)
    returns = np.concatenate([[0.0], np.cumsum(np.asarray(episode.reward)[:steps])])
    return animate(env, states, returns, path, title=title, size=size)


def _with_short_numbers(name: str) -> str:
    """The name of a member with numbers of at most four digits: `learning_rate=0.0003162` of a sampled rate."""
    return re.sub(r"\d+\.\d{4,}(e[-+]?\d+)?", lambda number: f"{float(number[0]):.4g}", name)


def draw_members(
    plan: Plan,
    policies: Policies,
    ranking: list[int],
    folder: Path,
    recorder: EpisodeRecorder | None = None,
    key: Key | None = None,
    size: int | None = None,
    best_at: int | None = None,
) -> list[Path]:
    """Draw GIFs of the best, median and worst member of a population. `key` is consumed; default: the run's own.

    `ranking` holds the indices of all members, best first. With `best_at`, a number of environment steps, only the
    best one is drawn, into a file with this number. Returns the paths.
    """
    _check_picture(plan.env)
    shown = members_to_show(ranking)
    rows = np.asarray(list(shown.values()))
    actor, env, weights = jax.tree.map(lambda x: x[rows], (policies.actor, policies.env, policies.weights))
    recorder = recorder or recorder_for(plan)
    episodes = jax.tree.map(np.asarray, recorder.record(actor, weights, env, video_key(plan) if key is None else key))
    return [
        draw(
            jax.tree.map(lambda x, i=i: x[i], env),
            jax.tree.map(lambda x, i=i: x[i], episodes),
            folder / (f"{word}.gif" if best_at is None else f"{word}-step-{best_at}.gif"),
            f"{word}: {_with_short_numbers(policies.names[member])}",
            size,
        )
        for i, (word, member) in enumerate(shown.items())
        if best_at is None or word == "best"
    ]
