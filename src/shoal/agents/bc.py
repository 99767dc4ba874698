"""Behaviour cloning: supervised learning of the actions in recorded demonstrations.

Source: Pomerleau 1989, "ALVINN: an autonomous land vehicle in a neural network"; Bain and Sammut 1995 for the name. The
loss is the negative log-likelihood of the recorded actions. It works for any recorded policy and for the action spaces
of PPO.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from shoal.agents.normalization import first_stats, normalization_field, normalized, updated
from shoal.core.agent import Agent, Guarded, Metrics, check_choices, check_counts
from shoal.core.env import Env, Key
from shoal.core.registry import agent
from shoal.core.spaces import Box, Discrete, Space, explain, to_unit
from shoal.core.struct import Number, Struct, filled_by_bind, from_file, hyper, static, struct
from shoal.nn.actor_critic import ActorCritic
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
from shoal.nn.torso_choice import TORSO_HELP, TORSOS, chosen_torso
from shoal.ops.gradients import Optimizer, adam, descend, first_moments, mean_of_steps, pack
from shoal.ops.running import RunningStats
from shoal.ops.schedules import linear, progress
from shoal.rollouts.demonstrations import Demonstrations
from shoal.rollouts.episodes import EpisodeStats

Weights = Any
SMALLEST_LOG_STD = -5.0  # demonstrations of a deterministic policy would otherwise drive the standard deviation to 0


@struct
class BCState(Guarded):
    """The agent state of one member."""

    age: Int[Array, ""]
    key: Key
    weights: Weights
    optimizer: Any  # over packed weights (`ops.gradients`)
    obs_stats: RunningStats | None = None  # of the demonstrations
    is_stopped: Bool[Array, ""] | None = None  # within guarded updates: see `core.agent.Guarded`

    guarded = ("weights", "optimizer")


@struct
class BCPolicy(Struct):
    """The weights and statistics that `act` reads."""

    weights: Weights
    obs_stats: RunningStats | None = None  # statistics that normalize observations


@agent("bc")
@struct
class BC(Agent):
    """Behaviour cloning of recorded steps, for discrete, multi-discrete and continuous actions.

    `demonstrations` is what `shoal.record` returns, or the name of a file that `shoal record` wrote. An update takes
    `num_batches` batches of `batch_size` recorded steps, sampled with replacement; each sample counts as one step of
    training. The agent does not step an environment while it learns; only evaluation does.

        teacher = shoal.load("zoo:ppo/CartPole-v1")
        shoal.train(BC(demonstrations=shoal.record(teacher, 2_000)), "CartPole-v1", steps=200_000)

    The network is that of `ppo` with `shared=True`, so that `ppo` can continue from its weights. With
    `normalize_observation`, the statistics are those of all demonstrations, computed once before the first update.
    """

    learning_rate: Number = hyper(1e-3, search=(1e-5, 1e-2, "log"), valid=(0, 1))
    anneal: Number = hyper(
        1.0,
        schedule_of="learning_rate",
        valid=(0, 1),
        help="fraction of the learning rate that is removed by the horizon",
    )
    horizon: Number = hyper(
        0.0, valid=(0, 1e18), spans_run=True, help="samples over which to anneal; 0: as many as the run"
    )
    weight_decay: Number = hyper(0.0, search=(1e-6, 1e-2, "log"), valid=(0, 1), help="decoupled, as in AdamW")
    demonstrations: Any = from_file(help="recorded steps: a file that `shoal record` wrote")

    batch_size: int = static(128)
    num_batches: int = static(50, help="batches in one update")
    hidden: tuple[int, ...] = static((64, 64))
    activation: str = static("tanh", choices=("tanh", "relu", "silu", "gelu"))
    torso: str = static("auto", choices=TORSOS, help=TORSO_HELP)
    network: Any = static(None, help="your own torso; hidden, activation and torso then have no effect")
    normalize_observation: bool = normalization_field()

    observation_space: Any = filled_by_bind()
    action_space: Any = filled_by_bind()

    def bind(self, env: Env) -> "BC":
        """The agent fitted to an environment.

        Raises ValueError without demonstrations, and for demonstrations whose spaces differ from the environment's.
        """
        check_choices(self)
        check_counts(self, "batch_size", "num_batches", "hidden")
        head_size(env.action_space)
        check_real(env.action_space)
        _check_demonstrations(self.demonstrations, env)
        return self.replace(
            network=chosen_torso(self, env.observation_space),
            observation_space=env.observation_space,
            action_space=env.action_space,
        )

    @property
    def steps_per_update(self) -> int:
        """Samples in one update: `num_batches` x `batch_size`."""
        return self.batch_size * self.num_batches

    @property
    def revision(self) -> int:
        """2 in a Box, where the Gaussian of revision 1 had the units of the environment; otherwise 1."""
        return revision_of_units(self.action_space)

    def upgraded(self, policy: BCPolicy, revision: int) -> BCPolicy:
        """A policy of revision 1 as one of revision 2, whose head is in the units of the Box."""
        if revision != 1:
            return super().upgraded(policy, revision)
        return policy.replace(weights=in_units(self.action_space, policy.weights))

    def init(self, key: Key, env: Env) -> BCState:
        """Initial weights, and the statistics of the demonstrations, which stay constant. `key` is consumed."""
        key, k_weights, k_env = jax.random.split(key, 3)
        stats = updated(first_stats(self), self.demonstrations.obs, axes=1)
        obs = jax.tree.map(lambda x: x[None], env.reset(k_env)[0])
        weights = self._net.init(k_weights, normalized(stats, obs))
        return BCState(jnp.int32(0), key, weights, first_moments(self._optimizer, weights), stats)

    def update(self, state: BCState, env: Env, clock: Int[Array, ""]) -> tuple[BCState, Metrics]:
        """Take one gradient step on each of `num_batches` batches of recorded steps."""
        del env, clock
        key, k_rows = jax.random.split(state.key)
        shape = (self.num_batches, self.batch_size)
        index = jax.random.randint(k_rows, shape, 0, len(self.demonstrations), jnp.int32)
        packed, unpack = pack(state.weights)
        learning_rate = self.learning_rate * linear(
            1.0, 1 - self.anneal, progress(state.age, self.steps_per_update, self.horizon)
        )
        gradient_of_loss = jax.grad(lambda packed, rows: self._loss(unpack(packed), rows), has_aux=True)

        def step(carry: tuple, index: Int[Array, "B"]) -> tuple[tuple, dict[str, Array]]:
            packed, optimizer, is_stopped = carry
            rows = jax.tree.map(lambda x: x[index], self.demonstrations)
            rows = rows.replace(obs=normalized(state.obs_stats, rows.obs))
            gradient, losses = gradient_of_loss(packed, rows)
            after = descend(self._optimizer, packed, gradient, optimizer, learning_rate, is_stopped=is_stopped)
            return after, losses

        start = (packed, state.optimizer, state.is_stopped)
        (packed, optimizer, is_stopped), losses = mean_of_steps(step, start, index)
        state = BCState(state.age + 1, key, unpack(packed), optimizer, state.obs_stats, is_stopped)
        return state, Metrics(EpisodeStats.zero(), losses)

    def act(
        self, state: BCState | BCPolicy, obs: Any, carry: Any, key: Key, greedy: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        """(action, carry): the mode of the policy when greedy, a sample otherwise. `key` is consumed."""
        policy = self._policy(state.weights, normalized(state.obs_stats, obs), mask)
        action = policy.mode() if greedy else policy.sample(sample_noise(self.action_space, key, ()))
        return as_action(self.action_space, action), carry

    def policy_state(self, state: BCState) -> BCPolicy:
        """Weights and observation statistics."""
        return BCPolicy(state.weights, state.obs_stats)

    def _loss(self, weights: Weights, rows: Demonstrations) -> tuple[Float[Array, ""], dict[str, Array]]:
        policy, space = self._policy(weights, rows.obs, rows.mask), self.action_space
        action = to_unit(space, rows.action) if isinstance(space, Box) else rows.action
        loss = -jnp.mean(policy.log_prob(action))
        mode = policy.mode()
        if isinstance(space, Box):
            accuracy = {"distance": jnp.mean(jnp.abs(mode - action))}
        else:
            match = mode == action
            accuracy = {"agreement": jnp.mean(jnp.all(match.reshape(match.shape[0], -1), axis=-1).astype(jnp.float32))}
        return loss, {"loss": loss, "entropy": jnp.mean(policy.entropy()), **accuracy}

    def _policy(self, weights: Weights, obs: Any, mask: Any) -> Distribution:
        policy = self._net.policy(weights, obs)
        if isinstance(self.action_space, Box):
            return policy.replace(log_std=jnp.maximum(policy.log_std, SMALLEST_LOG_STD))  # type: ignore[union-attr]  # a Gaussian
        return restricted(policy, mask)

    @property
    def _net(self) -> ActorCritic:
        return ActorCritic(self.network, self.observation_space, self.action_space, shared=True)

    @property
    def _optimizer(self) -> Optimizer:
        # Adam with decoupled weight decay (Loshchilov and Hutter 2019). Its state is that of Adam.
        def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
            direction, state = adam().update(updates, state)
            return jax.tree.map(lambda d, w: d + self.weight_decay * w, direction, params), state

        return optax.GradientTransformation(adam().init, update)


def _check_demonstrations(demonstrations: Any, env: Env) -> None:
    if demonstrations is None:
        raise ValueError(
            "bc has no demonstrations to learn from. Give --demonstrations FILE, with a file that "
            "`shoal record RUN --out FILE` wrote, or in Python demonstrations=shoal.record(policy, steps)."
        )
    if not isinstance(demonstrations, Demonstrations):
        raise TypeError(f"demonstrations={demonstrations!r} must come from shoal.record or from a file that it wrote.")
    counts = {leaf.shape[0] for leaf in jax.tree.leaves(demonstrations)}
    if counts != {len(demonstrations)} or not len(demonstrations):
        raise ValueError(
            f"the demonstrations hold {sorted(counts)} steps: all arrays need the same number, at least 1."
        )
    for what, space, x in (
        ("observation", env.observation_space, demonstrations.obs),
        ("action", env.action_space, demonstrations.action),
    ):
        # The bounds of a space are separate for each number, so that checking the smallest and the largest value of
        # every number checks all steps.
        for side, extreme in (("smallest", np.min), ("largest", np.max)):
            one = jax.tree.map(lambda leaf, extreme=extreme: extreme(np.asarray(leaf), axis=0), x)
            if reason := explain(space, one, f"the {side} {what}"):
                raise ValueError(
                    f"the demonstrations are of another environment than this, with {what}s {space}: {reason}."
                )
    if demonstrations.mask is not None:
        _check_mask(np.asarray(demonstrations.mask), demonstrations.action, env.action_space)


def _check_mask(mask: np.ndarray, action: Any, space: Space) -> None:
    if not isinstance(space, Discrete) or mask.shape != (len(action), space.n):
        raise ValueError(f"the mask of the demonstrations has shape {mask.shape}, which does not fit actions {space}.")
    allowed = np.take_along_axis(mask, np.asarray(action)[:, None], axis=1)[:, 0]
    if not allowed.all():
        raise ValueError(f"step {np.argmin(allowed)} of the demonstrations took an action that its mask forbids.")
