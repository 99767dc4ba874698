"""Truncated quantile critics (TQC): soft actor-critic with distributions of returns, without their largest quantiles.

Source: Kuznetsov et al. 2020, "Controlling overestimation bias with truncated mixture of continuous distributional
quantile critics".
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.agents.soft_actor_critic import Learner, LossAux, SoftActorCritic, Weights
from shoal.core.agent import check_counts
from shoal.core.env import Env, Key
from shoal.core.registry import agent
from shoal.core.spaces import to_unit
from shoal.core.struct import Number, hyper, static, struct
from shoal.nn.action_value import Critics
from shoal.nn.distributions import check_bounded, sample_noise
from shoal.nn.memory.fields import memory_of
from shoal.ops.distributional import quantile_huber
from shoal.ops.gradients import polyak_update
from shoal.ops.replay import Transitions
from shoal.ops.schedules import whole


@agent("tqc")
@struct
class TQC(SoftActorCritic):
    """Truncated quantile critics: SAC whose critics predict quantiles, and whose targets leave out the largest.

    Each of `num_critics` critics predicts `quantiles` quantiles of the return. The target joins those of all critics
    and drops the `num_critics` x `dropped` largest, which prevents overestimation; the policy maximizes the mean of
    all quantiles. Actions lie in a Box with finite bounds. Updates, temperature, entropies and `memory` are those of
    SAC.

    Differences from the paper: the loss is summed over the critics and averaged over quantiles, where the authors' code
    averages over both, which Adam does not notice; the networks have two layers, not three of 512 units, so that a
    population fits in memory; what SAC has here: `policy_delay`, its learning rates (1e-3 for critics and temperature,
    3e-4 in the paper), and a buffer of 100,000 samples.
    """

    target_mix: Number = hyper(
        0.005, search=(0.001, 0.1, "log"), valid=(0, 1), help="weight of the online weights in each target update"
    )
    dropped: Number = hyper(
        2.0, search=(0, 5), valid=(0, 1e4), help="quantiles of each critic that targets leave out: more if too large"
    )

    num_critics: int = static(5, help="their quantiles are joined")
    quantiles: int = static(25, help="quantiles that each critic predicts")

    def bind(self, env: Env) -> "TQC":
        """The agent fitted to an environment.

        Raises Unsuited if actions are not in a Box with finite bounds, and ValueError if no quantile is left.
        """
        check_bounded(env.action_space)
        check_counts(self, "quantiles")
        if np.any(np.round(np.asarray(self.dropped)) >= self.quantiles):
            raise ValueError(
                f"dropped={np.max(np.asarray(self.dropped)):g} leaves none of quantiles={self.quantiles}: it must be "
                f"at most {self.quantiles - 1}."
            )
        return self.fitted_to(env)

    def combined(self, outputs: Float[Array, "K *axes Z"]) -> Float[Array, "*axes"]:
        """The mean of all quantiles of all critics."""
        return jnp.mean(outputs, axis=(0, -1))

    def critics_loss(
        self, critics: Weights, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Float[Array, ""], LossAux]:
        """The quantile Huber loss, from targets by the target weights."""
        alpha, noise = self._alpha(learner), sample_noise(self.action_space, key, sample_weight.shape)
        policy = self._policy(learner.actor, self.policy_batch(learner.actor, batch).next_observed)
        next_action, log_prob = policy.sample_with_log_prob(noise)  # type: ignore[union-attr]  # of actions in a Box
        of_target = self.critics_batch(learner.target, batch).next_observed
        next_quantiles, kept = self._truncated(self._critics(learner.target, of_target.obs, next_action))
        soft = next_quantiles - alpha * log_prob[:, None]
        target = batch.reward[:, None] + batch.bootstrap[:, None] * soft
        of_critics = self.critics_batch(critics, batch).observed
        quantiles = self._critics(critics, of_critics.obs, to_unit(self.action_space, batch.action))
        by_critic = jax.vmap(lambda q: quantile_huber(q, target, 1.0, target_weight=kept))(quantiles) / self.quantiles
        q_value, target_value = self.combined(quantiles), jnp.sum(kept[None] * target, axis=1)
        losses = {
            "loss": jnp.sum(by_critic, axis=0),
            "td_error": jnp.abs(q_value - target_value),
            "q_value": q_value,
            "entropy": -log_prob,
        }
        loss, share = jnp.sum(sample_weight * losses["loss"]), self.share_of(sample_weight)
        reported = {name: jnp.sum(share * x) for name, x in losses.items()} | {"loss": loss, "alpha": alpha}
        return loss, (reported, {}, losses["loss"])

    def _truncated(self, quantiles: Float[Array, "K B Z"]) -> tuple[Float[Array, "B KZ"], Float[Array, "KZ"]]:
        """(the quantiles of all critics in order, the weight of each in a mean: 0 for the largest)."""
        joined = jnp.moveaxis(quantiles, 0, 1).reshape(quantiles.shape[1], -1)
        count = self.num_critics * (self.quantiles - whole(self.dropped))
        kept = jnp.arange(joined.shape[1], dtype=jnp.int32) < count
        return jnp.sort(joined, axis=1), jnp.where(kept, 1 / count, 0)

    def updated_target(self, learner: Learner) -> Weights:
        """The target weights, moved towards the weights by `target_mix`."""
        return polyak_update(learner.target, learner.critics, self.target_mix)

    @property
    def _critics(self) -> Critics:
        sizes = self.num_critics, self.quantiles
        return Critics(self.network, self.observation_space, self.action_space, *sizes, memory_of(self))
