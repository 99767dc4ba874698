"""Levels with an object behind locked doors: a scripted player that reaches it, and a test of solvability."""

import heapq

import numpy as np

from parity.minigrid import walker
from parity.minigrid.layouts import Layouts
from parity.minigrid.reference import WALL, MiniGridEnv, ObjectAt, WorldObj, pack, position_of
from shoal.grid.cells import LOCKED, OBJECTS

KEY, BOX, DOOR = (OBJECTS.index(name) for name in ("key", "box", "door"))
BLOCKED, LOCKED_OUT = 10, 40  # what a thing in the way, and a locked door without its key, cost in steps


def task_of(state):
    """The reference compares objects by identity."""
    x, y = np.argwhere(state.grid == state.target)[0]
    return {"obj": ObjectAt(int(x), int(y))}


def fields_of(env):
    return {"target": pack(env.obj)}


def take_target(env: MiniGridEnv) -> int | None:
    """Pick the target up, after unlocking doors and moving objects out of the way."""
    return _use(env, env.obj, walker.PICKUP)


def open_target(env: MiniGridEnv) -> int | None:
    """Toggle the target: a box is gone then."""
    return _use(env, env.obj, walker.TOGGLE)


def _use(env: MiniGridEnv, thing: WorldObj, action: int, later: tuple = ()) -> int | None:
    try:
        target = position_of(env, thing)
    except StopIteration:
        return None
    way = _way(env, target)
    obstacle = next((position for position in way[1:-1] if _blocks(env.grid.get(*position))), target)
    blocks = env.grid.get(*obstacle)
    if blocks is thing or blocks.type != "door":
        action = action if blocks is thing else walker.PICKUP
        must_drop = action == walker.PICKUP and env.carrying is not None
        return _put_down(env, {*way, *later}) if must_drop else walker.use(env, obstacle, action)
    if walker.passes(env, obstacle):  # the key is in the hand
        return walker.use(env, obstacle, walker.TOGGLE)
    for other in env.grid.grid:
        if other is not None and other.type == "key" and other.color == blocks.color:
            return _use(env, other, walker.PICKUP, (*way, *later))
        if other is not None and other.contains is not None and other.contains.color == blocks.color:
            return _use(env, other, walker.TOGGLE, (*way, *later))
    return None


def _blocks(thing: WorldObj | None) -> bool:
    return thing is not None and (thing.is_locked if thing.type == "door" else not thing.can_overlap())


def _put_down(env: MiniGridEnv, ways: set[tuple[int, int]]) -> int | None:
    """Drop what is in the hand in the nearest free cell that no path needs."""
    here = (int(env.agent_pos[0]), int(env.agent_pos[1]))
    seen, queue = {here}, [here]
    for x, y in queue:
        for dx, dy in walker.STEPS:
            position = (x + dx, y + dy)
            if position not in seen and walker.passes(env, position):
                if env.grid.get(*position) is None and position not in ways:
                    return walker.use(env, position, walker.DROP)
                seen.add(position)
                queue.append(position)
    return None


def _way(env: MiniGridEnv, target: tuple[int, int]) -> list[tuple[int, int]]:
    """The cheapest way from the agent to a cell; only walls cannot be overcome."""
    here = (int(env.agent_pos[0]), int(env.agent_pos[1]))
    queue, done = [(0, here, None)], {}
    while queue:
        cost, position, before = heapq.heappop(queue)
        if position in done:
            continue
        done[position] = before
        if position == target:
            break
        for dx, dy in walker.STEPS:
            beyond = (position[0] + dx, position[1] + dy)
            thing = env.grid.get(*beyond)
            if beyond not in done and (thing is None or thing.type != "wall"):
                toll = LOCKED_OUT if thing is not None and thing.type == "door" else BLOCKED
                heapq.heappush(queue, (cost + (1 if walker.passes(env, beyond) else toll), beyond, position))
    way = [target]
    while way[-1] != here:
        way.append(done[way[-1]])
    return way[::-1]


def is_solvable(layouts: Layouts) -> np.ndarray:
    """Whether the target can be reached with the keys that lie on the way, where things are carried out of the way."""
    grid = layouts.grid.astype(np.int64)
    objects, colors, in_box = grid & 15, grid >> 4 & 7, (grid >> 9 & 15 == KEY) * (1 + (grid >> 13 & 7))
    key_color = np.where(objects == KEY, colors, np.where(objects == BOX, in_box - 1, -1))
    is_locked = (objects == DOOR) & (grid >> 7 & 3 == LOCKED)
    many = np.arange(len(grid))
    reached = np.zeros(grid.shape, bool)
    reached[many, layouts.x, layouts.y] = True
    while True:
        owned = np.stack([(reached & (key_color == color)).any((1, 2)) for color in range(6)], axis=1)
        passes = (grid != WALL) & (~is_locked | owned[many[:, None, None], colors])
        wide = reached.copy()
        wide[:, 1:] |= reached[:, :-1]
        wide[:, :-1] |= reached[:, 1:]
        wide[:, :, 1:] |= reached[:, :, :-1]
        wide[:, :, :-1] |= reached[:, :, 1:]
        wide &= passes
        if (wide == reached).all():
            return (reached & (grid == layouts.fields["target"][:, None, None])).any((1, 2))
        reached = wide
