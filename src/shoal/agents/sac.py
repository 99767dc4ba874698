"""Soft actor-critic, for continuous and for discrete actions.

Source: Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"; for discrete actions Christodoulou 2019.
The defaults are the hyperparameters of CleanRL's `sac_continuous_action.py`, except that the buffer holds 100,000
samples instead of a million, so that a population fits in memory. Differences: truncation by a time limit bootstraps
from the true final observation; initial weights are orthogonal; the temperature step uses the entropy that was measured
in the policy step before it.
"""

from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from shoal.agents.replay_agent import Observed, critic_loss
from shoal.agents.soft_actor_critic import FIXED, Learner, LossAux, SoftActorCritic, Weights
from shoal.core.agent import refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.errors import Unsuited
from shoal.core.registry import agent
from shoal.core.spaces import Box, Discrete, to_unit
from shoal.core.struct import Number, hyper, static, struct
from shoal.nn.action_value import Critics
from shoal.nn.distributions import sample_noise
from shoal.nn.memory.fields import memory_of
from shoal.ops.gradients import polyak_update
from shoal.ops.replay import Transitions

Fitted = TypeVar("Fitted", bound="SAC")


@agent("sac")
@agent(
    "redq",
    num_critics=10,
    subset=2,
    train_iterations=20.0,
    policy_delay=20.0,
    policy_steps=1.0,
    learning_rate=3e-4,
    about="Randomized ensembled double Q-learning: SAC with ten critics and 20 gradient steps per environment step.",
)
@struct
class SAC(SoftActorCritic):
    """Soft actor-critic: maximizes the return plus the policy's entropy times a temperature, which is tuned.

    An update takes `num_steps` steps of `num_envs` environments and stores them. Then it makes the gradient steps that
    are due: `train_iterations` for every `train_frequency` environment steps, from `learning_starts` on; until then
    actions are uniform. A gradient step changes the critics; after every `policy_delay` of them, `policy_steps` steps
    of the policy and the temperature follow (0: as many).

    In a Box, which must have finite bounds, the policy is a Gaussian squashed by tanh into the bounds. For Discrete
    actions the policy is categorical and the critics compute the Q-values of all actions, so that expectations are
    exact. If no policy reaches the target entropy without ending the episode early, the temperature grows without
    bound: lower `discrete_entropy_ratio`, or use `temperature="fixed"`. CleanRL's ratio of 0.89, for Atari, is too high
    for the two actions of CartPole.

    With `subset`, targets take the smallest Q-value of so many critics, which are drawn anew in each gradient step, and
    the policy maximizes the mean of all (REDQ, Chen et al. 2021, "Randomized ensembled double Q-learning"). Other than
    in the paper, the temperature of `redq` keeps the learning rate that it has in `sac`.

    `memory` adds a network with `memory_size` units after the torso, so that actions and Q-values can depend on earlier
    observations of the episode (see `nn/memory/`). The policy and every critic have a memory of their own: in one that
    they share, the gradients of two losses of different sizes meet, which learns worse (Ni et al. 2022, "Recurrent
    model-free RL can be a strong baseline for many POMDPs"). A critic reads the action behind its memory, in one more
    layer of as many relu units. A sample is a sequence, as in `dqn` with a memory (R2D2, Kapturowski et al. 2019):
    every network first reads `burn_in` steps, from the carry on that was stored where the sequence begins and without
    gradients, then the losses are means over `sequence_length` steps. The policy's carries are stored while it acts;
    those of the critics, of which acting needs none, are computed after the rollout in one pass. Target networks begin
    with the carries of the critics. `batch_size` counts sequences, `buffer_size` steps, and `num_steps` must divide
    `sequence_length`. Differences from Ni et al.: they have one memory for both critics, begin with carries of zeros,
    and their networks read the last action and reward too.

    Entropies are in nats. In a Box they are those of actions rescaled to [-1, 1], as in Haarnoja et al. and
    Stable-Baselines3, so that results do not depend on the units of actions. In the units of the Box they are larger by
    sum(log(half of the width)). CleanRL's target entropy of -n corresponds to an `entropy_ratio` of
    1 + mean(log(half of the width)).
    """

    target_mix: Number = hyper(
        0.005, search=(0.001, 0.1, "log"), valid=(0, 1), help="weight of the online weights in each target update"
    )
    discrete_entropy_ratio: Number = hyper(
        0.5, search=(0.1, 0.7), valid=(0, 1), help="Discrete: target entropy as a fraction of the uniform policy's"
    )
    num_critics: int = static(2, help="without subset, the smallest of their Q-values is used")
    subset: int = static(0, help="random critics of which targets use the smallest Q-value; 0: all, as the policy does")

    def bind(self: Fitted, env: Env) -> Fitted:
        """The agent fitted to an environment. Raises Unsuited unless actions are Discrete or in a bounded Box."""
        if not isinstance(env.action_space, (Box, Discrete)):
            raise Unsuited(f"it needs Discrete actions or a Box with finite bounds, not {env.action_space}.")
        fitted = self.fitted_to(env)
        if not 0 <= self.subset <= self.num_critics:
            raise ValueError(f"subset={self.subset} must be from 0 to num_critics={self.num_critics}.")
        if isinstance(env.action_space, Discrete):
            refuse_ignored(self, "where actions are discrete", "entropy_ratio")
        else:
            refuse_ignored(self, "where actions are continuous", "discrete_entropy_ratio")
        if np.all(np.asarray(self.temperature) == FIXED):
            refuse_ignored(self, "with temperature='fixed'", "discrete_entropy_ratio")
        return fitted

    def combined(self, outputs: Float[Array, "K *axes"]) -> Float[Array, "*axes"]:
        """The smallest Q-values; with a random subset in the targets, their means."""
        return jnp.mean(outputs, axis=0) if self.subset else jnp.min(outputs, axis=0)

    def critics_loss(
        self, critics: Weights, learner: Learner, batch: Transitions, sample_weight: Float[Array, "B"], key: Key
    ) -> tuple[Float[Array, ""], LossAux]:
        """The squared error, from targets by the target weights."""
        target_critics, chosen, in_training = learner.target, slice(None), self.critics_in_training
        if self.subset:
            key, k_subset = jax.random.split(key)
            chosen = jax.random.choice(k_subset, self.num_critics, (self.subset,), replace=False)
            target_critics = jax.tree.map(lambda x: x[chosen], target_critics)
        k_noise, k_target, k_critics = self.loss_keys(key)
        alpha, noise = self._alpha(learner), sample_noise(self.action_space, k_noise, sample_weight.shape)
        policy = self._policy(learner.actor, self.policy_batch(learner.actor, batch).next_observed)
        of_target = self.critics_batch(target_critics, batch, chosen).next_observed
        smallest = partial(jnp.min, axis=0)
        network = in_training(k_target)
        next_value, entropy = self.soft_value(policy, target_critics, alpha, of_target, noise, smallest, network)
        target = batch.reward + batch.bootstrap * next_value
        space = self.action_space
        action = to_unit(space, batch.action) if isinstance(space, Box) else batch.action
        of_critics = self.critics_batch(critics, batch).observed
        q_values = in_training(k_critics)(critics, of_critics.obs, action)
        share = self.share_of(sample_weight)
        loss, (losses, error) = critic_loss(q_values, target, sample_weight, share)
        return loss, (losses | {"entropy": jnp.sum(share * entropy), "alpha": alpha}, {}, error)

    def updated_target(self, learner: Learner) -> Weights:
        """The target weights, moved towards the weights by `target_mix`."""
        return polyak_update(learner.target, learner.critics, self.target_mix)

    @property
    def _critics(self) -> Critics:
        space = self.observation_space
        return Critics(self.network, space, self.action_space, self.num_critics, memory=memory_of(self))

    def _target_entropy(self, observed: Observed) -> Float[Array, "..."]:
        """The target entropy in nats of each state; in a Box, of actions rescaled to [-1, 1]."""
        if not isinstance(self.action_space, Discrete):
            return SoftActorCritic._target_entropy(self, observed)
        if observed.mask is None:
            return self.discrete_entropy_ratio * jnp.log(float(self.action_space.n))
        return self.discrete_entropy_ratio * jnp.log(jnp.sum(observed.mask, axis=-1, dtype=jnp.float32))
