"""Put one thing next to another.

Source: MiniGrid 3.2.0 `envs/babyai/putnext.py`, and MoveTwoAcross of `envs/babyai/other.py`.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.babyai.floor_plans import AROUND_CORNER, OneRoom, TwoRooms, check_count, most_within_reach
from shoal.envs.babyai.instruction import ANY_COLOR, ANY_KIND, PUT_NEXT, Grammar, before, one, put_next
from shoal.envs.babyai.kit import (
    all_reachable,
    can_be_put,
    different_things,
    finished,
    looks,
    with_agent_anywhere,
    with_things,
)
from shoal.envs.babyai.level import BabyState, Layout
from shoal.envs.minigrid.things import MOST_THINGS
from shoal.grid.cells import EMPTY, color_of, is_portable, object_of
from shoal.grid.rooms import RIGHT, Plan


@env("BabyAI-PutNextLocal-v0")
@env("BabyAI-PutNextLocalS5N3-v0", room_size=5, num_objs=3)
@env("BabyAI-PutNextLocalS6N4-v0", room_size=6, num_objs=4)
@struct
class PutNextLocal(OneRoom):
    """Put a thing next to another one, in a room.

    Start: agent and `num_objs` things, no two of them alike, are in random cells; the agent can go beside each of them.
    The two things of the mission are not next to each other.
    End: terminated when the agent drops the first thing in a cell next to the second one. Time limit: 2 room_size^2
    steps. The rest: see `BabyLevel`.
    """

    can_reject: ClassVar[bool] = True
    reset_every: ClassVar[int] = 24

    num_objs: int = static(8, help="number of things: 2 to 18")

    def __post_init__(self) -> None:
        most = min(MOST_THINGS, most_within_reach(self.room_size))
        check_count("num_objs", self.num_objs, 2, most, f"with room_size={self.room_size}, no two things alike")

    @property
    def grammar(self) -> Grammar:
        """One thing to put next to another."""
        return Grammar(verbs=(PUT_NEXT,))

    def layout(self, key: Key) -> Layout:
        """Sample agent, things and the two of the mission."""
        k_plan, k_agent, k_things, k_places = jax.random.split(key, 4)
        things = different_things(k_things, self.num_objs)
        plan = with_agent_anywhere(k_agent, self.rooms.plan(k_plan, may_fail=True))
        plan = with_things(k_places, plan, (0, 0), things)
        # The things are in random order, so the first two are any two.
        instruction = one(put_next(looks(things[0]), looks(things[1])))
        plan = plan.provided(all_reachable(plan) & can_be_put(plan, instruction))
        return finished(plan, instruction)


@struct
class Across(TwoRooms):
    """The base class of the levels with different things in two rooms, whose common wall is away.

    The things are in `objs_per_room` random cells of each room, and no two of them are alike. The agent is in the left
    room.
    """

    can_reject: ClassVar[bool] = True

    room_size: int = static(5, help="side of a room in cells, walls included: at least 4")
    objs_per_room: int = static(2, help="number of things in each room: at most 9")

    def __post_init__(self) -> None:
        most = min(MOST_THINGS // 2, (self.room_size - 2) ** 2 - AROUND_CORNER)
        check_count("objs_per_room", self.objs_per_room, 1, most, f"with room_size={self.room_size}, no two alike")

    def sides(self, key: Key) -> tuple[Plan, UInt16[Array, "n"], UInt16[Array, "n"]]:
        """Sample agent and things: (plan, things on the left, things on the right), in random order."""
        k_plan, k_agent, k_things, k_left, k_right = jax.random.split(key, 5)
        left, right = jnp.split(different_things(k_things, 2 * self.objs_per_room), 2)
        plan = self.rooms.plan(k_plan, may_fail=True).with_agent(k_agent, (0, 0))
        plan = with_things(k_right, with_things(k_left, plan, (0, 0), left), (1, 0), right)
        return plan.without_wall((0, 0), RIGHT), left, right


@env("BabyAI-PutNextS4N1-v0", room_size=4, objs_per_room=1)
@env("BabyAI-PutNextS5N1-v0", objs_per_room=1)
@env("BabyAI-PutNextS5N2-v0")
@env("BabyAI-PutNextS6N3-v0", room_size=6, objs_per_room=3)
@env("BabyAI-PutNextS7N4-v0", room_size=7, objs_per_room=4)
@env("BabyAI-PutNextS5N2Carrying-v0", start_carrying=True)
@env("BabyAI-PutNextS6N3Carrying-v0", room_size=6, objs_per_room=3, start_carrying=True)
@env("BabyAI-PutNextS7N4Carrying-v0", room_size=7, objs_per_room=4, start_carrying=True)
@struct
class PutNext(Across):
    """Put a thing next to one on the other side.

    Start: `objs_per_room` things, no two of them alike, are on each side of two rooms without a wall between them. The
    agent is on the left side; the mission may move a thing from either side. With `start_carrying` the agent has that
    thing in its hand from its first action on.
    End: terminated when the agent drops the first thing in a cell next to the second one. Time limit: 8 room_size^2
    steps. The rest: see `BabyLevel`.

    As in MiniGrid, the first observation with `start_carrying` still shows the thing in its cell, and dropping it with
    the first action is no success.
    """

    start_carrying: bool = static(False, choices=(False, True), help="whether the agent starts with the thing in hand")

    @property
    def grammar(self) -> Grammar:
        """One thing to put next to another."""
        return Grammar(verbs=(PUT_NEXT,))

    @property
    def time_limit(self) -> int:
        """8 room_size^2 steps."""
        return 8 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample agent, things and the two of the mission."""
        k_sides, k_swap = jax.random.split(key)
        plan, left, right = self.sides(k_sides)
        is_left = jax.random.bernoulli(k_swap, 0.5)
        moved, fixed = jnp.where(is_left, left[0], right[0]), jnp.where(is_left, right[0], left[0])
        return finished(plan, one(put_next(looks(moved), looks(fixed))))

    def move_objects(self, state: BabyState, noise: Any) -> BabyState:
        """Before the first action, put the thing that the mission moves into the agent's hand."""
        del noise
        if not self.start_carrying:
            return state
        kind, color = (state.clauses[0, 0, i].astype(jnp.uint16) for i in (2, 3))
        fits = is_portable(state.grid)  # a text given by hand may leave out the kind or the color
        fits &= (kind == ANY_KIND) | (object_of(state.grid) == kind)
        fits &= (color == ANY_COLOR) | (color_of(state.grid) == color)
        is_taken = _one_of(fits) & (state.time == 1)
        thing = jnp.max(jnp.where(is_taken, state.grid, np.uint16(0)))
        return state.replace(
            grid=jnp.where(is_taken, EMPTY, state.grid), carrying=jnp.where(jnp.any(is_taken), thing, state.carrying)
        )


def _one_of(cells: Bool[Array, "W H"]) -> Bool[Array, "W H"]:
    """Keep only the first of the cells that are true."""
    flat = cells.reshape(-1)
    return cells & (jnp.arange(flat.size, dtype=jnp.int32) == jnp.argmax(flat)).reshape(cells.shape)


@env("BabyAI-MoveTwoAcrossS5N2-v0")
@env("BabyAI-MoveTwoAcrossS8N9-v0", room_size=8, objs_per_room=9)
@struct
class MoveTwoAcross(Across):
    """Put a thing from the left next to one on the right, then another one from the right next to one on the left.

    Start: `objs_per_room` things, no two of them alike, are on each side of two rooms without a wall between them. The
    agent is on the left side.
    End: terminated when both are done in this order. Time limit: 16 room_size^2 steps. The rest: see `BabyLevel`.
    """

    def __post_init__(self) -> None:
        if self.objs_per_room < 2:
            raise ValueError(f"objs_per_room={self.objs_per_room} is too few for two things of each side: at least 2.")

    @property
    def grammar(self) -> Grammar:
        """One thing to put next to another, then one more."""
        return Grammar(verbs=(PUT_NEXT,), groups=2)

    @property
    def time_limit(self) -> int:
        """16 room_size^2 steps."""
        return 16 * self.room_size**2

    def layout(self, key: Key) -> Layout:
        """Sample agent and things. The four of the mission are the first of each side, which are in random order."""
        plan, left, right = self.sides(key)
        to_right, to_left = put_next(looks(left[0]), looks(right[0])), put_next(looks(right[1]), looks(left[1]))
        return finished(plan, before(one(to_right), one(to_left)))
