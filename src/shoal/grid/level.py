"""The base of every tile world: what MiniGrid's `MiniGridEnv` does, as a value. A level adds a generator and a task."""

import abc
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, UInt8, UInt16

from shoal.core.env import Env, Key, State
from shoal.core.keys import make_key
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete
from shoal.core.struct import Number, Struct, leaf_dtypes, static, struct
from shoal.grid.actions import ACTIONS, FORWARD, cell_at, handled, heading, turned, with_cell
from shoal.grid.cells import EMPTY, HIGHEST, WALL, is_a, is_walkable
from shoal.grid.picture import view_picture, whole_picture
from shoal.grid.view import check_view_size, partial_view
from shoal.grid.words import LONGEST_SLOT, LONGEST_WORD, VOCABULARY, decode, encode

Value = TypeVar("Value")


@struct
class GridState(State):
    """A grid and the agent in it. `x` grows to the right, `y` downwards."""

    grid: UInt16[Array, "W H"]  # packed cells, see `grid/cells.py`
    x: Int[Array, ""]
    y: Int[Array, ""]
    direction: Int[Array, ""]  # 0 right, 1 down, 2 left, 3 up
    carrying: UInt16[Array, ""]  # EMPTY when the hand is


@struct
class Level(Env):
    """A tile world. Write `init` (a generator), `shape`, `time_limit`, and what applies of `judge` and `mission`.

    Action: Discrete(7). In compiled code an action outside of this does nothing but let time pass.

    | number | name        | what the agent does                                                                    |
    |--------|-------------|----------------------------------------------------------------------------------------|
    | 0, 1   | left, right | turn                                                                                   |
    | 2      | forward     | step to the cell in front, unless it holds a wall, a shut door, a key, a ball or a box |
    | 3      | pickup      | take the key, ball or box in front into the empty hand                                 |
    | 4      | drop        | put what is in the hand into the empty cell in front                                   |
    | 5      | toggle      | open or shut the door in front, unlock it with its key; make of a box what it holds    |
    | 6      | done        | nothing; some tasks count it                                                           |

    Observation: a dict.

    | name      | space                                  | meaning                                                  |
    |-----------|----------------------------------------|----------------------------------------------------------|
    | image     | uint8 [view_size, view_size, 3]        | cells in front, [column, row, (object, color, state)]    |
    | direction | Discrete(4), uint8                     | 0 right, 1 down, 2 left, 3 up                            |
    | mission   | MultiDiscrete, uint8                   | word numbers, see `grid/words.py`                        |

    Objects are numbered unseen, empty, wall, floor, door, key, ball, box, goal, lava, agent; colors red, green, blue,
    purple, yellow, grey; states open, closed, locked, each from 0. The agent stands in the middle of the last row and
    looks up; its own cell shows what it carries, and cells that it cannot see are zeros.

    Reward: 1 - 0.9 * time / max_steps on success, 0 otherwise.
    End: terminated on the goal, in lava, or when the level's own task is decided; truncated after `max_steps`.
    Source: MiniGrid 3.2.0, `minigrid_env.py`.
    """

    reset_every: ClassVar[int] = 64
    # Whether anything in the grid can change while an agent acts. Where it cannot, a step writes no cells.
    changes: ClassVar[bool] = True
    # The task in words. Where they differ from episode to episode the level writes `mission`, and here the longest of
    # its texts with a slot `{}` for each word that differs.
    task: ClassVar[str] = ""
    # How many of `ACTIONS` there are, the first ones.
    num_actions: ClassVar[int] = len(ACTIONS)

    view_size: int = static(7, help="cells to a side of what the agent sees: odd, from 3 to 31")
    tile_size: int = static(32, help="pixels to a side of a cell in pictures")
    highlight: bool = static(True, choices=(False, True), help="whether pictures show what the agent sees")
    agent_pov: bool = static(False, choices=(False, True), help="whether pictures show the agent's view alone")
    see_through_walls: bool = static(False, choices=(False, True), help="whether walls hide nothing from the agent")
    max_steps: Number | None = None  # the level's own where it is None

    def __post_init__(self) -> None:
        check_view_size(self.view_size)
        if self.tile_size < 1:
            raise ValueError(f"tile_size={self.tile_size} shows nothing: a cell needs at least 1 pixel.")
        if self.max_steps is None:
            object.__setattr__(self, "max_steps", self.time_limit)

    def replace(self: Value, **changes: Any) -> Value:
        """A copy with some fields changed. A time limit that is the level's own follows them, if it is not among them.

        Raises TypeError for a field it does not have.
        """
        level: Any = self
        if isinstance(level.max_steps, int) and level.max_steps == level.time_limit:
            changes = {"max_steps": None, **changes}
        changed: Any = Struct.replace(level, **changes)
        return changed

    @abc.abstractmethod
    def init(self, key: Key) -> GridState:
        """The generator: a level and the agent's place in it. `key` is consumed."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """Width and height of the grid."""

    @property
    @abc.abstractmethod
    def time_limit(self) -> int:
        """How many steps an episode may take where `max_steps` does not say."""

    def judge(
        self, before: GridState, after: GridState, action: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """(reward, terminated) of the level's own task, on top of goal and lava. Default: there is none."""
        del before, after, action
        return jnp.float32(0), jnp.bool_(False)

    def mission(self, state: GridState) -> UInt8[Array, "L"]:
        """The task as word numbers; `mission_text` is the same in words."""
        del state
        return jnp.asarray(encode(self.task))

    def meant(self, action: Int[Array, ""]) -> Int[Array, ""]:
        """The action that an agent takes when it asks for one. Default: that one."""
        return action

    def others_move(self, state: GridState, noise: Any) -> GridState:
        """The grid after what moves by itself has moved, before the agent acts. Default: nothing does."""
        del noise
        return state

    # What follows is the same in every level.

    @property
    def action_space(self) -> Discrete:
        """MiniGrid's actions; `ACTIONS` names them."""
        return Discrete(self.num_actions)

    @property
    def observation_space(self) -> Dict:
        """Image, direction and mission."""
        return Dict(
            {
                "image": Box(0, HIGHEST, (self.view_size, self.view_size, 3), "uint8"),
                "direction": Discrete(4, "uint8"),
                "mission": MultiDiscrete((len(VOCABULARY),) * self.mission_length, "uint8"),
            }
        )

    @property
    def mission_length(self) -> int:
        """How many word numbers a mission of this level has."""
        numbers, structure = jax.tree.flatten(self)
        dtypes = jax.tree.leaves(leaf_dtypes(self))
        return _mission_length(structure, tuple((np.shape(x), d) for x, d in zip(numbers, dtypes, strict=True)))

    @property
    def longest_mission(self) -> int:
        """How many characters a mission of this level may have: exact for slots of colors, else no less."""
        if not self.task and type(self).mission is not Level.mission:
            return self.mission_length * (LONGEST_WORD + 1) - 1
        return len(self.task.replace("{}", " " * LONGEST_SLOT))

    def mission_text(self, state: GridState) -> str:
        """The task in words, as MiniGrid says it. Runs on the host."""
        return decode(self.mission(state))

    def observe(self, state: GridState) -> dict[str, Array]:
        """What the agent sees, its direction, and its task."""
        return {
            "image": self.view(state),
            "direction": state.direction.astype(jnp.uint8),
            "mission": self.mission(state),
        }

    def view(self, state: GridState, size: int | None = None) -> UInt8[Array, "V V 3"]:
        """The cells in front of the agent, as many to a side as it sees or as given."""
        pose = (state.x, state.y, state.direction)
        return partial_view(state.grid, *pose, state.carrying, size or self.view_size, self.see_through_walls)

    def picture(self, state: GridState, tile_size: int) -> UInt8[Array, "_ _ 3"]:
        """The grid from above as RGB, for use inside `jit`; what the agent sees is lighter where `highlight` is set."""
        lit = self.view(state) if self.highlight else None
        return whole_picture(state.grid, state.x, state.y, state.direction, lit, tile_size)

    def render(self, state: GridState) -> UInt8[Array, "_ _ 3"]:
        """MiniGrid's picture: the grid from above, or with `agent_pov` what the agent sees."""
        return _rendered(self, state)

    def transition(
        self, state: GridState, action: Int[Array, ""], noise: Any
    ) -> tuple[GridState, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """Others move, the agent acts, the level judges."""
        action = self.meant(action)
        after = self.act(self.others_move(state, noise), action)
        ahead = is_moved(state, after)
        standing = cell_at(after.grid, after.x, after.y, WALL)
        at_goal, in_lava = ahead & is_a(standing, "goal"), ahead & is_a(standing, "lava")
        reward, decided = self.judge(state, after, action)
        reward = jnp.where(at_goal, self.success(after), 0) + reward
        return after, reward, at_goal | in_lava | decided, {}

    def act(self, state: GridState, action: Int[Array, ""]) -> GridState:
        """The state after the agent's action, which sees and changes only the cell in front of it."""
        x, y = in_front(state)
        front = cell_at(state.grid, x, y, WALL)
        walks = (action == FORWARD) & is_walkable(front)
        state = state.replace(
            x=jnp.where(walks, x, state.x), y=jnp.where(walks, y, state.y), direction=turned(state.direction, action)
        )
        if not self.changes:
            return state
        front, carrying = handled(front, state.carrying, action)
        return state.replace(grid=with_cell(state.grid, x, y, front), carrying=carrying)

    def success(self, state: GridState) -> Float[Array, ""]:
        """The reward of success now: 1 at the start, 0.1 at the time limit."""
        return 1 - jnp.float32(0.9) * (state.time.astype(jnp.float32) / jnp.float32(self.max_steps))


@struct
class SquareLevel(Level):
    """A level as wide as it is high."""

    size: int = static(8, help="cells to a side, walls included")

    @property
    def shape(self) -> tuple[int, int]:
        """`size` both ways."""
        return self.size, self.size


@lru_cache(maxsize=1024)
def _mission_length(structure: Any, numbers: tuple) -> int:
    """Words in a mission of the level with these static fields; what its numbers are does not matter, nor the key."""

    def mission(numbers: list, key: Key) -> Array:
        level = jax.tree.unflatten(structure, numbers)
        return level.mission(level.init(key))

    return jax.eval_shape(mission, [jax.ShapeDtypeStruct(*x) for x in numbers], make_key(0)).shape[0]


@jax.jit
def _rendered(level: Level, state: GridState) -> UInt8[Array, "_ _ 3"]:
    if level.agent_pov:
        return view_picture(level.view(state), level.tile_size)
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
    """The fields of a state at the start of an episode, with an empty hand: `GridState(**begin(grid, x, y, 0))`."""
    whole = {"time": 0, "x": x, "y": y, "direction": direction}
    fields = {name: jnp.asarray(value).astype(jnp.int32) for name, value in whole.items()}
    return {**fields, "grid": jnp.asarray(grid), "carrying": jnp.asarray(EMPTY)}
