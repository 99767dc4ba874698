"""Videos of a run: the best, the median and the worst member, each in one fresh episode."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.env import Env, Key
from shoal.core.keys import make_key, stream
from shoal.rollouts.evaluate import Episode, record_episode
from shoal.training.plan import Plan
from shoal.training.policy import Policies, Policy
from shoal.viz.gif import animate


class Camera:
    """Records one episode of up to three members in one program, compiled ahead, while the run still trains."""

    def __init__(self, actor: Any, env: Any, horizon: int, greedy: bool = True) -> None:
        """Leaves of `actor` and `env` lead with the members [K] that will be shown."""
        self.actor, self.env, self.horizon, self.greedy = actor, env, horizon, greedy
        self._program: Any = None

    def compile(self, weights: Any, key: Key) -> Any:
        """Compile for weights of these shapes [K, ...], and return the program. Nothing runs."""
        self._program = jax.jit(self._record).lower(self.actor, weights, self.env, key).compile()
        return self._program

    def record(self, actor: Any, weights: Any, env: Any, key: Key) -> Episode:
        """An episode of each of K members, all from the same random numbers. `key` is consumed."""
        program = self.compile(weights, key) if self._program is None else self._program
        return program(actor, weights, env, key)

    def _record(self, actor: Any, weights: Any, env: Any, key: Key) -> Episode:
        def one(actor: Any, weights: Any, env: Any) -> Episode:
            return record_episode(actor, weights, env, key, self.horizon, self.greedy)

        return jax.vmap(one)(actor, weights, env)


def camera_for(plan: Plan, horizon: int = 0, greedy: bool = True) -> Camera:
    """A camera for the members of a run: three of them where there are as many, otherwise one."""
    shown = slice(0, 3 if plan.members >= 3 else 1)
    actor, env = jax.tree.map(lambda x: x[shown], plan.batched())
    return Camera(actor, env, horizon or plan.horizon, greedy)


def video_key(plan: Plan) -> Key:
    """The random numbers that the episodes of a run's videos are drawn from."""
    return stream(make_key(plan.spec.seed, plan.spec.prng), "video")


def cast(ranking: list[int]) -> dict[str, int]:
    """Who is shown, from a ranking of all members: the best, and with three members or more the median and worst."""
    if len(ranking) < 3:
        return {"best": ranking[0]}
    return {"best": ranking[0], "median": ranking[len(ranking) // 2], "worst": ranking[-1]}


def film(policy: Policy, key: Key, horizon: int, path: Path, title: str, greedy: bool = True) -> Path:
    """Record one episode of one policy in its world and draw it. `key` is consumed."""
    _check_picture(policy.env)
    actor, weights, env = jax.tree.map(lambda x: np.asarray(x)[None], (policy.actor, policy.weights, policy.env))
    episodes = Camera(actor, env, horizon, greedy).record(actor, weights, env, key)
    return draw(policy.env, jax.tree.map(lambda x: np.asarray(x)[0], episodes), path, title)


def has_picture(env: Any) -> bool:
    """Whether a world, or the one inside its wrappers, can be drawn."""
    while hasattr(env, "env"):
        env = env.env
    return type(env).render is not Env.render


def _check_picture(env: Any) -> None:
    if not has_picture(env):
        raise NotImplementedError(
            f"{type(env).__name__} has no picture: define render(state) -> uint8 [H, W, 3] in its class."
        )


def draw(env: Any, episode: Episode, path: Path, title: str) -> Path:
    """One recorded episode, up to its end, as a GIF. Raises NotImplementedError for a world without a picture."""
    steps = int(np.sum(np.asarray(episode.valid)))
    states = jax.tree.map(lambda x: x[: steps + 1], episode.state)
    returns = np.concatenate([[0.0], np.cumsum(np.asarray(episode.reward)[:steps])])
    return animate(env, states, returns, path, title=title)


def draw_members(
    plan: Plan,
    policies: Policies,
    ranking: list[int],
    folder: Path,
    camera: Camera | None = None,
    key: Key | None = None,
) -> list[Path]:
    """GIFs of the best, median and worst member of a population. `key` is consumed; by default the run's own is."""
    _check_picture(plan.env)
    shown = cast(ranking)
    rows = np.asarray(list(shown.values()))
    actor, env, weights = jax.tree.map(lambda x: x[rows], (policies.actor, policies.env, policies.weights))
    camera = camera or camera_for(plan)
    episodes = jax.tree.map(np.asarray, camera.record(actor, weights, env, video_key(plan) if key is None else key))
    return [
        draw(
            jax.tree.map(lambda x, i=i: x[i], env),
            jax.tree.map(lambda x, i=i: x[i], episodes),
            folder / f"{word}.gif",
            f"{word}: {policies.names[member]}",
        )
        for i, (word, member) in enumerate(shown.items())
    ]
