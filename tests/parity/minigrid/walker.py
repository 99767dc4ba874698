"""Scripted players for MiniGrid's environments: each returns the next action for the present situation.

A script is a function: environment -> action, or None when nothing is left to do. It reads only the environment, so a
random action between two calls does not disturb it.
"""

from collections import deque

from parity.minigrid.reference import MiniGridEnv, find, front

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))


def go_to(env: MiniGridEnv, target: tuple[int, int], *, lava: bool = False) -> int | None:
    """The next action on the way to stand on a cell, through doors that can be opened; None when there, or no way."""
    return _follow(env, target, lava) if tuple(env.agent_pos) != tuple(target) else None


def face(env: MiniGridEnv, target: tuple[int, int]) -> int | None:
    """The next action on the way to have a cell in front; None when it is, or no way."""
    return None if tuple(env.front_pos) == tuple(target) else _follow(env, target, lava=False, stop_before=True)


def reach_goal(env: MiniGridEnv) -> int | None:
    """Walk to the goal."""
    return go_to(env, find(env, "goal"))


def reach_lava(env: MiniGridEnv) -> int | None:
    """Walk into the lava."""
    return go_to(env, find(env, "lava"), lava=True)


def fetch_key_and_reach_goal(env: MiniGridEnv) -> int | None:
    """Unlock the one locked door with its key, then walk to the goal."""
    try:
        door = find(env, "door", locked=True)
    except ValueError:
        return reach_goal(env)
    if env.carrying is None:
        return use(env, find(env, "key", env.grid.get(*door).color), PICKUP)
    return use(env, door, TOGGLE)


def use(env: MiniGridEnv, target: tuple[int, int], action: int) -> int | None:
    """Go and have a cell in front, then do something with it."""
    return action if tuple(env.front_pos) == tuple(target) else face(env, target)


def passes(env: MiniGridEnv, position: tuple[int, int], lava: bool = False) -> bool:
    """Whether the agent could walk onto a cell as things are, through doors that it can open."""
    if not (0 <= position[0] < env.width and 0 <= position[1] < env.height):
        return False
    thing = env.grid.get(*position)
    if thing is None:
        return True
    if thing.type == "door":
        has_key = env.carrying is not None and env.carrying.type == "key" and env.carrying.color == thing.color
        return not thing.is_locked or has_key
    return thing.type in ("goal", "floor") or (lava and thing.type == "lava")


def _follow(env: MiniGridEnv, target: tuple[int, int], lava: bool, stop_before: bool = False) -> int | None:
    way = _first_step(env, tuple(map(int, target)), lava, stop_before)
    if way is None:
        return None
    if way != env.agent_dir:
        return RIGHT if (way - env.agent_dir) % 4 in (1, 2) else LEFT
    thing = front(env)
    return TOGGLE if thing is not None and thing.type == "door" and not thing.is_open else FORWARD


def _first_step(env: MiniGridEnv, target: tuple[int, int], lava: bool, stop_before: bool) -> int | None:
    """The direction of the first step of a shortest path, found from the target backwards."""
    start = (int(env.agent_pos[0]), int(env.agent_pos[1]))
    if start == target:  # only where the agent has to face what it stands on: step off it
        return next((i for i, (dx, dy) in enumerate(STEPS) if passes(env, (start[0] + dx, start[1] + dy), lava)), None)
    if not stop_before and not passes(env, target, lava):
        return None
    seen, queue = {target}, deque([target])
    while queue:
        x, y = queue.popleft()
        for way, (dx, dy) in enumerate(STEPS):
            before = (x - dx, y - dy)
            if before == start:
                return way
            if before not in seen and passes(env, before, lava):
                seen.add(before)
                queue.append(before)
    return None
