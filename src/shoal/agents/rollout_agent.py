"""The base class of agents whose update is a rollout of T steps, and then learning from it: PPO, DQN, PQN, SAC, TD3.

The parts of an update are hooks of their own, so that the steps may also be taken elsewhere: by environments in Python,
outside the compiled program (`training/host_population.py`).
"""

import abc
from typing import Any

import jax
from jaxtyping import Array, Int

from shoal.core.agent import Agent, Metrics
from shoal.core.env import Env, Key
from shoal.rollouts.rollout import Policy, Scan, Trajectory, looped


class RolloutAgent(Agent):
    """An agent that learns from rollouts. Its state has the fields `key` and `env_states`. Abstract.

    Subclasses write `policy_noise`, `behavior` and `learn_from`, and `actor_carries` if they are recurrent. `update`
    joins them; do not override it.
    """

    @abc.abstractmethod
    def policy_noise(self, state: Any, key: Key) -> Any:
        """Return the noise of the policy in the next rollout, with leading axes [T, ...]. `key` is consumed."""

    @abc.abstractmethod
    def behavior(self, state: Any) -> Policy:
        """Return the policy of the next rollout: a function of observations, masks, noise and carries [E]."""

    def actor_carries(self, state: Any) -> tuple[Any, Any]:
        """Return the recurrent carries [E] at the start of the next rollout, and those at the start of an episode.

        Default: (None, None), for agents without a recurrent actor.
        """
        del state
        return None, None

    @abc.abstractmethod
    def learn_from(
        self, state: Any, trajectory: Trajectory, carry: Any, key: Key, clock: Int[Array, ""]
    ) -> tuple[Any, Metrics]:
        """Learn from a rollout: (agent state, metrics). `state` has the `env_states` and the key after the rollout.

        `carry` is that of the recurrent actor after the rollout. `key` is consumed.
        """

    @property
    def scan(self) -> Scan:
        """The function that runs the loop of a rollout."""
        return looped

    def update(self, state: Any, env: Env, clock: Int[Array, ""]) -> tuple[Any, Metrics]:
        """Roll out and learn. See the class for what that means for this agent."""
        key, k_noise, k_envs, k_learn = jax.random.split(state.key, 4)
        carry, first_carry = self.actor_carries(state)
        env_states, trajectory, carry = self.rollout.collect(
            env,
            state.env_states,
            self.behavior(state),
            self.policy_noise(state, k_noise),
            k_envs,
            carry,
            first_carry,
            self.scan,
        )
        state = state.replace(key=key, env_states=env_states)
        return self.learn_from(state, trajectory, carry, k_learn, clock)
