"""FastTD3: TD3 for many environments at once, with large minibatches and critics that predict distributions.

Source: Seo et al. 2025, "FastTD3: Simple, fast, and capable reinforcement learning for humanoid control", and its code
(github.com/younggyoseo/FastTD3). The defaults are those of the code for HumanoidBench, except where the class says
otherwise.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.agents.replay_agent import Losses, Observed
from shoal.agents.td3 import TD3, Learner, Networks, Weights
from shoal.core.env import Env, Key
from shoal.core.registry import agent
from shoal.core.spaces import to_unit
from shoal.core.struct import Number, hyper, static, struct
from shoal.nn.action_value import Critics
from shoal.nn.distributions import sample_noise
from shoal.nn.memory.fields import memory_of
from shoal.ops.distributional import categorical_mean, check_support, cross_entropy, project, support
from shoal.ops.gradients import polyak_update
from shoal.ops.replay import Transitions


@agent("fasttd3")
@struct
class FastTD3(TD3):
    """FastTD3: TD3 with many environments, few gradient steps on large minibatches, and distributional critics.

    Each step of all `num_envs` environments is followed by two gradient steps (`train_iterations` for every
    `train_frequency` environment steps). Critics predict the probabilities of `atoms` returns from `v_min` to `v_max`,
    which must contain the returns that occur (C51, Bellemare et al. 2017); the target is the distribution of the critic
    whose mean is smaller, and the policy maximizes the smaller mean. Targets use the present policy, and every gradient
    step moves the target weights of the critics. The exploration noise differs between environments, from
    `exploration_noise` to `least_noise`: some environments show what else there is, others what the policy does.
    Actions that are sampled after the training have the largest noise.

    Differences from the authors' code: policy and critics have the same `hidden`, where the code gives critics twice as
    many units; the noise of an environment stays the same, one of `num_envs` evenly spaced values, where the code draws
    it anew for each episode; weights do not decay (0.1 in the code); observations, which the code normalizes,
    are normalized with `normalize_observation=True`; the buffer holds a million samples, not 6.5 million; all
    arithmetic is in float32.
    """

    batch_size: Number = hyper(32768.0, search=(1024, 32768, "log"), valid=(1, 1e6), cap="max_batch_size")
    buffer_size: Number = hyper(1e6, search=(1e5, 1e7, "log"), valid=(1, 1e9), cap="max_buffer_size")
    train_frequency: Number = hyper(
        128.0, search=(64, 1024, "log"), valid=(1, 1e9), help="environment steps per train_iterations gradient steps"
    )
    train_iterations: Number = hyper(
        2.0, search=(1, 8), valid=(1, 1e4), help="gradient steps per train_frequency environment steps"
    )
    learning_starts: Number = hyper(
        1280.0, valid=(0, 1e9), help="environment steps with uniform actions before the first gradient step"
    )
    target_mix: Number = hyper(
        0.1, search=(0.001, 0.2, "log"), valid=(0, 1), help="weight of the online weights in each target update"
    )
    exploration_noise: Number = hyper(
        0.4, search=(0.05, 1.0, "log"), valid=(0, 1e3), help="the largest standard deviation of the noise of actions"
    )
    least_noise: Number = hyper(0.001, valid=(0, 1e3), help="the smallest standard deviation of the noise of actions")
    target_noise: Number = hyper(
        0.001, search=(0.001, 1.0, "log"), valid=(0, 1e3), help="standard deviation of the noise of target actions"
    )
    v_min: Number = hyper(-250.0, search=(-500, -1), valid=(-1e9, 1e9), help="the smallest return of the support")
    v_max: Number = hyper(250.0, search=(1, 500), valid=(-1e9, 1e9), help="the largest return of the support")

    num_envs: int = static(128)
    num_steps: int = static(1, help="steps of each environment in one update")
    atoms: int = static(101, help="returns whose probabilities a critic predicts")
    hidden: tuple[int, ...] = static((512, 256, 128))

    def bind(self, env: Env) -> "FastTD3":
        """The agent fitted to an environment.

        Raises Unsuited if actions are not in a Box with finite bounds, and ValueError for a support that is empty.
        """
        check_support(self.v_min, self.v_max, self.atoms)
        return super().bind(env)

    def explore(self, learner: Learner, observed: Observed, noise: Array) -> Array:
        """The policy's actions [E], with more noise in the first environments than in the last."""
        share = jnp.linspace(1, 0, noise.shape[0]).reshape((-1,) + (1,) * (noise.ndim - 1))
        deviation = self.least_noise + share * (self.exploration_noise - self.least_noise)
        greedy = self._greedy_action(learner.weights.actor, observed.obs)
        return jnp.clip(greedy + deviation * noise, -1, 1)

    def learn(
        self, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Learner, Losses, Float[Array, "B"]]:
        """One gradient step: the critics, then the policy if it is due, then the target weights."""
        learner, losses, error = TD3.learn(self, learner, batch, sample_weight, key)
        critics = polyak_update(learner.target.critics, learner.weights.critics, self.target_mix)
        return learner.replace(target=Networks(learner.weights.actor, critics)), losses, error

    def q_values(self, outputs: Float[Array, "K *axes Z"]) -> Float[Array, "K *axes"]:
        """The mean returns."""
        return categorical_mean(outputs, self._support)

    def critics_loss(
        self, critics: Weights, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Float[Array, ""], tuple[Losses, Float[Array, "B"]]]:
        """The cross-entropy between each critic and the target distribution, summed over the critics."""
        noise = jnp.clip(
            self.target_noise * sample_noise(self.action_space, key, sample_weight.shape),
            -self.target_clip,
            self.target_clip,
        )
        actor = learner.weights.actor
        action = jnp.clip(self._greedy_action(actor, self.policy_batch(actor, batch).next_observed.obs) + noise, -1, 1)
        of_target = self.critics_batch(learner.target.critics, batch).next_observed
        probability = jax.nn.softmax(self._critics(learner.target.critics, of_target.obs, action))
        projected = jax.vmap(lambda p: project(self._support, p, batch.reward, batch.bootstrap))(probability)
        target_value = projected @ self._support  # [K, B]
        smallest = jnp.argmin(target_value, axis=0)[None, :, None]
        target = jnp.take_along_axis(projected, smallest, axis=0)[0]

        of_critics = self.critics_batch(critics, batch).observed
        logits = self._critics(critics, of_critics.obs, to_unit(self.action_space, batch.action))
        of_samples = jnp.sum(jax.vmap(cross_entropy, in_axes=(0, None))(logits, target), axis=0)
        share, q_values = self.share_of(sample_weight), self.q_values(logits)
        losses = {
            "loss": jnp.sum(sample_weight * of_samples),
            "td_error": jnp.sum(share * jnp.mean(jnp.abs(q_values - jnp.min(target_value, axis=0)[None]), axis=0)),
            "q_value": jnp.sum(share * jnp.mean(q_values, axis=0)),
        }
        return losses["loss"], (losses, of_samples)

    def policy_value(self, learner: Learner, action: Array, batch: Transitions) -> Float[Array, "B"]:
        """What the policy maximizes: the smallest of the critics' means."""
        critics = learner.weights.critics
        of_critics = self.critics_batch(critics, batch).observed
        return jnp.min(self.q_values(self._critics(critics, of_critics.obs, action)), axis=0)

    def target_with_policy(self, target: Networks, new: Networks) -> Networks:
        """The same target weights: `learn` moves them in every gradient step."""
        del new
        return target

    @property
    def _support(self) -> Float[Array, "Z"]:
        return support(self.v_min, self.v_max, self.atoms)

    @property
    def _critics(self) -> Critics:
        sizes = self.num_critics, self.atoms
        return Critics(self.network, self.observation_space, self.action_space, *sizes, memory_of(self))
