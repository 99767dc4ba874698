"""Let trained policies play: evaluations, rollouts, and recorded demonstrations."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.env import Env, Key
from shoal.core.keys import make_key, stream
from shoal.core.registry import make
from shoal.core.spaces import alike
from shoal.core.struct import to_arrays
from shoal.rollouts.demonstrations import Demonstrations
from shoal.rollouts.evaluate import Evaluation
from shoal.rollouts.evaluate import evaluate as evaluate_one
from shoal.rollouts.rollout import Rollout
from shoal.training.plan import default_horizon
from shoal.training.policy import Function, Policies, Policy, RandomPolicy, load_policies
from shoal.training.result import load
from shoal.training.settings import is_static_part, part, replaced

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
        return Policy(RandomPolicy(world.action_space), None, world, "random")
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
        world = replaced(_env_value(env), fields, "env.")
        _check_same_spaces(policy, world)
        return to_arrays(_for_all(world, members) if members else world)
    world = replaced(_one_world(policy), fields, "env.")
    _check_same_spaces(policy, world)
    if not members:
        return to_arrays(world)
    parts = {path: part(world, path) for path in fields}
    everywhere = {k: v if is_static_part(world, k) else _for_all(v, members) for k, v in parts.items()}
    return to_arrays(replaced(policy.env, everywhere))


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
