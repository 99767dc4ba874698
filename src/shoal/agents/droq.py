"""DroQ: soft actor-critic with dropout in its critics, which lets each environment step have many gradient steps.

Source: Hiraoka et al. 2022, "Dropout Q-functions for doubly efficient reinforcement learning", algorithm 2; the
defaults are those of its table of hyperparameters, except where the class says otherwise.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from shoal.agents.sac import SAC
from shoal.core.agent import refuse_ignored
from shoal.core.env import Env, Key
from shoal.core.registry import agent
from shoal.core.struct import Number, hyper, struct
from shoal.nn.action_value import Critics
from shoal.nn.distributions import check_bounded
from shoal.nn.dropout import Dropout
from shoal.nn.memory.fields import memory_of
from shoal.nn.torsos import MLP


@agent("droq")
@struct
class DroQ(SAC):
    """DroQ: SAC with 20 gradient steps per environment step, and dropout and layer normalization in its critics.

    In every loss, each critic leaves out a share `dropout` of its hidden units, anew for every sample; targets then
    use the smallest Q-value of `num_critics`, and the policy maximizes their mean. Two such critics replace the ten of
    `redq`. After `policy_delay` steps of the critics follow `policy_steps` of the policy and the temperature. Policies
    act, and values are reported, without dropout. Actions lie in a Box with finite bounds. The rest is as in SAC.

    Dropout and layer normalization are in the hidden layers. A torso other than an MLP, such as that of images, stays
    as it is, and one such layer follows it, as after a `memory`. The paper has vectors and an MLP only.

    Differences from the paper: the temperature keeps the learning rate that it has in `sac`, and the buffer holds
    100,000 samples, not a million. The paper has a rate of its own for each environment, from 0.0001 to 0.01.
    """

    learning_rate: Number = hyper(3e-4, search=(1e-5, 1e-2, "log"), valid=(0, 1), help="learning rate of the critics")
    train_iterations: Number = hyper(
        20.0, search=(1, 20), valid=(1, 1e4), help="gradient steps per train_frequency environment steps"
    )
    policy_delay: Number = hyper(20.0, valid=(1, 1e6), help="critic steps between two rounds of policy steps")
    policy_steps: Number = hyper(1.0, valid=(0, 1e6), help="policy steps of a round; 0: as many as critic steps")
    dropout: Number = hyper(
        0.01, search=(1e-4, 0.1, "log"), valid=(0, 0.99), help="share of the critics' units that a loss leaves out"
    )

    def bind(self, env: Env) -> "DroQ":
        """The agent fitted to an environment. Raises Unsuited if actions are not in a Box with finite bounds."""
        check_bounded(env.action_space)
        refuse_ignored(self, "in droq, whose targets use all critics", "subset")
        return super().bind(env)

    def combined(self, outputs: Float[Array, "K *axes"]) -> Float[Array, "*axes"]:
        """The mean Q-values."""
        return jnp.mean(outputs, axis=0)

    def loss_keys(self, key: Key) -> tuple[Key, Key, Key]:
        """(the key of a loss's noise, two keys for dropout). `key` is consumed."""
        k_noise, k_first, k_second = jax.random.split(key, 3)
        return k_noise, k_first, k_second

    def critics_in_training(self, key: Key | None) -> Critics:
        """The critics with units left out by this key."""
        assert key is not None
        return self._critics._replace(dropout=Dropout(key, self.dropout))

    @property
    def _critics(self) -> Critics:
        is_plain = type(self.network) is MLP
        return Critics(
            self.network.clone(layer_norm=True) if is_plain else self.network,
            self.observation_space,
            self.action_space,
            self.num_critics,
            memory=memory_of(self),
            joins_late=not is_plain,
            layer_norm=True,
        )
