"""Environments that Python steps, outside the compiled program: those of Gymnasium, for example.

`HostEnv` is a value like every environment, so an agent can be bound to it. Its state holds the observation that the
last step returned. The steps themselves are taken by a `Simulator`, which `open` starts, or by `Simulators`, which take
a step of many environments in one call. `shoal.train`, `shoal.evaluate` and the command line step simulators; other
functions refuse such an environment.
"""

import abc
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from shoal.core.env import Env, Key, Observation, State
from shoal.core.spaces import Discrete, MultiDiscrete, zeros
from shoal.core.struct import static, struct


@runtime_checkable
class Simulator(Protocol):
    """One environment that is running on the host. Observations and actions are NumPy arrays, or trees of them."""

    def reset(self, seed: int) -> tuple[Any, Any]:
        """Begin the episode of a seed. Returns (observation, action mask or None)."""
        ...

    def step(self, action: Any) -> tuple[Any, Any, float, bool, bool]:
        """Take one step. Returns (observation, action mask or None, reward, terminated, truncated)."""
        ...

    def close(self) -> None:
        """Free what the environment holds."""
        ...


@runtime_checkable
class Simulators(Protocol):
    """E environments that run on the host. The methods take the indices `which` [N] of the environments meant.

    The first call is a `reset` of all of them.
    """

    def reset(self, which: np.ndarray, seeds: Sequence[int]) -> tuple[Any, Any]:
        """Begin the episodes of N seeds. Returns (observations [N], action masks [N] or None)."""
        ...

    def step(self, which: np.ndarray, actions: Any) -> tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]:
        """Take a step with actions [N]: (observations, masks or None, rewards, terminated, truncated), all [N].

        No environment begins another episode by itself.
        """
        ...

    def close(self) -> None:
        """Free what the environments hold."""
        ...


class OneByOne:
    """Several simulators, whose steps are taken one after the other."""

    def __init__(self, simulators: Sequence[Simulator]) -> None:
        """Use these simulators."""
        self.simulators = simulators

    def reset(self, which: np.ndarray, seeds: Sequence[int]) -> tuple[Any, Any]:
        """Begin episodes. See `Simulators`."""
        return _stacked([self.simulators[e].reset(seed) for e, seed in zip(which.tolist(), seeds, strict=True)])

    def step(self, which: np.ndarray, actions: Any) -> tuple[Any, Any, np.ndarray, np.ndarray, np.ndarray]:
        """Take a step. See `Simulators`."""
        of_env = (jax.tree.map(lambda x, n=n: x[n], actions) for n in range(len(which)))
        rows = [self.simulators[e].step(action) for e, action in zip(which.tolist(), of_env, strict=True)]
        obs, mask, *numbers = zip(*rows, strict=True)
        dtypes = (np.float64, bool, bool)
        reward, terminated, truncated = (np.array(x, dtype) for x, dtype in zip(numbers, dtypes, strict=True))
        return *_stacked([*zip(obs, mask, strict=True)]), reward, terminated, truncated

    def close(self) -> None:
        """Close all of them."""
        for simulator in self.simulators:
            simulator.close()


def _stacked(rows: list[Any]) -> Any:
    return jax.tree.map(lambda *xs: np.stack(xs), *rows)


@struct
class HostState(State):
    """The part of the state of an environment on the host that a compiled program has."""

    obs: Any
    mask: Any = None  # which actions are allowed; None if all actions always are


@struct
class PicturedState(HostState):
    """A state of a recorded episode, with its picture."""

    picture: Any = None  # uint8 [H, W, 3]


@struct
class HostEnv(Env):
    """An environment that Python steps. Subclass it with `open` and the two spaces.

    Episodes must follow from the seed of their reset and the actions: a resumed run repeats the actions of the episodes
    that were not over, to bring new simulators to the same states. Where they do not, `repeats_episodes` is False. An
    episode is truncated after `max_steps` steps, whether or not the simulator says so.

    With `truncates_early` an environment may truncate its episodes at any step, and not only at its time limit. Room
    for a final observation of every step is kept then.
    """

    has_mask: bool = static(False)  # whether simulators return action masks
    truncates_early: bool = static(False)

    @abc.abstractmethod
    def open(self) -> Simulator:
        """Start an environment on the host."""

    def open_many(self, count: int) -> Simulators:
        """Start `count` environments that take their steps together. Default: one after the other."""
        return OneByOne([self.open() for _ in range(count)])

    def check_count(self, count: int) -> None:
        """Raise ValueError if `count` environments cannot be stepped together. Default: any number can."""

    @property
    def repeats_episodes(self) -> bool:
        """Whether an episode follows from the seed of its reset and its actions."""
        return True

    @property
    def earliest_truncation(self) -> Any:
        """1 with `truncates_early`, otherwise the time limit."""
        return 1 if self.truncates_early else super().earliest_truncation

    @property
    def label(self) -> str:
        """The name of the environment in messages."""
        return type(self).__name__

    @property
    def code(self) -> tuple[str, ...]:
        """The files with the code of the simulator, beside that of the class."""
        return ()

    @property
    def has_pictures(self) -> bool:
        """Whether videos can be made: then simulators of `open_to_draw` have `picture() -> uint8 [H, W, 3]`."""
        return False

    def open_to_draw(self) -> Any:
        """Start an environment that can draw its present state."""
        return self.open()

    def render(self, state: State) -> Any:
        """The picture of a state of a recorded episode. Others have none, because the simulator has moved on."""
        if not isinstance(state, PicturedState):
            raise NotImplementedError(f"this state of {type(self).__name__} has no picture: shoal.render records some.")
        return state.picture

    def init(self, key: Key) -> HostState:
        """A state without an episode: observation and mask are zero until the host puts in those of a simulator."""
        del key
        return HostState(jnp.int32(0), zeros(self.observation_space), self._no_mask())

    def transition(self, state: HostState, action: Any, noise: Any) -> NoReturn:
        """Raise TypeError: Python takes the steps."""
        raise TypeError(
            f"{type(self).__name__} is stepped by Python and cannot be part of a compiled program: shoal.train and "
            f"shoal.evaluate can use it, and `open()` starts one to step by hand."
        )

    def observe(self, state: HostState) -> Observation:
        """The observation that the last step returned."""
        return state.obs

    def action_mask(self, state: HostState) -> Bool[Array, "A"] | None:
        """The action mask that the last step returned."""
        return state.mask

    def _no_mask(self) -> Any:
        if not self.has_mask:
            return None
        space = self.action_space
        if isinstance(space, Discrete):
            return jnp.ones(space.n, bool)
        assert isinstance(space, MultiDiscrete)
        return jnp.ones(int(np.sum(space.nvec)), bool)
