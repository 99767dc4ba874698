"""Rewards and ends of episodes that a level may have instead of its own, as NAVIX has them.

    shoal.make("MiniGrid-DoorKey-8x8-v0", reward=("own", "time-cost"), done="door-opened")

A reward or an end is a name, a function (before, after, action) -> one number or bool, or a tuple of these: rewards are
added, and an episode ends with any of the ends. `before` and `after` are the states before and after the action, and
`before.time` counts this step too. "own" is the level's own.
Source of the events: NAVIX 0.7 `rewards.py`, `terminations.py` and `events.py`.
"""

import functools
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from shoal.core.errors import did_you_mean
from shoal.core.user_functions import field_and_name, result_in_words, result_shapes
from shoal.grid.actions import FORWARD, cell_at, heading
from shoal.grid.cells import EMPTY, WALL, Kind, is_a, is_shut

OWN = "own"
COST = 0.01  # of a step, or of a step against a wall, as in NAVIX


def steps_onto(before: Any, after: Any, kind: str | Kind) -> Bool[Array, ""]:
    """Whether the agent went to another cell, which holds an object of this kind."""
    has_moved = (before.x != after.x) | (before.y != after.y)
    return has_moved & is_a(cell_at(after.grid, after.x, after.y, WALL), kind)


def picks_up(before: Any, after: Any, kind: str | Kind) -> Bool[Array, ""]:
    """Whether the agent takes an object of this kind."""
    return (before.carrying == EMPTY) & is_a(after.carrying, kind)


def opens_door(before: Any, after: Any) -> Bool[Array, ""]:
    """Whether a door that was shut opens."""
    was_shut = is_a(before.grid, "door") & is_shut(before.grid)
    return jnp.any(was_shut & is_a(after.grid, "door") & ~is_shut(after.grid))


def walks_against_wall(before: Any, action: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether the agent steps forward with a wall in front of it."""
    dx, dy = heading(before.direction)
    return (action == FORWARD) & is_a(cell_at(before.grid, before.x + dx, before.y + dy, WALL), "wall")


EVENTS: dict[str, Callable[[Any, Any, Array], Bool[Array, ""]]] = {
    "goal": lambda before, after, action: steps_onto(before, after, "goal"),
    "lava": lambda before, after, action: steps_onto(before, after, "lava"),
    "door-opened": lambda before, after, action: opens_door(before, after),
    "key-taken": lambda before, after, action: picks_up(before, after, "key"),
    "ball-taken": lambda before, after, action: picks_up(before, after, "ball"),
    "box-taken": lambda before, after, action: picks_up(before, after, "box"),
    "never": lambda before, after, action: jnp.bool_(False),
}
REWARDS: dict[str, Callable[[Any, Any, Array], Array]] = {
    **{name: event for name, event in EVENTS.items() if name != "never"},
    "none": lambda before, after, action: jnp.float32(0),
    "time-cost": lambda before, after, action: jnp.float32(-COST),
    "wall-cost": lambda before, after, action: -COST * walks_against_wall(before, action).astype(jnp.float32),
}


def reward_of(chosen: Any, own: Float[Array, ""], before: Any, after: Any, action: Array) -> Float[Array, ""]:
    """The sum of the chosen rewards; `own` is the level's own."""
    parts = _values(chosen, REWARDS, own, (before, after, action))
    return functools.reduce(operator.add, [jnp.asarray(part).astype(jnp.float32) for part in parts])


def end_of(chosen: Any, own: Bool[Array, ""], before: Any, after: Any, action: Array) -> Bool[Array, ""]:
    """Whether the episode ends by one of the chosen ends; `own` is the level's own."""
    return functools.reduce(operator.or_, _values(chosen, EVENTS, own, (before, after, action)))


def check_chosen(field: str, chosen: Any, ready: Collection[str], several: bool = True) -> None:
    """Raise TypeError or ValueError for what is neither a name in `ready` nor a function, nor a tuple of these."""
    if chosen == () or (isinstance(chosen, tuple) and not several):
        raise ValueError(f"{field}={chosen!r:.60}: give a name, a function{', or a tuple of several' * several}.")
    for part in _parts(chosen):
        if callable(part):
            continue
        if not isinstance(part, str):
            raise TypeError(f"{field}={part!r:.60} is neither a name nor a function: choose {', '.join(ready)}.")
        if part not in ready:
            own = " A function of your own is given itself; on the command line it is FILE.py:FUNCTION." * (":" in part)
            raise ValueError(
                f"{field}={part!r} is unknown.{did_you_mean(part, ready)} Choose one of {', '.join(ready)}.{own}"
            )


def check_results(reward: Any, done: Any, state: Any) -> None:
    """Raise TypeError or ValueError for a function that does not return one number, or one bool for `done`.

    `state` is a tree of shapes.
    """
    number = jax.ShapeDtypeStruct((), jnp.int32)
    for field, chosen, is_right, what in (
        ("reward", reward, _is_number, "one number"),
        ("done", done, _is_flag, "one bool"),
    ):
        for function in filter(callable, _parts(chosen)):
            found = result_shapes(field, function, {"before": state, "after": state, "action": number})
            if not is_right(found):
                raise ValueError(
                    f"{field_and_name(field, function)} returns {result_in_words(found)}: {field}(before, after, "
                    f"action) returns {what}."
                )


def _parts(chosen: Any) -> tuple:
    return chosen if isinstance(chosen, tuple) else () if chosen is None else (chosen,)


def _values(chosen: Any, ready: Mapping[str, Callable], own: Array, arguments: tuple) -> list[Any]:
    functions = [ready.get(part) if isinstance(part, str) else part for part in _parts(chosen)]
    return [own if function is None else function(*arguments) for function in functions]


def _is_number(found: Any) -> bool:
    return getattr(found, "shape", None) == () and (jnp.issubdtype(found.dtype, jnp.number) or _is_flag(found))


def _is_flag(found: Any) -> bool:
    return getattr(found, "shape", None) == () and found.dtype == jnp.bool_
