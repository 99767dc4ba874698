"""Proximal policy optimisation.

Source: Schulman et al. 2017; details as in Huang et al. 2022, "The 37 implementation details of PPO", and CleanRL's
`ppo.py`, whose hyperparameters are the defaults. Differences: a time limit bootstraps from the true final observation
(CleanRL treats it as the end of the world), and minibatches are drawn by an arithmetic shuffle (or `shuffle="exact"`).

With memory an update learns from whole environments, each with all steps of the rollout in order and with the memory
that it began the rollout with. The memory starts afresh in the step that begins an episode.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from shoal.agents.normalization import first_stats, normalization_field, normalized, updated
from shoal.core.agent import Agent, Metrics, by_name, check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.keys import make_key
from shoal.core.registry import agent
from shoal.core.spaces import Box, zeros
from shoal.core.struct import Number, Struct, filled_by_bind, hyper, static, struct
from shoal.nn.actor_critic import NOTHING, ActorCritic, Carry
from shoal.nn.distributions import Distribution, check_real, head_size, restricted, sample_noise
from shoal.nn.memory import MEMORIES
from shoal.nn.torso_choice import TORSOS, chosen_torso, is_dense
from shoal.ops.gradients import clip_norm
from shoal.ops.noise import correlated
from shoal.ops.returns import gae
from shoal.ops.running import RunningStats
from shoal.ops.schedules import linear, progress
from shoal.ops.shuffle import SHUFFLES, check_minibatches, minibatches
from shoal.ops.surrogates import SURROGATES, VALUE_LOSSES, probability_ratio
from shoal.rollouts.rollout import EnvStates, Rollout, Trajectory, before_cuts, successor_value

Weights = Any


@struct
class PPOState(Struct):
    """One member in training."""

    age: Int[Array, ""]
    key: Key
    weights: Weights
    optimizer: Any  # over the weights as one flat vector
    env_states: EnvStates
    obs_stats: RunningStats | None
    return_stats: RunningStats | None
    discounted_return: Float[Array, "E"] | None  # running, for the reward scale
    carry: Carry = NOTHING  # the memory of each environment


@struct
class PPOPolicy(Struct):
    """What acting needs: weights and the statistics that observations are normalised with."""

    weights: Weights
    obs_stats: RunningStats | None


@struct
class Batch(Struct):
    """Samples to learn from; leaves lead with [T, E], later [N], later [B], or [T, B] with memory."""

    obs: Any
    mask: Any
    action: Any
    log_prob: Float[Array, "..."]
    value: Float[Array, "..."]
    advantage: Float[Array, "..."]
    target: Float[Array, "..."]
    is_first: Any = None  # with memory: whether a step begins an episode


@agent("ppo")
@struct
class PPO(Agent):
    """Proximal policy optimisation for discrete, multi-discrete and continuous actions, with or without memory.

    Continuous actions are Gaussian with a learned, state-independent scale and are clipped to the space on their way to
    the environment. `surrogate` and `value_loss` take a name or a function (see `ops/surrogates.py`); `network` takes
    any object with `init(key, features)` and `apply(weights, features)`, such as a flax module.

    `memory` puts a recurrent cell of `memory_size` numbers on the torso: what was seen earlier in an episode then
    counts. Each minibatch holds whole environments, so `num_minibatches` divides `num_envs`, and a gradient reaches
    back as far as the rollout, `num_steps`.

    `a2c` and `rl2` are this agent with other defaults: advantage actor-critic, and RL^2, which learns to learn.
    """

    learning_rate: Number = hyper(2.5e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    discount: Number = hyper(0.99, search=(0.9, 0.9999), valid=(0, 1))
    gae_lambda: Number = hyper(0.95, search=(0.8, 1.0), valid=(0, 1))
    clip: Number = hyper(0.2, search=(0.05, 0.5), valid=(0, 1e9), help="bound on the change of ratio and value")
    entropy_coef: Number = hyper(0.01, search=(1e-5, 0.1, "log"), valid=(0, 1e3))
    value_coef: Number = hyper(0.5, search=(0.1, 1.0), valid=(0, 1e3))
    max_grad_norm: Number = hyper(0.5, search=(0.1, 5.0, "log"), valid=(1e-9, 1e9), help="of all gradients together")
    adam_eps: Number = hyper(1e-5, valid=(1e-12, 1), help="keeps the optimizer from dividing by 0")
    anneal: Number = hyper(1.0, valid=(0, 1), help="share of the learning rate that is gone at the horizon")
    horizon: Number = hyper(
        0.0, valid=(0, 1e18), spans_run=True, help="steps over which to anneal; 0: as long as the run"
    )
    noise_correlation: Number = hyper(
        0.0, valid=(0, 0.9999), help="of a Gaussian policy's noise from step to step of a rollout, across episodes"
    )
    log_std_init: Number = hyper(0.0, search=(-3.0, 1.0), valid=(-20, 5), help="of a Gaussian policy")

    num_envs: int = static(4)
    num_steps: int = static(128, help="steps of each environment in one update")
    num_epochs: int = static(4)
    num_minibatches: int = static(4)
    optimizer: str = static("adam", choices=("adam", "rmsprop"))
    bootstrap: bool = static(True, choices=(False, True), help="value what a time limit cuts off; else it ends all")
    hidden: tuple[int, ...] = static((64, 64))
    activation: str = static("tanh", choices=("tanh", "relu", "silu", "gelu"))
    torso: str = static("auto", choices=TORSOS, help="auto: as observations need it; impala has layers of its own")
    network: Any = static(None, help="a torso of your own; then hidden, activation and torso mean nothing")
    memory: str = static("none", choices=("none", *MEMORIES), help="on top of the torso")
    memory_size: int = static(64)
    shared: bool = static(False, choices=(False, True), help="one torso for policy and value")
    surrogate: Any = static("clipped", choices=tuple(SURROGATES))
    value_loss: Any = static("clipped", choices=tuple(VALUE_LOSSES))
    normalize_advantage: bool = static(True, choices=(False, True))
    normalize_observation: bool = normalization_field()
    normalize_reward: bool = static(False, choices=(False, True))
    shuffle: str = static("auto", choices=("auto", *SHUFFLES), help="auto: arithmetic, or envs with memory")
    reset: str = static("bank", choices=("bank", "exact"))
    bank_size: int = static(0, help="fresh first states for each environment in an update; 0: as a random policy needs")

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    rollout: Any = filled_by_bind()

    def bind(self, env: Env) -> "PPO":
        """This agent for this environment. Raises ValueError where they cannot work together."""
        check_choices(self)
        self._check_sizes()
        head_size(env.action_space)
        check_real(env.action_space)
        if not isinstance(env.action_space, Box):
            refuse_ignored(self, "where actions are choices", "noise_correlation", "log_std_init")
        if self.memory == "none":
            refuse_ignored(self, "without a memory", "memory_size")
        if self.surrogate in ("unclipped", "dpo") and self.value_loss == "squared":
            refuse_ignored(self, "where nothing is clipped", "clip")
        return self.replace(
            surrogate=by_name(SURROGATES, self.surrogate),
            value_loss=by_name(VALUE_LOSSES, self.value_loss),
            network=chosen_torso(self, env.observation_space),
            observation_space=env.observation_space,
            action_space=env.action_space,
            shuffle=self._shuffle(),
            rollout=Rollout.for_env(env, self.num_envs, self.num_steps, self.reset, self.bank_size),
        )

    @property
    def steps_per_update(self) -> int:
        """Steps of all environments together."""
        return self.num_envs * self.num_steps

    @property
    def weights_per_step(self) -> int:
        """Those of a policy that is dense; products of other torsos gain nothing from the library."""
        if not is_dense(self.network):
            return 0
        obs = jax.tree.map(lambda x: x[None], zeros(self.observation_space))
        weights = jax.eval_shape(lambda key: self.network.init(key, self._nets.features(obs)), make_key(0))
        return sum(x.size for x in jax.tree.leaves(weights))

    def init(self, key: Key, env: Env) -> PPOState:
        """Fresh weights and worlds."""
        key, k_weights, k_envs = jax.random.split(key, 3)
        env_states = self.rollout.init(env, k_envs)
        stats = first_stats(self)
        weights = self._nets.init(k_weights, normalized(stats, jax.vmap(env.observe)(env_states.state)))
        if "log_std" in weights:
            weights["log_std"] = weights["log_std"] + self.log_std_init
        return PPOState(
            age=jnp.int32(0),
            key=key,
            weights=weights,
            optimizer=self._optimizer.init(ravel_pytree(weights)[0]),
            env_states=env_states,
            obs_stats=stats,
            return_stats=RunningStats.zero(jnp.float32(0)) if self.normalize_reward else None,
            discounted_return=jnp.zeros(self.num_envs, jnp.float32) if self.normalize_reward else None,
            carry=self._nets.initial_carry((self.num_envs,)),
        )

    def update(self, state: PPOState, env: Env, clock: Int[Array, ""]) -> tuple[PPOState, Metrics]:
        """Roll out, estimate advantages, and descend over shuffled minibatches."""
        del clock
        key, k_noise, k_envs, k_shuffle = jax.random.split(state.key, 4)
        env_states, trajectory, actor_carry = self.rollout.collect(
            env,
            state.env_states,
            self._behavior(state),
            self._noise(k_noise),
            k_envs,
            carry=state.carry.actor,
            first_carry=self._nets.initial_carry((self.num_envs,)).actor,
        )
        reward, return_stats, discounted_return = self._scaled_reward(state, trajectory)
        batch, critic_carry = self._batch(state, trajectory, reward)
        weights, optimizer, losses = self._descend(state, batch, k_shuffle)
        state = state.replace(
            age=state.age + 1,
            key=key,
            weights=weights,
            optimizer=optimizer,
            env_states=env_states,
            obs_stats=updated(state.obs_stats, trajectory.obs),
            return_stats=return_stats,
            discounted_return=discounted_return,
            carry=Carry(actor_carry, critic_carry),
        )
        return state, Metrics(trajectory.episodes(), losses)

    def initial_carry(self) -> Any:
        """The actor's memory at the start of an episode; None without memory."""
        return self._nets.initial_carry().actor

    def act(
        self, state: PPOState | PPOPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """The likeliest action when greedy, a draw otherwise."""
        policy, carry = self._policy(state, obs, mask, carry)
        action = policy.mode() if greedy else policy.sample(sample_noise(self.action_space, key, ()))
        return self._to_world(action), carry

    def value(self, state: PPOState | PPOPolicy, obs: Any) -> Float[Array, "..."]:
        """The critic's value of observations; with memory, of those that begin an episode."""
        return self._nets.value(state.weights, normalized(state.obs_stats, obs))

    def policy_state(self, state: PPOState) -> PPOPolicy:
        """Weights and observation statistics."""
        return PPOPolicy(state.weights, state.obs_stats)

    # What happens inside an update, in order.

    def _behavior(self, state: PPOState) -> Any:
        def behave(obs, mask, noise, carry):
            policy, carry = self._policy(state, obs, mask, carry)
            action = policy.sample(noise)
            return self._to_world(action), (action, policy), carry

        return behave

    def _noise(self, key: Key) -> Array:
        noise = sample_noise(self.action_space, key, (self.num_steps, self.num_envs))
        return correlated(noise, self.noise_correlation) if isinstance(self.action_space, Box) else noise

    def _scaled_reward(self, state: PPOState, trajectory: Trajectory) -> tuple[Array, Any, Any]:
        # Divided by the deviation of the discounted return, never centered: that would change the task.
        if state.return_stats is None:
            return trajectory.reward, None, None

        def add(total, inputs):
            reward, done = inputs
            total = total * self.discount + reward
            return jnp.where(done, 0, total), total

        total, totals = jax.lax.scan(add, state.discounted_return, (trajectory.reward, trajectory.done))
        stats = state.return_stats.update(totals, axes=2)
        return jnp.clip(trajectory.reward / stats.std(), -10, 10), stats, total

    def _batch(self, state: PPOState, trajectory: Trajectory, reward: Array) -> tuple[Batch, Any]:
        action, policy = trajectory.kept
        obs = normalized(state.obs_stats, trajectory.obs)
        value, next_value, critic_carry = self._values(state, trajectory)

        def estimate(reward, value, next_value, terminated, done):
            return gae(reward, value, next_value, terminated, done, discount=self.discount, gae_lambda=self.gae_lambda)

        ended = trajectory.terminated if self.bootstrap else trajectory.done
        columns = (reward, value, next_value, ended, trajectory.done)
        advantage = jax.vmap(estimate, in_axes=1, out_axes=1)(*columns)
        batch = Batch(
            obs=obs,
            mask=trajectory.mask,
            action=action,
            log_prob=policy.log_prob(action),
            value=value,
            advantage=advantage,
            target=advantage + value,
            is_first=None if self.memory == "none" else trajectory.is_first,
        )
        return batch, critic_carry

    def _values(self, state: PPOState, trajectory: Trajectory) -> tuple[Float[Array, "T E"], Float[Array, "T E"], Any]:
        # Values, those of the true successors, and the critic's memory after the rollout.
        if self.memory != "none":
            return self._remembered_values(state, trajectory)
        # One forward pass for everything that needs a value: [T + 1 + F, E].
        seen = jax.tree.map(
            lambda obs, last, final: jnp.concatenate([obs, last[None], final]),
            trajectory.obs,
            trajectory.last_obs,
            trajectory.final_obs,
        )
        value = self.value(state, seen)
        steps = self.num_steps
        return value[:steps], successor_value(trajectory, value[:steps], value[steps], value[steps + 1 :]), None

    def _remembered_values(
        self, state: PPOState, trajectory: Trajectory
    ) -> tuple[Float[Array, "T E"], Float[Array, "T E"], Any]:
        # The critic remembers the rollout afterwards: in it, it would only be in the way. A final observation is valued
        # with the memory that the last step of its own episode left.
        steps = self.num_steps
        seen = jax.tree.map(lambda obs, last: jnp.concatenate([obs, last[None]]), trajectory.obs, trajectory.last_obs)
        is_first = jnp.concatenate([trajectory.is_first, trajectory.done[-1:]])
        value, carries = self._nets.values(state.weights, normalized(state.obs_stats, seen), is_first, state.carry)
        final_obs = normalized(state.obs_stats, trajectory.final_obs)
        final_value = self._nets.value(state.weights, final_obs, before_cuts(trajectory, carries))
        after = successor_value(trajectory, value[:steps], value[steps], final_value)
        held = None if self.shared else jax.tree.map(lambda x: x[steps - 1], carries)
        return value[:steps], after, held

    def _descend(self, state: PPOState, batch: Batch, key: Key) -> tuple[Weights, Any, dict[str, Array]]:
        samples = jax.tree.map(lambda x: x.reshape(self.steps_per_update, *x.shape[2:]), batch)
        flat, unravel = ravel_pytree(state.weights)
        rate = self._learning_rate(state.age)
        gradient = jax.grad(lambda flat, *chosen: self._loss(unravel(flat), *chosen), has_aux=True)

        def step(carry, index):
            flat, optimizer = carry
            slope, losses = gradient(flat, *self._choose(samples, state.carry, index))
            change, optimizer = self._optimizer.update(clip_norm(slope, self.max_grad_norm), optimizer)
            return (flat - rate * change, optimizer), losses

        (flat, optimizer), losses = jax.lax.scan(step, (flat, state.optimizer), self._minibatches(key))
        return unravel(flat), optimizer, jax.tree.map(jnp.mean, losses)

    def _minibatches(self, key: Key) -> Int[Array, "steps B"]:
        shape = (self.num_steps, self.num_envs)
        return minibatches(key, shape, self.num_epochs, self.num_minibatches, self.shuffle)

    def _choose(self, samples: Batch, carry: Carry, index: Int[Array, "B"]) -> tuple[Batch, Carry]:
        rows = jax.tree.map(lambda x: x[index], samples)
        if self.memory == "none":
            return rows, carry
        # Environments with all their steps in order: [T, B], and the memory [B] that each began with.
        envs = index[: index.shape[0] // self.num_steps]
        rows = jax.tree.map(lambda x: x.reshape(self.num_steps, envs.shape[0], *x.shape[1:]), rows)
        return rows, jax.tree.map(lambda x: x[envs], carry)

    def _loss(
        self, weights: Weights, rows: Batch, carry: Carry = NOTHING
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        policy, value = self._nets.both(weights, rows.obs, rows.is_first, carry)
        policy = restricted(policy, rows.mask)
        log_ratio = policy.log_prob(rows.action) - rows.log_prob
        ratio = probability_ratio(log_ratio)
        advantage = rows.advantage
        if self.normalize_advantage:
            advantage = (advantage - jnp.mean(advantage)) / (jnp.std(advantage) + 1e-8)
        policy_loss = jnp.mean(self.surrogate(ratio, advantage, self.clip))
        value_loss = jnp.mean(self.value_loss(value, rows.value, rows.target, self.clip))
        entropy = jnp.mean(policy.entropy())
        loss = policy_loss + self.value_coef * value_loss - self.entropy_coef * entropy
        return loss, {
            "loss": loss,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": jnp.mean(ratio - 1 - log_ratio),  # Schulman 2020, "Approximating KL divergence", k3
            "clip_fraction": jnp.mean(jnp.abs(ratio - 1) > self.clip),
        }

    # Small parts.

    @property
    def _nets(self) -> ActorCritic:
        memory = None if self.memory == "none" else MEMORIES[self.memory](self.memory_size)
        return ActorCritic(self.network, self.observation_space, self.action_space, self.shared, memory)

    @property
    def _optimizer(self) -> Any:  # optax's own type speaks of trees; here it is one array
        # The learning rate is applied in `_descend`: inside the transformation it would hide in a closure.
        if self.optimizer == "rmsprop":  # as torch has it
            return optax.scale_by_rms(decay=0.99, eps=self.adam_eps, eps_in_sqrt=False)
        return optax.scale_by_adam(eps=self.adam_eps)

    def _learning_rate(self, age: Int[Array, ""]) -> Float[Array, ""]:
        return self.learning_rate * linear(1.0, 1 - self.anneal, progress(age, self.steps_per_update, self.horizon))

    def _policy(self, state: PPOState | PPOPolicy, obs: Any, mask: Any, carry: Any) -> tuple[Distribution, Any]:
        policy, carry = self._nets.act(state.weights, normalized(state.obs_stats, obs), carry)
        return restricted(policy, mask), carry

    def _to_world(self, action: Array) -> Array:
        space = self.action_space
        if not isinstance(space, Box):
            return action.astype(space.dtype)
        low, high = (jnp.broadcast_to(side, action.shape) for side in space.bounds())
        return jnp.clip(action, low, high)

    def _shuffle(self) -> str:
        if self.memory == "none":
            return "arithmetic" if self.shuffle == "auto" else self.shuffle
        if self.shuffle not in ("auto", "envs"):
            raise ValueError(
                f"shuffle={self.shuffle!r} tears episodes apart, and memory={self.memory!r} learns from steps in "
                f"order: leave shuffle out, or say shuffle='envs'."
            )
        return "envs"

    def _check_sizes(self) -> None:
        check_counts(self, "num_envs", "num_steps", "num_epochs", "num_minibatches", "hidden", "memory_size")
        check_minibatches(self.num_steps, self.num_envs, self.num_minibatches, self._shuffle())
        if self.normalize_advantage and self.steps_per_update == self.num_minibatches:
            raise ValueError(
                f"num_minibatches={self.num_minibatches} leaves one sample each, whose normalized advantage is 0: "
                "choose fewer, or normalize_advantage=False."
            )
