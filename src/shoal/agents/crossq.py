"""CrossQ: soft actor-critic with batch renormalization instead of target networks.

Source: Bhatt et al. 2024, "CrossQ: Batch normalization in deep reinforcement learning for greater sample efficiency
and simplicity"; the defaults are those of its table of hyperparameters, except where the class says otherwise.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.agents.replay_agent import Observed, critic_loss
from shoal.agents.soft_actor_critic import Learner, LossAux, Policy, SoftActorCritic, Weights
from shoal.core.agent import check_counts, refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.registry import agent
from shoal.core.spaces import to_unit
from shoal.core.struct import Number, hyper, static, struct
from shoal.nn.batch_renorm import Limits
from shoal.nn.distributions import check_bounded, sample_noise
from shoal.nn.memory.fields import memory_of
from shoal.nn.renormed_network import RenormedCritics, RenormedNetwork, is_plain
from shoal.ops.gradients import Optimizer, adam
from shoal.ops.replay import Transitions


@agent("crossq")
@struct
class CrossQ(SoftActorCritic):
    """CrossQ: SAC without target networks, for actions in a Box; batch-renormalized critics learn in fewer steps.

    A gradient step computes the Q-values of the samples and of their successors in one pass through the critics, so
    that both are normalized by the same batch. After every `policy_delay` of these steps, `policy_steps` of the policy
    and the temperature follow. The policy and the critics act with moving averages of the batch statistics
    (`nn/batch_renorm.py`); for the first `renorm_after` gradient steps of a network, it is normalized by the batch
    alone while it learns. The rest is as in SAC. With a `memory`, only its outputs and what follows are normalized.

    Differences from the paper: `critic_hidden` is `hidden` if it is not given, because the paper's (2048, 2048) takes
    100 MB for each member of a population; the buffer holds 100,000 samples, for the same reason; averages are kept of
    standard deviations, as in Ioffe 2017, where the authors' code keeps those of variances; initial weights are
    orthogonal; `adam_beta` is also that of the temperature, which has Adam's default in the authors' code. In images,
    the convolutions are not normalized (`nn/renormed_network.py`): the paper has none.
    """

    policy_learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    policy_delay: Number = hyper(3.0, valid=(1, 1e6), help="critic steps between two rounds of policy steps")
    policy_steps: Number = hyper(1.0, valid=(0, 1e6), help="policy steps of a round; 0: as many as critic steps")
    adam_beta: Number = hyper(0.5, search=(0.0, 0.95), valid=(0, 0.9999), help="decay of Adam's mean gradient")
    renorm_after: Number = hyper(1e5, valid=(0, 1e9), help="gradient steps with plain batch normalization")
    renorm_scale: Number = hyper(3.0, valid=(1, 1e6), help="then the batch's scale may be corrected by this factor")
    renorm_shift: Number = hyper(5.0, valid=(0, 1e6), help="and its mean by so many standard deviations")

    num_critics: int = static(2, help="the smallest of their Q-values is used")
    critic_hidden: tuple[int, ...] = static((), help="layers of the critics; (): as hidden")

    def bind(self, env: Env) -> "CrossQ":
        """The agent fitted to an environment. Raises Unsuited if actions are not in a Box with finite bounds."""
        check_bounded(env.action_space)
        check_counts(self, "critic_hidden")
        fitted = self.fitted_to(env)
        if self.memory != "none":
            refuse_ignored(self, f"with memory={self.memory!r}, after which layers have memory_size", "critic_hidden")
        elif not is_plain(fitted.network):
            refuse_ignored(self, "if the torso is not a plain MLP", "critic_hidden")
        return fitted

    def combined(self, outputs: Float[Array, "K *axes"]) -> Float[Array, "*axes"]:
        """The smallest Q-values."""
        return jnp.min(outputs, axis=0)

    def critics_loss(
        self, critics: Weights, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Float[Array, ""], LossAux]:
        """The squared error, from targets by the same critics in the same pass."""
        alpha, noise = self._alpha(learner), sample_noise(self.action_space, key, sample_weight.shape)
        policy = self._policy(learner.actor, self.policy_batch(learner.actor, batch).next_observed)
        next_action, log_prob = policy.sample_with_log_prob(noise)  # type: ignore[union-attr]  # of actions in a Box
        seen, axis = self.critics_batch(critics, batch), 0 if batch.history is None else 1
        seen = jax.tree.map(partial(_joined, axis=axis), seen.observed.obs, seen.next_observed.obs)
        action = _joined(to_unit(self.action_space, batch.action), next_action)
        limits = self._limits(learner.critic_moments.count)
        weight = _joined(sample_weight, sample_weight) / 2
        q_values, averages = self._critics.train(critics, seen, action, weight, limits)
        q_values, next_q_values = jnp.split(q_values, 2, axis=1)
        next_value = jax.lax.stop_gradient(self.combined(next_q_values)) - alpha * log_prob
        share = self.share_of(sample_weight)
        loss, (losses, error) = critic_loss(q_values, batch.reward + batch.bootstrap * next_value, sample_weight, share)
        return loss, (losses | {"entropy": -jnp.sum(share * log_prob), "alpha": alpha}, averages, error)

    def policy_in_training(
        self, learner: Learner, actor: Weights, observed: Observed, sample_weight: Float[Array, "B"]
    ) -> tuple[Policy, Weights]:
        """(the policy normalized by the batch, the moving averages after it)."""
        limits = self._limits(learner.actor_moments.count)
        outputs, averages = self._actor.train(actor, observed.obs, None, sample_weight, limits)
        return self._policy_of(outputs, observed), averages

    def first_target(self, critics: Weights) -> None:
        """None: there are no target networks."""

    def updated_target(self, learner: Learner) -> None:
        """None: there are no target networks."""

    def _limits(self, steps: Int[Array, ""]) -> Limits:
        is_renormed = steps.astype(jnp.float32) >= self.renorm_after
        return Limits(jnp.where(is_renormed, self.renorm_scale, 1), jnp.where(is_renormed, self.renorm_shift, 0))

    @property
    def _adam(self) -> Optimizer:
        return adam(self.adam_eps, self.adam_beta)

    @property
    def _actor(self) -> RenormedNetwork:
        return RenormedNetwork(self.network, self.observation_space, self.policy_outputs, 0.01, memory_of(self))

    @property
    def _critics(self) -> RenormedCritics:
        torso = self.network.clone(hidden=self.critic_hidden) if self.critic_hidden else self.network
        return RenormedCritics(
            RenormedNetwork(torso, self.observation_space, 1, memory=memory_of(self)), self.num_critics
        )


def _joined(first: Array, second: Array, axis: int = 0) -> Array:
    return jnp.concatenate([first, second], axis=axis)
