"""`Level`, the base class of grid environments (MiniGrid's `MiniGridEnv`). Subclasses add a generator and a task."""

import abc
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8, UInt16

from shoal.core.env import Env, Key, State, Transition
from shoal.core.keys import make_key
from shoal.core.spaces import Dict, Discrete, MultiDiscrete
from shoal.core.struct import Number, Struct, leaf_dtypes, static, struct
from shoal.grid.actions import ACTIONS, FORWARD, cell_at, heading, interact, turned, with_cell
from shoal.grid.cells import EMPTY, WALL, highest, is_a, is_walkable
from shoal.grid.new_kinds import NewKinds, after_action, before_action, check_hooks, check_kinds
from shoal.grid.picture import view_picture, whole_picture
from shoal.grid.tasks import EVENTS, OWN, REWARDS, check_chosen, check_results, end_of, reward_of
from shoal.grid.view import check_view_size, partial_view
from shoal.grid.views import VIEWS, View, chosen_view
from shoal.grid.words import LONGEST_SLOT, LONGEST_WORD, MINIGRID_SIZE, decode, encode, vocabulary

Value = TypeVar("Value")


@struct
class GridState(State):
    """A grid and the agent in it. `x` grows to the right, `y` grows downwards."""

    grid: UInt16[Array, "W H"]  # packed cells, see `grid/cells.py`
    x: Int[Array, ""]  # column of the agent
    y: Int[Array, ""]  # row of the agent
    direction: Int[Array, ""]  # 0 right, 1 down, 2 left, 3 up
    carrying: UInt16[Array, ""]  # the object that the agent carries, as a cell; EMPTY if it carries nothing


Judgement = tuple[Float[Array, ""], Bool[Array, ""]]  # (reward, terminated) of a level's own task


@struct
class Level(Env):
    """A grid environment with MiniGrid's actions and observations.

    A subclass defines `init` (the generator), `shape` and `time_limit`, and if the level has a task of its own, `judge`
    (or `advance_task`) and `mission`. It may declare objects that MiniGrid does not have: `kinds`. The fields `reward`,
    `done` and `view` replace the level's own: see `grid/tasks.py` and `grid/views.py`.

    Action: Discrete(7). Compiled code cannot raise an error for any other action: the agent then does nothing.

    | number | name        | what the agent does                                                                   |
    |--------|-------------|---------------------------------------------------------------------------------------|
    | 0, 1   | left, right | turn by 90 degrees                                                                    |
    | 2      | forward     | step to the cell in front, unless a wall, a shut door, a key, a ball or a box is there |
    | 3      | pickup      | take the key, ball or box in front, if the agent carries nothing                      |
    | 4      | drop        | put the carried object into the cell in front, if that is empty                       |
    | 5      | toggle      | open or close the door in front, or unlock it with its key; replace a box by its content |
    | 6      | done        | nothing; some tasks end with it                                                       |

    Observation: a dict.

    | name      | space                                  | meaning                                                  |
    |-----------|----------------------------------------|----------------------------------------------------------|
    | image     | uint8 [view_size, view_size, 3]        | cells in front, [column, row, (object, color, state)]    |
    | direction | Discrete(4), uint8                     | 0 right, 1 down, 2 left, 3 up                            |
    | mission   | MultiDiscrete, uint8                   | the task as word numbers, see `grid/words.py`            |

    The objects are, from 0: unseen, empty, wall, floor, door, key, ball, box, goal, lava, agent. The colors are red,
    green, blue, purple, yellow, grey; the states are open, closed, locked. In the image the agent is in the middle of
    the last row and looks up. Its own cell shows the object that it carries. Cells that it cannot see are zeros. If the
    mission can differ between episodes, its space is one of texts.

    Reward: 1 - 0.9 * time / max_steps on success, 0 otherwise.
    End: terminated when the agent steps onto the goal or into lava, or when the level's own task is decided; truncated
    after `max_steps`.
    Source: MiniGrid 3.2.0, `minigrid_env.py`.
    """

    reset_every: ClassVar[int] = 64
    # Whether the agent's actions can change the grid. If not, a step writes no cells, which is faster.
    grid_changes: ClassVar[bool] = True
    # The task in words. If it differs between episodes, the level defines `mission`, and `task` is the longest of its
    # texts, with a slot `{}` for each word that differs.
    task: ClassVar[str] = ""
    # The number of words that a mission may be made of: the first of `VOCABULARY`.
    vocabulary_size: ClassVar[int] = MINIGRID_SIZE
    # The action space has the first `num_actions` of `ACTIONS`.
    num_actions: ClassVar[int] = len(ACTIONS)
    # Objects that MiniGrid does not have.
    kinds: ClassVar[NewKinds] = ()

    view_size: int = static(7, help="side of the agent's view in cells: odd, from 3 to 31")
    tile_size: int = static(32, help="side of a cell in pictures, in pixels")
    highlight: bool = static(
        True, choices=(False, True), help="whether pictures highlight the cells that the agent sees"
    )
    agent_pov: bool = static(False, choices=(False, True), help="whether pictures show only the agent's view")
    see_through_walls: bool = static(False, choices=(False, True), help="whether the agent sees the cells behind walls")
    max_steps: Number | None = None  # steps after which an episode is truncated; None: the level's own limit
    reward: Any = static(None, function=True, help=f"a function, or names of {', '.join((OWN, *REWARDS))}")
    done: Any = static(None, function=True, help=f"a function, or names of {', '.join((OWN, *EVENTS))}")
    view: Any = static(None, function=True, help=f"a function, or one of {', '.join(VIEWS)}: the image")

    _has_own_limit: ClassVar[bool] = False  # True in a level that was made without `max_steps`; JAX's copies lack it

    def __post_init__(self) -> None:
        check_view_size(self.view_size)
        if self.tile_size < 1:
            raise ValueError(f"tile_size={self.tile_size} shows nothing: a cell needs at least 1 pixel.")
        if self.kinds:
            check_kinds(type(self).__name__, self.kinds, self.grid_changes)
        for field, ready in (("reward", (OWN, *REWARDS)), ("done", (OWN, *EVENTS)), ("view", VIEWS)):
            if getattr(self, field) is not None:
                check_chosen(field, getattr(self, field), ready, several=field != "view")
        if self.max_steps is None:
            object.__setattr__(self, "max_steps", self.time_limit)
            object.__setattr__(self, "_has_own_limit", True)

    def _check_last(self) -> None:
        """Raise TypeError or ValueError for functions of the user that return something else than they should."""
        super()._check_last()
        if self.kinds:
            check_hooks(self.kinds, self._state_shapes)
        if self.reward is not None or self.done is not None:
            check_results(self.reward, self.done, self._state_shapes)
        if self.view is not None:
            self._view.space(self)

    def replace(self: Value, **changes: Any) -> Value:
        """A copy with some fields changed. Raises TypeError for a field that the level does not have.

        If `max_steps` was not given, and is not among the changes, it becomes the new level's own `time_limit`.
        """
        level: Any = self
        own = {"max_steps": None} if level._has_own_limit else {}
        changed: Any = Struct.replace(level, **{**own, **changes})
        return changed

    @abc.abstractmethod
    def init(self, key: Key) -> GridState:
        """Generate a level: the first state, with the grid and the agent in it. `key` is consumed."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """Width and height of the grid."""

    @property
    @abc.abstractmethod
    def time_limit(self) -> int | None:
        """How many steps an episode may take if `max_steps` is None; None: `limit_of` reads it from the state."""

    def judge(self, before: GridState, after: GridState, action: Int[Array, ""]) -> Judgement:
        """(reward, terminated) of the level's own task, in addition to goal and lava. Default: (0, False)."""
        del before, after, action
        return jnp.float32(0), jnp.bool_(False)

    def advance_task(self, before: GridState, after: GridState, action: Int[Array, ""]) -> Transition[GridState]:
        """(`after` with what it keeps about the task, reward, terminated, info). Default: `judge`, and nothing is kept.

        A level whose task depends on what happened in the episode defines this hook instead of `judge`.
        """
        return after, *self.judge(before, after, action), {}

    def mission(self, state: GridState) -> UInt8[Array, "L"]:
        """The task as word numbers [L]; `mission_text` is the same as text. Default: `task`."""
        del state
        return jnp.asarray(encode(self.task, kinds=self.kinds))

    @property
    def mission_length(self) -> int:
        """The number of words of a mission, L, padding included. Default: read from the shape of `mission`."""
        return self._first_shapes[1].shape[0]

    @property
    def mission_differs(self) -> bool:
        """Whether the mission can differ between episodes: whether the level defines `mission`."""
        return type(self).mission is not Level.mission

    @property
    def longest_mission(self) -> int:
        """An upper bound of the number of characters of a mission, from the longest words that its slots may hold."""
        names = [len(kind.name) for kind in self.kinds]
        if not self.task and self.mission_differs:
            return self.mission_length * (max(LONGEST_WORD, *names, 0) + 1) - 1
        return len(self.task.replace("{}", " " * max(LONGEST_SLOT, *names, 0)))

    def effective_action(self, action: Int[Array, ""]) -> Int[Array, ""]:
        """The action that is executed when the agent chooses `action`. Default: the same action."""
        return action

    def move_objects(self, state: GridState, noise: Any) -> GridState:
        """Move the objects that move by themselves, before the agent acts. Default: there are none."""
        del noise
        return state

    # The methods below are the same in every level.

    @property
    def action_space(self) -> Discrete:
        """The first `num_actions` of `ACTIONS`."""
        return Discrete(self.num_actions)

    @property
    def observation_space(self) -> Dict:
        """A dict of image, direction and mission: see the class docstring."""
        return Dict(
            {
                "image": self._view.space(self),
                "direction": Discrete(4, "uint8"),
                "mission": MultiDiscrete((self.num_words,) * self.mission_length, "uint8", self.mission_differs),
            }
        )

    @property
    def highest(self) -> tuple[int, int, int]:
        """The highest value of each channel of the agent's view: object, color, state."""
        return highest(self.kinds)

    @property
    def num_words(self) -> int:
        """The number of words that a mission may be made of; the names of `kinds` are the last."""
        return len(vocabulary(self.kinds)) if self.kinds else self.vocabulary_size

    def mission_text(self, state: GridState) -> str:
        """The task as text, equal to MiniGrid's. Runs outside of compiled code."""
        return decode(self.mission(state), self.kinds)

    def observe(self, state: GridState) -> dict[str, Array]:
        """The agent's view, or the image that `view` names, its direction, and its task."""
        return {
            "image": self._view.image(self, state),
            "direction": state.direction.astype(jnp.uint8),
            "mission": self.mission(state),
        }

    def agent_view(self, state: GridState, size: int | None = None) -> UInt8[Array, "V V 3"]:
        """The `size` x `size` cells in front of the agent; `view_size` if `size` is None."""
        pose = (state.x, state.y, state.direction)
        side = size or self.view_size
        return partial_view(state.grid, *pose, state.carrying, side, self.see_through_walls, self.kinds)

    def picture(self, state: GridState, tile_size: int) -> UInt8[Array, "_ _ 3"]:
        """The grid from above as an RGB image, usable inside `jit`. With `highlight` the agent's view is lighter."""
        lit = self.agent_view(state) if self.highlight else None
        return whole_picture(state.grid, state.x, state.y, state.direction, lit, tile_size, self.kinds)

    def render(self, state: GridState) -> UInt8[Array, "_ _ 3"]:
        """MiniGrid's picture: the grid from above, or with `agent_pov` only the agent's view."""
        return _rendered(self, state)

    def transition(self, state: GridState, action: Int[Array, ""], noise: Any) -> Transition[GridState]:
        """One step: objects move by themselves, the agent acts, then reward and termination are decided."""
        action = self.effective_action(action)
        moved = self.move_objects(state, noise)
        after = self.act(before_action(self.kinds, moved), action)
        has_moved = is_moved(state, after)
        standing = cell_at(after.grid, after.x, after.y, WALL)
        at_goal, in_lava = has_moved & is_a(standing, "goal"), has_moved & is_a(standing, "lava")
        after, reward, decided, info = self.advance_task(state, after, action)
        reward, terminated = jnp.where(at_goal, self.success(after), 0) + reward, at_goal | in_lava | decided
        if self.reward is not None:
            reward = reward_of(self.reward, reward, state, after, action)
        if self.done is not None:
            terminated = end_of(self.done, terminated, state, after, action)
        return after, reward, terminated, info

    def act(self, state: GridState, action: Int[Array, ""]) -> GridState:
        """The state after the agent's action, which depends on and changes only the cell in front of the agent.

        A kind of object that the level declares may do more.
        """
        x, y = in_front(state)
        front = cell_at(state.grid, x, y, WALL)
        walks = (action == FORWARD) & is_walkable(front, self.kinds)
        after = state.replace(
            x=jnp.where(walks, x, state.x), y=jnp.where(walks, y, state.y), direction=turned(state.direction, action)
        )
        if self.grid_changes:
            new_front, carrying = interact(front, state.carrying, action, self.kinds)
            after = after.replace(grid=with_cell(after.grid, x, y, new_front), carrying=carrying)
        return after_action(self.kinds, state, after, action, front, (x, y), walks) if self.kinds else after

    @property
    def _view(self) -> View:
        return VIEWS["partial"] if self.view is None else chosen_view(self.view, lambda: self._state_shapes)

    @property
    def _state_shapes(self) -> Any:
        return self._first_shapes[0]

    @property
    def _first_shapes(self) -> tuple[Any, Any]:
        """The shapes of a first state and of its mission."""
        numbers, structure = jax.tree.flatten(self)
        dtypes = jax.tree.leaves(leaf_dtypes(self))
        return _first_shapes(structure, tuple((np.shape(x), d) for x, d in zip(numbers, dtypes, strict=True)))

    def success(self, state: GridState) -> Float[Array, ""]:
        """The reward of success at this time: 1 at the start, 0.1 at the time limit."""
        return 1 - jnp.float32(0.9) * (state.time.astype(jnp.float32) / jnp.float32(self.limit_of(state)))


@struct
class SquareLevel(Level):
    """A level whose grid is a square."""

    size: int = static(8, help="side of the grid in cells, walls included")

    @property
    def shape(self) -> tuple[int, int]:
        """(size, size)."""
        return self.size, self.size


@lru_cache(maxsize=1024)
def _first_shapes(structure: Any, numbers: tuple) -> tuple[Any, Any]:
    """Shapes for the level with these static fields; what its numbers are does not matter, nor the key."""

    def first(numbers: list, key: Key) -> tuple[GridState, Array]:
        level = jax.tree.unflatten(structure, numbers)
        state = level.init(key)
        return state, level.mission(state)

    return jax.eval_shape(first, [jax.ShapeDtypeStruct(*x) for x in numbers], make_key(0))


@jax.jit
def _rendered(level: Level, state: GridState) -> UInt8[Array, "_ _ 3"]:
    if level.agent_pov:
        return view_picture(level.agent_view(state), level.tile_size, level.kinds)
    return level.picture(state, level.tile_size)


def in_front(state: GridState) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """The position (x, y) in front of the agent."""
    dx, dy = heading(state.direction)
    return state.x + dx, state.y + dy


def is_moved(before: GridState, after: GridState) -> Bool[Array, ""]:
    """Whether the agent left its cell."""
    return (before.x != after.x) | (before.y != after.y)


def begin(
    grid: UInt16[Array, "W H"] | UInt16[np.ndarray, "W H"],
    x: Int[Array, ""] | int,
    y: Int[Array, ""] | int,
    direction: Int[Array, ""] | int,
) -> dict[str, Any]:
    """The fields of a first state, in which the agent carries nothing: `GridState(**begin(grid, x, y, direction))`."""
    integers = {"time": 0, "x": x, "y": y, "direction": direction}
    fields = {name: jnp.asarray(value).astype(jnp.int32) for name, value in integers.items()}
    return {**fields, "grid": jnp.asarray(grid), "carrying": jnp.asarray(EMPTY)}
