"""Fetch: pick up the object that the mission names, and no other.

Source: MiniGrid 3.2.0 `envs/fetch.py`, step for step.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, UInt8, UInt16

from shoal.core.env import Key
from shoal.core.registry import env
from shoal.core.struct import static, struct
from shoal.envs.minigrid.things import check_room
from shoal.grid.cells import BALL, EMPTY, KEY, with_color
from shoal.grid.layout import choose, empty_room, place_each, random_color
from shoal.grid.level import GridState, Judgement, SquareLevel, begin
from shoal.grid.words import encode, fill, look_words

WORDINGS = ("get a {} {}", "go get a {} {}", "fetch a {} {}", "go fetch a {} {}", "you must fetch a {} {}")


@struct
class FetchState(GridState):
    """A room, the object to pick up, and the wording of the mission."""

    target: UInt16[Array, ""]  # the object to pick up, as a cell
    wording: Int[Array, ""]  # an index of `WORDINGS`


@env("MiniGrid-Fetch-5x5-N2-v0", size=5, num_objects=2)
@env("MiniGrid-Fetch-6x6-N2-v0", size=6, num_objects=2)
@env("MiniGrid-Fetch-8x8-N3-v0", size=8, num_objects=3)
@struct
class Fetch(SquareLevel):
    """Among keys and balls of random colors, pick up the one that the mission names.

    Another one of the same kind and color counts too.

    Start: objects and agent are in random cells; the mission has one of five wordings.
    End: terminated when the agent picks up any object. Time limit: 5 size^2 steps. The rest: see `Level`.
    """

    reset_every: ClassVar[int] = 24
    task: ClassVar[str] = max(WORDINGS, key=len)

    see_through_walls: bool = static(True, choices=(False, True), help="whether the agent sees the cells behind walls")
    size: int = static(8, help="side of the grid in cells, walls included")
    num_objects: int = static(3, help="number of keys and balls: less than the number of cells between the walls")

    def __post_init__(self) -> None:
        check_room(self.size, self.num_objects, alike=True)

    @property
    def time_limit(self) -> int:
        """5 size^2 steps."""
        return 5 * self.size**2

    def init(self, key: Key) -> FetchState:
        """Sample the objects, the agent, the target and the wording, in MiniGrid's order."""
        k_kind, k_color, k_positions, k_agent, k_direction, k_target, k_wording = jax.random.split(key, 7)
        is_key = jax.random.bernoulli(k_kind, 0.5, (self.num_objects,))
        things = jnp.asarray(with_color(jnp.where(is_key, KEY, BALL), random_color(k_color, (self.num_objects,))))
        grid, _, _ = place_each(k_positions, jnp.asarray(empty_room(*self.shape)), things)
        x, y = choose(k_agent, grid == EMPTY)
        return FetchState(
            **begin(grid, x, y, jax.random.randint(k_direction, (), 0, 4)),
            target=things[jax.random.randint(k_target, (), 0, self.num_objects)],
            wording=jax.random.randint(k_wording, (), 0, len(WORDINGS)),
        )

    def judge(self, before: FetchState, after: FetchState, action: Int[Array, ""]) -> Judgement:
        """The object that the agent carries decides."""
        del before, action
        return jnp.where(after.carrying == after.target, self.success(after), 0), after.carrying != EMPTY

    def mission(self, state: FetchState) -> UInt8[Array, "L"]:
        """Names the target's color and kind, in one of five wordings."""
        words = look_words(state.target)
        length = len(encode(self.task))
        return jax.lax.select_n(state.wording, *(fill(text, *words, length=length) for text in WORDINGS))
