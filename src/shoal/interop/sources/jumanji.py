"""Environments of Jumanji: `jumanji/Snake-v1`, `jumanji/Game2048-v1`, `jumanji/RubiksCube-v0`.

The action mask of an observation becomes shoal's. A mask over pairs of choices (a cell of a board, for example) makes
one choice of all pairs. An episode terminates where Jumanji's discount is 0, which in most of its environments is so
at the time limit too: their observations have the number of the step.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from shoal.core.errors import need
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Discrete, MultiDiscrete, Space
from shoal.core.struct import struct
from shoal.interop.foreign import (
    ForeignEnv,
    ForeignState,
    LibraryEnv,
    Outcome,
    arguments_of,
    box,
    checked_name,
    declare,
    plain_options,
    unbounded,
)

MASK = "action_mask"


@struct
class JumanjiEnv(ForeignEnv):
    """An environment of Jumanji for one agent."""

    @classmethod
    def make_library_env(cls, options: Mapping[str, Any]) -> LibraryEnv:
        """Make the environment, and trace its reset for the shapes of observations and masks."""
        env = _jumanji(cls.name).make(cls.id, **options)
        _, step = jax.eval_shape(env.reset, make_key(0))
        if step.reward.shape:
            raise TypeError(f"{cls.name} has {step.reward.shape[0]} agents, and shoal's agents play alone.")
        obs = _as_dict(step.observation)
        mask = obs.pop(MASK, None) if isinstance(obs, dict) else None
        actions = _action_space(env.action_spec, mask, cls.name)
        return LibraryEnv(env, unbounded(obs), actions, getattr(env, "time_limit", None))

    def noise(self, key: Key) -> None:
        """No noise: Jumanji keeps a key in its state."""

    def begin(self, key: Key) -> tuple[Any, Any]:
        """Call `reset`."""
        inner, step = self.library.env.reset(key)
        return inner, _as_dict(step.observation)

    def proceed(self, inner: Any, action: Any, key: Key | None) -> Outcome:
        """Call `step`."""
        nvec = tuple(np.ravel(getattr(self.library.env.action_spec, "num_values", ())).tolist())
        if len(nvec) > 1 and isinstance(self.action_space, Discrete):
            action = jnp.stack(jnp.unravel_index(action, nvec))
        inner, step = self.library.env.step(inner, action)
        return Outcome(inner, _as_dict(step.observation), step.reward, step.last() & (step.discount == 0))

    def observe(self, state: ForeignState) -> Any:
        """The observation without the mask."""
        if not isinstance(state.obs, dict):
            return state.obs
        return {name: part for name, part in state.obs.items() if name != MASK}

    def action_mask(self, state: ForeignState) -> Bool[Array, "A"] | None:
        """Jumanji's mask as one vector."""
        has_mask = isinstance(state.obs, dict) and MASK in state.obs
        return state.obs[MASK].reshape(-1) if has_mask else None


def names() -> list[str]:
    """The ids that Jumanji knows."""
    return sorted(_jumanji("the list of Jumanji's environments").registered_environments())


@lru_cache
def class_of(name: str) -> type[ForeignEnv]:
    """Make the class of an id, with the plain arguments of Jumanji's constructor as static fields."""
    jumanji = _jumanji(f"jumanji/{name}")
    full = checked_name("jumanji", name, jumanji.registered_environments())
    with jax.ensure_compile_time_eval():
        env = jumanji.make(name)
    arguments = {arg: getattr(env, arg, value) for arg, value in arguments_of(type(env)).items()}  # an id may preset it
    return declare(JumanjiEnv, full, f"{name} of Jumanji.", options=plain_options(arguments))


def _action_space(spec: Any, mask: Any, name: str) -> Space:
    """The space of actions; one choice of all combinations where the mask has an axis for each part of an action."""
    kind = type(spec).__name__
    if kind == "DiscreteArray":
        return Discrete(int(spec.num_values))
    if kind == "MultiDiscreteArray" and np.ndim(spec.num_values) == 1:
        nvec = tuple(np.asarray(spec.num_values).tolist())
        return Discrete(int(np.prod(nvec))) if mask is not None and mask.shape == nvec else MultiDiscrete(nvec)
    if kind == "BoundedArray" and np.issubdtype(spec.dtype, np.floating):
        return box(spec.minimum, spec.maximum, spec)
    raise TypeError(
        f"the actions of {name} are {spec}, which shoal cannot hold: it has Discrete, MultiDiscrete and Box."
    )


def _as_dict(obs: Any) -> Any:
    """An observation as arrays, dicts and tuples, where Jumanji has named tuples and dataclasses."""
    if hasattr(obs, "_asdict"):
        return {name: _as_dict(part) for name, part in obs._asdict().items()}
    if hasattr(obs, "__dataclass_fields__"):
        return {name: _as_dict(getattr(obs, name)) for name in obs.__dataclass_fields__}
    return obs


def _jumanji(purpose: str) -> Any:
    return need("jumanji", "jumanji", purpose)
