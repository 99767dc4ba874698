"""Twin delayed deep deterministic policy gradients, and DDPG, from which it came.

Source: Fujimoto et al. 2018, "Addressing function approximation error in actor-critic methods"; DDPG: Lillicrap et al.
2016, here with the networks and rates of TD3 (Fujimoto's "our DDPG", but its policy steps are not delayed). The
defaults are the hyperparameters of CleanRL's `td3_continuous_action.py`, but for the buffer: 100,000 samples, not a
million, so that a population fits in memory. Differences: a time limit bootstraps from the true final observation;
weights begin orthogonal.
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
from shoal.core.registry import agent
from shoal.core.struct import Number, Struct, hyper, static, struct
from shoal.nn.action_value import Critics
from shoal.nn.distributions import check_bounded, from_unit, sample_noise, to_unit
from shoal.nn.policy_network import PolicyNetwork
from shoal.nn.torso_choice import TORSOS, chosen_torso
from shoal.ops.gradients import adam, descend, polyak_update
from shoal.ops.replay import Transitions
from shoal.ops.running import RunningStats
from shoal.ops.schedules import whole

Weights = Any


@struct
class Networks(Struct):
    """A policy and its critics."""

    actor: Weights
    critics: Weights  # leaves lead with the critic


@struct
class Learner(Struct):
    """What gradient steps change."""

    weights: Networks
    target: Networks
    actor_moments: Any  # Adam's, over the weights as one flat vector
    critic_moments: Any


@struct
class TD3Policy(Struct):
    """What acting and valuing need."""

    actor: Weights
    critics: Weights
    obs_stats: RunningStats | None = None  # that observations are normalized with


@agent("td3")
@agent("ddpg", num_critics=1, target_noise=0.0, policy_delay=1.0)
@struct
class TD3(ReplayActorCritic):
    """A deterministic policy that climbs its critics, for actions in a box with finite bounds.

    An update takes `num_steps` steps of `num_envs` environments, stores them, and then makes as many gradient steps as
    are due: `train_iterations` for every `train_frequency` environment steps, from `learning_starts` on; until then
    actions are uniform. Each is a step of the critics; every `policy_delay`-th comes with one of the policy and of all
    target weights. All noise is in units of half the width of the box.
    """

    learning_rate: Number = hyper(3e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1), help="of the critics")
    policy_learning_rate: Number = hyper(3e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    target_mix: Number = hyper(0.005, search=(0.001, 0.1, "log"), valid=(0, 1), help="target's share of each new step")
    policy_delay: Number = hyper(2.0, valid=(1, 1e6), help="critic steps for each step of the policy")
    exploration_noise: Number = hyper(
        0.1, search=(0.01, 1.0, "log"), valid=(0, 1e3), help="deviation, added to actions"
    )
    target_noise: Number = hyper(0.2, search=(0.01, 1.0, "log"), valid=(0, 1e3), help="deviation, in targets")
    target_clip: Number = hyper(0.5, valid=(0, 1e3), help="largest noise in targets")
    learning_starts: Number = hyper(
        25e3, valid=(0, 1e9), help="steps, of uniform actions, before the first gradient step"
    )

    num_critics: int = static(2, help="the least of their values counts in targets; the policy climbs the first")
    hidden: tuple[int, ...] = static((256, 256))
    activation: str = static("relu", choices=("tanh", "relu", "silu", "gelu"))
    torso: str = static("auto", choices=TORSOS, help="auto: as observations need it; impala has layers of its own")
    network: Any = static(None, help="a torso of your own; then hidden, activation and torso mean nothing")

    def bind(self, env: Env) -> "TD3":
        """This agent for this environment. Raises Unsuited for actions that are not in a bounded box."""
        check_choices(self)
        check_counts(self, "num_envs", "num_steps", "num_critics", "hidden")
        check_bounded(env.action_space)
        if not np.any(np.asarray(self.target_noise)):
            refuse_ignored(self, "without target_noise", "target_clip")
        return self.fitted(env).replace(network=chosen_torso(self, env.observation_space))

    def act(
        self, state: ReplayState | TD3Policy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """The policy's action; with the noise of exploration unless greedy."""
        del mask
        known = self.policy_state(state)
        obs = normalized(known.obs_stats, obs)
        if greedy:
            return self._choose(known.actor, obs), carry
        return self._explore(known.actor, obs, sample_noise(self.action_space, key, ())), carry

    def value(self, state: ReplayState | TD3Policy, obs: Any) -> Float[Array, "*axes"]:
        """What the critics agree that the policy's action is worth."""
        known = self.policy_state(state)
        obs = normalized(known.obs_stats, obs)
        return jnp.min(self._critics(known.critics, obs, self._choose(known.actor, obs)), axis=0)

    def with_policy(self, state: ReplayState, policy: TD3Policy) -> ReplayState:
        """A fresh member that begins with these networks, also as targets, and observation statistics."""
        weights = Networks(policy.actor, policy.critics)
        return state.replace(learner=state.learner.replace(weights=weights, target=weights), obs_stats=policy.obs_stats)

    def policy_state(self, state: ReplayState | TD3Policy) -> TD3Policy:
        """Weights and observation statistics."""
        if isinstance(state, TD3Policy):
            return state
        return TD3Policy(state.learner.weights.actor, state.learner.weights.critics, state.obs_stats)

    # What happens inside an update, in order.

    def explore(self, learner: Learner, observed: Observed, noise: Array) -> Array:
        """The policy's actions with the noise of exploration."""
        return self._explore(learner.weights.actor, observed.obs, noise)

    def learn(
        self, learner: Learner, batch: Transitions, share: Float[Array, "B"], key: Key
    ) -> tuple[Learner, dict[str, Array]]:
        """One gradient step: critics, then policy and targets when it is time."""
        learner, losses = self._learn_critics(learner, batch, share, key)
        return self._learn_policy(learner, batch.seen, share), losses

    def _learn_critics(
        self, learner: Learner, batch: Transitions, share: Float[Array, "B"], key: Key
    ) -> tuple[Learner, dict[str, Array]]:
        noise = sample_noise(self.action_space, key, share.shape)
        target = batch.reward + batch.bootstrap * self._after(learner.target, batch.next_seen, noise)

        def loss(critics):
            return critic_loss(self._critics(critics, batch.seen.obs, batch.action), target, share)

        old = learner.weights
        slope, losses = jax.grad(loss, has_aux=True)(old.critics)
        critics, moments = descend(old.critics, slope, learner.critic_moments, self.learning_rate, self.adam_eps)
        return learner.replace(weights=old.replace(critics=critics), critic_moments=moments), losses

    def _after(self, target: Networks, seen: Observed, noise: Float[Array, "B n"]) -> Float[Array, "B"]:
        """What the target critics agree that actions near the target policy's are worth."""
        smoothing = jnp.clip(self.target_noise * noise, -self.target_clip, self.target_clip)
        action = self._nudge(self._choose(target.actor, seen.obs), smoothing)
        return jnp.min(self._critics(target.critics, seen.obs, action), axis=0)

    def _learn_policy(self, learner: Learner, seen: Observed, share: Float[Array, "B"]) -> Learner:
        """A step of the policy and of all targets when it is time, else none."""

        def step(_, learner):
            old = learner.weights
            first = jax.tree.map(lambda x: x[:1], old.critics)

            def loss(actor):
                return -jnp.sum(share * self._critics(first, seen.obs, self._choose(actor, seen.obs))[0])

            slope = jax.grad(loss)(old.actor)
            actor, moments = descend(old.actor, slope, learner.actor_moments, self.policy_learning_rate, self.adam_eps)
            new = old.replace(actor=actor)
            return Learner(new, polyak_update(learner.target, new, self.target_mix), moments, learner.critic_moments)

        every = jnp.maximum(whole(self.policy_delay), 1)
        is_time = learner.critic_moments.count % every == 0
        return jax.lax.fori_loop(0, is_time.astype(jnp.int32), step, learner)

    # Small parts.

    @property
    def _actor(self) -> PolicyNetwork:
        return PolicyNetwork(self.network, self.observation_space, self.action_space.shape[0])

    @property
    def _critics(self) -> Critics:
        return Critics(self.network, self.observation_space, self.action_space, self.num_critics)

    def fresh_learner(self, key: Key, obs: Any, action: Array) -> Learner:
        k_actor, k_critics = jax.random.split(key)
        actor = self._actor.init(k_actor, obs)
        critics = self._critics.init(k_critics, obs, jnp.broadcast_to(action, (self.num_envs, *action.shape)))
        weights = Networks(actor, critics)
        return Learner(
            weights=weights,
            target=jax.tree.map(jnp.copy, weights),
            actor_moments=adam().init(ravel_pytree(actor)[0]),
            critic_moments=adam().init(ravel_pytree(critics)[0]),
        )

    def _choose(self, actor: Weights, obs: Any) -> Float[Array, "*axes n"]:
        return from_unit(self.action_space, jnp.tanh(self._actor(actor, obs)))

    def _explore(self, actor: Weights, obs: Any, noise: Float[Array, "*axes n"]) -> Float[Array, "*axes n"]:
        return self._nudge(self._choose(actor, obs), self.exploration_noise * noise)

    def _nudge(self, action: Float[Array, "*axes n"], by: Float[Array, "*axes n"]) -> Float[Array, "*axes n"]:
        # `by` is in units of half the width of the box, whose bounds `from_unit` keeps.
        return from_unit(self.action_space, to_unit(self.action_space, action) + by)
