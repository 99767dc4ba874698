"""Structs: frozen dataclasses that are JAX pytrees. Environments, agents and their states are structs.

A field is of one of two kinds. A plain field, or one declared with `hyper`, is a leaf of the pytree: a number or array
that may be traced and may have a leading member axis. Changing it never recompiles. A field declared with `static`
shapes the program (a size, a name, an architecture) and is part of the pytree's structure: changing it compiles a new
program. A field declared with `part` is static while it holds a name or a function, and a branch of the pytree while it
holds a struct: a loss with weights, for example. A hyperparameter of an agent may hold a schedule (`core.schedules`).
"""

import dataclasses
import inspect
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, get_args, get_origin

import jax
import numpy as np
from jax.core import Tracer

from shoal.core.errors import did_you_mean, unknown_fields
from shoal.core.kinds import python_number, shown
from shoal.core.ranges import Range
from shoal.core.schedules import Scheduled, is_written

if TYPE_CHECKING:
    Number = float | jax.Array
    """The type of a traced constant: a Python number or the text of a schedule as the user writes it, or an array.

    In a population the array has a leading member axis. For a type checker it is what arithmetic inside `jit` accepts.
    """
else:
    Number = bool | int | float | np.bool_ | np.number | np.ndarray | jax.Array | Scheduled | str

Choice = Number | str  # a traced choice: the user writes a name, the field holds its index in the list of names
NUMBERS = (Number, Number | None, Choice)  # the annotations of fields that hold numbers; a choice holds its index

Cls = TypeVar("Cls", bound=type)
Value = TypeVar("Value")  # not typing.Self, which the runtime type checker of the tests cannot resolve in a method


@dataclasses.dataclass(frozen=True)
class FieldInfo:
    """The declarations of a field of a struct about itself, made with `static`, `part`, `hyper` and the like."""

    help: str = ""
    static: bool = False  # it shapes the program
    part: bool = False  # static while it holds a name or a function, a branch of the pytree while it holds a struct
    hyper: bool = False
    choices: tuple | None = None  # the values worth searching of a static field
    first: Mapping[str, Callable[[Any], Any]] | None = None  # of a part: see `part`
    search: Range | None = None
    valid: Range | None = None
    names: tuple[str, ...] = ()
    cap: str = ""
    spans_run: bool = False
    schedule_of: str = ""
    initial: bool | Callable[[Any], bool] = False
    bind: bool = False  # `bind` fills it in
    file: bool = False  # it may hold the path of a file with arrays
    stacked: bool = False  # it holds a stack of structs, whose leaves have an axis that is no sweep
    ranges: bool = False  # it holds ranges by path
    function: bool = False  # it may hold a function, or a tuple of names and functions

    def field(self, default: Any = dataclasses.MISSING, **options: Any) -> Any:
        """Return a field of a dataclass with this information."""
        return dataclasses.field(default=default, metadata={"shoal": self}, **options)


def info_of(field: dataclasses.Field) -> FieldInfo:
    """Return what a field declares about itself; nothing for a plain one."""
    return field.metadata.get("shoal", _PLAIN)


_PLAIN = FieldInfo()


def static(
    default: Any = dataclasses.MISSING,
    *,
    choices: tuple | None = None,
    function: bool = False,
    help: str = "",  # noqa: A002
) -> Any:
    """Declare a field that shapes the program. Its value must be hashable. `choices` are the values worth searching.

    `function`: the field may hold a function or a name of one, or a tuple of these.
    """
    return FieldInfo(help=help, static=True, choices=choices, function=function).field(default)


def part(
    default: Any,
    *,
    choices: tuple | None = None,
    first: Mapping[str, Callable[[Any], Any]] | None = None,
    help: str = "",  # noqa: A002
) -> Any:
    """Declare a field that holds a static value (a name, a function) or a struct with traced leaves.

    Such a struct, a loss with weights for example, may differ between the members of one compiled program: a selector
    may change it like a hyperparameter. `choices` are names of static values. `first` are functions by name that make a
    struct from a random key: an evolution of this field starts from such a struct.
    """
    return FieldInfo(help=help, static=True, part=True, choices=choices, first=first).field(default)


def hyper(
    default: float | None,
    *,
    search: tuple | None = None,
    valid: tuple[float, float] | None = None,
    names: tuple[str, ...] = (),
    cap: str = "",
    spans_run: bool = False,
    schedule_of: str = "",
    initial: bool | Callable[[Any], bool] = False,
    help: str = "",  # noqa: A002
) -> Any:
    """Declare a traced hyperparameter.

    `search=(low, high)`, `(low, high, "log")` or `(low, high, "near1")`: the range that a search samples from.
    `valid=(low, high)`: the values that are possible at all; other values raise ValueError when the struct is built.
    `names`: the hyperparameter is a choice among these names; a user writes a name, the field holds its index.
    `cap`: the name of the static field that bounds this number in one program (see `fill_caps`).
    `spans_run`: the number counts environment steps, and 0 means all steps of the run, which the plan fills in.
    `schedule_of`: the number says how the field of this name falls during a run. It counts as 0 where that field has a
    schedule of its own (`core.schedules`).
    `initial`: only `init` reads the number, so that another one changes nothing in a member that has begun; or a
    function that says so for a bound agent.

    Raises ValueError, where the field is declared, for a range that is empty or has an unknown scale.
    """
    about: dict[str, Any] = {"help": help, "names": names, "cap": cap, "spans_run": spans_run, "initial": initial}
    ranges = {"search": _range("search", search), "valid": _range("valid", valid)}
    return FieldInfo(hyper=True, **ranges, schedule_of=schedule_of, **about).field(default)


def filled_by_bind() -> Any:
    """Declare a static field of an agent that `bind` fills in from an environment. Before, it is None."""
    return FieldInfo(static=True, bind=True).field(None)


def from_file(*, help: str = "") -> Any:  # noqa: A002
    """Declare a field of arrays. A user gives arrays or the path of a file, which is read when a run is planned."""
    return FieldInfo(help=help, file=True).field(None)


class Struct:
    """The base class of structs. It has no fields; decorate subclasses with `@struct`."""

    takes_schedules = False  # of a class: whether hyperparameters may hold a schedule

    def __new__(cls: type[Value], *args: Any, **fields: Any) -> Value:
        """Raise TypeError for a field that the class does not have. JAX's unflattening does not call this method."""
        known = getattr(cls, "__dataclass_fields__", fields)
        if "__dataclass_fields__" not in cls.__dict__ and (own := [*inspect.get_annotations(cls)]):
            raise TypeError(f"{cls.__name__} has no field {own[0]!r} yet: write @struct above `class {cls.__name__}`.")
        unknown = [name for name in fields if name not in known]
        for name in unknown:
            if name in cls.__dict__:
                raise TypeError(f"{cls.__name__}.{name} has no type, so it is no field: write `{name}: jax.Array`.")
        if unknown:
            raise unknown_fields(cls.__name__, unknown, known)
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise TypeError(f"{cls.__name__} has no {' and no '.join(missing)}: define it in the class.")
        return object.__new__(cls)

    def _check_last(self) -> None:
        """Raise ValueError for wrong values that no class has refused. It runs after the checks of all classes."""

    def replace(self: Value, **changes: Any) -> Value:
        """Return a copy with some fields changed and checked. Raises TypeError for a field that does not exist."""
        known = self.__dataclass_fields__  # type: ignore[attr-defined]  # every subclass is a dataclass
        if unknown := [name for name in changes if name not in known]:
            raise unknown_fields(type(self).__name__, unknown, known)
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]  # every subclass is a dataclass


_IS_STRUCT = "<a struct with leaves>"  # in the structure of a pytree: a `part` field whose struct is a child


# `static` and `hyper` are not listed as field specifiers: a type checker would not see a default passed by position.
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def struct(cls: Cls) -> Cls:
    """Turn a class into a frozen dataclass that is a JAX pytree.

    `__init__` and its checks run when a user builds a value. They do not run when JAX flattens and unflattens it, so
    while JAX transforms a function, leaves may be tracers or placeholders. A class may add checks in `__post_init__`;
    those of its base classes run first. `==` compares identity: compare leaves instead.

    Raises TypeError for an attribute without an annotation that would hide an inherited field.
    """
    _check_no_field_hidden(cls)
    own_check = cls.__dict__.get("__post_init__")
    inherited_checks = [base.__post_init__ for base in cls.__bases__ if hasattr(base, "__post_init__")]

    def post_init(self: Any) -> None:
        _plain_statics(self)
        _check_bits(self)
        _check_statics(self)
        _texts_to_schedules(self)
        _names_to_indices(self)
        _integers_to_floats(self)
        _check_numbers(self)
        _check_ranges(self)
        for check in (*inherited_checks, *([own_check] if own_check else [])):
            check(self)
        if type(self) is cls and isinstance(self, Struct):
            self._check_last()

    cls.__post_init__ = post_init
    if not hasattr(cls, "replace"):
        cls.replace = Struct.replace
    made = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(made)
    leaves = tuple(f.name for f in fields if not info_of(f).static or info_of(f).part)
    parts = frozenset(f.name for f in fields if info_of(f).part)
    statics = tuple(f.name for f in fields if info_of(f).static)

    def child(value: Any, name: str) -> Any:
        content = getattr(value, name)
        return None if name in parts and not isinstance(content, Struct) else content

    def shape_of(value: Any) -> tuple:
        contents = ((name, getattr(value, name)) for name in statics)
        return tuple(_IS_STRUCT if name in parts and isinstance(c, Struct) else c for name, c in contents)

    def flatten_with_keys(value: Any) -> tuple[tuple, tuple]:
        return tuple((jax.tree_util.GetAttrKey(name), child(value, name)) for name in leaves), shape_of(value)

    def flatten(value: Any) -> tuple[tuple, tuple]:
        return tuple(child(value, name) for name in leaves), shape_of(value)

    # This skips `__init__` and its checks: JAX may use tracers, None or other placeholders as leaves.
    def unflatten(aux: tuple, children: Iterable) -> Any:
        value = object.__new__(made)
        for name, content in zip(leaves, children, strict=True):
            object.__setattr__(value, name, content)
        for name, content in zip(statics, aux, strict=True):
            if content is not _IS_STRUCT:
                object.__setattr__(value, name, content)
        return value

    jax.tree_util.register_pytree_with_keys(made, flatten_with_keys, unflatten, flatten)
    return made


def hyper_fields(value: Any) -> dict[str, dataclasses.Field]:
    """Return the `hyper` fields of a struct or its class, by name, in order of declaration."""
    return {f.name: f for f in dataclasses.fields(value) if info_of(f).hyper}


def number_fields(value: Any) -> dict[str, dataclasses.Field]:
    """Return the fields of a struct or its class that hold numbers, by name, in order of declaration."""
    return {f.name: f for f in dataclasses.fields(value) if f.type in NUMBERS and not info_of(f).static}


def is_number(content: Any) -> bool:
    """Return whether a field of numbers can hold this: a number, an array, a tracer, a schedule, or None."""
    return content is None or isinstance(content, (bool, int, float, Scheduled)) or hasattr(content, "dtype")


def schedules_in(value: Any) -> dict[str, Scheduled]:
    """Return the schedules of the hyperparameters of a struct, by name; empty where all are numbers."""
    contents = {name: getattr(value, name) for name in hyper_fields(value)}
    return {name: content for name, content in contents.items() if isinstance(content, Scheduled)}


def static_fields(value: Any) -> dict[str, dataclasses.Field]:
    """Return the `static` fields of a struct or its class, by name, in order of declaration.

    A `part` field belongs to them unless `value` holds a struct in it.
    """
    return {f.name: f for f in dataclasses.fields(value) if is_static_field(f, getattr(value, f.name, None))}


def is_static_field(field: dataclasses.Field, content: Any) -> bool:
    """Return whether a field of a struct is static when it has this content."""
    return bool(info_of(field).static) and not (info_of(field).part and isinstance(content, Struct))


def fill_caps(values: Sequence[Value]) -> list[Value]:
    """Return the structs with every cap that is 0 replaced by the largest value of its hyperparameter in all structs.

    A cap is the static field that bounds a hyperparameter (`hyper(cap=...)`): `max_batch_size` bounds `batch_size`.
    All settings of a sweep then share one program. Raises ValueError for a hyperparameter above a cap that is not 0.
    """
    filled = {}
    for name, field in hyper_fields(values[0]).items():
        if not (cap := info_of(field).cap):
            continue
        limit = getattr(values[0], cap)
        largest = max(float(np.max(getattr(value, name))) for value in values)
        if limit and largest > limit:
            raise ValueError(f"{name}={largest:g} is more than {cap}={limit}. Raise {cap}, or leave it out.")
        filled[cap] = limit or math.ceil(largest)
    return [value.replace(**filled) for value in values] if filled else list(values)  # type: ignore[attr-defined]  # structs


def to_arrays(value: Any) -> Any:
    """Return the tree with its leaves as arrays of the dtypes of `leaf_dtypes`, so that JAX never traces again."""
    return jax.tree.map(jax.numpy.asarray, value, leaf_dtypes(value))


def leaf_dtypes(value: Any) -> Any:
    """Return for each leaf the dtype that it has as an array: JAX's default dtype, which has 64 bits in x64 mode.

    The leaves of a `hyper` or a `part` field of `value` get at most 32 bits, because learners compute in float32 in
    either mode.
    """
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    hypers = {f.name for f in fields if info_of(f).hyper or info_of(f).part}

    def dtype_of(path: tuple, leaf: Any) -> Any:
        dtype = _strong_dtype(leaf)
        return _AT_MOST_32_BITS.get(dtype, dtype) if path and getattr(path[0], "name", None) in hypers else dtype

    return jax.tree_util.tree_map_with_path(dtype_of, value)


def is_concrete(value: Any) -> bool:
    """Return whether a field holds numbers whose values are known now: not a tracer, and not a placeholder of JAX."""
    return isinstance(value, (bool, int, float, np.generic, np.ndarray)) or (
        isinstance(value, jax.Array) and not isinstance(value, Tracer)
    )


def _check_no_field_hidden(cls: type) -> None:
    """Raise TypeError if a class writes `size = 9` without a type, and a base class has the field `size`.

    For a dataclass this is not a field: it would silently keep the inherited default.
    """
    for base in cls.__bases__:
        for field in dataclasses.fields(base) if dataclasses.is_dataclass(base) else ():
            if field.name in cls.__dict__ and field.name not in inspect.get_annotations(cls):
                kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", field.type)
                raise TypeError(
                    f"{cls.__name__}.{field.name} has no type, so it does not replace the field {field.name} of "
                    f"{base.__name__}, which would keep its default. Write `{field.name}: {kind} = ...`."
                )


def _range(kind: str, span: tuple | None) -> Range | None:
    found = None if span is None else Range.of(span)
    if found and (fault := found.fault()):
        raise ValueError(f"{kind}={span} {fault}.")
    return found


def _plain_statics(value: Any) -> None:
    # `hidden=[32, 32]` means (32, 32); numbers of NumPy become Python's, because arrays are not hashable.
    for name, field in static_fields(value).items():
        content = python_number(getattr(value, name))
        if type(content) is tuple or (type(content) is list and tuple in (field.type, get_origin(field.type))):
            content = tuple(python_number(part) for part in content)
        object.__setattr__(value, name, content)


def _check_bits(value: Any) -> None:
    # No array holds such a number, and Python refuses to print one of thousands of digits.
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        for number in content if isinstance(content, tuple) else (content,):
            if isinstance(number, int) and not -(2**63) <= number < 2**63:
                raise ValueError(f"{type(value).__name__}.{field.name} has a number that does not fit in 64 bits.")


def _check_statics(value: Any) -> None:
    for name, field in static_fields(value).items():
        content = getattr(value, name)
        where, kind = f"{type(value).__name__}.{name}", type(content).__name__
        if is_written(content) and field.type in (*_STATIC_KINDS, tuple) and field.type is not str:
            raise ValueError(f"{where}={content} shapes the program, so it cannot change in a run: write a value.")
        if isinstance(content, Tracer) or not isinstance(content, Hashable):
            raise TypeError(
                f"{where} shapes the program, so it must be fixed and hashable: a number, a string, a tuple or a "
                f"function, not a {kind}."
            )
        is_right, words = _STATIC_KINDS.get(field.type, (None, ""))  # type: ignore[call-overload]  # any annotation
        if is_right is not None and not is_right(content):
            raise TypeError(f"{where}={content!r:.60} is a {kind}: write {words}.")
        if get_origin(field.type) is tuple and not isinstance(content, tuple):
            raise TypeError(f"{where}={content!r} is a {kind}: write a tuple, ({content!r},).")
        if Callable in (field.type, get_origin(field.type)) and not callable(content):
            raise TypeError(f"{where}={content!r:.60} is no function.")
        if get_args(field.type) == (int, ...) and not all(_is_whole(part) for part in content):  # type: ignore[union-attr]  # a tuple
            raise TypeError(f"{where}={content!r:.60} must hold whole numbers, as in (64, 64).")


def _is_whole(content: Any) -> bool:
    return isinstance(content, int) and not isinstance(content, bool)


# By annotation: whether a static field may hold a value, and what to write instead.
_STATIC_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    int: (_is_whole, "a whole number"),
    float: (lambda content: isinstance(content, float) or _is_whole(content), "a number"),
    bool: (lambda content: isinstance(content, bool), "True or False"),
    str: (lambda content: isinstance(content, str), "a text"),
}


def _texts_to_schedules(value: Any) -> None:
    for name, field in number_fields(value).items():
        content = getattr(value, name)
        if not is_written(content) and not isinstance(content, Scheduled):
            continue
        if reason := _never_scheduled(value, field):
            raise ValueError(f"{type(value).__name__}.{name}={content}: it can have no schedule, because {reason}.")
        try:
            object.__setattr__(value, name, Scheduled.of(content))
        except ValueError as error:
            raise ValueError(f"{type(value).__name__}.{name}: {error}") from None


def _never_scheduled(value: Any, field: dataclasses.Field) -> str:
    """Return why a field of numbers can have no schedule; empty if it can have one."""
    info = info_of(field)
    if not info.hyper or not value.takes_schedules:
        return "only hyperparameters of agents can have one"
    if info.names:
        return f"it is a choice of one of {', '.join(info.names)}"
    if info.spans_run:
        return "it is the length of schedules itself"
    if info.schedule_of:
        return f"it says how {info.schedule_of} falls: give {info.schedule_of} a schedule"
    if info.initial is True:
        return "only a member that begins reads it"
    is_real = isinstance(field.default, float) or field.default is None
    return "" if is_real else f"it holds whole numbers or true and false, such as its default {field.default}"


def _names_to_indices(value: Any) -> None:
    for name, field in hyper_fields(value).items():
        content, names = getattr(value, name), info_of(field).names
        if names and isinstance(content, str) and content in names:
            object.__setattr__(value, name, names.index(content))
        elif names and (isinstance(content, str) or (is_concrete(content) and not _are_indices(content, len(names)))):
            near = did_you_mean(content, names) if isinstance(content, str) else ""
            raise ValueError(f"{name}={shown(content)} is unknown.{near} Choose one of {', '.join(names)}.")


def _are_indices(content: Any, count: int) -> bool:
    """Return whether numbers or arrays of numbers are whole numbers from 0 to count - 1."""
    numbers = np.asarray(content)
    return numbers.dtype.kind in "iuf" and bool(np.isin(numbers, range(count)).all())


def _integers_to_floats(value: Any) -> None:
    # `clip=1` where the default is 0.2 means 1.0. An integer array would change dtypes, and JAX would trace again.
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if isinstance(field.default, float) and not info_of(field).static:
            if isinstance(content, int):
                object.__setattr__(value, field.name, float(content))
            elif isinstance(content, (np.generic, np.ndarray)) and content.dtype.kind in "biu":
                object.__setattr__(value, field.name, content.astype(np.float64))


def _check_numbers(value: Any) -> None:
    for name, field in number_fields(value).items():
        content = getattr(value, name)
        if isinstance(content, np.ndarray) and content.dtype == object and None in content.ravel().tolist():
            raise TypeError(
                f"{type(value).__name__}.{name}={content.tolist()} mixes None with numbers, which are different "
                f"programs: train them in different runs."
            )
        if not is_number(content) or _is_of_other_kind(field, content):
            dtype = getattr(content, "dtype", None)
            what = f"is a {type(content).__name__}" if dtype is None else f"holds {dtype}"
            raise TypeError(
                f"{type(value).__name__}.{name}={content!r:.60} {what}: write a number, or for a population an array."
            )


def _is_of_other_kind(field: dataclasses.Field, content: Any) -> bool:
    """Return whether a field of numbers cannot hold this: None, an empty array, or numbers that are not real.

    A field whose default is None, or whose type says so, may be None.
    """
    if content is None:
        return field.type in (Number, Choice) and field.default is not None
    if np.size(content) == 0:
        return True
    dtype = getattr(content, "dtype", np.dtype(float))
    reals = (np.bool_, np.integer, np.floating)
    is_duration = getattr(dtype, "kind", "") == "m"  # which NumPy counts among the integers
    return is_duration or not any(jax.numpy.issubdtype(dtype, kind) for kind in reals)


def _check_ranges(value: Any) -> None:
    for name, field in hyper_fields(value).items():
        content, valid = getattr(value, name), info_of(field).valid
        if isinstance(content, Scheduled) and valid is not None and is_concrete(content.levels):
            _check_points(value, name, content, valid)
        if valid is None or not is_concrete(content):
            continue
        numbers = np.asarray(content)
        invalid = numbers[~((numbers >= valid.low) & (numbers <= valid.high))]
        if invalid.size:
            raise ValueError(
                f"{type(value).__name__}.{name}={invalid.ravel()[0]} is out of range: it must lie in "
                f"[{valid.low}, {valid.high}]. The default is {field.default}."
            )


def _check_points(value: Any, name: str, schedule: Scheduled, valid: Range) -> None:
    if np.ndim(schedule.kind):
        return  # of a population: each was checked alone
    for progress, number in schedule.points():
        if not valid.low <= number <= valid.high:
            rises = ", where the warm-up begins" if progress == 0 and schedule.warmup else ""
            raise ValueError(
                f"{type(value).__name__}.{name}={schedule} is {number:g} at progress {progress:g}{rises}, which is out "
                f"of range: it must lie in [{valid.low}, {valid.high}]."
            )


_AT_MOST_32_BITS = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.int64): np.dtype(np.int32)}


def _strong_dtype(leaf: Any) -> Any:
    dtype = np.asarray(leaf).dtype if not isinstance(leaf, jax.Array) else leaf.dtype
    return jax.dtypes.canonicalize_dtype(dtype) if isinstance(dtype, np.dtype) else dtype
