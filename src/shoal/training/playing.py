"""Run trained policies in environments: `evaluate`, `rollout`, and `record` for demonstrations."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shoal.core.env import NAN_STATE, Env, Key, check_fields
from shoal.core.form import current, in_form
from shoal.core.keys import key_or_seed, make_key, stream
from shoal.core.kinds import checked_kinds
from shoal.core.registry import make
from shoal.core.spaces import alike
from shoal.core.struct import to_arrays
from shoal.rollouts.demonstrations import Demonstrations
from shoal.rollouts.evaluate import Evaluation, act_on_batch, initial_carries
from shoal.rollouts.evaluate import evaluate as evaluate_one
from shoal.rollouts.rollout import Rollout
from shoal.specs.arguments import explaining_arguments
from shoal.specs.settings import is_static_part, part, replaced
from shoal.training.host_envs import needs_host
from shoal.training.host_evaluation import evaluate_on_host
from shoal.training.plan import default_horizon
from shoal.training.policy import Function, Policies, Policy, RandomPolicy, load_policies
from shoal.training.result import load

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


@explaining_arguments
@checked_kinds("policy")
def evaluate(
    policy: Policy | Policies | Path | str,
    env: str | Env | None = None,
    *,
    episodes: int = 100,
    greedy: bool = True,
    seed: int = 0,
    max_steps: int = 0,
    env_fields: Mapping[str, Any] | None = None,
    trust_source: bool = False,
) -> Evaluation:
    """Play N episodes. Returns their returns and lengths as NumPy arrays: [N] for a policy, [M, N] for a population.

    Each episode is the first one of an environment of its own. `policy` may be a run folder, which means all its
    members. With `env`, or with some `env_fields` changed, the policy acts in another environment than in training.
    `max_steps` bounds the length of episodes; 0 means the environment's limit, or 1,000 where it has none. An episode
    in which a number of the environment's state became NaN has the return NaN, and there is a warning. `trust_source`
    is as in `shoal.load`.
    """
    if not isinstance(policy, (str, Path, Policies, Policy)):
        raise TypeError(
            f"evaluate needs a policy, not {policy!r:.60}: give the folder of a run, or what shoal.load returns. An "
            f"agent must be trained first."
        )
    if episodes < 1:
        raise ValueError(f"episodes={episodes} must be at least 1.")
    if max_steps < 0:
        raise ValueError(f"max_steps={max_steps} must not be negative; 0 means the environment's time limit.")
    if isinstance(policy, (str, Path)):
        policy = load_policies(policy, trust_source=trust_source)[1]
    is_population = isinstance(policy, Policies)
    played_env = _env_to_play(policy, env, env_fields or {})
    horizon = max_steps or default_horizon([played_env])
    key = stream(make_key(seed), "evaluate")
    if needs_host(played_env):
        return _evaluate_on_host(policy, played_env, key, episodes, horizon, greedy)
    run = _compiled(_evaluate_all if is_population else evaluate_one, (4, 5, 6), policy.actor, played_env)
    result = jax.tree.map(np.asarray, run(policy.actor, policy.weights, played_env, key, episodes, horizon, greedy))
    if missing := int(np.isnan(result.episode_return).sum()):
        warnings.warn(f"{missing} of {result.episode_return.size} returns are NaN: {NAN_STATE}.", stacklevel=3)
    return result


@explaining_arguments
@checked_kinds()
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
    """Step environments `num_steps` times with automatic resets. Returns the parts of the trajectory named in `keep`.

    `policy` is a `Policy`, a population of them (`result.policies`), a pure function `(observation, key) -> action`,
    or "random". Arrays are [T, ...] for one environment and [T, E, ...] with `num_envs`; for a population they begin
    with an axis [M]. Parts: obs, mask, action, reward, terminated, truncated, is_first, episode_return (so far),
    episode_length. The result always has `episodes`: sums over the episodes that ended.
    """
    unknown = [part for part in keep if part not in ROLLOUT_PARTS]
    if unknown:
        raise ValueError(
            f"keep names {unknown[0]!r}, which a rollout does not have. It has: {', '.join(ROLLOUT_PARTS)}."
        )
    if not isinstance(policy, (Policy, Policies)):
        policy = _as_policy(policy, env)
    played_env = _env_to_play(policy, env, {})
    key = key_or_seed(key)
    of_all = isinstance(policy, Policies)
    one_env = jax.tree.map(lambda x: x[0], played_env) if of_all else played_env
    sizes, play = Rollout.for_env(one_env, num_envs or 1, num_steps), _roll_all if of_all else _roll
    run = _compiled(play, (4, 5, 6, 7), policy.actor, played_env)
    return run(policy.actor, policy.weights, played_env, key, sizes, tuple(keep), greedy, num_envs is None)


@explaining_arguments
@checked_kinds("policy")
def record(
    policy: Policy | Path | str,
    steps: int = 10_000,
    *,
    num_envs: int = 16,
    greedy: bool = True,
    seed: int = 0,
    trust_source: bool = False,
) -> Demonstrations:
    """Record observations and actions of a policy in `steps` steps of its environment, for `BC` to imitate.

    `policy` may be a run folder, which means its best member. `shoal.save_demonstrations` writes the result to a file,
    as `shoal record` does. `trust_source` is as in `shoal.load`. Raises ValueError for less than one step.
    """
    if steps < 1 or num_envs < 1:
        raise ValueError(f"steps={steps} and num_envs={num_envs} must both be at least 1.")
    if not isinstance(policy, Policy):
        policy = load(policy, trust_source=trust_source)
    keep = ("obs", "mask", "action")
    num_envs = min(num_envs, steps)
    parts = rollout(policy, key=seed, num_steps=-(-steps // num_envs), num_envs=num_envs, keep=keep, greedy=greedy)
    flat = [jax.tree.map(lambda x: np.asarray(x).reshape(-1, *x.shape[2:])[:steps], parts[name]) for name in keep]
    return Demonstrations(obs=flat[0], mask=flat[1], action=flat[2])


def _evaluate_on_host(
    policy: Policy | Policies, env: Any, key: Key, episodes: int, horizon: int, greedy: bool
) -> Evaluation:
    if isinstance(policy, Policy):
        return evaluate_on_host(policy.actor, policy.weights, env, key, episodes, horizon, greedy)
    results = []
    for m in range(len(policy)):
        actor, weights, of_member = jax.tree.map(lambda x, m=m: x[m], (policy.actor, policy.weights, env))
        results.append(evaluate_on_host(actor, weights, of_member, key, episodes, horizon, greedy))
    return jax.tree.map(lambda *xs: np.stack(xs), *results)


def _compiled(function: Any, static: tuple[int, ...], actor: Any, env: Env) -> Any:
    """The compiled function. Of all kinds of policies and environments only those used last are kept (`in_form`)."""
    return jax.jit(in_form(function, current(), jax.tree.structure((actor, env))), static_argnums=static)


def _evaluate_all(actor: Any, weights: Any, env: Env, *same: Any) -> Evaluation:
    return jax.lax.map(lambda member: evaluate_one(*member, *same), (actor, weights, env))


def _roll_all(actor: Any, weights: Any, env: Env, *same: Any) -> dict[str, Any]:
    return jax.vmap(lambda *member: _roll(*member, *same))(actor, weights, env)


def _roll(
    actor: Any, weights: Any, env: Env, key: Key, sizes: Rollout, keep: tuple, greedy: bool, squeeze: bool
) -> dict[str, Any]:
    k_init, k_act, k_env = jax.random.split(key, 3)

    def behave(obs: Any, mask: Any, keys: Key, carry: Any) -> tuple:
        action, carry = act_on_batch(actor, weights, obs, carry, keys, greedy, mask)
        return action, None, carry

    start = initial_carries(actor, sizes.num_envs)
    keys = jax.random.split(k_act, (sizes.num_steps, sizes.num_envs))
    _, trajectory, _ = sizes.collect(env, sizes.init(env, k_init), behave, keys, k_env, start, first_carry=start)
    parts = {name: getattr(trajectory, name) for name in keep}
    if squeeze:
        parts = jax.tree.map(lambda x: x[:, 0], parts)
    return {**parts, "episodes": trajectory.episodes()}


def _as_policy(policy: Any, env: str | Env | None) -> Policy:
    if env is None:
        raise TypeError("rollout needs env= unless policy is a trained policy, which has its environment.")
    built_env = _env_value(env)
    if policy is None or policy == "random":
        return Policy(RandomPolicy(built_env.action_space), None, built_env, "random")
    if callable(policy):
        return Policy(Function(policy), None, built_env)
    raise TypeError(
        f"policy={policy!r} is not a policy: give a Policy, result.policies, a function of (obs, key), or 'random'."
    )


def _env_value(env: str | Env) -> Env:
    if isinstance(env, str):
        return make(env)
    check_fields(env)
    return env


def _env_to_play(policy: Policy | Policies, env: str | Env | None, fields: Mapping[str, Any]) -> Env:
    """Return `env`, or the environment of training, with these fields; for a population with leaves [M, ...]."""
    members = len(policy) if isinstance(policy, Policies) else 0
    if env is None and not fields:
        return to_arrays(policy.env)
    if env is not None:
        changed = replaced(_env_value(env), fields, "env.")
        _check_same_spaces(policy, changed, env if isinstance(env, str) else type(env).__name__)
        return to_arrays(_for_all(changed, members) if members else changed)
    changed = replaced(_training_env(policy), fields, "env.")
    _check_same_spaces(policy, changed, "with these fields the environment")
    if not members:
        return to_arrays(changed)
    parts = {path: part(changed, path) for path in fields}
    for_all = {k: v if is_static_part(changed, k) else _for_all(v, members) for k, v in parts.items()}
    return to_arrays(replaced(policy.env, for_all))


def _for_all(value: Any, members: int) -> Any:
    return jax.tree.map(lambda x: np.broadcast_to(x, (members, *np.shape(x))), value)


def _training_env(policy: Policy | Policies) -> Env:
    """Return the environment that a policy was trained in; for a population, that of its first member."""
    return jax.tree.map(lambda x: x[0], policy.env) if isinstance(policy, Policies) else policy.env


def _check_same_spaces(policy: Policy | Policies, env: Env, name: str) -> None:
    trained = _training_env(policy)
    for kind in ("observation_space", "action_space"):
        there, here = getattr(trained, kind), getattr(env, kind)
        if not alike(there, here):
            raise ValueError(f"the policy was trained with {kind} {there}; {name} has {here}.")
