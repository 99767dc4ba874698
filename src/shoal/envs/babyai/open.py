"""Open a door, or two in a given order.

Source: MiniGrid 3.2.0 `envs/babyai/open.py`.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.babyai.floor_plans import Maze, NineRooms, TwoRooms, check_count
from shoal.envs.babyai.instruction import (
    AFTER,
    BEFORE,
    OPEN,
    Grammar,
    Instruction,
    before,
    descriptor,
    one,
    open_door,
    padded,
)
from shoal.envs.babyai.kit import (
    all_reachable,
    different_colors,
    doors_of,
    finished,
    looks,
    with_agent_anywhere,
    with_distractors,
    with_doors_around,
)
from shoal.envs.babyai.level import Layout
from shoal.grid.cells import COLORS, OBJECTS, cell, is_a
from shoal.grid.layout import between, choose, distinct
from shoal.grid.rooms import LEFT, RIGHT

RED_DOOR = cell("door", "red", "closed")
DOOR_KIND = OBJECTS.index("door")
PLACES = 4  # left, right, front, behind


@env("BabyAI-Open-v0")
@struct
class Open(Maze):
    """Open a door of the color that the mission names, in a maze of rooms.

    Start: closed doors connect all rooms. Agent and `num_dists` things are in random rooms; the agent can go beside
    each thing and each door without moving anything. Each door is the target with the same probability.
    End: terminated when a door of that color opens. Time limit: room_size^2 num_rows num_cols steps. The rest: see
    `BabyLevel`.
    """

    can_reject: ClassVar[bool] = True

    num_dists: int = static(18, help="number of things")

    def __post_init__(self) -> None:
        if self.num_rows * self.num_cols < 2:
            raise ValueError(f"num_rows={self.num_rows} with num_cols={self.num_cols} have no door: at least 2 rooms.")
        check_count("num_dists", self.num_dists, 0, self.most_around_agent, f"in rooms of room_size={self.room_size}")

    @property
    def grammar(self) -> Grammar:
        """One door to open."""
        return Grammar(verbs=(OPEN,))

    def layout(self, key: Key) -> Layout:
        """Sample agent, doors, things and target."""
        k_plan, k_agent, k_doors, k_things, k_target = jax.random.split(key, 5)
        plan = with_agent_anywhere(k_agent, self.rooms.plan(k_plan, may_fail=True)).connected(k_doors)
        plan, _ = with_distractors(k_things, plan, self.num_dists)
        plan = plan.provided(all_reachable(plan))
        return finished(plan, one(open_door(looks(plan.grid[choose(k_target, is_a(plan.grid, "door"))]))))


@env("BabyAI-OpenRedDoor-v0")
@struct
class OpenRedDoor(TwoRooms):
    """Open the red door between two empty rooms.

    Start: the agent is in the left room.
    End: terminated when the door opens. Time limit: 2 room_size^2 steps. The rest: see `BabyLevel`.
    """

    reset_every: ClassVar[int] = 40

    room_size: int = static(5, help="side of a room in cells, walls included: at least 4")

    @property
    def grammar(self) -> Grammar:
        """One door to open."""
        return Grammar(verbs=(OPEN,))

    def layout(self, key: Key) -> Layout:
        """Sample door and agent."""
        k_plan, k_agent = jax.random.split(key)
        plan = self.rooms.plan(k_plan, may_fail=True).with_door((0, 0), RIGHT, RED_DOOR).with_agent(k_agent, (0, 0))
        return finished(plan, one(open_door(looks(jnp.asarray(RED_DOOR)))))


@env("BabyAI-OpenDoor-v0")
@env("BabyAI-OpenDoorDebug-v0", debug=True)
@env("BabyAI-OpenDoorColor-v0", select_by="color")
@env("BabyAI-OpenDoorLoc-v0", select_by="loc")
@struct
class OpenDoor(NineRooms):
    """Open one of the four doors of the agent's room, which the mission names by its color or by its place.

    Start: the agent is in the middle room of nine; its doors are closed and have different colors. A color is always
    that of the door on the right side of the room. A place (on the left, on the right, in front, behind) is relative to
    the agent's pose at the start, and can be that of more than one door.
    End: terminated when such a door opens; with `debug` also, without a reward, when the agent toggles another door.
    Time limit: 9 room_size^2 steps. The rest: see `BabyLevel`.
    """

    reset_every: ClassVar[int] = 64

    debug: bool = static(False, choices=(False, True), help="whether toggling another door ends the episode")
    select_by: str | None = static(None, choices=(None, "color", "loc"), help="how a door is named; None: either way")

    def __post_init__(self) -> None:
        if self.select_by not in (None, "color", "loc"):
            raise ValueError(f"select_by={self.select_by!r} is unknown. Choose 'color' or 'loc', or None for either.")

    @property
    def grammar(self) -> Grammar:
        """One door to open, with a place unless it is always named by its color."""
        return Grammar(verbs=(OPEN,), places=self.select_by != "color")

    def layout(self, key: Key) -> Layout:
        """Sample doors, agent and description."""
        k_plan, k_colors, k_agent, k_place, k_which = jax.random.split(key, 5)
        colors = different_colors(k_colors, 4)
        plan = with_doors_around(self.rooms.plan(k_plan, may_fail=True), self.middle, doors_of(colors))
        plan = plan.with_agent(k_agent, self.middle)
        by_color = descriptor(DOOR_KIND, colors[RIGHT])
        by_place = descriptor(DOOR_KIND, place=between(k_place, 1, PLACES + 1))
        either = jnp.where(jax.random.bernoulli(k_which, 0.5), by_color, by_place)
        description = {None: either, "color": by_color, "loc": by_place}[self.select_by]
        return finished(plan, one(open_door(description, strict=self.debug)))


@env("BabyAI-OpenTwoDoors-v0")
@env("BabyAI-OpenRedBlueDoors-v0", first_color="red", second_color="blue")
@env("BabyAI-OpenRedBlueDoorsDebug-v0", first_color="red", second_color="blue", strict=True)
@struct
class OpenTwoDoors(NineRooms):
    """Open two doors of the agent's room, in the order that the mission says.

    Start: the agent is in the middle room of nine, which has a closed door on its left and one on its right. The left
    one is to be opened first. The colors are `first_color` and `second_color`, or two different random colors. If only
    one of them is given, the random one may be the same; any door of the color is then enough, as in MiniGrid.
    End: terminated when both have been opened in this order; with `strict` also, without a reward, when the agent
    toggles another door than the first one before that one is open. Time limit: 20 room_size^2 steps. The rest: see
    `BabyLevel`.
    """

    reset_every: ClassVar[int] = 96

    room_size: int = static(6, help="side of a room in cells, walls included: at least 4")
    first_color: str | None = static(None, choices=(None, *COLORS), help="color of the left door; None: random")
    second_color: str | None = static(None, choices=(None, *COLORS), help="color of the right door; None: random")
    strict: bool = static(False, choices=(False, True), help="whether toggling the wrong door first ends the episode")

    def __post_init__(self) -> None:
        for name in ("first_color", "second_color"):
            color = getattr(self, name)
            if color is not None and color not in COLORS:
                raise ValueError(f"{name}={color!r} is unknown. Choose one of: {', '.join(COLORS)}; or None.")
        if self.first_color is not None and self.first_color == self.second_color:
            raise ValueError(
                f"first_color and second_color are both {self.first_color!r}: the mission could not say which door."
            )

    @property
    def grammar(self) -> Grammar:
        """One door to open, then another."""
        return Grammar(verbs=(OPEN,), groups=2)

    @property
    def time_limit(self) -> int:
        """20 room_size^2 steps."""
        return 20 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample colors, doors and agent."""
        k_plan, k_colors, k_agent = jax.random.split(key, 3)
        given = (self.first_color, self.second_color)
        first, second = (
            color if name is None else jnp.int32(COLORS.index(name))
            for name, color in zip(given, different_colors(k_colors, 2), strict=True)
        )
        plan = self.rooms.plan(k_plan, may_fail=True)
        plan = plan.with_door(self.middle, LEFT, doors_of(first)).with_door(self.middle, RIGHT, doors_of(second))
        open_first = open_door(descriptor(DOOR_KIND, first), strict=self.strict)
        open_second = open_door(descriptor(DOOR_KIND, second))
        return finished(plan.with_agent(k_agent, self.middle), before(one(open_first), one(open_second)))


@env("BabyAI-OpenDoorsOrderN2-v0", num_doors=2)
@env("BabyAI-OpenDoorsOrderN4-v0", num_doors=4)
@env("BabyAI-OpenDoorsOrderN2Debug-v0", num_doors=2, debug=True)
@env("BabyAI-OpenDoorsOrderN4Debug-v0", num_doors=4, debug=True)
@struct
class OpenDoorsOrder(NineRooms):
    """Open one door of the agent's room, or two in the order that the mission says.

    Start: the agent is in the middle room of nine, which has `num_doors` closed doors of different colors in random
    walls. The mission is to open one door; to open one, then another; or to open one after another (1/3 each).
    End: terminated when the mission is complete; with `debug` also, without a reward, when the agent toggles another
    door than the one that is due. Time limit: 20 room_size^2 steps. The rest: see `BabyLevel`.

    As in MiniGrid, missions with two doors cannot be completed with `debug`: in the step that opens the first door, the
    second part of the mission becomes due and judges the same step, in which the agent toggled another door.
    """

    reset_every: ClassVar[int] = 48

    room_size: int = static(6, help="side of a room in cells, walls included: at least 4")
    num_doors: int = static(2, help="number of doors of the agent's room: 2, 3 or 4")
    debug: bool = static(False, choices=(False, True), help="whether toggling another door ends the episode")

    def __post_init__(self) -> None:
        check_count("num_doors", self.num_doors, 2, 4, "in the four walls of a room")

    @property
    def grammar(self) -> Grammar:
        """One door to open, or two in order."""
        return Grammar(verbs=(OPEN,), groups=2)

    @property
    def time_limit(self) -> int:
        """20 room_size^2 steps."""
        return 20 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample doors, agent and mission."""
        k_plan, k_colors, k_sides, k_agent, k_order = jax.random.split(key, 5)
        colors, sides = different_colors(k_colors, self.num_doors), distinct(k_sides, self.num_doors, 4)
        plan = self.rooms.plan(k_plan, may_fail=True)
        for i in range(self.num_doors):
            plan = plan.with_door(self.middle, sides[i], doors_of(colors[i]))
        # The sides are in random order, so the first two doors are any two.
        first, second = (one(open_door(descriptor(DOOR_KIND, colors[i]), strict=self.debug)) for i in range(2))
        order = between(k_order, 0, 3)
        alone, both = padded(first, groups=2, parts=1), before(first, second)
        clauses = jnp.where(order == 0, alone.clauses, both.clauses)
        order = jnp.where(order == 0, alone.order, jnp.where(order == 1, BEFORE, AFTER).astype(alone.order.dtype))
        return finished(plan.with_agent(k_agent, self.middle), Instruction(order=order, clauses=clauses))
