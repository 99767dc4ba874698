"""Values: frozen dataclasses that are JAX pytrees. Environments, agents, states and settings are all of this kind.

A field is one of three things. A plain field or a `hyper` is a leaf: a number or array that may be traced and may carry
a leading member axis, so that changing it never recompiles. A `static` field shapes the program (a size, a name, an
architecture) and lives in the tree's structure: changing it compiles a new program.
"""

import dataclasses
import inspect
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, dataclass_transform

import jax
import numpy as np
from jax.core import Tracer

from shoal.core.errors import did_you_mean, unknown_field

# A traced constant: a Python number as written by the user, or an array (with a leading member axis in a population).
# A type checker sees only what arithmetic with it means inside `jit`.
if TYPE_CHECKING:
    Number = float | jax.Array
else:
    Number = bool | int | float | np.bool_ | np.number | np.ndarray | jax.Array

Choice = Number | str  # a traced choice: written by name, held as its place in the list
NUMBERS = (Number, Number | None, Choice)  # how the fields of numbers are annotated; a choice's name is one by then

Cls = TypeVar("Cls", bound=type)
Value = TypeVar("Value")  # not typing.Self, which the runtime type checker of the tests cannot resolve in a method


class Range(NamedTuple):
    """What a `hyper` field may hold (`low` to `high`, inclusive) or should be searched over."""

    low: float
    high: float
    log: bool = False


def static(default: Any = dataclasses.MISSING, *, choices: tuple | None = None, help: str = "") -> Any:  # noqa: A002
    """A field that shapes the program. Must be hashable. `choices` lists the values worth searching."""
    return dataclasses.field(default=default, metadata={"static": True, "choices": choices, "help": help})


def hyper(
    default: float,
    *,
    search: tuple | None = None,
    valid: tuple[float, float] | None = None,
    names: tuple[str, ...] = (),
    cap: str = "",
    spans_run: bool = False,
    help: str = "",  # noqa: A002
) -> Any:
    """A traced hyperparameter.

    `search=(low, high)` or `(low, high, "log")` is where a study looks; `valid=(low, high)` is what makes sense at all
    and is checked when the value is built. They are different things on purpose. `names` makes it a choice that is
    traced: a user writes a name, the field holds its place in the list. `cap` is the static field that says how large
    the number may become in this program (`fill_caps`). `spans_run` says that it is a number of environment steps, and
    that 0 stands for as many as the run takes, which the plan of a run fills in. Raises ValueError for a range that is
    empty or misspelled, where the field is declared.
    """
    searched = None if search is None else _range("search", *search)
    allowed = None if valid is None else _range("valid", *valid)
    about = {"search": searched, "valid": allowed, "names": names, "cap": cap, "spans_run": spans_run, "help": help}
    return dataclasses.field(default=default, metadata=about)


def filled_by_bind() -> Any:
    """A static field of an agent that `bind` fills in from an environment; None before. An agent needs all of them."""
    return dataclasses.field(default=None, metadata={"static": True, "choices": None, "help": "", "bind": True})


def from_file(*, help: str = "") -> Any:  # noqa: A002
    """A field of arrays that a user gives as a value or by the name of a file, which the plan of a run reads."""
    return dataclasses.field(default=None, metadata={"file": True, "help": help})


class Struct:
    """What every value can do. A base for the `struct` decorator to work on; holds no fields itself."""

    def __new__(cls: type[Value], *args: Any, **fields: Any) -> Value:
        """Refuse a field that the class does not have. JAX, which takes values apart, does not come through here."""
        known = getattr(cls, "__dataclass_fields__", fields)
        for name in fields:
            if name not in known:
                raise unknown_field(cls.__name__, name, known)
        return object.__new__(cls)

    def replace(self: Value, **changes: Any) -> Value:
        """A copy with some fields changed; fields are checked again. Raises TypeError for a field it does not have."""
        known = self.__dataclass_fields__  # type: ignore[attr-defined]  # every subclass is a dataclass
        for name in changes:
            if name not in known:
                raise unknown_field(type(self).__name__, name, known)
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]  # the same


# `static` and `hyper` are no specifiers to a type checker: it would not see a default that is given by position.
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def struct(cls: Cls) -> Cls:
    """Turn a class into a frozen dataclass that is a JAX pytree.

    `__init__` (and the checks it runs) happens when a user builds the value, not when JAX takes it apart and puts it
    together again, so checks may look at concrete numbers and leaves may be anything while JAX is at work. A class may
    add checks of its own in `__post_init__`; those of its bases run before them. Two values are equal only when they
    are the same object: compare leaves.

    Raises TypeError for an attribute without an annotation in the place of an inherited field.
    """
    _check_no_field_hidden(cls)
    own_check = cls.__dict__.get("__post_init__")
    inherited = [base.__post_init__ for base in cls.__bases__ if hasattr(base, "__post_init__")]

    def post_init(self: Any) -> None:
        _check_statics(self)
        _names_to_places(self)
        _whole_to_real(self)
        _check_numbers(self)
        _check_ranges(self)
        for check in (*inherited, *([own_check] if own_check else [])):
            check(self)

    cls.__post_init__ = post_init
    if not hasattr(cls, "replace"):
        cls.replace = Struct.replace
    made = dataclasses.dataclass(frozen=True, eq=False)(cls)
    leaves = tuple(f.name for f in dataclasses.fields(made) if not f.metadata.get("static"))
    statics = tuple(f.name for f in dataclasses.fields(made) if f.metadata.get("static"))

    def flatten_with_keys(value: Any) -> tuple[tuple, tuple]:
        children = tuple((jax.tree_util.GetAttrKey(name), getattr(value, name)) for name in leaves)
        return children, tuple(getattr(value, name) for name in statics)

    def flatten(value: Any) -> tuple[tuple, tuple]:
        return tuple(getattr(value, name) for name in leaves), tuple(getattr(value, name) for name in statics)

    # Not through `__init__`: its checks are for users, and JAX may put anything in the place of a leaf.
    def unflatten(aux: tuple, children: Iterable) -> Any:
        value = object.__new__(made)
        for name, child in zip(leaves, children, strict=True):
            object.__setattr__(value, name, child)
        for name, setting in zip(statics, aux, strict=True):
            object.__setattr__(value, name, setting)
        return value

    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)
    return made


def hyper_fields(value: Any) -> dict[str, dataclasses.Field]:
    """The `hyper` fields of a value or class, by name, in order of declaration."""
    return {f.name: f for f in dataclasses.fields(value) if "search" in f.metadata}


def static_fields(value: Any) -> dict[str, dataclasses.Field]:
    """The `static` fields of a value or class, by name, in order of declaration."""
    return {f.name: f for f in dataclasses.fields(value) if f.metadata.get("static")}


def fill_caps(values: Sequence[Value]) -> list[Value]:
    """The same values with every static cap that is 0 set to the largest number that it caps among them all.

    So that one program serves a sweep. Raises ValueError for a number above a cap that was given.
    """
    filled = {}
    for name, field in hyper_fields(values[0]).items():
        if not (cap := field.metadata["cap"]):
            continue
        given = getattr(values[0], cap)
        largest = max(float(np.max(getattr(value, name))) for value in values)
        if given and largest > given:
            raise ValueError(f"{name}={largest:g} is more than {cap}={given}. Raise {cap}, or leave it out.")
        filled[cap] = given or math.ceil(largest)
    return [value.replace(**filled) for value in values] if filled else list(values)  # type: ignore[attr-defined]  # structs


def to_arrays(value: Any) -> Any:
    """Every Python number among the leaves as an array of a fixed dtype (`leaf_dtypes`), so that equal values never
    retrace."""
    return jax.tree.map(jax.numpy.asarray, value, leaf_dtypes(value))


def leaf_dtypes(value: Any) -> Any:
    """The dtype of every leaf as an array: JAX's default, so of 64 bits under x64 for numbers that Python holds.

    A `hyper` field of `value` has 32 bits at most: learners compute in float32, with or without x64.
    """
    hypers = hyper_fields(value) if dataclasses.is_dataclass(value) else {}

    def dtype_of(path: tuple, leaf: Any) -> Any:
        dtype = _strong_dtype(leaf)
        return _AT_MOST_32_BITS.get(dtype, dtype) if path and getattr(path[0], "name", None) in hypers else dtype

    return jax.tree_util.tree_map_with_path(dtype_of, value)


def is_concrete(value: Any) -> bool:
    """Whether a field holds a number that can be looked at now (not a tracer, not a placeholder)."""
    return isinstance(value, (bool, int, float, np.generic, np.ndarray)) or (
        isinstance(value, jax.Array) and not isinstance(value, Tracer)
    )


def _check_no_field_hidden(cls: type) -> None:
    """A dataclass would take `size = 9` for no field at all, and go on with the default it inherited."""
    for base in cls.__bases__:
        for field in dataclasses.fields(base) if dataclasses.is_dataclass(base) else ():
            if field.name in cls.__dict__ and field.name not in inspect.get_annotations(cls):
                kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", field.type)
                raise TypeError(
                    f"{cls.__name__}.{field.name} stands in the place of a field of {base.__name__}, which would keep "
                    f"its default. Write it with its type, as in `{field.name}: {kind} = ...`."
                )


def _range(kind: str, low: float, high: float, scale: str = "linear") -> Range:
    if not low <= high:
        raise ValueError(f"{kind}=({low}, {high}) is empty: write the lower end first.")
    if scale not in ("linear", "log"):
        raise ValueError(f'{kind}=({low}, {high}, {scale!r}) has an unknown scale. Write "log", or leave it out.')
    if scale == "log" and low <= 0:
        raise ValueError(f'{kind}=({low}, {high}, "log") must start above 0: the logarithm of {low} does not exist.')
    return Range(low, high, scale == "log")


def _check_statics(value: Any) -> None:
    for name, field in static_fields(value).items():
        given = getattr(value, name)
        if isinstance(given, Tracer) or not isinstance(given, Hashable):
            raise TypeError(
                f"{type(value).__name__}.{name} shapes the program, so it must be fixed and hashable: a number, a "
                f"string, a tuple or a function, not a {type(given).__name__}."
            )
        if field.type is int and (isinstance(given, bool) or not isinstance(given, (int, np.integer))):
            kind = type(given).__name__
            raise TypeError(f"{type(value).__name__}.{name}={given!r} is a {kind}: write a whole number.")
        if field.type is bool and not isinstance(given, (bool, np.bool_)):
            kind = type(given).__name__
            raise TypeError(f"{type(value).__name__}.{name}={given!r} is a {kind}: write True or False.")


def _names_to_places(value: Any) -> None:
    for name, field in hyper_fields(value).items():
        given, names = getattr(value, name), field.metadata["names"]
        if names and isinstance(given, str):
            if given not in names:
                raise ValueError(
                    f"{name}={given!r} is unknown.{did_you_mean(given, names)} Choose one of {', '.join(names)}."
                )
            object.__setattr__(value, name, names.index(given))


def _whole_to_real(value: Any) -> None:
    # `clip=1` where the default is 0.2 means 1.0: an integer array there would change dtypes, and retrace.
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if isinstance(field.default, float) and not field.metadata.get("static"):
            if isinstance(given, int) and not isinstance(given, bool):
                object.__setattr__(value, field.name, float(given))
            elif isinstance(given, (np.generic, np.ndarray)) and np.issubdtype(given.dtype, np.integer):
                object.__setattr__(value, field.name, given.astype(np.float64))


def _check_numbers(value: Any) -> None:
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        is_number = field.type in NUMBERS and not field.metadata.get("static")
        if is_number and isinstance(given, (str, bytes, list, tuple, dict)):
            raise TypeError(
                f"{type(value).__name__}.{field.name}={given!r} is a {type(given).__name__}: write a number, or for a "
                f"population an array."
            )


def _check_ranges(value: Any) -> None:
    for name, field in hyper_fields(value).items():
        given, allowed = getattr(value, name), field.metadata["valid"]
        if allowed is None or not is_concrete(given):
            continue
        numbers = np.asarray(given)
        bad = numbers[~((numbers >= allowed.low) & (numbers <= allowed.high))]
        if bad.size:
            raise ValueError(
                f"{type(value).__name__}.{name}={bad.ravel()[0]} is out of range: it must lie in "
                f"[{allowed.low}, {allowed.high}]. The default is {field.default}."
            )


_AT_MOST_32_BITS = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.int64): np.dtype(np.int32)}


def _strong_dtype(leaf: Any) -> Any:
    dtype = np.asarray(leaf).dtype if not isinstance(leaf, jax.Array) else leaf.dtype
    return jax.dtypes.canonicalize_dtype(dtype) if isinstance(dtype, np.dtype) else dtype
