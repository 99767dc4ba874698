"""The actor and the critic of a policy-gradient agent: torsos, optional recurrent cells, heads.

The two may share one torso and cell. Weights are nested dicts.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from shoal.core.form import current
from shoal.core.keys import Key
from shoal.core.spaces import Box, Space
from shoal.nn.dense import apply_dense, init_dense
from shoal.nn.distributions import Distribution, distribution, head_size
from shoal.nn.memory import Memory
from shoal.nn.torso_choice import hidden_units, is_dense, torso_input

Weights = Any


class Carry(NamedTuple):
    """The recurrent carries of actor and critic. None without a recurrent cell; `critic` is None if they share it."""

    actor: Any = None
    critic: Any = None


NO_CARRY = Carry()


class ActorCritic(NamedTuple):
    """Torsos, optional recurrent cells after them, a policy head with small initial weights, and a value head.

    With several `values_each` a state has so many values, on a last axis: of rewards that are valued apart.

    Without a recurrent cell (`memory=None`) every carry is None. With one, `both` and `values` take observations
    [T, E, ...], and `is_first` [T, E] says which of them begin an episode.
    """

    torso: Any
    observation_space: Space
    action_space: Space
    shared: bool = False
    memory: Memory | None = None
    values_each: int = 1

    def init(self, key: Key, obs: Any) -> Weights:
        """Initial weights, from an example observation with any leading axes. `key` is consumed."""
        key, k_memory = (key, None) if self.memory is None else jax.random.split(key)
        k_torsos, k_policy, k_value = jax.random.split(key, 3)
        features = self.features(obs)
        # Both torsos are initialized in one vmapped call, which halves the program to compile.
        weights = self._for_each(lambda k: self.torso.init(k, features), k_torsos)
        width = hidden_units(self.torso, weights["actor"], features)
        if self.memory is not None:
            memory, hidden, width = self.memory, jnp.zeros((width,), jnp.float32), self.memory.size
            weights["memory"] = self._for_each(lambda k: memory.init(k, hidden), k_memory)
        weights["policy"] = init_dense(k_policy, width, head_size(self.action_space), scale=0.01)
        weights["value"] = init_dense(k_value, width, self.values_each, scale=1.0)
        if isinstance(self.action_space, Box):
            weights["log_std"] = jnp.zeros(self.action_space.shape, jnp.float32)
        return weights

    def initial_carry(self, axes: tuple[int, ...] = ()) -> Carry:
        """The recurrent carries at the start of an episode, with leading `axes`."""
        if self.memory is None:
            return Carry()
        return Carry(self.memory.initial_carry(axes), None if self.shared else self.memory.initial_carry(axes))

    def features(self, obs: Any) -> Any:
        """The input of the torso for an observation."""
        return torso_input(self.torso, self.observation_space, obs)

    # For single observations, with any leading axes.

    def policy(self, weights: Weights, obs: Any) -> Distribution:
        """The action distribution of networks without a recurrent cell."""
        return self.act(weights, obs, None)[0]

    def act(self, weights: Weights, obs: Any, carry: Any) -> tuple[Distribution, Any]:
        """(the action distribution, the actor's carry after this observation)."""
        hidden, carry = self._step(weights, "actor", obs, carry)
        return self._policy_head(weights, hidden), carry

    def value(self, weights: Weights, obs: Any, carry: Any = None) -> Float[Array, "..."]:
        """The state value, given the recurrent carry of the network that computes it (None: start of an episode)."""
        return self._value_head(weights, self._step(weights, self._value_network, obs, carry)[0])

    # For observations [T, E] of a rollout or a minibatch.

    def policy_and_value(
        self, weights: Weights, obs: Any, is_first: Any = None, carry: Carry = NO_CARRY
    ) -> tuple[Distribution, Float[Array, "..."]]:
        """(action distributions, state values) of all observations. A shared torso runs once."""
        if current().stacked_networks and is_dense(self.torso) and not self.shared and self.memory is None:
            # One batched product for both torsos: faster where the number of kernels counts, not their traffic.
            torsos = jax.tree.map(lambda *x: jnp.stack(x), weights["actor"], weights["critic"])
            apply: Any = self.torso.apply  # flax declares several return types
            hidden, critic_hidden = jax.vmap(apply, in_axes=(0, None))(torsos, self.features(obs))
        else:
            hidden, _ = self._unroll(weights, "actor", obs, is_first, carry.actor)
            critic_hidden = hidden if self.shared else self._unroll(weights, "critic", obs, is_first, carry.critic)[0]
        value = self._value_head(weights, critic_hidden)
        return self._policy_head(weights, hidden), value

    def values(
        self, weights: Weights, obs: Any, is_first: Bool[Array, "T E"], carry: Carry
    ) -> tuple[Float[Array, "T E ..."], Any]:
        """(state values [T, E], recurrent carries after each step [T, E] of the network that computes them)."""
        start = carry.actor if self.shared else carry.critic
        hidden, carries = self._unroll(weights, self._value_network, obs, is_first, start)
        return self._value_head(weights, hidden), carries

    @property
    def _value_network(self) -> str:
        return "actor" if self.shared else "critic"

    def _step(self, weights: Weights, name: str, obs: Any, carry: Any) -> tuple[Array, Any]:
        hidden = self.torso.apply(weights[name], self.features(obs))
        if self.memory is None:
            return hidden, carry
        carry = self.memory.initial_carry(hidden.shape[:-1]) if carry is None else carry
        return self.memory.step(weights["memory"][name], hidden, carry)

    def _unroll(self, weights: Weights, name: str, obs: Any, is_first: Any, carry: Any) -> tuple[Array, Any]:
        hidden = self.torso.apply(weights[name], self.features(obs))
        if self.memory is None:
            return hidden, carry
        return self.memory.unroll(weights["memory"][name], hidden, is_first, carry)

    def _for_each(self, init: Any, key: Any) -> dict[str, Any]:
        names = ("actor",) if self.shared else ("actor", "critic")
        weights = jax.vmap(init)(jax.random.split(key, len(names)))
        return {name: jax.tree.map(lambda x, i=i: x[i], weights) for i, name in enumerate(names)}

    def _policy_head(self, weights: Weights, hidden: Array) -> Distribution:
        head = apply_dense(weights["policy"], hidden)
        return distribution(self.action_space, head, weights.get("log_std"))

    def _value_head(self, weights: Weights, hidden: Array) -> Array:
        values = apply_dense(weights["value"], hidden)
        return values[..., 0] if self.values_each == 1 else values
