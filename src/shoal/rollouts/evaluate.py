"""Evaluate a policy in fresh environments, or record one episode with all its states.

An evaluation returns the return and the length of each episode, a recorded episode all its states and actions. Both
replace gymnax's RolloutWrapper.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.agent import Actor
from shoal.core.env import Env, Key, Observation, State
from shoal.core.struct import Struct, struct
from shoal.ops import sums


@struct
class Evaluation(Struct):
    """Return and length of the first episode in each of N fresh environments."""

    episode_return: Float[Array, "N"]
    episode_length: Int[Array, "N"]
    finished: Bool[Array, "N"]  # False if the episode was still running at the horizon


@struct
class Episode(Struct):
    """The record of one episode. Rows after its end repeat the last state and have `valid` False."""

    state: State  # [T + 1], from the first state to the last
    obs: Observation  # [T], the observation before each step
    action: Any  # [T]
    reward: Float[Array, "T"]
    terminated: Bool[Array, "T"]
    truncated: Bool[Array, "T"]
    valid: Bool[Array, "T"]  # whether the step belongs to the episode

    @property
    def cumulative_reward(self) -> Float[Array, "T"]:
        """The sum of the rewards up to and including each step."""
        return jnp.cumsum(self.reward)


def evaluate(
    agent: Actor, policy: Any, env: Env, key: Key, episodes: int, horizon: int, greedy: bool = True
) -> Evaluation:
    """Run N = `episodes` fresh environments to the end of their first episode, for at most `horizon` steps.

    `policy` is the first argument of `agent.act`: an agent state, or `agent.policy_state` of one. This evaluates one
    policy; vmap it for a population. It stops when all episodes have ended. `key` is consumed.
    """
    k_init, k_steps = jax.random.split(key)
    state = jax.vmap(env.init)(jax.random.split(k_init, episodes))
    no_return = jnp.zeros(episodes, jnp.float32)
    start = (
        jnp.int32(0),
        state,
        initial_carries(agent, episodes),
        Evaluation(no_return, jnp.zeros(episodes, jnp.int32), jnp.zeros(episodes, bool)),
        None if sums.are_few(horizon) else no_return,
    )

    def running(loop):
        t, _, _, result, _ = loop
        return (t < horizon) & ~jnp.all(result.finished)

    def step(loop):
        t, state, carry, result, rounding = loop
        keys = jax.random.split(jax.random.fold_in(k_steps, t), (episodes, 2))
        _, _, carry, step_result = jax.vmap(lambda k, s, c: act_and_step(agent, policy, env, k, s, c, greedy))(
            keys, state, carry
        )
        state, reward, terminated, truncated, _ = step_result
        is_running = ~result.finished
        total, new_rounding = sums.add(result.episode_return, rounding, reward)
        result = Evaluation(
            episode_return=jnp.where(is_running, total, result.episode_return),
            episode_length=result.episode_length + is_running.astype(jnp.int32),
            finished=result.finished | terminated | truncated,
        )
        return t + 1, state, carry, result, new_rounding

    return jax.lax.while_loop(running, step, start)[3]


def record_episode(agent: Actor, policy: Any, env: Env, key: Key, horizon: int, greedy: bool = True) -> Episode:
    """Run one fresh episode for at most `horizon` steps and return all its states. `key` is consumed."""
    k_init, k_steps = jax.random.split(key)
    state = env.init(k_init)

    def step(loop, k):
        state, carry, ended = loop
        obs, action, carry, step_result = act_and_step(agent, policy, env, jax.random.split(k), state, carry, greedy)
        new, reward, terminated, truncated, _ = step_result
        new = jax.tree.map(lambda a, b: jnp.where(ended, a, b), state, new)
        row = (new, obs, action, jnp.where(ended, 0, reward), terminated & ~ended, truncated & ~ended, ~ended)
        return (new, carry, ended | terminated | truncated), row

    start = (state, agent.initial_carry(), jnp.asarray(False))
    _, (states, obs, action, reward, terminated, truncated, valid) = jax.lax.scan(
        step, start, jax.random.split(k_steps, horizon)
    )
    states = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), state, states)
    return Episode(states, obs, action, reward, terminated, truncated, valid)


def act_and_step(
    agent: Actor, policy: Any, env: Env, keys: Key, state: State, carry: Any, greedy: bool
) -> tuple[Observation, Any, Any, tuple]:
    """Choose one action and take the step, unbatched: (observation, action, carry, the result of `env.advance`).

    `keys` [2] are consumed: one for the policy, one for the step noise.
    """
    obs = env.observe(state)
    action, carry = agent.act(policy, obs, carry, keys[0], greedy, env.action_mask(state))
    return obs, action, carry, env.advance(state, action, env.noise(keys[1]))


def initial_carries(actor: Any, count: int) -> Any:
    """Return the recurrent carries [count] of an actor at the start of as many episodes."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *jnp.shape(x))), actor.initial_carry())


def act_on_batch(actor: Any, policy: Any, obs: Observation, carry: Any, keys: Key, greedy: bool, mask: Any) -> Any:
    """Return (actions, next carries) for a batch of observations, carries, keys (consumed) and masks."""
    return jax.vmap(lambda o, c, k, m: actor.act(policy, o, c, k, greedy, m))(obs, carry, keys, mask)
