"""A wrapper in which a trained agent acts, and the actions of the environment are messages to it.

Source: Lu, Willi, Letcher and Foerster 2023, "Adversarial Cheap Talk" (ICML), section 4.2; the authors' repository
luchris429/adversarial-cheap-talk, `act/cartpole_goal.py`.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.core.agent import Actor, Agent, check_bound
from shoal.core.env import Env, State, Transition
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Box, Dict, Space
from shoal.core.struct import static, static_fields, struct
from shoal.core.wrappers.base import StatefulWrapper, Wrapper, WrapperState
from shoal.core.wrappers.cheap_talk import CheapTalk, check_channel

PART = "observation"  # the part of a Dict observation that the victim reads


@struct
class PuppetState(WrapperState):
    """The inner state, and the recurrent carry of the victim."""

    carry: Any


@struct
class Puppet(StatefulWrapper):
    """Control a trained agent, the victim, by messages: an action is the message that it gets in this step.

    The victim reads what `CheapTalk` shows it, concatenate([observation, message]), and its action is executed. It no
    longer learns. Where observations are a Dict with a part `observation`, as those of the goal environments and of
    `Trials`, the victim reads only this part; the agent that sends messages, the exploiter, reads all parts. Rewards
    are those of `env`. If `env` rewards another goal than the one that the victim was trained for, the exploiter's
    return shows how far messages can control the victim.

    `actor` and `weights` are those of a `shoal.Policy`. The weights are traced: the members of a population may have
    different victims. Each number of a message lies in [-`scale`, `scale`]. The victim chooses greedy actions, as in
    the article; with `greedy=False` it samples them.

        victim = shoal.load("runs/victim")
        env = shoal.Puppet(shoal.make("CartPoleGoal-v0"), victim.actor, victim.weights)

    A victim that normalizes observations and got only messages of 0 in its training has no statistics of messages: they
    would reach it as signs. It then gets the statistics of uniform messages. It acts as before on messages of 0.

    Raises ValueError if the victim has other observations or actions. Difference from the source: there an action is
    any number, which tanh maps to the message.
    """

    actor: Any
    weights: Any
    scale: float = static(math.pi)
    size: int = static(2, help="numbers in a message")
    greedy: bool = static(True, choices=(False, True))

    def __post_init__(self) -> None:
        victim_env = self._victim_env()
        if not isinstance(self.actor, Actor):
            raise TypeError(
                f"actor is a value of {type(self.actor).__name__}, not an agent: give policy.actor and policy.weights "
                f"of a trained policy."
            )
        if isinstance(self.actor, Agent) and not _is_bound(self.actor):
            object.__setattr__(self, "actor", self.actor.bind(victim_env))
        _check_victim(self.actor, victim_env)
        object.__setattr__(self, "weights", _with_messages(self.weights, self.size, self.scale))

    @property
    def action_space(self) -> Box:
        """A message."""
        return Box(-self.scale, self.scale, (self.size,))

    def init(self, key: Key) -> PuppetState:
        """Return the first state, with the victim's initial recurrent carry."""
        inner = self.env.init(key)
        return PuppetState(time=inner.time, inner=inner, carry=self.actor.initial_carry())

    def noise(self, key: Key) -> Any:
        """Sample the inner noise; for a victim that samples its actions (the key of its action, the inner noise)."""
        if self.greedy:
            return self.env.noise(key)
        k_act, k_env = jax.random.split(key)
        return k_act, self.env.noise(k_env)

    def transition(self, state: PuppetState, action: Float[Array, "size"], noise: Any) -> Transition[PuppetState]:
        """Let the victim act on its observation and the message, and execute its action."""
        key, inner_noise = (make_key(0), noise) if self.greedy else noise  # greedy actions use no key
        seen = _part_of(self.env.observe(state.inner)).astype(jnp.float32)
        obs = jnp.concatenate([seen, action.astype(jnp.float32)])
        mask = self.env.action_mask(state.inner)
        chosen, carry = self.actor.act(self.weights, obs, state.carry, key, self.greedy, mask)
        inner, reward, terminated, info = self.inner_transition(state, chosen, inner_noise)
        return PuppetState(time=inner.time, inner=inner, carry=carry), reward, terminated, info

    def action_mask(self, state: PuppetState) -> None:
        """Return None: every message is allowed."""
        del state

    def _victim_env(self) -> Env:
        """Return an environment with the observation and action spaces of the victim."""
        seen = _Seen(self.env)
        check_channel("Puppet", seen.observation_space, self.size)
        return CheapTalk(seen, size=self.size, scale=self.scale, hidden=())


@struct
class _Seen(Wrapper):
    """An environment with the part of its observations that a victim reads."""

    @property
    def observation_space(self) -> Space:
        space = self.env.observation_space
        parts = dict(space.spaces) if isinstance(space, Dict) else {}
        return parts.get(PART, space)

    def observe(self, state: State) -> Any:
        return _part_of(self.env.observe(state))


def _with_messages(weights: Any, size: int, scale: float) -> Any:
    """Return the victim's weights; where its statistics saw one message only, with the variance of uniform ones."""

    def of_member(stats: Any) -> Any:
        seen = jnp.asarray(stats.deviation)
        messages = jnp.where(seen[-size:] == 0, jnp.asarray(stats.count) * scale**2 / 3, seen[-size:])
        return stats.replace(deviation=seen.at[-size:].set(messages))

    if getattr(weights, "obs_stats", None) is None:
        return weights
    of_all = jax.vmap(of_member) if jnp.ndim(weights.obs_stats.count) else of_member
    return weights.replace(obs_stats=of_all(weights.obs_stats))


def _part_of(obs: Any) -> Any:
    return obs.get(PART, obs) if isinstance(obs, dict) else obs


def _is_bound(agent: Agent) -> bool:
    try:
        check_bound(agent)
    except ValueError:
        return False
    return bool(static_fields(agent))


def _check_victim(actor: Actor, env: Env) -> None:
    """Raise ValueError for an agent with other spaces; bounds of observations may differ."""
    seen, acts = getattr(actor, "observation_space", None), getattr(actor, "action_space", None)
    if seen is not None and getattr(seen, "shape", None) != env.observation_space.shape:  # type: ignore[union-attr]  # a Box
        raise ValueError(
            f"the victim observes {seen}, and here it would observe {env.observation_space}, which ends with the "
            f"message: set size to the numbers in the messages that it was trained with, as in CheapTalk(size=...)."
        )
    if acts is not None and acts != env.action_space:
        raise ValueError(f"the victim's actions are {acts}, and those of the environment are {env.action_space}.")
