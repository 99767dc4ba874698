"""Kinds of objects that MiniGrid does not have: a portal, a button, a patrol. A level lists its own in `kinds`.

    PORTAL = NewKind("portal", 11, walkable=True, picture="ring", on_step=teleport)

Five kinds fit beside MiniGrid's eleven into the four bits of a cell, with codes from 11 to 15. Observations show these
codes. What an agent may do with an object is a field; what happens then is a function of the state:

    on_toggle(state, x, y) -> state     the agent toggles the object, which is at (x, y) in front of it
    on_pickup(state, x, y) -> state     the agent takes it; of a kind that is not portable: tries to
    on_step(state, x, y) -> state       the agent steps onto it
    every_step(state, kind) -> state    before the agent acts in a step, once for all objects of the kind

`state` is the level's own, after the effects that MiniGrid has for the action. The functions are part of the compiled
program: they are pure, and always computed, and masks select their results.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, UInt16

from shoal.core.errors import did_you_mean
from shoal.core.user_functions import (
    call_of,
    check_signature,
    field_and_name,
    result_in_words,
    result_shapes,
)
from shoal.grid.actions import PICKUP, TOGGLE
from shoal.grid.cells import EMPTY, FIRST_NEW_CODE, KINDS, LAST_CODE, MOST_STATES, Kind, is_a, is_portable
from shoal.grid.shapes import SHAPES, Shape

CODES = f"{FIRST_NEW_CODE} to {LAST_CODE}"
MOST_NEW_KINDS = LAST_CODE - FIRST_NEW_CODE + 1
HOOKS = {
    "on_toggle": ("state", "x", "y"),
    "on_pickup": ("state", "x", "y"),
    "on_step": ("state", "x", "y"),
    "every_step": ("state", "kind"),
}


@dataclasses.dataclass(frozen=True)
class NewKind(Kind):
    """A kind of object that a level declares. Cells of it have one of MiniGrid's colors, and a state from 0.

    `picture` is painted in the color of the cell: a name of `SHAPES` (`grid/shapes.py`), a shape, or a tuple with one
    for each state. The state of MiniGrid's doors decides whether they are shut; that of a new kind means what its
    functions make of it. The name is one word of small letters, because missions may name the object.
    Raises ValueError for a name, a code, a number of states or a picture that does not exist or is taken, and TypeError
    for a function with other arguments.
    """

    picture: str | Shape | tuple[str | Shape, ...] = "square"
    on_toggle: Any = None  # functions, or None; their arguments are those of HOOKS
    on_pickup: Any = None
    on_step: Any = None
    every_step: Any = None

    def __post_init__(self) -> None:
        _check_name_and_code(self)
        if not 1 <= self.states <= MOST_STATES:
            raise ValueError(f"kind {self.name!r}: states={self.states} must be from 1 to {MOST_STATES}: two bits.")
        if isinstance(self.picture, tuple) and len(self.picture) != self.states:
            raise ValueError(f"kind {self.name!r} has {len(self.picture)} pictures for states={self.states}.")
        for picture in self._pictures:
            _check_picture(self.name, picture)
        for hook, names in HOOKS.items():
            function = getattr(self, hook)
            if function is not None and not callable(function):
                raise TypeError(f"kind {self.name!r}: {hook}={function!r:.60} is no function.")
            if function is not None:
                check_signature(hook, function, names)

    @property
    def _pictures(self) -> tuple[str | Shape, ...]:
        return self.picture if isinstance(self.picture, tuple) else (self.picture,)

    def picture_of(self, state: int) -> Shape:
        """The shape that is painted for a state."""
        picture = self._pictures[state % len(self._pictures)]
        return SHAPES[picture] if isinstance(picture, str) else picture


NewKinds = tuple[NewKind, ...]


def check_kinds(level: str, kinds: Any, grid_changes: bool) -> None:
    """Raise TypeError or ValueError, naming the level, for kinds that do not fit together in one."""
    if not isinstance(kinds, tuple) or not all(isinstance(kind, NewKind) for kind in kinds):
        raise TypeError(f"{level}.kinds={kinds!r:.80} must be a tuple of NewKind values: kinds = (PORTAL, BUTTON).")
    if len(kinds) > MOST_NEW_KINDS:
        raise ValueError(
            f"{level} declares {len(kinds)} kinds, and {MOST_NEW_KINDS} fit: a cell has {LAST_CODE + 1} codes (four "
            f"bits), of which MiniGrid has {FIRST_NEW_CODE}. Use states or colors to tell more things apart."
        )
    for number, kind in enumerate(kinds):
        for other in kinds[:number]:
            if other.code == kind.code or other.name == kind.name:
                what = f"code {kind.code}" if other.code == kind.code else f"name {kind.name!r}"
                raise ValueError(f"{level}: the {what} of kind {kind.name!r} is taken by kind {other.name!r}.")
        if kind.portable and not grid_changes:
            raise ValueError(f"{level} has grid_changes=False, so its portable kind {kind.name!r} could not be taken.")


def check_hooks(kinds: NewKinds, state: Any) -> None:
    """Raise TypeError or ValueError for a function of a kind that does not return a state.

    `state` is a tree of the shapes of the level's state.
    """
    number = jax.ShapeDtypeStruct((), jnp.int32)
    for kind in kinds:
        for hook, names in HOOKS.items():
            if (function := getattr(kind, hook)) is None:
                continue
            if hook == "every_step":
                found = result_shapes(hook, lambda state, f=function, k=kind: f(state, k), {"state": state})
            else:
                found = result_shapes(hook, function, dict(zip(names, (state, number, number), strict=True)))
            _check_same(kind, hook, found, state)


def after_action(
    kinds: NewKinds,
    before: Any,
    after: Any,
    action: Int[Array, ""],
    front: UInt16[Array, ""],
    position: tuple[Int[Array, ""], Int[Array, ""]],
    has_moved: Bool[Array, ""],
) -> Any:
    """The state after what the object in front of the agent does; `front` is its cell before the action."""
    takes = (action == PICKUP) & ((before.carrying == EMPTY) | ~is_portable(front, kinds))
    happens = {"on_toggle": action == TOGGLE, "on_pickup": takes, "on_step": has_moved}
    for kind in kinds:
        for hook, is_due in happens.items():
            if (function := getattr(kind, hook)) is not None:
                after = _where(is_due & is_a(front, kind), function(after, *position), after)
    return after


def before_action(kinds: NewKinds, state: Any) -> Any:
    """The state after what the objects do by themselves in a step."""
    for kind in kinds:
        if kind.every_step is not None:
            state = _like(kind.every_step(state, kind), state)
    return state


def _where(mask: Bool[Array, ""], new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(mask, a, b), _like(new, old), old)


def _like(new: Any, old: Any) -> Any:
    """The new state with Python numbers that a function wrote into it as arrays."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), new, old)


def _check_name_and_code(kind: NewKind) -> None:
    if not (isinstance(kind.name, str) and kind.name.isascii() and kind.name.isalpha() and kind.name.islower()):
        raise ValueError(f"kind {kind.name!r}: its name must be one word of small letters, as missions have them.")
    if not isinstance(kind.code, int) or not FIRST_NEW_CODE <= kind.code <= LAST_CODE:
        taken = next((f", and {kind.code} is that of {old.name}" for old in KINDS if old.code == kind.code), "")
        raise ValueError(f"kind {kind.name!r}: code={kind.code!r} must be from {CODES}{taken}.")
    if any(kind.name == old.name for old in KINDS):
        raise ValueError(f"kind {kind.name!r}: the name is taken, by an object of MiniGrid. Choose another.")


def _check_picture(name: str, picture: Any) -> None:
    if isinstance(picture, str) or not callable(picture):
        if picture not in SHAPES:
            near = did_you_mean(str(picture), SHAPES)
            raise ValueError(f"kind {name!r}: picture={picture!r} is unknown.{near} Choose one of {', '.join(SHAPES)}.")
        return
    check_signature("picture", picture, ("x", "y"))
    x, y = np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 4))
    mask = np.asarray(picture(x, y))
    if mask.shape != x.shape or mask.dtype != bool:
        raise ValueError(f"kind {name!r}: picture(x, y) must return a mask: for arrays [4, 4] of numbers, bool [4, 4].")


def _check_same(kind: NewKind, hook: str, found: Any, state: Any) -> None:
    given = f"kind {kind.name!r}: {field_and_name(hook, getattr(kind, hook))}"
    call = call_of(hook, HOOKS[hook])
    if jax.tree.structure(found) != jax.tree.structure(state):
        raise ValueError(f"{given} returns {result_in_words(found)}: {call} returns the new state.")
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    for (path, old), new in zip(leaves, jax.tree.leaves(found), strict=True):
        if new.shape != old.shape or new.dtype != old.dtype:
            kinds = f"{new.dtype}{list(new.shape)} instead of {old.dtype}{list(old.shape)}"
            raise ValueError(f"{given} returns a state with {jax.tree_util.keystr(path)[1:]} of {kinds}.")
