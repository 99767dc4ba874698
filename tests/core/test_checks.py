"""`check_env` accepts a correct environment, and names the fault of each of many broken ones."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from shoal.core.checks import check_env
from shoal.core.env import Env, State
from shoal.core.errors import CheckError
from shoal.core.spaces import Box, Dict, Discrete, Tuple
from shoal.core.struct import Number, static, struct


@struct
class LineState(State):
    """The position on the line."""

    x: Float[Array, ""]


@struct
class Line(Env):
    """A walk on a line with random wind; the far end is the goal. It keeps the whole contract."""

    goal: Number = 5.0
    wind: Number = 0.1
    max_steps: Number | None = 20
    name: str = static("line")

    @property
    def observation_space(self):
        return Box(-30.0, 30.0, (1,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return LineState(time=jnp.int32(0), x=jax.random.uniform(key))

    def noise(self, key):
        return jax.random.normal(key)

    def transition(self, state, action, noise):
        state = state.replace(x=state.x + jnp.where(action == 1, 1.0, -1.0) + self.wind * jnp.clip(noise, -1, 1))
        return state, state.x / 10, state.x > self.goal, {"distance": self.goal - state.x}

    def observe(self, state):
        return state.x[None]

    def action_mask(self, state):
        return jnp.stack([state.x > -8.0, jnp.bool_(True)])

    def render(self, state):
        return np.zeros((4, 30, 3), np.uint8)


def test_a_correct_environment_passes():
    check_env(Line())
    check_env(Line(max_steps=None), key=jax.random.key(7), steps=5)


@struct
class NumberlessField(Line):
    title: Any = "line"


@struct
class ListOfSpaces(Line):
    @property
    def observation_space(self):
        return [Box(-30.0, 30.0, (1,))]


@struct
class ShapeFromNumber(Line):
    @property
    def observation_space(self):
        return Box(-30.0, 30.0, (int(self.wind) + 1,))


@struct
class DictState(Line):
    def init(self, key):
        return {"time": jnp.int32(0), "x": jax.random.uniform(key)}


@struct
class FloatTime(Line):
    def init(self, key):
        return LineState(time=jnp.float32(0), x=jax.random.uniform(key))


@struct
class ThreeResults(Line):
    def transition(self, state, action, noise):
        return Line.transition(self, state, action, noise)[:3]


@struct
class GrowingState(Line):
    def transition(self, state, action, noise):
        state, *rest = Line.transition(self, state, action, noise)
        return state.replace(x=state.x[None]), *rest


@struct
class OtherState(Line):
    def transition(self, state, action, noise):
        state, *rest = Line.transition(self, state, action, noise)
        return State(time=state.time), *rest


@struct
class IntReward(Line):
    def transition(self, state, action, noise):
        state, _, terminated, info = Line.transition(self, state, action, noise)
        return state, jnp.int32(1), terminated, info


@struct
class FloatFlag(Line):
    def transition(self, state, action, noise):
        state, reward, terminated, info = Line.transition(self, state, action, noise)
        return state, reward, terminated.astype(jnp.float32), info


@struct
class NoInfo(Line):
    def transition(self, state, action, noise):
        return *Line.transition(self, state, action, noise)[:3], None


@struct
class TextInfo(Line):
    def transition(self, state, action, noise):
        return *Line.transition(self, state, action, noise)[:3], {"name": "line"}


@struct
class WideObservation(Line):
    def observe(self, state):
        return jnp.stack([state.x, state.x])


@struct
class DoubtfulMask(Line):
    def action_mask(self, state):
        return jnp.ones(3, bool)


@struct
class EmptyMask(Line):
    def action_mask(self, state):
        return jnp.stack([state.x > -8.0, state.x > -8.0]) & (state.time < 3)


@struct
class BranchOnConstant(Line):
    def transition(self, state, action, noise):
        if self.goal > 3:
            return Line.transition(self, state, action, noise)
        return Line.transition(self, state, 1 - action, noise)


@struct
class BranchOnState(Line):
    def observe(self, state):
        return state.x[None] if state.x > 0 else jnp.zeros(1)


@struct
class Escaping(Line):
    def observe(self, state):
        return state.x[None] + 29.0


@struct
class InfiniteReward(Line):
    def transition(self, state, action, noise):
        state, _, terminated, info = Line.transition(self, state, action, noise)
        return state, 1 / jnp.maximum(3 - state.time, 0).astype(jnp.float32), terminated, info


@struct
class CountsTwice(Line):
    def transition(self, state, action, noise):
        return Line.transition(self, state.replace(time=state.time + 1), action, noise)


@struct
class NumpyNoise(Line):
    def noise(self, key):
        return jnp.float32(np.random.default_rng().normal())


class Counter:
    calls = 0


@struct
class Remembering(Line):
    def observe(self, state):
        Counter.calls += 1
        return jnp.float32(Counter.calls % 20)[None]


@struct
class KnowsWhetherItIsTraced(Line):
    def observe(self, state):
        return state.x[None] + (1.0 if isinstance(state.x, jax.core.Tracer) else 0.0)


@jax.custom_batching.custom_vmap
def shifted(x):
    return x


@shifted.def_vmap
def _shifted_batch(axis_size, in_batched, x):
    return x + 0.5, in_batched[0]


@struct
class LyingTwin(Line):
    def observe(self, state):
        return shifted(state.x)[None]


@struct
class FreshLambda(Line):
    law: Any = static(None)

    def __post_init__(self):
        object.__setattr__(self, "law", lambda x: x)


@struct
class StartsOutside(Line):
    def observe(self, state):
        return jnp.where(state.time == 0, 31.0, state.x)[None]


@struct
class OwnKey(Line):
    def init(self, key):
        return Line.init(self, jax.random.key(0))


@struct
class OwnNoiseKey(Line):
    def noise(self, key):
        return jax.jit(lambda: jax.random.normal(jax.random.key(3)))()


@struct
class FloatPicture(Line):
    def render(self, state):
        return np.zeros((4, 30, 3))


@struct
class BrokenCarryOver(Line):
    def carry_over(self, ended, fresh):
        return fresh.replace(x=fresh.x.astype(jnp.float16))


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (NumberlessField, r"NumberlessField.title='line' is not a number.*static"),
        (ListOfSpaces, "observation_space is .*, not a space"),
        (ShapeFromNumber, "ShapeFromNumber.observation_space needs the value of a traced number"),
        (DictState, "DictState.init gives a dict; return a @struct class derived from State"),
        (FloatTime, r"init gives time as float32\[\], not as a scalar int32: start it as jnp.int32\(0\)"),
        (ThreeResults, "transition must give four things"),
        (GrowingState, r"transition changes state.x from float32\[\], which init gives, to float32\[1\]"),
        (OtherState, "transition gives another kind of state than init"),
        (IntReward, r"gives reward as int32\[\], not as a scalar float32"),
        (FloatFlag, r"gives terminated as float32\[\], not as a scalar bool"),
        (NoInfo, r"gives a NoneType for info; return a dict, \{\}"),
        (TextInfo, "transition gives something that is neither an array nor a tree of them"),
        (WideObservation, r"disagrees with observation_space: the observation is float32 with shape \(2,\)"),
        (DoubtfulMask, r"action_mask gives bool\[3\]; return bool\[2\]"),
        (EmptyMask, "action_mask allows no action at all after 3 steps"),
        (BranchOnConstant, "transition needs the value of a traced number.*Use jnp.where"),
        (BranchOnState, "observe needs the value of a traced number"),
        (Escaping, "observe leaves observation_space after . steps: the observation=.* is out of bounds"),
        (StartsOutside, "observe leaves observation_space at the start of an episode: .* is out of bounds"),
        (InfiniteReward, "transition gives reward inf after 3 steps; it must be finite"),
        (CountsTwice, "transition changes state.time; do not change it"),
        (NumpyNoise, "noise called twice with the same arguments gives two results"),
        (Remembering, "observe called twice with the same arguments gives two results"),
        (KnowsWhetherItIsTraced, r"eager calls and jit disagree about the first step at \['obs'\]"),
        (LyingTwin, r"jit and vmap disagree about the first step at \['obs'\]"),
        (FreshLambda, "FreshLambda recompiles when one of its constants changes.*lambda"),
        (OwnKey, "init makes a key of its own, and 16 different keys give it the same result"),
        (OwnNoiseKey, "noise makes a key of its own"),
        (FloatPicture, r"render gives float64\[4, 30, 3\]; return uint8 \[H, W, 3\]"),
        (BrokenCarryOver, r"carry_over changes state.x from float32\[\], which init gives, to float16\[\]"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_environment_is_named_with_its_hook(broken, says):
    with pytest.raises(CheckError, match=f"(?s){says}"):
        check_env(broken(), steps=16)


def test_an_undecorated_class_is_asked_to_be_a_struct():
    class Bare(Line):
        pass

    with pytest.raises(CheckError, match="write @struct above `class Bare`"):
        check_env(Bare())


def test_a_value_that_is_no_environment_is_refused():
    with pytest.raises(CheckError, match=r"'CartPole-v1' is not an environment: give the value, shoal.make\('CartPole"):
        check_env("CartPole-v1")
    with pytest.raises(CheckError, match="is not an environment: derive its class from shoal's Env"):
        check_env(None)


def test_an_error_inside_a_hook_is_the_cause_of_one_that_names_hook_and_line():
    @struct
    class Raising(Line):
        def observe(self, state):
            raise OverflowError("too deep")

    with pytest.raises(
        CheckError, match=r"test_checks.py:\d+: Raising.observe raises OverflowError: too deep"
    ) as caught:
        check_env(Raising())
    assert isinstance(caught.value.__cause__, OverflowError)


@pytest.mark.parametrize("space", [Box(0.0, 1.0, (0,)), Dict({}), Tuple(())])
@pytest.mark.parametrize("which", ["observation_space", "action_space"])
def test_a_space_without_numbers_is_refused(which, space):
    @struct
    class Empty(Line):
        pass

    setattr(Empty, which, property(lambda self: space))
    with pytest.raises(CheckError, match=f"{which} is .*, which holds no number"):
        check_env(Empty())
