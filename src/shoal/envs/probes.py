"""Probes: environments so small that the right values can be computed by hand. Each one tests one part of an agent.

If an agent solves the probes before a given one but not that one, the error is in the part which that probe adds. The
class docstrings state the values under the best policy; g is the discount. Observations are float32 vectors unless
stated otherwise; a few probes have `Discrete` observations, for tabular agents.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete, MultiDiscrete
from shoal.core.struct import Number, static, struct

Outcome = Transition[State]


class ZeroObservation(Env):
    """The base class of probes whose observation is always zero. The state holds the time only."""

    @property
    def observation_space(self) -> Box:
        """One constant, 0."""
        return Box(0.0, 0.0, (1,))

    def init(self, key: Key) -> State:
        """The first state is always the same."""
        del key
        return State(jnp.int32(0))

    def observe(self, state: State) -> Float[Array, "1"]:
        """Zero."""
        del state
        return jnp.zeros((1,), jnp.float32)


@struct
class CueState(State):
    """A fair coin, tossed at the start of the episode: true for heads."""

    cue: Bool[Array, ""]


class CoinObservation(Env):
    """The base class of probes that show the toss of a fair coin: the observation is 1 for heads, -1 for tails."""

    @property
    def observation_space(self) -> Box:
        """1 for heads, -1 for tails."""
        return Box(-1.0, 1.0, (1,))

    def init(self, key: Key) -> CueState:
        """The first state: toss the coin."""
        return CueState(jnp.int32(0), jax.random.bernoulli(key))

    def observe(self, state: CueState) -> Float[Array, "1"]:
        """The toss."""
        return _sign(state.cue)[None]


@env("Probe-ConstantReward-v0")
@struct
class ConstantReward(ZeroObservation):
    """Probe 1: one step, reward 1 for every action. Adds: the value function is fitted.

    V = 1.
    """

    @property
    def action_space(self) -> Discrete:
        """Two actions without effect."""
        return Discrete(2)

    def transition(self, state: State, action: Int[Array, ""], noise: None) -> Outcome:
        """Reward 1; the episode ends."""
        del action, noise
        return _end(state, jnp.float32(1))


@env("Probe-ObservationReward-v0")
@struct
class ObservationReward(CoinObservation):
    """Probe 2: one step, the reward is the observation. Adds: the value depends on the observation.

    V(1) = 1, V(-1) = -1.
    """

    @property
    def action_space(self) -> Discrete:
        """Two actions without effect."""
        return Discrete(2)

    def transition(self, state: CueState, action: Int[Array, ""], noise: None) -> Outcome:
        """The reward is the toss; the episode ends."""
        del action, noise
        return _end(state, _sign(state.cue))


@env("Probe-DiscountedReward-v0")
@struct
class DiscountedReward(Env):
    """Probe 3: two steps, rewards 0 and 1; the observation is the time. Adds: bootstrapping with a discount.

    V(0) = g, V(1) = 1. The final observation is 2; its value should not be used.
    """

    @property
    def observation_space(self) -> Box:
        """The time, from 0 to 2."""
        return Box(0.0, 2.0, (1,))

    @property
    def action_space(self) -> Discrete:
        """Two actions without effect."""
        return Discrete(2)

    def init(self, key: Key) -> State:
        """The first state is always the same."""
        del key
        return State(jnp.int32(0))

    def transition(self, state: State, action: Int[Array, ""], noise: None) -> Outcome:
        """Reward 1 on the second step, which ends the episode."""
        del action, noise
        is_last = state.time >= 2
        return state, is_last.astype(jnp.float32), is_last, {}

    def observe(self, state: State) -> Float[Array, "1"]:
        """The time, at most 2."""
        return jnp.minimum(state.time, 2).astype(jnp.float32)[None]


@env("Probe-ActionReward-v0")
@struct
class ActionReward(ZeroObservation):
    """Probe 4: one step, reward 1 for action 1 and -1 for action 0. Adds: the policy improves.

    V = 1; Q(0) = -1, Q(1) = 1. A random policy gets 0.
    """

    @property
    def action_space(self) -> Discrete:
        """0 is wrong, 1 is right."""
        return Discrete(2)

    def transition(self, state: State, action: Int[Array, ""], noise: None) -> Outcome:
        """Reward the action; the episode ends."""
        del noise
        return _end(state, _sign(action == 1))


@env("Probe-MatchingAction-v0")
@struct
class MatchingAction(CoinObservation):
    """Probe 5: one step, reward 1 for the action that matches the toss, else -1.

    Adds: the policy depends on the observation, and observations, actions and rewards of a batch are aligned.

    V = 1; Q(1, 1) = Q(-1, 0) = 1, Q(1, 0) = Q(-1, 1) = -1. A random or constant policy gets 0.
    """

    @property
    def action_space(self) -> Discrete:
        """0 is tails, 1 is heads."""
        return Discrete(2)

    def transition(self, state: CueState, action: Int[Array, ""], noise: None) -> Outcome:
        """Reward the match; the episode ends."""
        del noise
        return _end(state, _sign((action == 1) == state.cue))


@env("Probe-TimeLimit-v0")
@env("Probe-Termination-v0", max_steps=None, terminates_after=5)
@env("Probe-CountedTimeLimit-v0", observation="index")
@struct
class Horizon(Env):
    """Probe 6, in two variants: five steps with reward 1; the observation is a clock: 0, 0.2, ... 0.8, and 0 again.

    Probe-TimeLimit is truncated after `max_steps` and never terminates, so the value must bootstrap at the truncation:
        V = 1 / (1 - g) at every step (10 for g = 0.9).
    Probe-Termination terminates after `terminates_after` steps:
        V(t / 5) = (1 - g^(5 - t)) / (1 - g), so for g = 0.9 it is 4.0951 at the start and 1 before the last step.
    With `observation="index"`, as in Probe-CountedTimeLimit, the clock is Discrete(5): 0, 1, ... 4, and 0 again.
    """

    max_steps: Number | None = 5
    terminates_after: int | None = static(None)
    observation: str = static("number", choices=("number", "index"))

    @property
    def observation_space(self) -> Box | Discrete:
        """The clock: a number from 0 to 1, or Discrete(5)."""
        return Box(0.0, 1.0, (1,)) if self.observation == "number" else Discrete(5)

    @property
    def action_space(self) -> Discrete:
        """Two actions without effect."""
        return Discrete(2)

    def init(self, key: Key) -> State:
        """The first state is always the same."""
        del key
        return State(jnp.int32(0))

    def transition(self, state: State, action: Int[Array, ""], noise: None) -> Outcome:
        """Reward 1; terminate after `terminates_after` steps."""
        del action, noise
        terminated = jnp.bool_(False) if self.terminates_after is None else state.time >= self.terminates_after
        return state, jnp.float32(1), terminated, {}

    def observe(self, state: State) -> Float[Array, "1"] | Int[Array, ""]:
        """The time modulo 5. The final observation equals the first one, so the agent has learned its value."""
        return ((state.time % 5).astype(jnp.float32) / 5)[None] if self.observation == "number" else state.time % 5


@env("Probe-Memory-v0")
@struct
class Memory(Env):
    """Probe 7, for recurrent agents: a toss is shown at the start only; `delay` steps later the action must match it.

    Observation: Box(2), float32: the toss (1 or -1) at the start, then 0; and 1 when the action must match, else 0.
    Reward: 0; on the last step 1 for the action that matches the toss, -1 for the other.
    End: terminated after `delay` + 1 steps.

    V = g^delay at the start. An agent without memory gets 0 on average.
    """

    delay: Number = 2

    @property
    def observation_space(self) -> Box:
        """The toss, and whether the action must match it now."""
        return Box((-1.0, 0.0), (1.0, 1.0), (2,))

    @property
    def action_space(self) -> Discrete:
        """0 is tails, 1 is heads."""
        return Discrete(2)

    def init(self, key: Key) -> CueState:
        """The first state: toss the coin."""
        return CueState(jnp.int32(0), jax.random.bernoulli(key))

    def transition(self, state: CueState, action: Int[Array, ""], noise: None) -> Outcome:
        """On the last step, reward the match; the episode ends."""
        del noise
        is_last = state.time > self.delay
        return state, jnp.where(is_last, _sign((action == 1) == state.cue), 0.0), is_last, {}

    def observe(self, state: CueState) -> Float[Array, "2"]:
        """The toss at the start, else 0; and whether the action must match it now."""
        shown = jnp.where(state.time == 0, _sign(state.cue), 0.0)
        return jnp.stack([shown, (state.time >= self.delay).astype(jnp.float32)])


@env("Probe-ContinuousAction-v0")
@struct
class ContinuousAction(ZeroObservation):
    """Probe 8, probe 4 with a continuous action: one step, reward 1 - (action - 0.5)^2. Adds: continuous policies.

    The best action is 0.5; V = 1. A uniform policy gets 1 - 0.25 - 1/3 = 5/12.
    """

    @property
    def action_space(self) -> Box:
        """One number."""
        return Box(-1.0, 1.0, (1,))

    def transition(self, state: State, action: Float[Array, "1"], noise: None) -> Outcome:
        """The reward is 1 minus the squared distance; the episode ends."""
        del noise
        return _end(state, 1 - (action[0] - 0.5) ** 2)


@env("Probe-ContinuousMatching-v0")
@struct
class ContinuousMatching(CoinObservation):
    """Probe 8, probe 5 with a continuous action: one step, reward 1 - (action - target)^2.

    The target is 0.5 for heads, -0.5 for tails.

    The best action is half the observation; V = 1. The best constant action, 0, gets 0.75.
    """

    @property
    def action_space(self) -> Box:
        """One number."""
        return Box(-1.0, 1.0, (1,))

    def transition(self, state: CueState, action: Float[Array, "1"], noise: None) -> Outcome:
        """The reward is 1 minus the squared distance; the episode ends."""
        del noise
        return _end(state, 1 - (action[0] - 0.5 * _sign(state.cue)) ** 2)


@env("Probe-MultiDiscrete-v0")
@struct
class TwoDials(CoinObservation):
    """One step with two actions, of 2 and 3 values: reward 1 if both are right, else 0.

    The right actions are (1, 2) for heads, and (0, 0) for tails. The observation is the toss, 1 or -1.
    V = 1. A uniform policy gets 1/6; a policy that has learned one of the two actions gets 1/3 or 1/2.
    """

    @property
    def action_space(self) -> MultiDiscrete:
        """Two actions, of 2 and 3 values."""
        return MultiDiscrete((2, 3))

    def transition(self, state: CueState, action: Int[Array, "2"], noise: None) -> Outcome:
        """Reward 1 if both actions are right; the episode ends."""
        del noise
        is_right = jnp.where(state.cue, (action[0] == 1) & (action[1] == 2), (action[0] == 0) & (action[1] == 0))
        return _end(state, is_right)


@struct
class LampState(State):
    """The position of the lit pixel."""

    row: Int[Array, ""]
    column: Int[Array, ""]


@env("Probe-Image-v0")
@struct
class Lamp(Env):
    """An image with one lit pixel: one step, reward 1 for the half that the pixel is in (0 left, 1 right), else -1.

    Observation: Box(10, 10, 1), uint8: 255 at the lit pixel, 0 elsewhere. Its position is uniformly random.

    V = 1. A random or constant policy gets 0.
    """

    @property
    def observation_space(self) -> Box:
        """An image with one channel."""
        return Box(0, 255, (10, 10, 1), np.uint8)

    @property
    def action_space(self) -> Discrete:
        """0 is left, 1 is right."""
        return Discrete(2)

    def init(self, key: Key) -> LampState:
        """The first state: a random pixel."""
        row, column = jax.random.randint(key, (2,), 0, 10, jnp.int32)
        return LampState(jnp.int32(0), row, column)

    def transition(self, state: LampState, action: Int[Array, ""], noise: None) -> Outcome:
        """Reward the right half; the episode ends."""
        del noise
        return _end(state, _sign((action == 1) == (state.column >= 5)))

    def observe(self, state: LampState) -> UInt8[Array, "10 10 1"]:
        """The image [10, 10, 1]."""
        index = jnp.arange(10, dtype=jnp.int32)
        is_lamp = (index == state.row)[:, None] & (index == state.column)[None, :]
        return jnp.where(is_lamp, 255, 0).astype(jnp.uint8)[:, :, None]


@struct
class InstructionState(State):
    """The instruction: its first word, and the position without a word."""

    first: Int[Array, ""]  # the word that stands first, 1 or 2
    gap: Int[Array, ""]  # the position without a word


@env("Probe-Instruction-v0")
@struct
class Instruction(Env):
    """One step; the first word of an instruction names the right action: reward 1 for it, else -1.

    Observation: MultiDiscrete(3, 3, 3), uint8, a text. It has the words 1 and 2 in random order, which stand for the
    actions 0 and 1, and 0 at a random position, where there is no word.
    V = 1. A random or constant policy gets 0, and so does every policy that does not know the order of the words.
    """

    @property
    def observation_space(self) -> MultiDiscrete:
        """The two words and a gap."""
        return MultiDiscrete((3, 3, 3), np.uint8, text=True)

    @property
    def action_space(self) -> Discrete:
        """Action 0 is right for word 1, action 1 for word 2."""
        return Discrete(2)

    def init(self, key: Key) -> InstructionState:
        """The first state: a random order, and a random position of the gap."""
        order, gap = jax.random.randint(key, (2,), 0, np.array([2, 3]), jnp.int32)
        return InstructionState(jnp.int32(0), first=1 + order, gap=gap)

    def transition(self, state: InstructionState, action: Int[Array, ""], noise: None) -> Outcome:
        """Reward the action that the first word names; the episode ends."""
        del noise
        return _end(state, _sign(action == state.first - 1))

    def observe(self, state: InstructionState) -> UInt8[Array, "3"]:
        """The words, with the gap between, before or after them."""
        place = jnp.arange(3, dtype=jnp.int32)
        is_first = place == jnp.where(state.gap == 0, 1, 0)
        words = jnp.where(is_first, state.first, 3 - state.first)
        return jnp.where(place == state.gap, 0, words).astype(jnp.uint8)


@env("Probe-CountedMatching-v0")
@struct
class CountedMatching(Env):
    """Probe 5 with a `Discrete` observation: 1 for heads, 0 for tails; reward 1 for the same action, else -1.

    V = 1; Q(s, s) = 1, Q(s, 1 - s) = -1. A random or constant policy gets 0.
    """

    @property
    def observation_space(self) -> Discrete:
        """0 is tails, 1 is heads."""
        return Discrete(2)

    @property
    def action_space(self) -> Discrete:
        """0 is tails, 1 is heads."""
        return Discrete(2)

    def init(self, key: Key) -> CueState:
        """The first state: toss the coin."""
        return CueState(jnp.int32(0), jax.random.bernoulli(key))

    def transition(self, state: CueState, action: Int[Array, ""], noise: None) -> Outcome:
        """Reward the match; the episode ends."""
        del noise
        return _end(state, _sign((action == 1) == state.cue))

    def observe(self, state: CueState) -> Int[Array, ""]:
        """The toss."""
        return state.cue.astype(jnp.int32)


@struct
class ChainState(State):
    """The cell of the agent, 0 to 3; 4 is the end."""

    cell: Int[Array, ""]


@env("Probe-Chain-v0")
@struct
class Chain(Env):
    """Four cells in a row: action 1 goes right, action 0 goes left (in the first cell, it stays).

    Observation: Discrete(5), the cell; 4 is the end, to the right of the last cell.
    Reward: 1 on reaching the end, else 0.
    Start: in cell 0.
    End: terminated at the end.
    Adds to probe 3: the value depends on the policy, and only one policy is the best.

    V(s) = g^(3 - s), so 0.729 at the start for g = 0.9; Q(s, 0) = g V(max(s - 1, 0)). The best policy takes four steps.
    """

    max_steps: Number | None = None

    @property
    def observation_space(self) -> Discrete:
        """Four cells and the end."""
        return Discrete(5)

    @property
    def action_space(self) -> Discrete:
        """Left and right."""
        return Discrete(2)

    def init(self, key: Key) -> ChainState:
        """The first state: in cell 0."""
        del key
        return ChainState(jnp.int32(0), jnp.int32(0))

    def transition(self, state: ChainState, action: Int[Array, ""], noise: None) -> Outcome:
        """Move one cell; reward 1 at the end."""
        del noise
        cell = jnp.clip(state.cell + jnp.where(action == 1, 1, -1), 0, 4)
        return state.replace(cell=cell), (cell == 4).astype(jnp.float32), cell == 4, {}

    def observe(self, state: ChainState) -> Int[Array, ""]:
        """The cell."""
        return state.cell


@struct
class ForkState(State):
    """`place` is 0 at the fork, 1 after action 0, 2 at the end."""

    place: Int[Array, ""]


@env("Probe-Mask-v0")
@struct
class Fork(Env):
    """A fork with an action mask. Adds: masked actions are neither chosen nor used in the target of a Q-value.

    Observation: Discrete(3), the position: 0 at the fork, 1 after action 0, 2 at the end.
    Action: Discrete(3). In position 0, action 0 leads to position 1 with reward 0, action 1 ends with reward -1, and
    action 2 is forbidden. In position 1 only action 2 is allowed; it ends with reward -2. A forbidden action would end
    with reward 5.
    V(0) = -1, V(1) = -2; Q(0, 0) = -2 g. An agent whose target at position 1 uses forbidden actions never corrects
    their Q-values, so it overestimates Q(0, 0) and chooses action 0.
    """

    @property
    def observation_space(self) -> Discrete:
        """Three positions."""
        return Discrete(3)

    @property
    def action_space(self) -> Discrete:
        """Go on, end, and the only action of position 1."""
        return Discrete(3)

    def action_mask(self, state: ForkState) -> Bool[Array, "3"]:
        """Actions 0 and 1 in position 0, only action 2 in position 1, all at the end."""
        is_only = jnp.arange(3, dtype=jnp.int32) == 2
        return jnp.where(state.place == 0, ~is_only, jnp.where(state.place == 1, is_only, True))

    def init(self, key: Key) -> ForkState:
        """The first state: position 0."""
        del key
        return ForkState(jnp.int32(0), jnp.int32(0))

    def transition(self, state: ForkState, action: Int[Array, ""], noise: None) -> Outcome:
        """Go to position 1, or end with the reward of the action."""
        del noise
        is_allowed = self.action_mask(state)[action]
        goes_on = is_allowed & (action == 0)
        reward = jnp.where(is_allowed, -action.astype(jnp.float32), 5.0)
        return state.replace(place=jnp.where(goes_on, jnp.int32(1), jnp.int32(2))), reward, ~goes_on, {}

    def observe(self, state: ForkState) -> Int[Array, ""]:
        """The position."""
        return state.place


def _sign(is_good: Bool[Array, ""]) -> Float[Array, ""]:
    return jnp.where(is_good, 1.0, -1.0).astype(jnp.float32)


def _end(state: State, reward: Array) -> Outcome:
    return state, reward.astype(jnp.float32), jnp.bool_(True), {}
