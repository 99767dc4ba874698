"""Environments for tests: a small one that can be computed by hand, and the registered ones grouped by class."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int

from shoal.core.env import MAX_TIME, Env, State
from shoal.core.registry import ENVS
from shoal.core.spaces import Box, Dict, Discrete
from shoal.core.struct import Number, static, struct, to_arrays
from shoal.envs.probes import ContinuousMatching, Horizon

# The hooks of an environment, each compiled once for all values that have the same static fields. Called one by one
# they would compile each of their operations alone.
init = jax.jit(lambda env, key: env.init(key))
noise = jax.jit(lambda env, key: env.noise(key))
advance = jax.jit(lambda env, state, action, noise: env.advance(state, action, noise))
observe = jax.jit(lambda env, state: env.observe(state))


@struct
class TallyState(State):
    """The sum of all actions, the last action, and episodes played."""

    total: Int[Array, ""]
    last: Int[Array, ""]
    episodes: Int[Array, ""]


@struct
class Tally(Env):
    """Add up actions and noise bits. The reward is the sum; action 2 is forbidden after an action 2."""

    bonus: Number = 0
    max_steps: Number | None = 7

    @property
    def observation_space(self):
        return Dict({"total": Box(0, 99, (2,), np.uint8), "last": Discrete(3)})

    @property
    def action_space(self):
        return Discrete(3)

    def init(self, key):
        start = jax.random.randint(key, (), 0, 5)
        return TallyState(jnp.int32(0), start, jnp.int32(0), jnp.int32(0))

    def noise(self, key):
        return jax.random.bernoulli(key).astype(jnp.int32)

    def transition(self, state, action, noise):
        total = state.total + action + noise + self.bonus
        state = state.replace(total=total, last=action)
        return state, total.astype(jnp.float32), total >= 30, {"time_seen": state.time}

    def observe(self, state):
        return {"total": jnp.stack([state.total, state.total + 1]).astype(jnp.uint8), "last": state.last}

    def action_mask(self, state):
        return jnp.stack([jnp.bool_(True), jnp.bool_(True), state.last != 2])

    def carry_over(self, ended, fresh):
        return fresh.replace(episodes=ended.episodes + 1)

    def render(self, state):
        return np.full((2, 2, 3), int(state.total), np.uint8)


@struct
class DialedHorizon(Horizon):
    """The probes of time limits and terminations with a continuous action, which has no effect."""

    @property
    def action_space(self):
        return Box(-1.0, 1.0, (1,))

    def transition(self, state, action, noise):
        del action
        return super().transition(state, jnp.int32(0), noise)


@struct
class Scaled(ContinuousMatching):
    """Probe-ContinuousMatching-v0 with an action of several numbers, each in a box of its own: center +- half-width.

    The reward is the mean of the probe's rewards for the numbers on a scale from -1 to 1.
    """

    center: tuple[float, ...] = static((0.0,))
    half: tuple[float, ...] = static((1.0,))

    @property
    def action_space(self):
        center, half = np.asarray(self.center), np.asarray(self.half)
        return Box(tuple((center - half).tolist()), tuple((center + half).tolist()), center.shape)

    def transition(self, state, action, noise):
        unit = (action - jnp.asarray(self.center, jnp.float32)) / jnp.asarray(self.half, jnp.float32)
        outcomes = [ContinuousMatching.transition(self, state, unit[i : i + 1], noise) for i in range(len(self.half))]
        return outcomes[0][0], jnp.mean(jnp.stack([reward for _, reward, _, _ in outcomes])), *outcomes[0][2:]


@struct
class SeveralState(State):
    """One state of each environment, of which only one is used."""

    parts: tuple


@struct
class Several(Env):
    """One of several environments, chosen by a traced number: a learner compiles once for all of them.

    They have one kind of observation, in `observation_space`, and one kind of action, and no noise.
    """

    envs: tuple = ()
    which: Number = 0
    max_steps: Number | None = None
    observation_space: Any = static(None)

    @classmethod
    def of(cls, envs, observation_space):
        """An instance with the shortest time limit, to which an agent is bound for all of them."""
        limit = min((env.max_steps for env in envs if env.max_steps is not None), default=None)
        return cls(envs=envs, max_steps=limit, observation_space=observation_space)

    def only(self, which):
        """One of them."""
        limit = None if self.max_steps is None else self.envs[which].max_steps or MAX_TIME
        return to_arrays(self.replace(which=which, max_steps=limit))

    @property
    def action_space(self):
        return self.envs[0].action_space

    def init(self, key):
        return SeveralState(jnp.int32(0), tuple(env.init(key) for env in self.envs))

    def transition(self, state, action, noise):
        pairs = zip(self.envs, state.parts, strict=True)
        results = [env.transition(part.replace(time=state.time), action, None) for env, part in pairs]
        parts, rewards, ends, _ = zip(*results, strict=True)
        return state.replace(parts=parts), self._one(rewards), self._one(ends), {}

    def observe(self, state):
        seen = [env.observe(part) for env, part in zip(self.envs, state.parts, strict=True)]
        return self._one(seen).astype(self.observation_space.dtype)

    def _one(self, of_each):
        return jnp.stack(of_each)[self.which]


@struct
class TracedHorizon(DialedHorizon):
    """The same in a box of another width; one compiled program plays it with any limit, end and gain."""

    terminates_after: Number = 10**6
    gain: Number = 0.0  # of the reward, for each unit of the action

    @property
    def action_space(self):
        return Box(-2.0, 2.0, (1,))

    def transition(self, state, action, noise):
        state, reward, ends, info = super().transition(state, action, noise)
        return state, reward + self.gain * action[0], ends, info


def play(env, actions, noises, key):
    """Play under given noise: (state, observation), then also reward, flags and info for every step."""
    state = init(env, key)
    seen = [(state, observe(env, state))]
    for action, lots in zip(actions, noises, strict=True):
        state, reward, terminated, truncated, info = advance(env, state, jnp.int32(action), lots)
        seen.append((state, observe(env, state), float(reward), bool(terminated), bool(truncated), info))
    return seen


def names_of_each_class(*unwanted: str) -> list:
    """Registered names, grouped by the class they build, as pytest parameters. `unwanted` are beginnings of names."""
    names: dict[type, list[str]] = {}
    for name in ENVS:
        if not name.startswith(unwanted):
            names.setdefault(ENVS[name].cls, []).append(name)
    return [pytest.param(of_class, id=cls.__name__) for cls, of_class in names.items()]


def smallest(names: list[str]) -> Env:
    """The environment with the smallest state among several names of one class."""
    return ENVS[names[0] if len(names) == 1 else min(names, key=_size_of_state)].build()


def _size_of_state(name: str) -> int:
    leaves = jax.tree.leaves(jax.eval_shape(ENVS[name].build().init, jax.random.key(0)))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


@struct
class Poisoned(Env):
    """Reward 1, or NaN where `poison` is set."""

    poison: Number = 0.0
    max_steps: Number | None = 5

    @property
    def observation_space(self):
        return Box(0.0, 1.0, (1,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return State(jnp.int32(0))

    def observe(self, state):
        return jnp.zeros((1,), jnp.float32)

    def transition(self, state, action, noise):
        reward = jnp.where(self.poison > 0, jnp.nan, 1.0).astype(jnp.float32)
        return state, reward, jnp.bool_(False), {}


@struct
class Drip(Env):
    """A reward of 0.1 in every step, and one episode of many steps."""

    max_steps: Number | None = 10**6

    @property
    def observation_space(self):
        return Box(0.0, 1.0, (1,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return State(jnp.int32(0))

    def observe(self, state):
        return jnp.zeros((1,), jnp.float32)

    def transition(self, state, action, noise):
        return state, jnp.float32(0.1), jnp.bool_(False), {}


@struct
class OwnLimitState(State):
    """The time limit of this episode."""

    limit: Int[Array, ""]


@struct
class OwnLimit(Env):
    """Each episode has its own time limit, from 3 to 5 steps, unless the user gives `max_steps`."""

    max_steps: Number | None = None

    @property
    def limit_range(self):
        return (3, 5) if self.max_steps is None else (self.max_steps, self.max_steps)

    @property
    def observation_space(self):
        return Box(0.0, 1.0, (1,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return OwnLimitState(jnp.int32(0), jax.random.randint(key, (), 3, 6))

    def limit_of(self, state):
        return state.limit if self.max_steps is None else self.max_steps

    def observe(self, state):
        return jnp.zeros((1,), jnp.float32)

    def transition(self, state, action, noise):
        return state, jnp.float32(1), jnp.bool_(False), {}
