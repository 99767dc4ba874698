"""Another environment for every episode: domain randomization, or a distribution of tasks."""

from collections.abc import Callable
from typing import Any

import jax

from shoal.core.env import Env, Observation
from shoal.core.keys import Key
from shoal.core.struct import static, struct, to_arrays
from shoal.core.wrappers.base import Wrapper, WrapperState


@struct
class RandomizeState(WrapperState):
    """The inner state and the environment that was drawn for this episode."""

    env: Env


@struct
class Randomize(Wrapper):
    """Play every episode in an environment drawn for it.

    `sample(key)` returns an environment of the same class and static fields as `env`, with other numbers in it; it is
    part of the program, so define it once. Spaces and `max_steps` are those of `env`: choose one whose bounds hold for
    every draw. Raises ValueError when `sample` draws another kind of environment.

        def sample(key):
            return CartPole(length=jax.random.uniform(key, minval=0.25, maxval=1.0))

        Randomize(CartPole(), sample)
    """

    sample: Callable[[Key], Env] = static()

    def init(self, key: Key) -> RandomizeState:
        """An environment, and its first state."""
        k_sample, k_init = jax.random.split(key)
        drawn = to_arrays(self.sample(k_sample))
        expected, given = jax.tree.structure(self.env), jax.tree.structure(drawn)
        if expected != given:
            raise ValueError(f"sample must draw an environment with the structure of env, {expected}, not {given}.")
        inner = drawn.init(k_init)
        return RandomizeState(time=inner.time, inner=inner, env=drawn)

    def noise(self, key: Key) -> Any:
        """The key itself, for the noise of an environment that only the state knows; None if it needs none."""
        return key if jax.tree.leaves(jax.eval_shape(self.env.noise, key)) else None

    def transition(self, state: RandomizeState, action: Any, noise: Any) -> tuple[RandomizeState, Any, Any, Any]:
        """The dynamics of the environment drawn."""
        inner = state.inner.replace(time=state.time)
        noise = None if noise is None else state.env.noise(noise)
        inner, reward, terminated, info = state.env.transition(inner, action, noise)
        return state.replace(inner=inner), reward, terminated, info

    def observe(self, state: RandomizeState) -> Observation:
        """What the environment drawn shows."""
        return state.env.observe(state.inner)

    def action_mask(self, state: RandomizeState) -> Any:
        """The mask of the environment drawn."""
        return state.env.action_mask(state.inner)

    def carry_over(self, ended: RandomizeState, fresh: RandomizeState) -> RandomizeState:
        """What the environment drawn afresh keeps of the inner state that ended."""
        return fresh.replace(inner=fresh.env.carry_over(ended.inner, fresh.inner))

    def render(self, state: RandomizeState) -> Any:
        """The picture that the environment drawn paints."""
        return state.env.render(state.inner)
