"""Many levels of an id from both generators, and statistics of them whose distributions are compared.

A statistic is a function from layouts to [n], a category for each layout, or to [n, k], for k tests.
"""

import contextlib
import functools
import io
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np
from minigrid.core.roomgrid import RoomGrid
from minigrid.minigrid_env import MiniGridEnv

from parity.babyai.reference import fresh, start_of
from parity.minigrid.layouts import Layouts, cells, layouts_of_ours, number_of
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.cells import COLORS, OBJECTS

EMPTY, WALL = 1, 2
DOOR, KEY, BALL, BOX = (OBJECTS.index(name) for name in ("door", "key", "ball", "box"))
LOCKED = 2
MOST_PLACES = 3000  # tries to place the agent after which the reference would try for ever
Statistic = Callable[[Layouts], np.ndarray]


class Attempts(NamedTuple):
    """How many attempts a generator made at levels, and how many of them it accepted."""

    accepted: int
    made: int

    @property
    def per_level(self) -> float:
        """Mean attempts a level."""
        return self.made / max(self.accepted, 1)


def layouts_of_reference(env_id: str, n: int, seed: int = 0) -> tuple[Layouts, Attempts]:
    """`n` levels of the reference's generator.

    Where the reference would place the agent for ever, the attempt counts as rejected, as it is in ours.
    """
    env, made = fresh(env_id), [0]
    env.gen_obs = lambda: None  # not looked at, and the most expensive part of a reset
    gen_mission = env.gen_mission

    def counted() -> None:
        made[0] += 1
        gen_mission()

    rows = []
    with _without_endless_loops(), contextlib.redirect_stdout(io.StringIO()):
        env.reset(seed=seed)
        env.gen_mission = counted
        for _ in range(n):
            env.reset()
            start = start_of(env)
            rows.append((start.grid, start.x, start.y, start.direction, env.mission, start.max_steps))
    *columns, limit = (np.array(column) for column in zip(*rows, strict=True))
    return Layouts(*columns, {"limit": limit}), Attempts(n, made[0])


def levels_of_ours(env_id: str, n: int) -> tuple[Layouts, Attempts]:
    """`n` levels of our generator, and how many of `n` single attempts are accepted."""
    layouts = layouts_of_ours(env_id, n)
    limit = layouts.fields["limit"]
    if limit is None:
        limit = np.full(n, make(env_id).max_steps)
    return layouts._replace(fields={"limit": limit}), attempts_of_ours(env_id, n)


@functools.cache
def attempts_of_ours(env_id: str, n: int, seed: int = 1) -> Attempts:
    """How many of `n` single attempts of our generator are accepted."""
    level, size = make(env_id), 500
    attempt = jax.jit(jax.vmap(lambda key: level.layout(key).is_accepted))
    keys = jax.random.split(make_key(seed), n)
    accepted = sum(int(attempt(keys[i : i + size]).sum()) for i in range(0, n, size))
    return Attempts(accepted, n)


@contextlib.contextmanager
def _without_endless_loops() -> Iterator[None]:
    """The reference places an agent again and again; make it reject the attempt when no place can be found."""
    place, place_in_room, tries = MiniGridEnv.place_agent, RoomGrid.place_agent, [0]

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        tries[0] += 1
        if tries[0] > MOST_PLACES:
            raise RecursionError("no place for the agent")
        return place(self, *args, **kwargs)

    def from_the_start(self: Any, *args: Any, **kwargs: Any) -> Any:
        tries[0] = 0
        return place_in_room(self, *args, **kwargs)

    with (
        mock.patch.object(MiniGridEnv, "place_agent", counted),
        mock.patch.object(RoomGrid, "place_agent", from_the_start),
    ):
        yield


# Statistics of any level; `pitch` is the distance from one room to the next.


def room_of(x: np.ndarray, y: np.ndarray, pitch: int) -> np.ndarray:
    """The room of a position as one number."""
    return x // pitch * 100 + y // pitch


def statistics(pitch: int) -> dict[str, Statistic]:
    """Statistics that suit every level, by name."""
    return {
        "content of each cell": cells,
        "the agent's room and direction": lambda one: room_of(one.x, one.y, pitch) * 4 + one.direction,
        "the agent's cell in its room": lambda one: one.x % pitch * pitch + one.y % pitch,
        "number of objects of each kind": lambda one: np.stack([number_of(k)(one) for k in (DOOR, KEY, BALL, BOX)], 1),
        "number of objects of each color": number_of_colors,
        "closed and locked doors": doors,
        "form of the mission": form,
        "what each clause says": clauses,
        "time limit": lambda one: one.fields["limit"],
        "objects that match the first description": matches,
        "distance to the nearest of them": distance,
        "objects in the agent's room": lambda one: in_room(one, one.x, one.y, pitch),
        "objects in the middle room": lambda one: in_room(one, *_middle(one, pitch), pitch),
        "objects beside each other": neighbors,
        "objects out of reach": out_of_reach,
        "rooms of the locked door and its key": lambda one: key_and_door(one, pitch),
    }


def kinds(layouts: Layouts) -> np.ndarray:
    """The kind of each cell, [n, W, H]."""
    return layouts.grid & 15


def is_thing(layouts: Layouts) -> np.ndarray:
    """Which cells hold a key, a ball or a box."""
    return kinds(layouts) >= KEY


def number_of_colors(layouts: Layouts) -> np.ndarray:
    """How many doors and things have each color, [n, 6]."""
    objects = kinds(layouts) >= DOOR
    return np.stack([(objects & (layouts.grid >> 4 & 7 == c)).sum((1, 2)) for c in range(len(COLORS))], 1)


def doors(layouts: Layouts) -> np.ndarray:
    """How many doors are open, closed and locked, as one number."""
    state = layouts.grid >> 7 & 3
    return sum(((kinds(layouts) == DOOR) & (state == s)).sum((1, 2)) * 100**s for s in range(3))


def in_room(layouts: Layouts, x: np.ndarray, y: np.ndarray, pitch: int) -> np.ndarray:
    """How many things are in the room of a position, walls included."""
    left, top = (x // pitch * pitch)[:, None, None], (y // pitch * pitch)[:, None, None]
    columns, rows = np.indices(layouts.grid.shape[1:])
    inside = (columns >= left) & (columns <= left + pitch) & (rows >= top) & (rows <= top + pitch)
    return (is_thing(layouts) & inside).sum((1, 2))


def _middle(layouts: Layouts, pitch: int) -> tuple[np.ndarray, np.ndarray]:
    width, height = layouts.grid.shape[1:]
    return tuple(np.full(len(layouts.x), size // pitch // 2 * pitch + 1) for size in (width, height))


def neighbors(layouts: Layouts) -> np.ndarray:
    """How many pairs of things are beside each other."""
    thing = is_thing(layouts)
    return (thing[:, 1:] & thing[:, :-1]).sum((1, 2)) + (thing[:, :, 1:] & thing[:, :, :-1]).sum((1, 2))


def out_of_reach(layouts: Layouts) -> np.ndarray:
    """How many doors and things the agent cannot go beside without moving another thing; at most 9."""
    kind = kinds(layouts)
    passes = (kind == EMPTY) | (kind == DOOR)
    reached = np.zeros(kind.shape, bool)
    reached[np.arange(len(kind)), layouts.x, layouts.y] = True
    while True:
        walked = reached & passes
        wide = reached.copy()
        wide[:, 1:] |= walked[:, :-1]
        wide[:, :-1] |= walked[:, 1:]
        wide[:, :, 1:] |= walked[:, :, :-1]
        wide[:, :, :-1] |= walked[:, :, 1:]
        if (wide == reached).all():
            return np.minimum(((kind > WALL) & ~reached).sum((1, 2)), 9)
        reached = wide


def key_and_door(layouts: Layouts, pitch: int) -> np.ndarray:
    """The wall of the first locked door, and whether the first key of its color lies in a room beside it."""
    flat, kind, state = cells(layouts), cells(layouts) & 15, cells(layouts) >> 7 & 3
    height = layouts.grid.shape[2]
    is_locked = (kind == DOOR) & (state == LOCKED)
    door = is_locked.argmax(1)
    color = np.take_along_axis(flat >> 4 & 7, door[:, None], 1)
    is_key = (kind == KEY) & (flat >> 4 & 7 == color)
    x, y = door // height, door % height
    key_x, key_y = is_key.argmax(1) // height, is_key.argmax(1) % height
    beside = (np.abs(key_x - x) <= pitch) & (np.abs(key_y - y) <= pitch)
    wall = (2 * x // pitch * 100 + 2 * y // pitch) * 10
    return np.where(is_locked.any(1), wall + np.where(is_key.any(1), 1 + beside, 0), -1)


# Statistics of the mission.

PLACE = r"( in front of you| behind you| on your left| on your right)?"
DESCRIPTION = re.compile(rf"\b(a|the) (?:({'|'.join(COLORS)}) )?(door|key|ball|box|object){PLACE}")
CLAUSE = re.compile(r", then | after you | and ")


@functools.cache
def _descriptions(mission: str) -> tuple[tuple[str, ...], ...]:
    return tuple(DESCRIPTION.findall(mission))


def form(layouts: Layouts) -> np.ndarray:
    """The mission without its descriptions."""
    return np.array([DESCRIPTION.sub("D", mission) for mission in layouts.mission])


def clauses(layouts: Layouts) -> np.ndarray:
    """Of the first, second, third and fourth clause, the text without and then with the colors, [n, 8]."""
    columns = []
    for i in range(4):
        said = [(CLAUSE.split(mission) + [""] * 4)[i] for mission in layouts.mission]
        columns += [[re.sub("|".join(COLORS), "C", text) for text in said], said]
    return np.array(columns).T


def matches(layouts: Layouts) -> np.ndarray:
    """How many objects have the kind and color of the first description."""
    return _matching(layouts).sum((1, 2))


def distance(layouts: Layouts) -> np.ndarray:
    """Steps of a king without walls from the agent to the nearest object of the first description."""
    columns, rows = np.indices(layouts.grid.shape[1:])
    far = np.maximum(np.abs(columns - layouts.x[:, None, None]), np.abs(rows - layouts.y[:, None, None]))
    return np.where(_matching(layouts), far, 99).min((1, 2))


def _matching(layouts: Layouts) -> np.ndarray:
    found = np.zeros(layouts.grid.shape, bool)
    for i, mission in enumerate(layouts.mission):
        _, color, kind, _ = _descriptions(str(mission))[0]
        grid = layouts.grid[i]
        fits = grid & 15 >= DOOR if kind == "object" else grid & 15 == OBJECTS.index(kind)
        found[i] = fits & (grid >> 4 & 7 == COLORS.index(color)) if color else fits
    return found
