"""Soft actor-critic, for continuous and for discrete actions.

Source: Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"; for discrete actions Christodoulou 2019.
The defaults are the hyperparameters of CleanRL's `sac_continuous_action.py`, but for the buffer: 100,000 samples, not a
million, so that a population fits in memory. Differences: a time limit bootstraps from the true final observation;
weights begin orthogonal; the temperature learns from the entropy that its policy step has measured.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from shoal.agents.normalization import normalized
from shoal.agents.replay_agent import Observed, ReplayActorCritic, ReplayState, critic_loss
from shoal.core.agent import check_choices, check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.errors import Unsuited
from shoal.core.registry import agent
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Choice, Number, Struct, hyper, static, struct
from shoal.nn.action_value import Critics
from shoal.nn.distributions import Categorical, SquashedGaussian, check_bounded, masked, sample_noise
from shoal.nn.policy_network import PolicyNetwork
from shoal.nn.torso_choice import TORSOS, chosen_torso
from shoal.ops.gradients import adam, descend, polyak_update
from shoal.ops.replay import Transitions
from shoal.ops.running import RunningStats
from shoal.ops.schedules import whole

Weights = Any
TEMPERATURES = ("tuned", "fixed")
FIXED = TEMPERATURES.index("fixed")
LOG_STD = (-5.0, 2.0)  # bounds, which the network's output is squashed into


@struct
class Learner(Struct):
    """What gradient steps change."""

    actor: Weights
    critics: Weights  # leaves lead with the critic
    target: Weights  # of the critics
    log_alpha: Float[Array, ""]
    actor_moments: Any  # Adam's, over the weights as one flat vector
    critic_moments: Any
    alpha_moments: Any


@struct
class SACPolicy(Struct):
    """What acting and valuing need."""

    actor: Weights
    critics: Weights
    log_alpha: Float[Array, ""]
    obs_stats: RunningStats | None = None  # that observations are normalized with


@agent("sac")
@struct
class SAC(ReplayActorCritic):
    """Soft actor-critic: return and entropy, weighed by a temperature that is tuned.

    An update takes `num_steps` steps of `num_envs` environments, stores them, and then makes as many gradient steps as
    are due: `train_iterations` for every `train_frequency` environment steps, from `learning_starts` on; until then
    actions are uniform. Each is a step of the critics; every `policy_delay` of them come as many steps of the policy.

    Actions in a box are a Gaussian pressed through tanh into its bounds, which must be finite. Discrete actions have
    a categorical policy and critics that value all of them, so that expectations are exact. Where no policy has the
    entropy to aim for without ending the episode early, the temperature grows without end: lower
    `discrete_entropy_ratio`, or fix the temperature. CleanRL's 0.89, for Atari, is too high for CartPole's two actions.

    Entropies are in nats. In a box they are those of actions on a scale from -1 to 1, as in Haarnoja et al. and
    Stable-Baselines3, so that results do not depend on the units of actions. In the units of the box they are larger by
    sum(log(half of the width)): where CleanRL aims for -n, `entropy_ratio` is 1 + mean(log(half of the width)).
    """

    learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1), help="of the critics")
    policy_learning_rate: Number = hyper(3e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    alpha_learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    target_mix: Number = hyper(0.005, search=(0.001, 0.1, "log"), valid=(0, 1), help="target's share of each new step")
    temperature: Choice = hyper(0, names=TEMPERATURES)
    alpha: Number = hyper(1.0, search=(0.01, 1.0, "log"), valid=(1e-9, 1e6), help="temperature: at first, or for good")
    entropy_ratio: Number = hyper(
        1.0, valid=(-0.69, 1e3), help="in a box, of minus the number of components to aim for; uniform actions: -log 2"
    )
    discrete_entropy_ratio: Number = hyper(
        0.5, search=(0.1, 0.7), valid=(0, 1), help="of the entropy of uniform choice to aim for"
    )
    policy_delay: Number = hyper(2.0, valid=(1, 1e6), help="critic steps between two visits of the policy")
    learning_starts: Number = hyper(
        5e3, valid=(0, 1e9), help="steps, of uniform actions, before the first gradient step"
    )

    num_critics: int = static(2, help="the least of their values counts")
    hidden: tuple[int, ...] = static((256, 256))
    activation: str = static("relu", choices=("tanh", "relu", "silu", "gelu"))
    torso: str = static("auto", choices=TORSOS, help="auto: as observations need it; impala has layers of its own")
    network: Any = static(None, help="a torso of your own; then hidden, activation and torso mean nothing")

    def bind(self, env: Env) -> "SAC":
        """This agent for this environment. Raises Unsuited for actions neither discrete nor in a bounded box."""
        check_choices(self)
        check_counts(self, "num_envs", "num_steps", "num_critics", "hidden")
        if isinstance(env.action_space, Discrete):
            refuse_ignored(self, "where actions are choices", "entropy_ratio")
        elif not isinstance(env.action_space, Box):
            raise Unsuited(f"it needs Discrete actions or a Box with finite bounds, not {env.action_space}.")
        else:
            check_bounded(env.action_space)
            refuse_ignored(self, "where actions are numbers", "discrete_entropy_ratio")
        if np.all(np.asarray(self.temperature) == FIXED):
            ignored = ("alpha_learning_rate", "entropy_ratio", "discrete_entropy_ratio")
            refuse_ignored(self, "with temperature='fixed'", *ignored)
        return self.fitted(env).replace(network=chosen_torso(self, env.observation_space))

    def act(
        self, state: ReplayState | SACPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """The middle of the policy when greedy (its likeliest choice, for discrete actions), a draw otherwise."""
        known = self.policy_state(state)
        policy = self._policy(known.actor, Observed(normalized(known.obs_stats, obs), mask))
        action = policy.mode() if greedy else policy.sample(sample_noise(self.action_space, key, ()))
        return action.astype(self.action_space.dtype), carry

    def value(self, state: ReplayState | SACPolicy, obs: Any) -> Float[Array, "*axes"]:
        """The soft value, were all actions allowed: return and entropy to come.

        In a box, of the middle of the policy, without the entropy of the next action.
        """
        known = self.policy_state(state)
        seen = Observed(normalized(known.obs_stats, obs), None)
        if isinstance(self.action_space, Discrete):
            return self._soft_value(known.actor, known.critics, self._alpha(known), seen, None)[0]
        action = self._policy(known.actor, seen).mode()
        return jnp.min(self._critics(known.critics, seen.obs, action), axis=0)

    def with_policy(self, state: ReplayState, policy: SACPolicy) -> ReplayState:
        """A fresh member that begins with this actor, critics (targets too), temperature and observation statistics."""
        learner = state.learner.replace(
            actor=policy.actor, critics=policy.critics, target=policy.critics, log_alpha=policy.log_alpha
        )
        return state.replace(learner=learner, obs_stats=policy.obs_stats)

    def policy_state(self, state: ReplayState | SACPolicy) -> SACPolicy:
        """Weights, temperature and observation statistics."""
        if isinstance(state, SACPolicy):
            return state
        return SACPolicy(state.learner.actor, state.learner.critics, state.learner.log_alpha, state.obs_stats)

    # What happens inside an update, in order.

    def explore(self, learner: Learner, observed: Observed, noise: Array) -> Array:
        """Draws of the policy."""
        return self._policy(learner.actor, observed).sample(noise)

    def learn(
        self, learner: Learner, batch: Transitions, share: Float[Array, "B"], key: Key
    ) -> tuple[Learner, dict[str, Array]]:
        """One gradient step: critics, then policy and temperature when it is time, then the target."""
        k_critics, k_actor = jax.random.split(key)
        learner, losses = self._learn_critics(learner, batch, share, k_critics)
        learner = self._learn_policy(learner, batch.seen, share, k_actor)
        return learner.replace(target=polyak_update(learner.target, learner.critics, self.target_mix)), losses

    def _learn_critics(
        self, learner: Learner, batch: Transitions, share: Float[Array, "B"], key: Key
    ) -> tuple[Learner, dict[str, Array]]:
        alpha = self._alpha(learner)
        noise = sample_noise(self.action_space, key, share.shape)
        after, entropy = self._soft_value(learner.actor, learner.target, alpha, batch.next_seen, noise)
        target = batch.reward + batch.bootstrap * after

        def loss(critics):
            return critic_loss(self._critics(critics, batch.seen.obs, batch.action), target, share)

        slope, losses = jax.grad(loss, has_aux=True)(learner.critics)
        critics, moments = descend(learner.critics, slope, learner.critic_moments, self.learning_rate, self.adam_eps)
        losses |= {"entropy": jnp.sum(share * entropy), "alpha": alpha}
        return learner.replace(critics=critics, critic_moments=moments), losses

    def _learn_policy(self, learner: Learner, seen: Observed, share: Float[Array, "B"], key: Key) -> Learner:
        """`policy_delay` steps of policy and temperature when as many steps of the critics have passed, else none."""

        def step(i, learner):
            noise = sample_noise(self.action_space, jax.random.fold_in(key, i), share.shape)
            alpha = self._alpha(learner)

            def loss(actor):
                value, entropy = self._soft_value(actor, learner.critics, alpha, seen, noise)
                return -jnp.sum(share * value), entropy

            slope, entropy = jax.grad(loss, has_aux=True)(learner.actor)
            actor, moments = descend(
                learner.actor, slope, learner.actor_moments, self.policy_learning_rate, self.adam_eps
            )
            learner = learner.replace(actor=actor, actor_moments=moments)
            return self._learn_alpha(learner, jnp.sum(share * (entropy - self._target_entropy(seen))))

        every = jnp.maximum(whole(self.policy_delay), 1)
        times = jnp.where(learner.critic_moments.count % every == 0, every, 0)
        return jax.lax.fori_loop(0, times, step, learner)

    def _learn_alpha(self, learner: Learner, excess: Float[Array, ""]) -> Learner:
        # The loss is alpha * (entropy - its target): more entropy than wanted makes it cheaper.
        slope = jnp.exp(learner.log_alpha) * excess
        rate = jnp.where(self.temperature == FIXED, 0, self.alpha_learning_rate)
        log_alpha, moments = descend(learner.log_alpha, slope, learner.alpha_moments, rate, self.adam_eps)
        return learner.replace(log_alpha=log_alpha, alpha_moments=moments)

    def _soft_value(
        self, actor: Weights, critics: Weights, alpha: Float[Array, ""], seen: Observed, noise: Any
    ) -> tuple[Float[Array, "*axes"], Float[Array, "*axes"]]:
        """(the value of a state with its entropy, the entropy): exact for discrete actions, else of one draw."""
        policy = self._policy(actor, seen)
        if isinstance(policy, Categorical):
            entropy = policy.entropy()
            q_values = jnp.min(self._critics.every(critics, seen.obs), axis=0)
            return jnp.sum(jax.nn.softmax(policy.logits) * q_values, axis=-1) + alpha * entropy, entropy
        action, log_prob = policy.draw(noise)
        return jnp.min(self._critics(critics, seen.obs, action), axis=0) - alpha * log_prob, -log_prob

    # Small parts.

    @property
    def _actor(self) -> PolicyNetwork:
        space = self.action_space
        outputs = space.n if isinstance(space, Discrete) else 2 * space.shape[0]
        return PolicyNetwork(self.network, self.observation_space, outputs)

    @property
    def _critics(self) -> Critics:
        return Critics(self.network, self.observation_space, self.action_space, self.num_critics)

    def fresh_learner(self, key: Key, obs: Any, action: Array) -> Learner:
        k_actor, k_critics = jax.random.split(key)
        actor = self._actor.init(k_actor, obs)
        critics = self._critics.init(k_critics, obs, jnp.broadcast_to(action, (self.num_envs, *action.shape)))
        log_alpha = jnp.log(jnp.asarray(self.alpha, jnp.float32))
        return Learner(
            actor=actor,
            critics=critics,
            target=jax.tree.map(jnp.copy, critics),
            log_alpha=log_alpha,
            actor_moments=adam().init(ravel_pytree(actor)[0]),
            critic_moments=adam().init(ravel_pytree(critics)[0]),
            alpha_moments=adam().init(ravel_pytree(log_alpha)[0]),
        )

    def _policy(self, actor: Weights, seen: Observed) -> Categorical | SquashedGaussian:
        out = self._actor(actor, seen.obs)
        if isinstance(self.action_space, Discrete):
            return Categorical(masked(out, seen.mask))
        mean, spread = jnp.split(out, 2, axis=-1)
        low, high = LOG_STD
        return SquashedGaussian(mean, low + (high - low) * (jnp.tanh(spread) + 1) / 2, self.action_space)

    def _alpha(self, known: Learner | SACPolicy) -> Float[Array, ""]:
        return jnp.where(self.temperature == FIXED, self.alpha, jnp.exp(known.log_alpha))

    def _target_entropy(self, seen: Observed) -> Float[Array, "..."]:
        """Nats to aim for in each state; in a box, of actions on a scale from -1 to 1."""
        if not isinstance(self.action_space, Discrete):
            return -self.entropy_ratio * self.action_space.shape[0]
        if seen.mask is None:
            return self.discrete_entropy_ratio * jnp.log(float(self.action_space.n))
        return self.discrete_entropy_ratio * jnp.log(jnp.sum(seen.mask, axis=-1, dtype=jnp.float32))
