"""Parallel Q-learning (PQN): layer normalisation and Q(lambda) returns, without a replay buffer or target network.

Source: Gallici et al. 2024, "Simplifying deep temporal difference learning"; the defaults are those of CleanRL's
`pqn.py`. Differences: truncation by a time limit bootstraps from the true final observation, and the return of the last
step of a rollout bootstraps from its own successor (of two published versions, one uses the state before the successor,
the other the state after it).
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from shoal.agents.kernels import check_kernels, gradient_of, kernels_field, scan_of
from shoal.agents.normalization import first_stats, normalization_field, normalized, updated
from shoal.agents.rollout_agent import RolloutAgent
from shoal.core.agent import Guarded, Metrics, check_choices, check_counts
from shoal.core.env import Env, Key
from shoal.core.errors import Unsuited
from shoal.core.registry import agent
from shoal.core.spaces import Discrete
from shoal.core.struct import Number, Struct, filled_by_bind, hyper, static, struct
from shoal.nn.memory.fields import check_memory_fields, memory_field, memory_of, window_field
from shoal.nn.q_network import QNetwork
from shoal.nn.torso_choice import TORSO_HELP, TORSOS, chosen_torso
from shoal.ops.devices import device_key, device_share, mean_over
from shoal.ops.exploration import allowed, epsilon_greedy, sample_uniforms
from shoal.ops.gradients import Optimizer, descend, first_moments, mean_of_steps, pack
from shoal.ops.returns import lambda_return
from shoal.ops.running import RunningStats
from shoal.ops.schedules import linear, progress
from shoal.ops.shuffle import (
    check_minibatches,
    chosen_shuffle,
    minibatches,
    shuffle_field,
    whole_environments,
)
from shoal.rollouts.rollout import EnvStates, Rollout, Scan, Trajectory, rows_of_truncated_steps, successor_value

Weights = Any


@struct
class PQNState(Guarded):
    """The agent state of one member."""

    age: Int[Array, ""]
    key: Key
    weights: Weights
    optimizer: Any  # over packed weights (`ops.gradients`)
    env_states: EnvStates
    obs_stats: RunningStats | None = None  # statistics that normalize observations
    carry: Any = None  # recurrent carries [E] at the start of the next rollout
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`

    guarded = ("weights", "optimizer")


@struct
class PQNPolicy(Struct):
    """The inputs of `act` and `value`: weights, and the age from which epsilon follows."""

    age: Int[Array, ""]
    weights: Weights
    obs_stats: RunningStats | None = None  # statistics that normalize observations


@struct
class Batch(Struct):
    """Samples to learn from, with leaves [T * E, ...], or [B, ...] in a minibatch; with a memory [T, B, ...]."""

    obs: Any
    action: Int[Array, "..."]
    target: Float[Array, "..."]
    is_first: Any = None  # whether a step begins an episode; None without a memory


@agent("pqn")
@struct
class PQN(RolloutAgent):
    """Parallel Q-learning for discrete actions.

    An update takes `num_steps` steps of `num_envs` environments with an epsilon-greedy policy. Then it fits the
    Q-values to the Q(lambda) returns of all these steps, in `num_epochs` passes over shuffled minibatches. `network`
    takes any torso with `init(key, features)` and `apply(weights, features)`. The method depends on layer
    normalisation, which the built-in torsos have.

    `memory` adds a network with `memory_size` units after the torso, so that Q-values can depend on earlier
    observations of the episode (see `nn/memory/`). A minibatch then holds whole environments, all T steps in order,
    with the carries that they had at the start of the rollout; `num_minibatches` must divide `num_envs`.
    """

    learning_rate: Number = hyper(2.5e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    discount: Number = hyper(0.99, search=(0.9, 0.9999), valid=(0, 1))
    q_lambda: Number = hyper(0.65, search=(0.0, 1.0), valid=(0, 1), help="lambda of the Q(lambda) returns")
    epsilon_start: Number = hyper(1.0, valid=(0, 1))
    epsilon_end: Number = hyper(0.05, search=(0.001, 0.2, "log"), valid=(0, 1))
    exploration: Number = hyper(0.5, search=(0.05, 0.8), valid=(0, 1), help="fraction of the horizon until epsilon_end")
    max_grad_norm: Number = hyper(10.0, search=(0.5, 50, "log"), valid=(1e-9, 1e9), help="norm of the whole gradient")
    anneal: Number = hyper(
        1.0,
        schedule_of="learning_rate",
        valid=(0, 1),
        help="fraction of the learning rate that is removed by the horizon",
    )
    horizon: Number = hyper(
        0.0, valid=(0, 1e18), spans_run=True, help="steps over which schedules run; 0: as long as the run"
    )

    num_envs: int = static(4)
    num_steps: int = static(128, help="steps of each environment in one update")
    num_epochs: int = static(4)
    num_minibatches: int = static(4)
    hidden: tuple[int, ...] = static((120, 84))
    activation: str = static("relu", choices=("tanh", "relu", "silu", "gelu"))
    layer_norm: bool = static(True, choices=(False, True), help="layer normalisation before each activation")
    torso: str = static("auto", choices=TORSOS, help=TORSO_HELP)
    network: Any = static(None, help="your own torso; hidden, activation, layer_norm and torso then have no effect")
    memory: str = memory_field()
    memory_size: int = static(64, help="units of the memory")
    memory_window: int = window_field()
    normalize_observation: bool = normalization_field()
    shuffle: str = shuffle_field()
    reset: str = static("bank", choices=("bank", "exact"))
    bank_size: int = static(0, help="first states per environment and update; 0: as many as a random policy needs")
    kernels: str = kernels_field("rollouts and gradient steps")

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    rollout: Any = filled_by_bind()

    def bind(self, env: Env) -> "PQN":
        """The agent fitted to an environment.

        Raises Unsuited if actions are not Discrete, and ValueError for fields that do not fit together.
        """
        check_choices(self)
        check_counts(self, "num_envs", "num_steps", "num_epochs", "num_minibatches", "hidden")
        check_memory_fields(self)
        shuffle = chosen_shuffle(self.shuffle, self.memory)
        check_minibatches(self.num_steps, self.num_envs, self.num_minibatches, shuffle)
        if not isinstance(env.action_space, Discrete):
            raise Unsuited(f"it has one Q-value per action, so it needs Discrete actions, not {env.action_space}.")
        space = env.observation_space
        bound = self.replace(
            network=chosen_torso(self, space, layer_norm=self.layer_norm),
            observation_space=space,
            action_space=env.action_space,
            shuffle=shuffle,
            rollout=Rollout.for_env(env, self.num_envs, self.num_steps, self.reset, self.bank_size),
        )
        check_kernels(bound, env)
        return bound

    def split(self, devices: int) -> "PQN":
        """The agent as each of `devices` devices runs it, with its share of the environments.

        A minibatch then has a part on each device: that of a device comes from its own environments. Raises ValueError
        if the environments or the minibatches cannot be divided equally.
        """
        rollout = self.rollout.split(devices)
        check_minibatches(self.num_steps, rollout.num_envs, self.num_minibatches, self.shuffle, devices)
        return self.replace(rollout=rollout)

    @property
    def steps_per_update(self) -> int:
        """Environment steps of one update: `num_envs` x `num_steps`."""
        return self.num_envs * self.num_steps

    def init(self, key: Key, env: Env) -> PQNState:
        """Initial weights and environment states. `key` is consumed."""
        key, k_weights, k_envs = jax.random.split(key, 3)
        env_states = self.rollout.init(env, k_envs)
        stats = first_stats(self)
        weights = self._net.init(k_weights, normalized(stats, jax.vmap(env.observe)(env_states.state)))
        moments, carry = first_moments(self._optimizer, weights), self._first_carries
        return PQNState(jnp.int32(0), key, weights, moments, env_states, stats, carry)

    def new_episodes(self, state: PQNState, env: Env, key: Key) -> PQNState:
        """The state at the start of new episodes: environment states and recurrent carries."""
        return state.replace(env_states=self.rollout.init(env, key), carry=self._first_carries)

    def actor_carries(self, state: PQNState) -> tuple[Any, Any]:
        """The carries [E] at the start of the next rollout, and at the start of an episode."""
        return state.carry, self._first_carries

    def initial_carry(self) -> Any:
        """The recurrent carry at the start of an episode; None without a memory."""
        return self._net.initial_carry()

    def policy_noise(self, state: PQNState, key: Key) -> Any:
        """(uniforms [T, E, ...] that decide the actions, epsilon [T]). `key` is consumed."""
        of_all_envs = sample_uniforms(key, (self.num_steps, self.num_envs), self.action_space.n)
        uniforms = device_share(of_all_envs, self.rollout.devices, axis=1)
        return uniforms, self._epsilon(state.age, jnp.arange(self.num_steps, dtype=jnp.int32))

    @property
    def scan(self) -> Scan:
        """The function that runs the loop of a rollout: one kernel, where one is used."""
        return scan_of(self, "q_network_kernels")

    def behavior(self, state: PQNState) -> Any:
        """The epsilon-greedy policy of a rollout. It also records the largest Q-value of each observation."""

        def behave(obs, mask, noise, carry):
            uniforms, epsilon = noise
            q_values, carry = self._q_values_and_carry(state, obs, carry)
            action = epsilon_greedy(q_values, epsilon, uniforms, mask).astype(self.action_space.dtype)
            return action, jnp.max(allowed(q_values, mask), axis=-1), carry

        return behave

    def learn_from(
        self, state: PQNState, trajectory: Trajectory, carry: Any, key: Key, clock: Int[Array, ""]
    ) -> tuple[PQNState, Metrics]:
        """Compute returns, and take gradient steps on shuffled minibatches.

        Observations are normalized with the statistics from before the rollout.
        """
        del clock
        batch = self._batch(state, trajectory, carry)
        weights, optimizer, is_stopped, losses = self._gradient_steps(state, batch, key)
        stats = updated(state.obs_stats, trajectory.obs, devices=self.rollout.devices)
        state = state.replace(
            age=state.age + 1,
            weights=weights,
            optimizer=optimizer,
            obs_stats=stats,
            carry=carry,
            is_stopped=is_stopped,
        )
        return state, Metrics(trajectory.episodes(), losses)

    def act(
        self, state: PQNState | PQNPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): the best action when greedy; otherwise as in training, with the epsilon of this age."""
        epsilon = 0.0 if greedy else self._epsilon(state.age, 0)
        uniforms = sample_uniforms(key, (), self.action_space.n)
        q_values, carry = self._q_values_and_carry(state, obs, carry)
        return epsilon_greedy(q_values, epsilon, uniforms, mask).astype(self.action_space.dtype), carry

    def value(
        self, state: PQNState | PQNPolicy, obs: Any, mask: Any = None, carry: Any = None
    ) -> Float[Array, "*axes"]:
        """The largest Q-value among the allowed actions.

        With a memory, `carry` is what it knows before the observation (None: the observation begins an episode).
        """
        carry = self._net.first_carry(obs) if carry is None else carry
        return jnp.max(allowed(self._q_values_and_carry(state, obs, carry)[0], mask), axis=-1)

    def _q_values_and_carry(
        self, state: PQNState | PQNPolicy, obs: Any, carry: Any
    ) -> tuple[Float[Array, "*axes A"], Any]:
        q_values, carry = self._net.step(state.weights, normalized(state.obs_stats, obs), carry)
        return q_values[..., 0], carry

    def policy_state(self, state: PQNState) -> PQNPolicy:
        """Weights, age and observation statistics."""
        return PQNPolicy(state.age, state.weights, state.obs_stats)

    # The parts of an update, in order.

    def _batch(self, state: PQNState, trajectory: Trajectory, carry: Any) -> Batch:
        # `carry` [E] is that after the rollout, before the last observations.
        value = trajectory.policy_output
        last_value = self.value(state, trajectory.last_obs, trajectory.last_mask, carry)
        final_carry = self._final_carry(state, trajectory)
        final_value = self.value(state, trajectory.final_obs, trajectory.final_mask, final_carry)
        next_value = successor_value(trajectory, value, last_value, final_value)

        def estimate(reward, next_value, terminated, done):
            return lambda_return(
                reward, next_value, terminated, done, discount=self.discount, trace_decay=self.q_lambda
            )

        columns = (trajectory.reward, next_value, trajectory.terminated, trajectory.done)
        target = jax.vmap(estimate, in_axes=1, out_axes=1)(*columns)
        is_first = None if self.memory == "none" else trajectory.is_first
        batch = Batch(normalized(state.obs_stats, trajectory.obs), trajectory.action, target, is_first)
        return jax.tree.map(lambda x: x.reshape(target.size, *x.shape[2:]), batch)

    def _final_carry(self, state: PQNState, trajectory: Trajectory) -> Any:
        # The carries before the final observations [F, E]: those after the last step of their episodes.
        if self.memory == "none":
            return None
        obs = normalized(state.obs_stats, trajectory.obs)
        _, carries = self._net.unroll(state.weights, obs, trajectory.is_first, state.carry)
        return rows_of_truncated_steps(trajectory, carries)

    def _gradient_steps(
        self, state: PQNState, samples: Batch, key: Key
    ) -> tuple[Weights, Any, Bool[Array, ""] | None, dict[str, Array]]:
        # (weights, optimizer, whether the member is stopped, losses) after all minibatches.
        packed, unpack = pack(state.weights)
        learning_rate = self._learning_rate(state.age)
        gradient_of_loss = gradient_of(self, self._loss, unpack, "q_network_kernels")

        def step(carry, index):
            packed, optimizer, is_stopped = carry
            rows, first = jax.tree.map(lambda x: x[index], samples), state.carry
            if self.memory != "none":
                rows, first = whole_environments(rows, first, index, self.num_steps)
            of_device = gradient_of_loss(packed, rows, first)
            gradient, losses = mean_over(of_device, self.rollout.devices)
            after = descend(
                self._optimizer,
                packed,
                gradient,
                optimizer,
                learning_rate,
                largest_norm=self.max_grad_norm,
                is_stopped=is_stopped,
            )
            return after, losses

        shape, key = (self.num_steps, self.rollout.num_envs), device_key(key, self.rollout.devices)
        index = minibatches(key, shape, self.num_epochs, self.num_minibatches, self.shuffle)
        start = (packed, state.optimizer, state.is_stopped)
        (packed, optimizer, is_stopped), losses = mean_of_steps(step, start, index)
        return unpack(packed), optimizer, is_stopped, losses

    def _loss(
        self, weights: Weights, rows: Batch, carry: Any = None
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        if self.memory == "none":
            q_values = self._net(weights, rows.obs)[..., 0]
        else:
            q_values = self._net.unroll(weights, rows.obs, rows.is_first, carry)[0][..., 0]
        chosen = jnp.sum(jnp.where(jax.nn.one_hot(rows.action, q_values.shape[-1], dtype=bool), q_values, 0), axis=-1)
        error = chosen - rows.target
        loss = jnp.mean(error**2)
        return loss, {"loss": loss, "td_error": jnp.mean(jnp.abs(error)), "q_value": jnp.mean(chosen)}

    # Network, optimizer and schedules.

    @property
    def _net(self) -> QNetwork:
        return QNetwork(self.network, self.observation_space, self.action_space.n, memory=memory_of(self))

    @property
    def _first_carries(self) -> Any:
        return self._net.initial_carry((self.rollout.num_envs,))

    @property
    def _optimizer(self) -> Optimizer:
        return optax.scale_by_radam()

    def _progress(self, age: Int[Array, ""], step: Int[Array, "*T"] | int) -> Float[Array, "*T"]:
        return progress(age, self.steps_per_update, self.horizon, step * self.num_envs)

    def _learning_rate(self, age: Int[Array, ""]) -> Float[Array, ""]:
        return self.learning_rate * linear(1.0, 1 - self.anneal, self._progress(age, 0))

    def _epsilon(self, age: Int[Array, ""], step: Int[Array, "*T"] | int) -> Float[Array, "*T"]:
        return linear(self.epsilon_start, self.epsilon_end, self._progress(age, step), self.exploration)
