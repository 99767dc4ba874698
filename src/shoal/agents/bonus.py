"""A bonus for new observations, which an agent adds to the reward of the environment to explore: counts, and RND.

PPO declares the fields `bonus`, `bonus_discount` and so on, and asks `bonus_of(agent)` for the bonus of every
observation that a rollout reached. What a bonus learns (counts, a predictor) belongs to the member: members do not
share it, and checkpoints hold it. It is no part of the policy.

Sources: Bellemare et al. 2016, "Unifying count-based exploration and intrinsic motivation", for 1 / sqrt(count); Burda,
Edwards, Storkey and Klimov 2018, "Exploration by random network distillation" (RND), sections 2.2 to 2.4 and algorithm
1, and the authors' code (github.com/openai/random-network-distillation), `ppo_agent.py`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from shoal.core.agent import check_counts, refuse_ignored
from shoal.core.env import Key
from shoal.core.form import current
from shoal.core.spaces import Box, Space, leaf_spaces
from shoal.core.struct import Number, Struct, struct
from shoal.nn.distillation import Distillation, distilled_input, distilled_size
from shoal.ops.counts import CountTable, fingerprints, is_countable
from shoal.ops.devices import device_key, device_share, gathered, mean_over
from shoal.ops.gradients import adam, descend, first_moments, mean_of_steps, pack
from shoal.ops.running import RunningStats
from shoal.ops.shuffle import minibatches

Losses = dict[str, Array]
BONUSES = ("none", "count", "rnd")
LARGEST_INPUT = 100_000  # numbers of an observation that a dense network reads
CLIP = 5.0  # of normalized observations, as in the paper


@struct
class RNDState(Struct):
    """What RND has learned. Everything but the target changes in every update."""

    target: Any  # weights of the random network
    predictor: Any
    optimizer: Any  # of the predictor, over packed weights (`ops.gradients`)
    inputs: RunningStats  # of what the networks read
    returns: RunningStats  # of the discounted sums of bonuses, by whose standard deviation bonuses are divided
    discounted: Float[Array, "E"]  # these sums so far


class CountBonus(NamedTuple):
    """The bonus 1 / sqrt(n) for an observation that was seen n times: `ops/counts.py` says how it is counted.

    n is the count after the rollout: if an observation is first seen twice in one rollout, both steps get
    1 / sqrt(2). Observations that do not fit in the table any more get no bonus.
    """

    space: Space
    slots: int
    devices: int

    def init(self, key: Key, num_envs: int) -> CountTable:
        """A table without counts."""
        del key, num_envs
        return CountTable.empty(self.slots)

    def learn(self, state: CountTable, obs: Any, key: Key) -> tuple[CountTable, Float[Array, "T E"], Losses]:
        """Count observations [T, E]: (the table after it, their bonuses, numbers to report)."""
        del key
        found = fingerprints(self.space, obs)
        axes = found.shape[:-1]
        state, of_all = state.add(gathered(found.reshape(-1, 2), self.devices))
        count = device_share(of_all, self.devices, axis=0).reshape(axes)
        bonus = jnp.where(count > 0, jax.lax.rsqrt(jnp.maximum(count, 1).astype(jnp.float32)), 0)
        mean = mean_over(jnp.mean(bonus), self.devices)
        return state, bonus, {"bonus": mean, "count_slots_used": state.share_used()}


class RNDBonus(NamedTuple):
    """Random network distillation: the bonus is the error of a predictor, divided by a running standard deviation.

    The two networks read observations that are normalized and clipped to [-5, 5]. The bonus is divided by the standard
    deviation of the discounted sums of bonuses, which do not end with an episode.

    Differences from the paper, and why: the networks are dense also where observations are images, so that they read
    every observation; statistics of observations begin with the first rollout instead of random steps before it, which
    would not count as steps of the run; the predictor has an optimizer of its own and passes over a rollout once,
    instead of several times over a random quarter of it, which is as many samples at the paper's 4 epochs.
    """

    space: Space
    discount: Number
    learning_rate: Number
    size: int
    parts: int  # gradient steps of the predictor for each rollout
    shuffle: str
    devices: int

    def init(self, key: Key, num_envs: int) -> RNDState:
        """Random weights, and statistics of no data. `key` is consumed."""
        inputs = distilled_size(self.space)
        target, predictor = self._networks.init(key, inputs)
        return RNDState(
            target=target,
            predictor=predictor,
            optimizer=first_moments(adam(), predictor),
            inputs=RunningStats.zero(jnp.zeros(inputs)),
            returns=RunningStats.zero(jnp.float32(0)),
            discounted=jnp.zeros(num_envs, jnp.float32),
        )

    def learn(self, state: RNDState, obs: Any, key: Key) -> tuple[RNDState, Float[Array, "T E"], Losses]:
        """Learn to predict the features of observations [T, E]: (the state after it, their bonuses, losses).

        Bonuses are errors before this learning. `key` is consumed.
        """
        x = distilled_input(self.space, obs)
        inputs = state.inputs.update(x, axes=2, devices=self.devices)
        x = inputs.normalize(x, clip=CLIP)
        error = self._networks.error(state.target, state.predictor, x)
        returns, discounted = self._returns(state, error)
        predictor, optimizer, losses = self._descend(state, x, key)
        bonus = error / returns.std()
        losses["bonus"] = mean_over(jnp.mean(bonus), self.devices)
        state = state.replace(
            predictor=predictor, optimizer=optimizer, inputs=inputs, returns=returns, discounted=discounted
        )
        return state, bonus, losses

    @property
    def _networks(self) -> Distillation:
        return Distillation(self.size, self.size)

    def _returns(self, state: RNDState, error: Float[Array, "T E"]) -> tuple[RunningStats, Float[Array, "E"]]:
        def add(total: Array, error: Array) -> tuple[Array, Array]:
            total = total * self.discount + error
            return total, total

        last, totals = jax.lax.scan(add, state.discounted, error, unroll=current().returns_per_trip)
        return state.returns.update(totals, axes=2, devices=self.devices), last

    def _descend(self, state: RNDState, x: Float[Array, "T E D"], key: Key) -> tuple[Any, Any, Losses]:
        packed, unpack = pack(state.predictor)
        (num_steps, num_envs), samples = x.shape[:2], x.reshape(-1, x.shape[-1])

        def loss_of(packed: Any, rows: Array) -> Float[Array, ""]:
            return jnp.mean(self._networks.error(state.target, unpack(packed), rows))

        def step(carry: tuple[Any, Any], index: Int[Array, "B"]) -> tuple[tuple[Any, Any], Losses]:
            packed, optimizer = carry
            result = jax.value_and_grad(loss_of)(packed, samples[index])
            loss, gradient = mean_over(result, self.devices)
            packed, optimizer, _ = descend(adam(), packed, gradient, optimizer, self.learning_rate)
            return (packed, optimizer), {"predictor_loss": loss}

        index = minibatches(device_key(key, self.devices), (num_steps, num_envs), 1, self.parts, self.shuffle)
        (packed, optimizer), losses = mean_of_steps(step, (packed, state.optimizer), index)
        return unpack(packed), optimizer, losses


def bonus_of(agent: Any) -> CountBonus | RNDBonus | None:
    """The bonus of a bound agent with these fields; None for "none"."""
    devices = agent.rollout.devices
    if agent.bonus == "count":
        return CountBonus(agent.observation_space, agent.count_slots, devices)
    if agent.bonus == "rnd":
        rate, size = agent.predictor_rate, agent.predictor_size
        parts, shuffle = agent.num_minibatches, agent.shuffle
        return RNDBonus(agent.observation_space, agent.bonus_discount, rate, size, parts, shuffle, devices)
    return None


def check_bonus(agent: Any, space: Space) -> None:
    """Raise ValueError for observations that a bonus cannot tell apart, and for fields that would have no effect."""
    if agent.bonus == "none":
        return refuse_ignored(
            agent,
            "with bonus='none'",
            "bonus_coef",
            "bonus_discount",
            "predictor_rate",
            "predictor_size",
            "count_slots",
        )
    if agent.bonus == "count":
        refuse_ignored(agent, "with bonus='count', which has no predictor", "predictor_rate", "predictor_size")
        return _check_counts(agent, space)
    refuse_ignored(agent, "with bonus='rnd', which counts nothing", "count_slots")
    return _check_distilled(agent, space)


def _check_counts(agent: Any, space: Space) -> None:
    check_counts(agent, "count_slots")
    if not is_countable(space):
        raise ValueError(
            f"bonus='count' counts observations that are equal, and real numbers hardly ever are: {space}. Use "
            "bonus='rnd', or round the observations to whole numbers first: TransformObservation(env, function, space)."
        )
    slots = agent.count_slots
    if slots & (slots - 1):
        lower = 2 ** (slots.bit_length() - 1)
        raise ValueError(f"count_slots={slots} must be a power of two, such as {lower} or {2 * lower}.")


def _check_distilled(agent: Any, space: Space) -> None:
    check_counts(agent, "predictor_size")
    if all(_is_constant(leaf) for leaf in leaf_spaces(space)):
        raise ValueError(f"bonus='rnd' rewards new observations, and there is only one observation in {space}.")
    if (size := distilled_size(space)) > LARGEST_INPUT:
        raise ValueError(
            f"bonus='rnd' reads observations with dense layers, and these have {size:,} numbers, more than "
            f"{LARGEST_INPUT:,}. Make them smaller first: TransformObservation(env, function, space)."
        )


def _is_constant(leaf: Any) -> bool:
    if isinstance(leaf, Box):
        low, high = leaf.bounds()
        return bool((low == high).all())
    return max(leaf.nvec if hasattr(leaf, "nvec") else (leaf.n,), default=1) <= 1
