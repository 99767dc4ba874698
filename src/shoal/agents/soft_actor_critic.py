"""The base class of soft actor-critic agents, which differ in what their critics learn."""

import abc
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from shoal.agents.normalization import normalized
from shoal.agents.replay_actor_critic import ReplayActorCritic, ReplayState
from shoal.agents.replay_agent import Observed
from shoal.agents.sequences import check_sequences
from shoal.core.agent import check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.spaces import Discrete
from shoal.core.struct import Choice, Number, Struct, hyper, struct
from shoal.nn.batch_renorm import with_averages
from shoal.nn.distributions import Categorical, SquashedGaussian, as_action, check_bounded, masked, sample_noise
from shoal.nn.memory.fields import memory_of
from shoal.nn.policy_network import PolicyNetwork
from shoal.nn.torso_choice import chosen_torso
from shoal.ops.gradients import Optimizer, adam, descend_tree, first_moments
from shoal.ops.replay import Transitions
from shoal.ops.running import RunningStats
from shoal.ops.schedules import whole

Weights = Any
Policy = Categorical | SquashedGaussian
Losses = dict[str, Array]
# (losses to report, moving averages of `nn.batch_renorm` (empty without), the error of each sample [B])
LossAux = tuple[Losses, dict[str, Any], Array]
TEMPERATURES = ("tuned", "fixed")
FIXED = TEMPERATURES.index("fixed")
LOG_STD = (-5.0, 2.0)  # bounds into which the network's output is squashed
Fitted = TypeVar("Fitted", bound="SoftActorCritic")


@struct
class Learner(Struct):
    """All that a gradient step changes."""

    actor: Weights
    critics: Weights  # leaves have a leading axis over critics [K]
    target: Weights  # target weights of the critics [K]; None for an agent without target networks
    log_alpha: Float[Array, ""]  # log of the temperature
    actor_moments: Any  # Adam's state, over packed weights (`ops.gradients`)
    critic_moments: Any
    alpha_moments: Any
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`


@struct
class SoftPolicy(Struct):
    """The data that `act` and `value` need."""

    actor: Weights
    critics: Weights
    log_alpha: Float[Array, ""]
    obs_stats: RunningStats | None = None  # statistics that normalize observations


@struct
class SoftActorCritic(ReplayActorCritic):
    """Maximizes the return plus the policy's entropy times a temperature, which is tuned. Abstract.

    A gradient step changes the critics; after every `policy_delay` of them, `policy_steps` steps of the policy and the
    temperature follow. In a Box the policy is a Gaussian squashed by tanh into the bounds. For Discrete actions it is
    categorical and the critics compute the Q-values of all actions, so that expectations are exact. With `n_step` above
    1, targets have the entropy after these steps, not those between them, whose policy was an older one.
    """

    learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1), help="learning rate of the critics")
    policy_learning_rate: Number = hyper(3e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    alpha_learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    temperature: Choice = hyper(0, names=TEMPERATURES)
    alpha: Number = hyper(
        1.0,
        search=(0.01, 1.0, "log"),
        valid=(1e-9, 1e6),
        initial=lambda agent: not np.any(np.asarray(agent.temperature) == FIXED),
        help="the temperature: initial (tuned) or constant (fixed)",
    )
    entropy_ratio: Number = hyper(
        1.0, valid=(-0.69, 1e3), help="in a Box: target entropy is -ratio per action component; uniform: ratio -log 2"
    )
    policy_delay: Number = hyper(2.0, valid=(1, 1e6), help="critic steps between two rounds of policy steps")
    policy_steps: Number = hyper(0.0, valid=(0, 1e6), help="policy steps of a round; 0: as many as critic steps")
    learning_starts: Number = hyper(
        5e3, valid=(0, 1e9), help="environment steps with uniform actions before the first gradient step"
    )

    # What an agent defines.

    @abc.abstractmethod
    def combined(self, outputs: Float[Array, "K ..."]) -> Float[Array, "*axes"]:
        """The Q-values that the policy maximizes, from the outputs of all critics."""

    @abc.abstractmethod
    def critics_loss(
        self, critics: Weights, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Float[Array, ""], LossAux]:
        """(the loss of the critics, what it reports: see `LossAux`). `key` is consumed."""

    def first_target(self, critics: Weights) -> Weights:
        """The initial target weights. Default: the weights of the critics."""
        return jax.tree.map(jnp.copy, critics)

    @abc.abstractmethod
    def updated_target(self, learner: Learner) -> Weights:
        """The target weights after a gradient step."""

    def policy_in_training(
        self, learner: Learner, actor: Weights, observed: Observed, sample_weight: Float[Array, "B"]
    ) -> tuple[Policy, dict[str, Any]]:
        """(the policy of weights that learn, moving averages after it). Default: as it acts, without averages.

        `observed` is what its network reads.
        """
        del learner, sample_weight
        return self._policy(actor, observed), {}

    def loss_keys(self, key: Key) -> tuple[Key, Key | None, Key | None]:
        """(the key of a loss's noise, two keys for `critics_in_training`). Default: one key. `key` is consumed."""
        return key, None, None

    def critics_in_training(self, key: Key | None) -> Any:
        """The networks of the critics in a loss. Default: the same as elsewhere."""
        del key
        return self._critics

    @property
    def _actor(self) -> Any:
        """The network of the policy, with `policy_outputs` outputs: this one, or one called likewise."""
        return PolicyNetwork(self.network, self.observation_space, self.policy_outputs, memory_of(self))

    @property
    @abc.abstractmethod
    def _critics(self) -> Any:
        """The networks of the critics: `nn.action_value`, or others called likewise."""

    @property
    def _adam(self) -> Optimizer:
        """The optimizer of all weights."""
        return adam(self.adam_eps)

    def _target_entropy(self, observed: Observed) -> Any:
        """The target entropy in nats of each state, or of all. Default: of actions in a Box, rescaled to [-1, 1]."""
        del observed
        return -self.entropy_ratio * self.action_space.shape[0]

    # What is common to all.

    def fitted_to(self: Fitted, env: Env) -> Fitted:
        """The agent fitted to an environment: the common part of `bind`."""
        check_choices(self)
        check_counts(self, "num_envs", "num_steps", "num_critics", "hidden")
        if not isinstance(env.action_space, Discrete):
            check_bounded(env.action_space)
        if np.all(np.asarray(self.temperature) == FIXED):
            refuse_ignored(self, "with temperature='fixed'", "alpha_learning_rate", "entropy_ratio")
        check_sequences(self)
        return self.fitted(env).replace(network=chosen_torso(self, env.observation_space))

    def act(
        self, state: ReplayState | SoftPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): when greedy, the squashed mean or the most probable discrete action; otherwise a sample."""
        weights = self.policy_state(state)
        seen, carry = self.seen_by_policy(weights.actor, normalized(weights.obs_stats, obs), carry)
        policy = self._policy(weights.actor, Observed(seen, mask))
        action = policy.mode() if greedy else policy.sample(sample_noise(self.action_space, key, ()))
        return as_action(self.action_space, action), carry

    def value(self, state: ReplayState | SoftPolicy, obs: Any) -> Float[Array, "*axes"]:
        """The soft value (expected return plus entropy) of observations, as if all actions were allowed.

        In a Box it is the Q-value of the policy's mode, without the entropy of that action. With a memory, observations
        begin an episode.
        """
        weights = self.policy_state(state)
        seen, of_critics = self.seen_first(weights, normalized(weights.obs_stats, obs))
        policy = self._policy(weights.actor, Observed(seen, None))
        if isinstance(policy, Categorical):
            return self.soft_value(policy, weights.critics, self._alpha(weights), Observed(of_critics, None), None)[0]
        return self.combined(self._critics(weights.critics, of_critics, policy.mode()))

    def with_policy(self, state: ReplayState, policy: SoftPolicy) -> ReplayState:
        """A new member's state with a policy's actor, critics (online and target), temperature and statistics."""
        target = self.first_target(policy.critics)
        learner = state.learner.replace(
            actor=policy.actor, critics=policy.critics, target=target, log_alpha=policy.log_alpha
        )
        return state.replace(learner=learner, obs_stats=policy.obs_stats)

    def policy_state(self, state: ReplayState | SoftPolicy) -> SoftPolicy:
        """Weights, temperature and observation statistics; a policy is returned as it is."""
        if isinstance(state, SoftPolicy):
            return state
        return SoftPolicy(state.learner.actor, state.learner.critics, state.learner.log_alpha, state.obs_stats)

    # The parts of an update, in order.

    def explore(self, learner: Learner, observed: Observed, noise: Array) -> Array:
        """Samples of the policy [E]."""
        return self._policy(learner.actor, observed).sample(noise)

    def learn(
        self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Learner, Losses, Float[Array, "B"]]:
        """One gradient step: the critics, then policy and temperature if they are due, then the target weights."""
        k_critics, k_actor = jax.random.split(key)
        learner, losses, error = self._learn_critics(learner, batch, sample_weight, k_critics)
        learner = self._learn_policy(learner, batch, sample_weight, k_actor)
        return learner.replace(target=self.updated_target(learner)), losses, error

    def _learn_critics(
        self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Learner, Losses, Float[Array, "B"]]:
        gradient_of_loss = jax.grad(self.critics_loss, has_aux=True)
        gradient, (losses, averages, error) = gradient_of_loss(learner.critics, learner, batch, sample_weight, key)
        critics, moments, is_stopped = descend_tree(
            self._adam,
            learner.critics,
            gradient,
            learner.critic_moments,
            self.learning_rate,
            is_stopped=learner.is_stopped,
        )
        critics = with_averages(critics, averages, is_stopped)
        return learner.replace(critics=critics, critic_moments=moments, is_stopped=is_stopped), losses, error

    def _learn_policy(
        self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> Learner:
        """Steps of policy and temperature after every `policy_delay` critic steps, otherwise none."""

        def step(i, learner):
            k_noise, k_critics, _ = self.loss_keys(jax.random.fold_in(key, i))
            noise = sample_noise(self.action_space, k_noise, sample_weight.shape)
            alpha, of_critics = self._alpha(learner), self.critics_batch(learner.critics, batch).observed

            def loss(actor):
                observed = self.policy_batch(actor, batch).observed
                policy, averages = self.policy_in_training(learner, actor, observed, sample_weight)
                in_training = self.critics_in_training(k_critics)
                value, entropy = self.soft_value(policy, learner.critics, alpha, of_critics, noise, network=in_training)
                return -jnp.sum(sample_weight * value), (entropy, averages)

            gradient, (entropy, averages) = jax.grad(loss, has_aux=True)(learner.actor)
            actor, moments, is_stopped = descend_tree(
                self._adam,
                learner.actor,
                gradient,
                learner.actor_moments,
                self.policy_learning_rate,
                is_stopped=learner.is_stopped,
            )
            actor = with_averages(actor, averages, is_stopped)
            learner = learner.replace(actor=actor, actor_moments=moments, is_stopped=is_stopped)
            return self._learn_alpha(learner, jnp.sum(sample_weight * (entropy - self._target_entropy(batch.observed))))

        period = jnp.maximum(whole(self.policy_delay), 1)
        steps = jnp.where(whole(self.policy_steps) == 0, period, whole(self.policy_steps))
        steps = jnp.where(learner.critic_moments.count % period == 0, steps, 0)
        return jax.lax.fori_loop(0, steps, step, learner)

    def _learn_alpha(self, learner: Learner, excess: Float[Array, ""]) -> Learner:
        # `excess` is entropy minus target entropy. The loss is alpha * excess: too much entropy lowers the temperature.
        gradient = jnp.exp(learner.log_alpha) * excess
        learning_rate = jnp.where(self.temperature == FIXED, 0, self.alpha_learning_rate)
        log_alpha, moments, is_stopped = descend_tree(
            self._adam,
            learner.log_alpha,
            gradient,
            learner.alpha_moments,
            learning_rate,
            is_stopped=learner.is_stopped,
        )
        return learner.replace(log_alpha=log_alpha, alpha_moments=moments, is_stopped=is_stopped)

    def soft_value(
        self,
        policy: Policy,
        critics: Weights,
        alpha: Float[Array, ""],
        observed: Observed,
        noise: Any,
        combine: Callable[[Array], Array] | None = None,
        network: Any = None,
    ) -> tuple[Float[Array, "*axes"], Float[Array, "*axes"]]:
        """(soft values, entropies) of states: exact for discrete actions, estimated from one action otherwise.

        `observed` is what the critics read. `combine` makes Q-values of the outputs of all critics; without it,
        `combined` does. `network` are the critics, such as those of `critics_in_training`.
        """
        combine, network = combine or self.combined, network or self._critics
        if isinstance(policy, Categorical):
            entropy = policy.entropy()
            q_values = combine(network.every(critics, observed.obs))
            return jnp.sum(jax.nn.softmax(policy.logits) * q_values, axis=-1) + alpha * entropy, entropy
        action, log_prob = policy.sample_with_log_prob(noise)
        return combine(network(critics, observed.obs, action)) - alpha * log_prob, -log_prob

    # Networks, initial weights and the temperature.

    @property
    def policy_outputs(self) -> int:
        """The outputs of the policy's network: logits, or means and standard deviations."""
        space = self.action_space
        return space.n if isinstance(space, Discrete) else 2 * space.shape[0]

    def init_learner(self, key: Key, obs: Any, action: Array) -> Learner:
        """Initial weights, target weights, temperature and Adam states. `key` is consumed."""
        k_actor, k_critics = jax.random.split(key)
        actor = self._actor.init(k_actor, obs)
        critics = self._critics.init(k_critics, obs, jnp.broadcast_to(action, (self.num_envs, *action.shape)))
        log_alpha = jnp.log(jnp.asarray(self.alpha, jnp.float32))
        return Learner(
            actor=actor,
            critics=critics,
            target=self.first_target(critics),
            log_alpha=log_alpha,
            actor_moments=first_moments(self._adam, actor),
            critic_moments=first_moments(self._adam, critics),
            alpha_moments=first_moments(self._adam, log_alpha),
        )

    def _policy(self, actor: Weights, observed: Observed) -> Policy:
        return self._policy_of(self._actor(actor, observed.obs), observed)

    def _policy_of(self, out: Float[Array, "*axes outputs"], observed: Observed) -> Policy:
        if isinstance(self.action_space, Discrete):
            return Categorical(masked(out, observed.mask))
        mean, spread = jnp.split(out, 2, axis=-1)
        low, high = LOG_STD
        return SquashedGaussian(mean, low + (high - low) * (jnp.tanh(spread) + 1) / 2)

    def _alpha(self, weights: Learner | SoftPolicy) -> Float[Array, ""]:
        return jnp.where(self.temperature == FIXED, self.alpha, jnp.exp(weights.log_alpha))
