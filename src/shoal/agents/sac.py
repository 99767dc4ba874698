"""Soft actor-critic, for continuous and for discrete actions.

Source: Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"; for discrete actions Christodoulou 2019.
The defaults are the hyperparameters of CleanRL's `sac_continuous_action.py`, except that the buffer holds 100,000
samples instead of a million, so that a population fits in memory. Differences: truncation by a time limit bootstraps
from the true final observation; initial weights are orthogonal; the temperature step uses the entropy that was measured
in the policy step before it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from shoal.agents.normalization import normalized
from shoal.agents.replay_agent import Observed, ReplayActorCritic, ReplayState, critic_loss
from shoal.core.agent import check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.errors import Unsuited
from shoal.core.registry import agent
from shoal.core.spaces import Box, Discrete, to_unit
from shoal.core.struct import Choice, Number, Struct, hyper, static, struct
from shoal.nn.action_value import Critics
from shoal.nn.distributions import Categorical, SquashedGaussian, as_action, check_bounded, masked, sample_noise
from shoal.nn.policy_network import PolicyNetwork
from shoal.nn.torso_choice import TORSO_HELP, TORSOS, chosen_torso
from shoal.ops.gradients import adam, descend_tree, first_moments, polyak_update
from shoal.ops.replay import Transitions
from shoal.ops.running import RunningStats
from shoal.ops.schedules import whole

Weights = Any
TEMPERATURES = ("tuned", "fixed")
FIXED = TEMPERATURES.index("fixed")
LOG_STD = (-5.0, 2.0)  # bounds into which the network's output is squashed


@struct
class Learner(Struct):
    """All that a gradient step changes."""

    actor: Weights
    critics: Weights  # leaves have a leading axis over critics [K]
    target: Weights  # target weights of the critics [K]
    log_alpha: Float[Array, ""]  # log of the temperature
    actor_moments: Any  # Adam's state, over packed weights (`ops.gradients`)
    critic_moments: Any
    alpha_moments: Any
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`


@struct
class SACPolicy(Struct):
    """The weights and statistics that `act` and `value` read."""

    actor: Weights
    critics: Weights
    log_alpha: Float[Array, ""]
    obs_stats: RunningStats | None = None  # statistics that normalize observations


@agent("sac")
@struct
class SAC(ReplayActorCritic):
    """Soft actor-critic: maximizes the return plus the policy's entropy times a temperature, which is tuned.

    An update takes `num_steps` steps of `num_envs` environments and stores them. Then it makes the gradient steps that
    are due: `train_iterations` for every `train_frequency` environment steps, from `learning_starts` on; until then
    actions are uniform. A gradient step changes the critics; after every `policy_delay` of them, `policy_delay` steps
    of the policy and the temperature follow.

    In a Box, which must have finite bounds, the policy is a Gaussian squashed by tanh into the bounds. For Discrete
    actions the policy is categorical and the critics compute the Q-values of all actions, so that expectations are
    exact. If no policy reaches the target entropy without ending the episode early, the temperature grows without
    bound: lower `discrete_entropy_ratio`, or use `temperature="fixed"`. CleanRL's ratio of 0.89, for Atari, is too high
    for the two actions of CartPole.

    Entropies are in nats. In a Box they are those of actions rescaled to [-1, 1], as in Haarnoja et al. and
    Stable-Baselines3, so that results do not depend on the units of actions. In the units of the Box they are larger by
    sum(log(half of the width)). CleanRL's target entropy of -n corresponds to an `entropy_ratio` of
    1 + mean(log(half of the width)).
    """

    learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1), help="learning rate of the critics")
    policy_learning_rate: Number = hyper(3e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    alpha_learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    target_mix: Number = hyper(
        0.005, search=(0.001, 0.1, "log"), valid=(0, 1), help="weight of the online weights in each target update"
    )
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
    discrete_entropy_ratio: Number = hyper(
        0.5, search=(0.1, 0.7), valid=(0, 1), help="Discrete: target entropy as a fraction of the uniform policy's"
    )
    policy_delay: Number = hyper(2.0, valid=(1, 1e6), help="critic steps between two rounds of policy steps")
    learning_starts: Number = hyper(
        5e3, valid=(0, 1e9), help="environment steps with uniform actions before the first gradient step"
    )

    num_critics: int = static(2, help="the smallest of their Q-values is used")
    hidden: tuple[int, ...] = static((256, 256))
    activation: str = static("relu", choices=("tanh", "relu", "silu", "gelu"))
    torso: str = static("auto", choices=TORSOS, help=TORSO_HELP)
    network: Any = static(None, help="your own torso; hidden, activation and torso then have no effect")

    def bind(self, env: Env) -> "SAC":
        """The agent fitted to an environment. Raises Unsuited unless actions are Discrete or in a bounded Box."""
        check_choices(self)
        check_counts(self, "num_envs", "num_steps", "num_critics", "hidden")
        if isinstance(env.action_space, Discrete):
            refuse_ignored(self, "where actions are discrete", "entropy_ratio")
        elif not isinstance(env.action_space, Box):
            raise Unsuited(f"it needs Discrete actions or a Box with finite bounds, not {env.action_space}.")
        else:
            check_bounded(env.action_space)
            refuse_ignored(self, "where actions are continuous", "discrete_entropy_ratio")
        if np.all(np.asarray(self.temperature) == FIXED):
            ignored = ("alpha_learning_rate", "entropy_ratio", "discrete_entropy_ratio")
            refuse_ignored(self, "with temperature='fixed'", *ignored)
        return self.fitted(env).replace(network=chosen_torso(self, env.observation_space))

    def act(
        self, state: ReplayState | SACPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): when greedy, the squashed mean or the most probable discrete action; otherwise a sample."""
        weights = self.policy_state(state)
        policy = self._policy(weights.actor, Observed(normalized(weights.obs_stats, obs), mask))
        action = policy.mode() if greedy else policy.sample(sample_noise(self.action_space, key, ()))
        return as_action(self.action_space, action), carry

    def value(self, state: ReplayState | SACPolicy, obs: Any) -> Float[Array, "*axes"]:
        """The soft value (expected return plus entropy) of observations, as if all actions were allowed.

        In a Box it is the Q-value of the policy's mode, without the entropy of that action.
        """
        weights = self.policy_state(state)
        observed = Observed(normalized(weights.obs_stats, obs), None)
        if isinstance(self.action_space, Discrete):
            return self._soft_value(weights.actor, weights.critics, self._alpha(weights), observed, None)[0]
        action = self._policy(weights.actor, observed).mode()
        return jnp.min(self._critics(weights.critics, observed.obs, action), axis=0)

    def with_policy(self, state: ReplayState, policy: SACPolicy) -> ReplayState:
        """A new member's state with a policy's actor, critics (online and target), temperature and statistics."""
        learner = state.learner.replace(
            actor=policy.actor, critics=policy.critics, target=policy.critics, log_alpha=policy.log_alpha
        )
        return state.replace(learner=learner, obs_stats=policy.obs_stats)

    def policy_state(self, state: ReplayState | SACPolicy) -> SACPolicy:
        """Weights, temperature and observation statistics; a policy is returned as it is."""
        if isinstance(state, SACPolicy):
            return state
        return SACPolicy(state.learner.actor, state.learner.critics, state.learner.log_alpha, state.obs_stats)

    # The parts of an update, in order.

    def explore(self, learner: Learner, observed: Observed, noise: Array) -> Array:
        """Samples of the policy [E]."""
        return self._policy(learner.actor, observed).sample(noise)

    def learn(
        self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Learner, dict[str, Array]]:
        """One gradient step: the critics, then policy and temperature if they are due, then the target weights."""
        k_critics, k_actor = jax.random.split(key)
        learner, losses = self._learn_critics(learner, batch, sample_weight, k_critics)
        learner = self._learn_policy(learner, batch.observed, sample_weight, k_actor)
        return learner.replace(target=polyak_update(learner.target, learner.critics, self.target_mix)), losses

    def _learn_critics(
        self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Learner, dict[str, Array]]:
        alpha = self._alpha(learner)
        noise = sample_noise(self.action_space, key, sample_weight.shape)
        next_value, entropy = self._soft_value(learner.actor, learner.target, alpha, batch.next_observed, noise)
        target = batch.reward + batch.bootstrap * next_value
        space = self.action_space
        action = to_unit(space, batch.action) if isinstance(space, Box) else batch.action

        def loss(critics):
            return critic_loss(self._critics(critics, batch.observed.obs, action), target, sample_weight)

        gradient, losses = jax.grad(loss, has_aux=True)(learner.critics)
        critics, moments, is_stopped = descend_tree(
            adam(self.adam_eps),
            learner.critics,
            gradient,
            learner.critic_moments,
            self.learning_rate,
            is_stopped=learner.is_stopped,
        )
        losses |= {"entropy": jnp.sum(sample_weight * entropy), "alpha": alpha}
        return learner.replace(critics=critics, critic_moments=moments, is_stopped=is_stopped), losses

    def _learn_policy(
        self, learner: Learner, observed: Observed, sample_weight: Float[Array, "B"], key: Key
    ) -> Learner:
        """`policy_delay` steps of policy and temperature after every `policy_delay` critic steps, otherwise none."""

        def step(i, learner):
            noise = sample_noise(self.action_space, jax.random.fold_in(key, i), sample_weight.shape)
            alpha = self._alpha(learner)

            def loss(actor):
                value, entropy = self._soft_value(actor, learner.critics, alpha, observed, noise)
                return -jnp.sum(sample_weight * value), entropy

            gradient, entropy = jax.grad(loss, has_aux=True)(learner.actor)
            actor, moments, is_stopped = descend_tree(
                adam(self.adam_eps),
                learner.actor,
                gradient,
                learner.actor_moments,
                self.policy_learning_rate,
                is_stopped=learner.is_stopped,
            )
            learner = learner.replace(actor=actor, actor_moments=moments, is_stopped=is_stopped)
            return self._learn_alpha(learner, jnp.sum(sample_weight * (entropy - self._target_entropy(observed))))

        period = jnp.maximum(whole(self.policy_delay), 1)
        steps = jnp.where(learner.critic_moments.count % period == 0, period, 0)
        return jax.lax.fori_loop(0, steps, step, learner)

    def _learn_alpha(self, learner: Learner, excess: Float[Array, ""]) -> Learner:
        # `excess` is entropy minus target entropy. The loss is alpha * excess: too much entropy lowers the temperature.
        gradient = jnp.exp(learner.log_alpha) * excess
        learning_rate = jnp.where(self.temperature == FIXED, 0, self.alpha_learning_rate)
        log_alpha, moments, is_stopped = descend_tree(
            adam(self.adam_eps),
            learner.log_alpha,
            gradient,
            learner.alpha_moments,
            learning_rate,
            is_stopped=learner.is_stopped,
        )
        return learner.replace(log_alpha=log_alpha, alpha_moments=moments, is_stopped=is_stopped)

    def _soft_value(
        self, actor: Weights, critics: Weights, alpha: Float[Array, ""], observed: Observed, noise: Any
    ) -> tuple[Float[Array, "*axes"], Float[Array, "*axes"]]:
        """(soft values, entropies) of states: exact for discrete actions, estimated from one action otherwise."""
        policy = self._policy(actor, observed)
        if isinstance(policy, Categorical):
            entropy = policy.entropy()
            q_values = jnp.min(self._critics.every(critics, observed.obs), axis=0)
            return jnp.sum(jax.nn.softmax(policy.logits) * q_values, axis=-1) + alpha * entropy, entropy
        action, log_prob = policy.sample_with_log_prob(noise)
        return jnp.min(self._critics(critics, observed.obs, action), axis=0) - alpha * log_prob, -log_prob

    # Networks, initial weights and the temperature.

    @property
    def _actor(self) -> PolicyNetwork:
        space = self.action_space
        outputs = space.n if isinstance(space, Discrete) else 2 * space.shape[0]
        return PolicyNetwork(self.network, self.observation_space, outputs)

    @property
    def _critics(self) -> Critics:
        return Critics(self.network, self.observation_space, self.action_space, self.num_critics)

    def init_learner(self, key: Key, obs: Any, action: Array) -> Learner:
        """Initial weights, target weights, temperature and Adam states. `key` is consumed."""
        k_actor, k_critics = jax.random.split(key)
        actor = self._actor.init(k_actor, obs)
        critics = self._critics.init(k_critics, obs, jnp.broadcast_to(action, (self.num_envs, *action.shape)))
        log_alpha = jnp.log(jnp.asarray(self.alpha, jnp.float32))
        return Learner(
            actor=actor,
            critics=critics,
            target=jax.tree.map(jnp.copy, critics),
            log_alpha=log_alpha,
            actor_moments=first_moments(adam(), actor),
            critic_moments=first_moments(adam(), critics),
            alpha_moments=first_moments(adam(), log_alpha),
        )

    def _policy(self, actor: Weights, observed: Observed) -> Categorical | SquashedGaussian:
        out = self._actor(actor, observed.obs)
        if isinstance(self.action_space, Discrete):
            return Categorical(masked(out, observed.mask))
        mean, spread = jnp.split(out, 2, axis=-1)
        low, high = LOG_STD
        return SquashedGaussian(mean, low + (high - low) * (jnp.tanh(spread) + 1) / 2)

    def _alpha(self, weights: Learner | SACPolicy) -> Float[Array, ""]:
        return jnp.where(self.temperature == FIXED, self.alpha, jnp.exp(weights.log_alpha))

    def _target_entropy(self, observed: Observed) -> Float[Array, "..."]:
        """The target entropy in nats of each state; in a Box, of actions rescaled to [-1, 1]."""
        if not isinstance(self.action_space, Discrete):
            return -self.entropy_ratio * self.action_space.shape[0]
        if observed.mask is None:
            return self.discrete_entropy_ratio * jnp.log(float(self.action_space.n))
        return self.discrete_entropy_ratio * jnp.log(jnp.sum(observed.mask, axis=-1, dtype=jnp.float32))
