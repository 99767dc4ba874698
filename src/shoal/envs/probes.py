"""Probes: worlds so small that the right answer is known by hand, one for each way in which a learner can be wrong.

An agent that cannot solve a probe is broken in what that probe adds to the ones before it. Each class states its
hand-computed values under the best policy; `g` is the discount. Observations are float32 vectors unless said otherwise;
a few probes count them instead (`Discrete`), for learners with a table.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8

from shoal.core.env import Env, Key, State
from shoal.core.registry import env
from shoal.core.spaces import Box, Discrete, MultiDiscrete
from shoal.core.struct import Number, static, struct

Outcome = tuple[State, Float[Array, ""], Bool[Array, ""], dict[str, Any]]


class Blind(Env):
    """A probe with nothing to see: the observation is always zero, and the state is the time."""

    @property
    def observation_space(self) -> Box:
        """Zero."""
        return Box(0.0, 0.0, (1,))

    def init(self, key: Key) -> State:
        """Always the same."""
        del key
        return State(jnp.int32(0))

    def observe(self, state: State) -> Float[Array, "1"]:
        """Nothing."""
        del state
        return jnp.zeros((1,), jnp.float32)


@struct
class CueState(State):
    """A fair coin, tossed at the start of the episode."""

    cue: Bool[Array, ""]


class Cued(Env):
    """A probe that shows the toss of a fair coin: the observation is 1 for heads, -1 for tails."""

    @property
    def observation_space(self) -> Box:
        """Heads or tails."""
        return Box(-1.0, 1.0, (1,))

    def init(self, key: Key) -> CueState:
        """Toss."""
        return CueState(jnp.int32(0), jax.random.bernoulli(key))

    def observe(self, state: CueState) -> Float[Array, "1"]:
        """The toss."""
        return _sign(state.cue)[None]


@env("Probe-ConstantReward-v0")
@struct
class ConstantReward(Blind):
    """Probe 1: one step, reward 1 whatever is done. Adds: the value function is fitted at all.

    V = 1.
    """

    @property
    def action_space(self) -> Discrete:
        """Two actions without effect."""
        return Discrete(2)

    def transition(self, state: State, action: Int[Array, ""], noise: None) -> Outcome:
        """Pay and end."""
        del action, noise
        return _end(state, jnp.float32(1))


@env("Probe-ObservationReward-v0")
@struct
class ObservationReward(Cued):
    """Probe 2: one step, the reward is the observation. Adds: the value depends on what is seen.

    V(1) = 1, V(-1) = -1.
    """

    @property
    def action_space(self) -> Discrete:
        """Two actions without effect."""
        return Discrete(2)

    def transition(self, state: CueState, action: Int[Array, ""], noise: None) -> Outcome:
        """Pay the toss and end."""
        del action, noise
        return _end(state, _sign(state.cue))


@env("Probe-DiscountedReward-v0")
@struct
class DiscountedReward(Env):
    """Probe 3: two steps, rewards 0 and 1; the observation is the time. Adds: values go back in time, discounted.

    V(0) = g, V(1) = 1. The observation after the end is 2; nothing should ever value it.
    """

    @property
    def observation_space(self) -> Box:
        """The time."""
        return Box(0.0, 2.0, (1,))

    @property
    def action_space(self) -> Discrete:
        """Two actions without effect."""
        return Discrete(2)

    def init(self, key: Key) -> State:
        """Always the same."""
        del key
        return State(jnp.int32(0))

    def transition(self, state: State, action: Int[Array, ""], noise: None) -> Outcome:
        """Pay on the second step, and end with it."""
        del action, noise
        is_last = state.time >= 2
        return state, is_last.astype(jnp.float32), is_last, {}

    def observe(self, state: State) -> Float[Array, "1"]:
        """Steps taken."""
        return jnp.minimum(state.time, 2).astype(jnp.float32)[None]


@env("Probe-ActionReward-v0")
@struct
class ActionReward(Blind):
    """Probe 4: one step, action 1 earns 1, action 0 costs 1. Adds: the policy improves.

    V = 1; Q(0) = -1, Q(1) = 1. A random policy gets 0.
    """

    @property
    def action_space(self) -> Discrete:
        """Wrong and right."""
        return Discrete(2)

    def transition(self, state: State, action: Int[Array, ""], noise: None) -> Outcome:
        """Pay for the action and end."""
        del noise
        return _end(state, _sign(action == 1))


@env("Probe-MatchingAction-v0")
@struct
class MatchingAction(Cued):
    """Probe 5: one step, 1 for the action that matches the toss, -1 for the other. Adds: the policy depends on what is
    seen, and no batch is out of order.

    V = 1; Q(1, 1) = Q(-1, 0) = 1, Q(1, 0) = Q(-1, 1) = -1. A random or constant policy gets 0.
    """

    @property
    def action_space(self) -> Discrete:
        """Tails and heads."""
        return Discrete(2)

    def transition(self, state: CueState, action: Int[Array, ""], noise: None) -> Outcome:
        """Pay for a match and end."""
        del noise
        return _end(state, _sign((action == 1) == state.cue))


@env("Probe-TimeLimit-v0")
@env("Probe-Termination-v0", max_steps=None, terminates_after=5)
@env("Probe-CountedTimeLimit-v0", observation="index")
@struct
class Horizon(Env):
    """Probe 6 and its twin: reward 1 every step, five steps; the observation is a clock: 0, 0.2, ... 0.8, and 0 again.

    TimeLimit is cut off after `max_steps` but never terminates, so the value must look past the cut:
        V = 1 / (1 - g) at every step (10 for g = 0.9).
    Termination ends for good after `terminates_after` steps:
        V(t / 5) = (1 - g^(5 - t)) / (1 - g), so 4.0951 at first and 1 before the last step for g = 0.9.
    With `observation="index"`, as in CountedTimeLimit, the clock is Discrete(5): 0, 1, ... 4, and 0 again.
    """

    max_steps: Number | None = 5
    terminates_after: int | None = static(None)
    observation: str = static("number", choices=("number", "index"))

    @property
    def observation_space(self) -> Box | Discrete:
        """The clock."""
        return Box(0.0, 1.0, (1,)) if self.observation == "number" else Discrete(5)

    @property
    def action_space(self) -> Discrete:
        """Two actions without effect."""
        return Discrete(2)

    def init(self, key: Key) -> State:
        """Always the same."""
        del key
        return State(jnp.int32(0))

    def transition(self, state: State, action: Int[Array, ""], noise: None) -> Outcome:
        """Pay, and perhaps end."""
        del action, noise
        ends = jnp.bool_(False) if self.terminates_after is None else state.time >= self.terminates_after
        return state, jnp.float32(1), ends, {}

    def observe(self, state: State) -> Float[Array, "1"] | Int[Array, ""]:
        """Fifths of a turn; the end looks like the start, so that its value is one the agent has learned."""
        return ((state.time % 5).astype(jnp.float32) / 5)[None] if self.observation == "number" else state.time % 5


@env("Probe-Memory-v0")
@struct
class Memory(Env):
    """Probe 7: a toss shown at the start only, and asked for `delay` steps later. For recurrent agents.

    Observation: the toss (1 or -1) at first, then 0; and whether the answer is due (0 or 1).
    Reward: 0 until the answer is due, then 1 for the action that matches the toss, -1 for the other; then it ends.

    V = g^delay at the start. An agent without memory gets 0 on average.
    """

    delay: Number = 2

    @property
    def observation_space(self) -> Box:
        """The toss, and whether to answer."""
        return Box((-1.0, 0.0), (1.0, 1.0), (2,))

    @property
    def action_space(self) -> Discrete:
        """Tails and heads."""
        return Discrete(2)

    def init(self, key: Key) -> CueState:
        """Toss."""
        return CueState(jnp.int32(0), jax.random.bernoulli(key))

    def transition(self, state: CueState, action: Int[Array, ""], noise: None) -> Outcome:
        """Judge the answer when it is due."""
        del noise
        answers = state.time > self.delay
        return state, jnp.where(answers, _sign((action == 1) == state.cue), 0.0), answers, {}

    def observe(self, state: CueState) -> Float[Array, "2"]:
        """The toss at first, the question at last."""
        shown = jnp.where(state.time == 0, _sign(state.cue), 0.0)
        return jnp.stack([shown, (state.time >= self.delay).astype(jnp.float32)])


@env("Probe-ContinuousAction-v0")
@struct
class ContinuousAction(Blind):
    """Probe 8, twin of 4: one step, reward 1 - (action - 0.5)^2. Adds: a policy over numbers improves.

    The best action is 0.5; V = 1. A uniform policy gets 1 - 0.25 - 1/3 = 5/12.
    """

    @property
    def action_space(self) -> Box:
        """A number."""
        return Box(-1.0, 1.0, (1,))

    def transition(self, state: State, action: Float[Array, "1"], noise: None) -> Outcome:
        """Pay for being close and end."""
        del noise
        return _end(state, 1 - (action[0] - 0.5) ** 2)


@env("Probe-ContinuousMatching-v0")
@struct
class ContinuousMatching(Cued):
    """Probe 8, twin of 5: one step, reward 1 - (action - target)^2; the target is 0.5 for heads, -0.5 for tails.

    The best action is half the observation; V = 1. The best constant action, 0, gets 0.75.
    """

    @property
    def action_space(self) -> Box:
        """A number."""
        return Box(-1.0, 1.0, (1,))

    def transition(self, state: CueState, action: Float[Array, "1"], noise: None) -> Outcome:
        """Pay for being close and end."""
        del noise
        return _end(state, 1 - (action[0] - 0.5 * _sign(state.cue)) ** 2)


@env("Probe-MultiDiscrete-v0")
@struct
class TwoDials(Cued):
    """Two dials with 2 and 3 settings: one step, reward 1 when both are right, else 0. Heads: (1, 2); tails: (0, 0).

    V = 1. A uniform policy gets 1/6, one with a single dial right 1/3 or 1/2.
    """

    @property
    def action_space(self) -> MultiDiscrete:
        """A setting for each dial."""
        return MultiDiscrete((2, 3))

    def transition(self, state: CueState, action: Int[Array, "2"], noise: None) -> Outcome:
        """Pay when both are right and end."""
        del noise
        right = jnp.where(state.cue, (action[0] == 1) & (action[1] == 2), (action[0] == 0) & (action[1] == 0))
        return _end(state, right)


@struct
class LampState(State):
    """Where the lamp is."""

    row: Int[Array, ""]
    column: Int[Array, ""]


@env("Probe-Image-v0")
@struct
class Lamp(Env):
    """One lit pixel in a dark image: one step, 1 for naming the half it is in (0 left, 1 right), -1 for the other.

    Observation: uint8 [10, 10, 1], 255 at the lamp and 0 elsewhere; the lamp is anywhere, uniformly.

    V = 1. A random or constant policy gets 0.
    """

    @property
    def observation_space(self) -> Box:
        """A gray image."""
        return Box(0, 255, (10, 10, 1), np.uint8)

    @property
    def action_space(self) -> Discrete:
        """Left and right."""
        return Discrete(2)

    def init(self, key: Key) -> LampState:
        """Hang the lamp."""
        row, column = jax.random.randint(key, (2,), 0, 10, jnp.int32)
        return LampState(jnp.int32(0), row, column)

    def transition(self, state: LampState, action: Int[Array, ""], noise: None) -> Outcome:
        """Pay for the right half and end."""
        del noise
        return _end(state, _sign((action == 1) == (state.column >= 5)))

    def observe(self, state: LampState) -> UInt8[Array, "10 10 1"]:
        """Light it."""
        place = jnp.arange(10, dtype=jnp.int32)
        is_lamp = (place == state.row)[:, None] & (place == state.column)[None, :]
        return jnp.where(is_lamp, 255, 0).astype(jnp.uint8)[:, :, None]


@env("Probe-CountedMatching-v0")
@struct
class CountedMatching(Env):
    """Twin of 5 with a counted observation: 1 for heads, 0 for tails; one step, 1 for naming it, -1 otherwise.

    V = 1; Q(s, s) = 1, Q(s, 1 - s) = -1. A random or constant policy gets 0.
    """

    @property
    def observation_space(self) -> Discrete:
        """Tails and heads."""
        return Discrete(2)

    @property
    def action_space(self) -> Discrete:
        """Tails and heads."""
        return Discrete(2)

    def init(self, key: Key) -> CueState:
        """Toss."""
        return CueState(jnp.int32(0), jax.random.bernoulli(key))

    def transition(self, state: CueState, action: Int[Array, ""], noise: None) -> Outcome:
        """Pay for a match and end."""
        del noise
        return _end(state, _sign((action == 1) == state.cue))

    def observe(self, state: CueState) -> Int[Array, ""]:
        """The toss."""
        return state.cue.astype(jnp.int32)


@struct
class ChainState(State):
    """Which of the cells one is in; one more than the last is the end."""

    cell: Int[Array, ""]


@env("Probe-Chain-v0")
@struct
class Chain(Env):
    """Four cells in a row, from left to right: action 1 goes right, action 0 left (from the first cell, nowhere).

    Observation: Discrete(5), the cell; 4 is beyond the last, where it ends with reward 1. All other rewards are 0. Adds
    to 3: the value depends on what is done, and only one way of doing it leads there.

    V(s) = g^(3 - s), so 0.729 at first for g = 0.9; Q(s, 0) = g V(max(s - 1, 0)). The best policy takes four steps.
    """

    max_steps: Number | None = None

    @property
    def observation_space(self) -> Discrete:
        """The cells, and the end."""
        return Discrete(5)

    @property
    def action_space(self) -> Discrete:
        """Left and right."""
        return Discrete(2)

    def init(self, key: Key) -> ChainState:
        """In the first cell."""
        del key
        return ChainState(jnp.int32(0), jnp.int32(0))

    def transition(self, state: ChainState, action: Int[Array, ""], noise: None) -> Outcome:
        """Walk."""
        del noise
        cell = jnp.clip(state.cell + jnp.where(action == 1, 1, -1), 0, 4)
        return state.replace(cell=cell), (cell == 4).astype(jnp.float32), cell == 4, {}

    def observe(self, state: ChainState) -> Int[Array, ""]:
        """The cell."""
        return state.cell


@struct
class ForkState(State):
    """0 at the fork, 1 on the way around, 2 at the end."""

    place: Int[Array, ""]


@env("Probe-Mask-v0")
@struct
class Fork(Env):
    """A fork where some actions are forbidden: 1 ends with reward -1; 0, for nothing, leads on to where only 2 is
    allowed, which ends with reward -2. A forbidden action would earn 5 and end. Adds: masks count, also in targets.

    Observation: Discrete(3), the place; 2 is the end.

    V(0) = -1, V(1) = -2; Q(0, 0) = -2 g. Whoever thinks that in place 1 there are other actions, of which nobody ever
    learns that they are bad, goes there.
    """

    @property
    def observation_space(self) -> Discrete:
        """The places."""
        return Discrete(3)

    @property
    def action_space(self) -> Discrete:
        """On, out, and the only one there."""
        return Discrete(3)

    def action_mask(self, state: ForkState) -> Bool[Array, "3"]:
        """On or out at first, then only 2."""
        is_only = jnp.arange(3, dtype=jnp.int32) == 2
        return jnp.where(state.place == 0, ~is_only, jnp.where(state.place == 1, is_only, True))

    def init(self, key: Key) -> ForkState:
        """At the fork."""
        del key
        return ForkState(jnp.int32(0), jnp.int32(0))

    def transition(self, state: ForkState, action: Int[Array, ""], noise: None) -> Outcome:
        """Go on, or pay and end."""
        del noise
        is_allowed = self.action_mask(state)[action]
        goes_on = is_allowed & (action == 0)
        reward = jnp.where(is_allowed, -action.astype(jnp.float32), 5.0)
        return state.replace(place=jnp.where(goes_on, jnp.int32(1), jnp.int32(2))), reward, ~goes_on, {}

    def observe(self, state: ForkState) -> Int[Array, ""]:
        """The place."""
        return state.place


def _sign(is_good: Bool[Array, ""]) -> Float[Array, ""]:
    return jnp.where(is_good, 1.0, -1.0).astype(jnp.float32)


def _end(state: State, reward: Array) -> Outcome:
    return state, reward.astype(jnp.float32), jnp.bool_(True), {}
