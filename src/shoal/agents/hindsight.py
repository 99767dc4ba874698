"""Hindsight relabelling for replay agents: learn from a step as if a goal that was reached later had been the goal.

Source: Andrychowicz et al. 2017, "Hindsight experience replay" (HER), with the strategy "future" (section 4.5). Four
relabelled samples for every other one (their k = 4) are `hindsight_share=0.8`. Differences: goals are replaced when a
batch is sampled, as in Stable-Baselines3, and not when steps are stored; steps of an episode that still runs are
sampled too; what the step itself achieved counts as later.

An environment with goals observes a Dict with the keys of Gymnasium's goal environments, `observation`,
`achieved_goal` and `desired_goal`, and has `compute_reward(achieved_goal, desired_goal, info)`, a pure function of one
goal each. The wrapper `ObserveGoal` gives both to the environments of shoal that have goals. Where it terminates must
not depend on the goal: the flag of a step is kept.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.agent import refuse_ignored
from shoal.core.env import Env
from shoal.core.keys import Key
from shoal.core.spaces import Dict, Space, alike, zeros
from shoal.core.struct import Struct
from shoal.core.user_functions import field_and_name, result_in_words, result_shapes
from shoal.core.wrappers import RescaleAction, StickyActions, TimeLimit
from shoal.ops.replay import Replay, Transitions

KEYS = {"observation", "achieved_goal", "desired_goal"}
UNCHANGING = (RescaleAction, StickyActions, TimeLimit)  # wrappers that change neither rewards nor observations


def relabelled(
    agent: Any,
    env: Env | None,
    replay: Replay,
    batch: Transitions,
    index: Int[Array, "B"],
    newest: Int[Array, ""],
    key: Key,
) -> Transitions:
    """The samples at these indices of the replay, a share of them with another goal and its reward. `key` is consumed.

    A sample keeps its goal if nothing that was observed after it in its episode is stored.
    """
    k_share, k_later = jax.random.split(key)
    observed, exists = replay.later(k_later, index, newest)
    is_replaced = exists & (jax.random.uniform(k_share, index.shape) < agent.hindsight_share)
    goal = _chosen(is_replaced, observed.obs["achieved_goal"], batch.observed.obs["desired_goal"])
    reward = jax.vmap(reward_function(agent, env))(batch.next_observed.obs["achieved_goal"], goal)

    def with_goal(observed: Any) -> Any:
        return observed.replace(obs={**observed.obs, "desired_goal": goal})

    return batch.replace(
        observed=with_goal(batch.observed),
        next_observed=with_goal(batch.next_observed),
        reward=jnp.where(is_replaced, reward.astype(jnp.float32), batch.reward),
    )


def reward_function(agent: Any, env: Env | None) -> Any:
    """The function (achieved goal, desired goal) -> reward of an agent and its environment; None if there is none."""
    if agent.goal_reward is not None:
        return agent.goal_reward
    while isinstance(env, UNCHANGING):
        env = env.env
    compute_reward = getattr(env, "compute_reward", None)
    return compute_reward and (lambda achieved, desired: compute_reward(achieved, desired, {}))


def check_hindsight(agent: Any, env: Env) -> None:
    """Raise ValueError for an environment without goals, and for options that relabelled samples do not allow."""
    if not agent.hindsight:
        if agent.goal_reward is not None:
            raise ValueError("goal_reward changes nothing without hindsight=True: leave it out, or set hindsight=True.")
        return refuse_ignored(agent, "without hindsight=True", "hindsight_share")
    if agent.n_step > 1:
        raise ValueError(
            f"hindsight=True changes the reward of every step, and n_step={agent.n_step} adds rewards up as they were "
            "stored: leave out n_step."
        )
    if agent.sequence is not None:
        raise ValueError(
            f"hindsight=True changes the goal of a step, and memory={agent.memory!r} has read the steps before it with "
            "the old goal: leave out memory."
        )
    _check_goals(env.observation_space)
    return _check_reward(agent, env)


def _check_goals(space: Space) -> None:
    keys = {name for name, _ in space.spaces} if isinstance(space, Dict) else set()
    if not isinstance(space, Dict) or not keys >= KEYS:
        raise ValueError(
            "hindsight=True needs an environment whose observation is a Dict of observation, achieved_goal and "
            f"desired_goal, not {space}. ObserveGoal(env), or --wrap ObserveGoal, makes one of PointRobot-v0, "
            "CartPoleGoal-v0 and PendulumGoal-v0."
        )
    if not alike(space["achieved_goal"], space["desired_goal"]):
        raise ValueError(
            "hindsight=True makes achieved goals desired ones, so both need the same shape and dtype, not "
            f"{space['achieved_goal']} and {space['desired_goal']}."
        )


def _check_reward(agent: Any, env: Env) -> None:
    function = reward_function(agent, env)
    if function is None:
        raise ValueError(
            f"hindsight=True needs the reward of a goal, and {type(env).__name__} has no "
            "compute_reward(achieved_goal, desired_goal, info) that can be compiled: give the agent a function, "
            "goal_reward=lambda achieved_goal, desired_goal: ... ."
        )
    if agent.goal_reward is not None and not callable(agent.goal_reward):
        what = "its class needs `__call__`" if isinstance(agent.goal_reward, Struct) else "it is no function"
        raise TypeError(f"goal_reward={agent.goal_reward!r:.60} cannot be called: {what}.")
    space: Any = env.observation_space
    goal = jax.eval_shape(lambda: zeros(space["desired_goal"]))
    field = "goal_reward" if agent.goal_reward is not None else "compute_reward"
    result = result_shapes(field, function, {"achieved_goal": goal, "desired_goal": goal})
    if getattr(result, "shape", None) != ():
        raise ValueError(
            f"{field_and_name(field, function)} returns {result_in_words(result)} for one achieved and one desired "
            "goal: it must return one number."
        )


def _chosen(flag: Bool[Array, "B"], yes: Any, no: Any) -> Any:
    def choose(yes: Array, no: Array) -> Float[Array, "B ..."] | Array:
        return jnp.where(flag.reshape(flag.shape + (1,) * (yes.ndim - 1)), yes, no)

    return jax.tree.map(choose, yes, no)
