"""Evaluate a policy, or record an episode, in environments that Python steps, as `rollouts.evaluate` in others."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.agent import Actor
from shoal.core.env import Key
from shoal.core.host_env import HostEnv, PicturedState
from shoal.rollouts.evaluate import Episode, Evaluation, act_on_batch, initial_carries
from shoal.training.host_envs import HostEnvs

MOST_AT_ONCE = 32  # environments that run at the same time

_act = jax.jit(act_on_batch, static_argnums=5)


def evaluate_on_host(
    actor: Actor, policy: Any, env: HostEnv, key: Key, episodes: int, horizon: int, greedy: bool = True
) -> Evaluation:
    """Play N = `episodes` episodes of one policy, each for at most `horizon` steps. Returns NumPy arrays [N].

    `key` is consumed. Episode n begins with a seed that follows from the key and n.
    """
    k_seeds, k_act = jax.random.split(key)
    first, second = (int(word) for word in np.asarray(jax.random.bits(k_seeds, (2,))))
    returns, lengths, finished = np.zeros(episodes, np.float32), np.zeros(episodes, np.int32), np.zeros(episodes, bool)
    envs = HostEnvs(env, min(episodes, MOST_AT_ONCE), (first, second, 0))
    # Environment e plays the episodes e, e + E, e + 2 E, and so on, one after the other.
    playing = np.arange(envs.count)
    try:
        envs.begin()
        carry = first_carry = initial_carries(actor, envs.count)
        t = 0
        while (playing < episodes).any():
            keys = jax.random.split(jax.random.fold_in(k_act, t), envs.count)
            action, carry = _act(actor, policy, envs.obs, carry, keys, greedy, envs.mask)
            result = envs.step(jax.tree.map(np.asarray, action), *_no_finals(envs), playing < episodes)
            ended = result["terminated"] | result["truncated"]
            over = ended | (result["episode_length"] >= horizon)
            for e in np.flatnonzero(over).tolist():
                n = playing[e]
                returns[n], lengths[n] = result["episode_return"][e], result["episode_length"][e]
                finished[n] = ended[e]
                playing[e] += envs.count
            if (cut := np.flatnonzero(over & ~ended)).size:
                envs.restart(cut)
            if over.any():
                carry = with_first_carries(carry, first_carry, over)
            t += 1
    finally:
        envs.close()
    result = Evaluation(jnp.asarray(returns), jnp.asarray(lengths), jnp.asarray(finished))
    return jax.tree.map(np.asarray, result)


def record_on_host(
    actor: Actor,
    policy: Any,
    env: HostEnv,
    key: Key,
    horizon: int,
    greedy: bool = True,
    shrink: Callable[[Any], Any] = np.asarray,
) -> Episode:
    """Play one episode for at most `horizon` steps and keep its pictures. `key` is consumed.

    `shrink` makes the pictures smaller that are kept.
    """
    k_seed, k_act = jax.random.split(key)
    simulator = env.open_to_draw()
    states, rows = [], []

    def keep(obs: Any, mask: Any) -> None:
        states.append(PicturedState(jnp.int32(len(states)), obs, mask, shrink(simulator.picture())))

    try:
        obs, mask = simulator.reset(int(np.asarray(jax.random.bits(k_seed)) >> 1))
        keep(obs, mask)
        carry = initial_carries(actor, 1)
        for t in range(horizon):
            one_obs, one_mask = jax.tree.map(lambda x: np.asarray(x)[None], (obs, mask))
            keys = jax.random.split(jax.random.fold_in(k_act, t), 1)
            action, carry = _act(actor, policy, one_obs, carry, keys, greedy, one_mask)
            action = jax.tree.map(lambda x: np.asarray(x)[0], action)
            before, (obs, mask, reward, terminated, truncated) = obs, simulator.step(action)
            keep(obs, mask)
            rows.append((before, action, np.float32(reward), terminated, truncated, True))
            if terminated or truncated:
                break
    finally:
        simulator.close()
    columns = jax.tree.map(lambda *xs: jnp.asarray(np.stack(xs)), *rows)
    return Episode(jax.tree.map(lambda *xs: np.stack(xs), *states), *columns)


def _no_finals(envs: HostEnvs) -> tuple[Any, np.ndarray]:
    """Rows for the final observations of one step, which nobody reads."""
    rows = jax.tree.map(lambda x: np.zeros((1, *x.shape), x.dtype), (envs.obs, envs.mask))
    return rows, np.zeros(envs.count, np.int32)


@jax.jit
def with_first_carries(carry: Any, first: Any, ended: Any) -> Any:
    """The carries [E], and the `first` ones where an episode ended."""
    return jax.tree.map(
        lambda new, old: jnp.where(ended.reshape(ended.shape + (1,) * (new.ndim - 1)), new, old), first, carry
    )
