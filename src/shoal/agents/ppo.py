"""Proximal policy optimization (PPO).

Source: Schulman et al. 2017; details as in Huang et al. 2022, "The 37 implementation details of PPO", and CleanRL's
`ppo.py`, whose hyperparameters are the defaults. Differences: truncation by a time limit bootstraps from the true final
observation (CleanRL treats it as termination), and minibatches come from an arithmetic shuffle (or `shuffle="exact"`).

With a `memory`, a minibatch consists of whole environments: all T steps of each in order, and the
recurrent carry that it had at the start of the rollout. The carry is reset in the step that begins an episode.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from shoal.agents.bonus import BONUSES, CountBonus, RNDBonus, bonus_of, check_bonus
from shoal.agents.kernels import check_kernels, gradient_of, kernels_field, scan_of
from shoal.agents.learned_losses import FIRST_SURROGATES, FIRST_VALUE_LOSSES
from shoal.agents.losses import check_term, chosen_loss
from shoal.agents.normalization import first_stats, normalization_field, normalized, updated
from shoal.agents.rollout_agent import RolloutAgent
from shoal.core.agent import Guarded, Metrics, check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.form import current
from shoal.core.keys import make_key
from shoal.core.registry import agent
from shoal.core.spaces import Box, zeros
from shoal.core.struct import Number, Struct, filled_by_bind, hyper, part, static, struct
from shoal.nn.actor_critic import NO_CARRY, ActorCritic, Carry
from shoal.nn.distributions import (
    Distribution,
    as_action,
    check_real,
    head_size,
    in_units,
    restricted,
    revision_of_units,
    sample_noise,
)
from shoal.nn.memory.fields import check_memory_fields, memory_field, memory_of, window_field
from shoal.nn.torso_choice import TORSO_HELP, TORSOS, chosen_torso, is_dense
from shoal.ops.devices import device_key, device_share, mean_over, standardized
from shoal.ops.gradients import Optimizer, descend, first_moments, mean_of_steps, pack
from shoal.ops.noise import correlated
from shoal.ops.returns import gae
from shoal.ops.running import RunningStats
from shoal.ops.schedules import linear, progress
from shoal.ops.shuffle import (
    check_minibatches,
    chosen_shuffle,
    minibatches,
    shuffle_field,
    whole_environments,
)
from shoal.ops.surrogates import SURROGATES, VALUE_LOSSES, probability_ratio
from shoal.rollouts.rollout import (
    EnvStates,
    Rollout,
    Scan,
    Trajectory,
    rows_of_truncated_steps,
    successor_value,
)

Weights = Any
SHARE = "share of the minibatches"  # up to the one that exceeds `target_kl`, among the losses of a gradient step


@struct
class PPOState(Guarded):
    """The agent state of one member."""

    age: Int[Array, ""]
    key: Key
    weights: Weights
    optimizer: Any  # over packed weights (`ops.gradients`)
    env_states: EnvStates
    obs_stats: RunningStats | None
    return_stats: RunningStats | None
    discounted_return: Float[Array, "E"] | None  # of the current episodes so far, to scale rewards
    carry: Carry = NO_CARRY  # recurrent carries [E] of actor and critic at the start of the next rollout
    bonus: Any = None  # what the bonus has learned (`agents/bonus.py`)
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`

    guarded = ("weights", "optimizer")


@struct
class PPOPolicy(Struct):
    """The inputs of `act` and `value`: weights, and the statistics that normalize observations."""

    weights: Weights
    obs_stats: RunningStats | None


@struct
class Batch(Struct):
    """Samples to learn from. The leading axes of all leaves are [T, E]; after flattening [T * E]; in a minibatch [B].

    With a recurrent cell, those of a minibatch are [T, B], and B is a number of environments. With a bonus, `value` and
    `target` have a last axis of two: of the reward, and of the bonus.
    """

    obs: Any
    mask: Any
    action: Any
    log_prob: Float[Array, "..."]
    value: Float[Array, "..."]
    advantage: Float[Array, "..."]
    target: Float[Array, "..."]
    is_first: Any = None  # whether a step begins an episode; None without a recurrent cell


@agent("ppo")
@struct
class PPO(RolloutAgent):
    """Proximal policy optimization for discrete, multi-discrete and continuous actions, optionally recurrent.

    Continuous actions are Gaussian with a learned, state-independent standard deviation, in the units of their Box: -1
    and 1 are its bounds, to which actions are clipped before they go to the environment. A number without two finite
    bounds keeps its own units. `log_std_init`, entropies and `approx_kl` are those of the Gaussian in these units.

    `surrogate` and `value_loss` take a name, a function (see `ops/surrogates.py`) or a struct with weights (see
    `agents/learned_losses.py`). `network` takes any object with `init(key, features)` and `apply(weights, features)`,
    such as a flax module. `extra_loss(policy, value, rows)`, a function or a struct, returns one number that is added
    to the loss of a minibatch: `policy` is the distribution of actions, `value` [B] the critic's prediction, and `rows`
    the `Batch` of its samples. The curves have it as `extra_loss`.

    `memory` adds a network with `memory_size` units after the torso, so that actions can depend on earlier
    observations of the episode (see `nn/memory/`). Each minibatch then consists of whole environments:
    `num_minibatches` must divide `num_envs`, and gradients flow back through the `num_steps` steps of one rollout.

    `target_kl` ends the gradient steps of an update early, as in Stable-Baselines3: the first minibatch whose
    `approx_kl` exceeds 1.5 `target_kl`, and all minibatches after it, change nothing. Losses are means over the
    minibatches up to and including this one. With None (the default) all minibatches are learned from.

    `bonus` rewards new observations, to explore where the environment rewards little (see `agents/bonus.py`): "count"
    by 1 / sqrt(how often the member has seen the observation that a step reached), "rnd" by the error of a network that
    predicts random features of it. The critic has a second value head for the bonuses, with a discount of its own
    (`bonus_discount`); their returns do not end with an episode. The advantage that the policy learns from is that of
    the reward plus `bonus_coef` times that of the bonus. Episode returns and evaluations are without it.

    `a2c` and `rl2` are this agent with other defaults: advantage actor-critic, and RL^2 (meta-learning).
    """

    learning_rate: Number = hyper(2.5e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    discount: Number = hyper(0.99, search=(0.9, 0.9999), valid=(0, 1))
    gae_lambda: Number = hyper(0.95, search=(0.8, 1.0), valid=(0, 1))
    clip: Number = hyper(
        0.2, search=(0.05, 0.5), valid=(0, 1e9), help="bound on the change of probability ratio and value"
    )
    entropy_coef: Number = hyper(0.01, search=(1e-5, 0.1, "log"), valid=(0, 1e3))
    value_coef: Number = hyper(0.5, search=(0.1, 1.0), valid=(0, 1e3))
    max_grad_norm: Number = hyper(0.5, search=(0.1, 5.0, "log"), valid=(1e-9, 1e9), help="norm of the whole gradient")
    adam_eps: Number = hyper(1e-5, valid=(1e-12, 1), help="keeps the optimizer from dividing by 0")
    target_kl: Number | None = hyper(
        None, valid=(0, 1e3), help="skip the rest of an update after a minibatch with approx_kl > 1.5 target_kl"
    )
    anneal: Number = hyper(
        1.0,
        schedule_of="learning_rate",
        valid=(0, 1),
        help="by which fraction the learning rate has fallen at the horizon",
    )
    horizon: Number = hyper(
        0.0, valid=(0, 1e18), spans_run=True, help="steps over which to anneal; 0: as long as the run"
    )
    noise_correlation: Number = hyper(
        0.0, valid=(0, 0.9999), help="correlation of a Gaussian policy's noise between one step and the next"
    )
    log_std_init: Number = hyper(
        0.0, search=(-3.0, 1.0), valid=(-20, 5), initial=True, help="initial log std of a Gaussian policy"
    )
    bonus_coef: Number = hyper(
        0.5, search=(0.01, 10, "log"), valid=(0, 1e6), help="weight of the bonus's advantage beside the reward's"
    )
    bonus_discount: Number = hyper(0.99, search=(0.9, 0.999), valid=(0, 1), help="discount of future bonuses")
    predictor_rate: Number = hyper(
        1e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1), help="learning rate of the predictor of bonus=rnd"
    )

    num_envs: int = static(4)
    num_steps: int = static(128, help="steps of each environment in one update")
    num_epochs: int = static(4)
    num_minibatches: int = static(4)
    optimizer: str = static("adam", choices=("adam", "rmsprop"))
    bootstrap: bool = static(
        True,
        choices=(False, True),
        help="add the value of the final observation where a time limit truncates; false: as if terminated",
    )
    hidden: tuple[int, ...] = static((64, 64))
    activation: str = static("tanh", choices=("tanh", "relu", "silu", "gelu"))
    torso: str = static("auto", choices=TORSOS, help=TORSO_HELP)
    network: Any = static(None, help="your own torso; hidden, activation and torso then have no effect")
    memory: str = memory_field()
    memory_size: int = static(64, help="units of the memory")
    memory_window: int = window_field()
    shared: bool = static(False, choices=(False, True), help="one torso for both policy and value")
    surrogate: Any = part("clipped", choices=tuple(SURROGATES), first=FIRST_SURROGATES)
    value_loss: Any = part("clipped", choices=tuple(VALUE_LOSSES), first=FIRST_VALUE_LOSSES)
    extra_loss: Any = part(None, help="a further term of the loss: a function (policy, value, rows) -> one number")
    bonus: str = static("none", choices=BONUSES, help="reward new observations: by counts, or by the errors of RND")
    predictor_size: int = static(128, help="units of each layer of RND's networks, and features that are predicted")
    count_slots: int = static(2**16, help="different observations that bonus=count has room for; a power of two")
    normalize_advantage: bool = static(True, choices=(False, True))
    normalize_observation: bool = normalization_field()
    normalize_reward: bool = static(False, choices=(False, True))
    shuffle: str = shuffle_field()
    reset: str = static("bank", choices=("bank", "exact"))
    bank_size: int = static(0, help="first states per environment and update; 0: as many as a random policy needs")
    kernels: str = kernels_field("rollouts and gradient steps")

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()
    rollout: Any = filled_by_bind()

    def bind(self, env: Env) -> "PPO":
        """The agent with the spaces and sizes of an environment. Raises ValueError if a field does not fit it."""
        check_choices(self)
        self._check_sizes()
        head_size(env.action_space)
        check_real(env.action_space)
        if not isinstance(env.action_space, Box):
            refuse_ignored(self, "where actions are discrete", "noise_correlation", "log_std_init")
        check_memory_fields(self)
        check_bonus(self, env.observation_space)
        if self.num_epochs * self.num_minibatches == 1:
            refuse_ignored(self, "with one gradient step per update", "target_kl")
        if self.surrogate in ("unclipped", "dpo") and self.value_loss == "squared":
            refuse_ignored(self, "where neither loss is clipped", "clip")
        bound = self.replace(
            surrogate=chosen_loss("surrogate", self.surrogate, SURROGATES),
            value_loss=chosen_loss("value_loss", self.value_loss, VALUE_LOSSES),
            network=chosen_torso(self, env.observation_space),
            observation_space=env.observation_space,
            action_space=env.action_space,
            shuffle=chosen_shuffle(self.shuffle, self.memory),
            rollout=Rollout.for_env(env, self.num_envs, self.num_steps, self.reset, self.bank_size),
        )
        bound._check_extra_loss()
        if bound.kernels == "on" and bound.bonus != "none":
            raise ValueError(f"kernels='on', but a kernel has no values of bonus={bound.bonus!r}: leave kernels out.")
        check_kernels(bound, env)
        return bound

    @property
    def revision(self) -> int:
        """2 in a Box, where the Gaussian of revision 1 had the units of the environment; otherwise 1."""
        return revision_of_units(self.action_space)

    def upgraded(self, policy: "PPOPolicy", revision: int) -> "PPOPolicy":
        """A policy of revision 1 as one of revision 2: the head of the Gaussian in the units of the Box."""
        if revision != 1:
            return super().upgraded(policy, revision)
        return policy.replace(weights=in_units(self.action_space, policy.weights))

    def split(self, devices: int) -> "PPO":
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

    @property
    def weights_per_step(self) -> int:
        """The number of weights of a dense torso; 0 for other torsos, which library products would not make faster."""
        if not is_dense(self.network):
            return 0
        obs = jax.tree.map(lambda x: x[None], zeros(self.observation_space))
        weights = jax.eval_shape(lambda key: self.network.init(key, self._nets.features(obs)), make_key(0))
        return sum(x.size for x in jax.tree.leaves(weights))

    def init(self, key: Key, env: Env) -> PPOState:
        """Initial weights and environment states. `key` is consumed."""
        key, k_weights, k_envs = jax.random.split(key, 3)
        bonus = None
        if self._bonus is not None:
            k_weights, k_bonus = jax.random.split(k_weights)
            bonus = self._bonus.init(k_bonus, self.rollout.num_envs)
        env_states = self.rollout.init(env, k_envs)
        stats = first_stats(self)
        weights = self._nets.init(k_weights, normalized(stats, jax.vmap(env.observe)(env_states.state)))
        if "log_std" in weights:
            weights["log_std"] = weights["log_std"] + self.log_std_init
        return PPOState(
            age=jnp.int32(0),
            key=key,
            weights=weights,
            optimizer=first_moments(self._optimizer, weights),
            env_states=env_states,
            obs_stats=stats,
            return_stats=RunningStats.zero(jnp.float32(0)) if self.normalize_reward else None,
            discounted_return=jnp.zeros(self.rollout.num_envs, jnp.float32) if self.normalize_reward else None,
            carry=self._nets.initial_carry((self.rollout.num_envs,)),
            bonus=bonus,
        )

    def policy_noise(self, state: PPOState, key: Key) -> Array:
        """Noise [T, E] from which actions are sampled. `key` is consumed."""
        del state
        of_all_envs = sample_noise(self.action_space, key, (self.num_steps, self.num_envs))
        noise = device_share(of_all_envs, self.rollout.devices, axis=1)
        return correlated(noise, self.noise_correlation) if isinstance(self.action_space, Box) else noise

    def behavior(self, state: PPOState) -> Any:
        """The policy of a rollout. It also records its sample, before `as_action` clips it, and the distribution."""

        def behave(obs, mask, noise, carry):
            policy, carry = self._policy(state, obs, mask, carry)
            action = policy.sample(noise)
            return as_action(self.action_space, action), (action, policy), carry

        return behave

    def actor_carries(self, state: PPOState) -> tuple[Any, Any]:
        """The actor's carries [E] at the start of the next rollout, and at the start of an episode."""
        return state.carry.actor, self._nets.initial_carry((self.rollout.num_envs,)).actor

    def learn_from(
        self, state: PPOState, trajectory: Trajectory, carry: Any, key: Key, clock: Int[Array, ""]
    ) -> tuple[PPOState, Metrics]:
        """Estimate advantages, and take gradient steps on shuffled minibatches."""
        del clock
        reward, return_stats, discounted_return = self._scaled_reward(state, trajectory)
        bonus, bonus_reward, of_bonus = state.bonus, None, {}
        if self._bonus is not None:
            key, k_bonus = jax.random.split(key)
            bonus, bonus_reward, of_bonus = self._bonus.learn(bonus, _reached(trajectory), k_bonus)
        batch, critic_carry = self._batch(state, trajectory, reward, bonus_reward)
        weights, optimizer, is_stopped, losses, weight = self._gradient_steps(state, batch, key)
        state = state.replace(
            age=state.age + 1,
            weights=weights,
            optimizer=optimizer,
            obs_stats=updated(state.obs_stats, trajectory.obs, devices=self.rollout.devices),
            return_stats=return_stats,
            discounted_return=discounted_return,
            carry=Carry(carry, critic_carry),
            bonus=bonus,
            is_stopped=is_stopped,
        )
        return state, Metrics(trajectory.episodes(), losses | of_bonus, weight)

    def new_episodes(self, state: PPOState, env: Env, key: Key) -> PPOState:
        """The state at the start of new episodes: environment states, recurrent carries, discounted returns."""
        return state.replace(
            env_states=self.rollout.init(env, key),
            discounted_return=jax.tree.map(jnp.zeros_like, state.discounted_return),
            carry=self._nets.initial_carry((self.rollout.num_envs,)),
        )

    def initial_carry(self) -> Any:
        """The actor's recurrent carry at the start of an episode; None without a recurrent cell."""
        return self._nets.initial_carry().actor

    def act(
        self, state: PPOState | PPOPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): the mode of the policy when greedy, a sample otherwise. `key` is consumed."""
        policy, carry = self._policy(state, obs, mask, carry)
        action = policy.mode() if greedy else policy.sample(sample_noise(self.action_space, key, ()))
        return as_action(self.action_space, action), carry

    def value(self, state: PPOState | PPOPolicy, obs: Any) -> Float[Array, "..."]:
        """The critic's value of observations with any leading axes.

        A recurrent critic treats each as the first observation of an episode. Values of bonuses are left out.
        """
        value = self._nets.value(state.weights, normalized(state.obs_stats, obs))
        return value if self.bonus == "none" else value[..., 0]

    def policy_state(self, state: PPOState) -> PPOPolicy:
        """Weights and observation statistics."""
        return PPOPolicy(state.weights, state.obs_stats)

    # The parts of an update, in order.

    def _scaled_reward(self, state: PPOState, trajectory: Trajectory) -> tuple[Array, Any, Any]:
        # (rewards, return statistics, discounted returns so far). Rewards are divided by the standard deviation of the
        # discounted return. They are not centered, because subtracting a mean would change the task.
        if state.return_stats is None:
            return trajectory.reward, None, None

        def add_reward(total, inputs):
            reward, done = inputs
            total = total * self.discount + reward
            return jnp.where(done, 0, total), total

        columns = (trajectory.reward, trajectory.done)
        total, totals = jax.lax.scan(add_reward, state.discounted_return, columns, unroll=current().returns_per_trip)
        stats = state.return_stats.update(totals, axes=2, devices=self.rollout.devices)
        return jnp.clip(trajectory.reward / stats.std(), -10, 10), stats, total

    def _batch(
        self, state: PPOState, trajectory: Trajectory, reward: Array, bonus: Array | None = None
    ) -> tuple[Batch, Any]:
        action, policy = trajectory.policy_output
        obs = normalized(state.obs_stats, trajectory.obs)
        value, next_value, critic_carry = self._values(state, trajectory)
        values, next_values = value, next_value
        if bonus is not None:
            value, next_value = value[..., 0], next_value[..., 0]

        def estimate(reward, value, next_value, terminated, done):
            return gae(reward, value, next_value, terminated, done, discount=self.discount, gae_lambda=self.gae_lambda)

        terminated = trajectory.terminated if self.bootstrap else trajectory.done
        columns = (reward, value, next_value, terminated, trajectory.done)
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
        if bonus is not None:
            batch = self._with_bonus(batch, bonus, values[..., 1], next_values[..., 1])
        return batch, critic_carry

    def _with_bonus(self, batch: Batch, bonus: Array, value: Array, next_value: Array) -> Batch:
        # The samples with values and targets of bonuses [T, E] beside those of rewards, and both in the advantage.
        def estimate(bonus: Array, value: Array, next_value: Array) -> Array:
            never = jnp.zeros(bonus.shape, bool)  # an episode's end does not end the sum of bonuses
            how: Any = {"discount": self.bonus_discount, "gae_lambda": self.gae_lambda}
            return gae(bonus, value, next_value, never, never, **how)

        advantage = jax.vmap(estimate, in_axes=1, out_axes=1)(bonus, value, next_value)
        return batch.replace(
            value=jnp.stack([batch.value, value], axis=-1),
            advantage=batch.advantage + self.bonus_coef * advantage,
            target=jnp.stack([batch.target, advantage + value], axis=-1),
        )

    def _values(
        self, state: PPOState, trajectory: Trajectory
    ) -> tuple[Float[Array, "T E ..."], Float[Array, "T E ..."], Any]:
        # (values of all observations, values of their successors, the critic's recurrent carry after the rollout).
        if self.memory != "none":
            return self._recurrent_values(state, trajectory)
        # One forward pass over all observations, the last ones and the final ones: [T + 1 + F, E].
        all_obs = jax.tree.map(
            lambda obs, last, final: jnp.concatenate([obs, last[None], final]),
            trajectory.obs,
            trajectory.last_obs,
            trajectory.final_obs,
        )
        value = self._nets.value(state.weights, normalized(state.obs_stats, all_obs))
        steps = self.num_steps
        return value[:steps], self._next_value(trajectory, value[:steps], value[steps], value[steps + 1 :]), None

    def _next_value(self, trajectory: Trajectory, value: Array, last: Array, final: Array) -> Array:
        # The values of the successors of all steps. Those of bonuses go on in the next episode.
        if self.bonus == "none":
            return successor_value(trajectory, value, last, final)
        of_reward = successor_value(trajectory, value[..., 0], last[..., 0], final[..., 0])
        return jnp.stack([of_reward, jnp.concatenate([value[1:, :, 1], last[None, :, 1]])], axis=-1)

    def _recurrent_values(
        self, state: PPOState, trajectory: Trajectory
    ) -> tuple[Float[Array, "T E ..."], Float[Array, "T E ..."], Any]:
        # Unroll the recurrent critic after collection, in one pass: acting does not need it. The value of a final
        # observation uses the carry after the last step of its own episode.
        steps = self.num_steps
        obs = jax.tree.map(lambda obs, last: jnp.concatenate([obs, last[None]]), trajectory.obs, trajectory.last_obs)
        is_first = jnp.concatenate([trajectory.is_first, trajectory.done[-1:]])
        value, carries = self._nets.values(state.weights, normalized(state.obs_stats, obs), is_first, state.carry)
        final_obs = normalized(state.obs_stats, trajectory.final_obs)
        final_value = self._nets.value(state.weights, final_obs, rows_of_truncated_steps(trajectory, carries))
        next_value = self._next_value(trajectory, value[:steps], value[steps], final_value)
        critic_carry = None if self.shared else jax.tree.map(lambda x: x[steps - 1], carries)
        return value[:steps], next_value, critic_carry

    def _gradient_steps(
        self, state: PPOState, batch: Batch, key: Key
    ) -> tuple[Weights, Any, Bool[Array, ""] | None, dict[str, Array], Number]:
        # (weights, optimizer, whether the member is stopped) after all minibatches; mean losses of those up to the one
        # that exceeds `target_kl`, and which share of all these are.
        samples = jax.tree.map(lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), batch)
        packed, unpack = pack(state.weights)
        learning_rate = self._learning_rate(state.age)
        gradient_of_loss = self._gradient_of_loss(unpack)

        def step(carry, index):
            packed, optimizer, is_stopped, is_over = carry
            of_device = gradient_of_loss(packed, *self._minibatch(samples, state.carry, index))
            gradient, losses = mean_over(of_device, self.rollout.devices)
            *new, is_stopped = descend(
                self._optimizer,
                packed,
                gradient,
                optimizer,
                learning_rate,
                largest_norm=self.max_grad_norm,
                is_stopped=is_stopped,
            )
            if self.target_kl is not None:
                losses = jax.tree.map(lambda x: jnp.where(is_over, 0, x), {**losses, SHARE: jnp.float32(1)})
                is_over |= losses["approx_kl"] > 1.5 * self.target_kl
                new = jax.tree.map(lambda new, old: jnp.where(is_over, old, new), new, [packed, optimizer])
            return (*new, is_stopped, is_over), losses

        start = (packed, state.optimizer, state.is_stopped, None if self.target_kl is None else jnp.bool_(False))
        (packed, optimizer, is_stopped, _), losses = mean_of_steps(step, start, self._minibatch_indices(key))
        share = losses.pop(SHARE, 1.0)
        if self.target_kl is not None:
            losses = jax.tree.map(lambda x: x / share, losses)
        return unpack(packed), optimizer, is_stopped, losses, share

    def _gradient_of_loss(self, unpack: Any) -> Any:
        # The function (packed weights, samples, carry) -> (gradient, losses). An extra loss may be no mean over
        # samples, which is what a kernel computes.
        of_xla = self.extra_loss is not None or self.bonus != "none"
        agent, only_measured = self.replace(kernels="off") if of_xla else self, self.kernels == "auto"
        return gradient_of(agent, self._loss, unpack, "gradient_kernels", only_measured=only_measured)

    @property
    def scan(self) -> Scan:
        """The function that runs the loop of a rollout: one kernel, where one is used."""
        return scan_of(self, "rollout_kernels")

    def _minibatch_indices(self, key: Key) -> Int[Array, "steps B"]:
        shape, key = (self.num_steps, self.rollout.num_envs), device_key(key, self.rollout.devices)
        return minibatches(key, shape, self.num_epochs, self.num_minibatches, self.shuffle)

    def _minibatch(self, samples: Batch, carry: Carry, index: Int[Array, "B"]) -> tuple[Batch, Carry]:
        rows = jax.tree.map(lambda x: x[index], samples)
        if self.normalize_advantage:
            rows = rows.replace(advantage=standardized(rows.advantage, self.rollout.devices))
        return (rows, carry) if self.memory == "none" else whole_environments(rows, carry, index, self.num_steps)

    def _loss(
        self, weights: Weights, rows: Batch, carry: Carry = NO_CARRY
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        policy, value = self._nets.policy_and_value(weights, rows.obs, rows.is_first, carry)
        policy = restricted(policy, rows.mask)
        log_ratio = policy.log_prob(rows.action) - rows.log_prob
        ratio = probability_ratio(log_ratio)
        policy_loss = jnp.mean(self.surrogate(ratio, rows.advantage, self.clip))
        value_loss = self._value_loss(value, rows)
        entropy = jnp.mean(policy.entropy())
        loss = policy_loss + self.value_coef * value_loss - self.entropy_coef * entropy
        further = {} if self.extra_loss is None else {"extra_loss": self.extra_loss(policy, value, rows)}
        loss = sum(further.values(), start=loss)
        return loss, {
            "loss": loss,
            **further,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "approx_kl": jnp.mean(ratio - 1 - log_ratio),  # Schulman 2020, "Approximating KL divergence", k3
            "clip_fraction": jnp.mean(jnp.abs(ratio - 1) > self.clip),
        }

    def _value_loss(self, value: Array, rows: Batch) -> Float[Array, ""]:
        if self.bonus == "none":
            return jnp.mean(self.value_loss(value, rows.value, rows.target, self.clip))
        # The sum of the losses of both heads, as in RND.
        of_heads = jax.vmap(self.value_loss, in_axes=(-1, -1, -1, None))(value, rows.value, rows.target, self.clip)
        return jnp.mean(jnp.sum(of_heads, axis=0))

    # Networks, optimizer, actions and checks.

    @property
    def _nets(self) -> ActorCritic:
        values_each = 1 if self.bonus == "none" else 2
        memory = memory_of(self)
        return ActorCritic(self.network, self.observation_space, self.action_space, self.shared, memory, values_each)

    @property
    def _bonus(self) -> CountBonus | RNDBonus | None:
        return bonus_of(self)

    @property
    def _optimizer(self) -> Optimizer:
        # `descend` applies the learning rate: a rate inside the optax transformation could not be traced.
        if self.optimizer == "rmsprop":  # with PyTorch's definition
            return optax.scale_by_rms(decay=0.99, eps=self.adam_eps, eps_in_sqrt=False)
        return optax.scale_by_adam(eps=self.adam_eps)

    def _learning_rate(self, age: Int[Array, ""]) -> Float[Array, ""]:
        return self.learning_rate * linear(1.0, 1 - self.anneal, progress(age, self.steps_per_update, self.horizon))

    def _policy(self, state: PPOState | PPOPolicy, obs: Any, mask: Any, carry: Any) -> tuple[Distribution, Any]:
        policy, carry = self._nets.act(state.weights, normalized(state.obs_stats, obs), carry)
        return restricted(policy, mask), carry

    def _check_extra_loss(self) -> None:
        if self.extra_loss is None:
            return
        if self.kernels == "on":
            raise ValueError("kernels='on', but a kernel cannot compute an extra_loss: leave kernels out.")
        examples = jax.eval_shape(self._examples, make_key(0))
        check_term("extra_loss", self.extra_loss, dict(zip(("policy", "value", "rows"), examples, strict=True)))

    def _examples(self, key: Key) -> tuple[Distribution, Array, Batch]:
        # The arguments of `extra_loss` for a minibatch: 7 samples, or with a recurrent cell 7 environments.
        axes = (7,) if self.memory == "none" else (self.num_steps, 7)
        obs = jax.tree.map(lambda x: jnp.zeros((*axes, *x.shape), x.dtype), zeros(self.observation_space))
        obs, column = normalized(first_stats(self), obs), jnp.zeros(axes, jnp.float32)
        is_first = None if self.memory == "none" else jnp.zeros(axes, bool)
        weights = self._nets.init(key, jax.tree.map(lambda x: x[0] if self.memory == "none" else x[0, :1], obs))
        policy, value = self._nets.policy_and_value(weights, obs, is_first, self._nets.initial_carry((7,)))
        action = policy.sample(sample_noise(self.action_space, key, axes))
        target = jnp.zeros_like(value)
        return policy, value, Batch(obs, None, action, policy.log_prob(action), value, column, target, is_first)

    def _check_sizes(self) -> None:
        check_counts(self, "num_envs", "num_steps", "num_epochs", "num_minibatches", "hidden")
        check_minibatches(
            self.num_steps, self.num_envs, self.num_minibatches, chosen_shuffle(self.shuffle, self.memory)
        )
        if self.normalize_advantage and self.steps_per_update == self.num_minibatches:
            raise ValueError(
                f"num_minibatches={self.num_minibatches} gives minibatches of one sample each, whose normalized "
                "advantage is 0: choose fewer, or normalize_advantage=False."
            )


def _reached(trajectory: Trajectory) -> Any:
    """The observations [T, E] after all steps; where an episode ended, the first one of the next episode."""
    return jax.tree.map(lambda x, last: jnp.concatenate([x[1:], last[None]]), trajectory.obs, trajectory.last_obs)
