"""Descriptions: environments, wrappers, networks, functions and arrays as plain data, and built again from it.

`describe` returns the class of a value and all its fields, defaults too, so that a later change of a default does not
change what a description means. `build` makes the value again: it finds classes and functions by name and calls the
constructors of structs, frozen dataclasses and flax modules, and nothing else. It never unpickles, never uses Python's
standard library, and imports only what has the user's consent (`specs/consent.py`). As JSON:

    {"env": "CartPole-v1", "fields": {"gravity": 9.8, ...}}                a registered name; also "agent", "selector"
    {"class": "shoal.nn.torsos:MLP", "fields": {"hidden": [8], ...}}       any other class that can be imported
    {"class": "/home/me/my_env.py:MyEnv", "fields": {...}}                 one of a file of the user's own
    {"function": "my_package.losses:mine"}
    {"array": "float32", "fields": {"values": [1.0, 2.0]}}
    {"array": "float32", "fields": {"shape": [64, 64], "base64": "..."}}   a larger one: its bytes, little-endian
    {"dtype": "uint8"}   {"dict": "", "fields": {...}}   {"only_in_python": "<lambda>"}
"""

import base64
import dataclasses
import hashlib
import importlib
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import BuiltinFunctionType
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import unknown_field, unknown_name
from shoal.core.keys import is_key
from shoal.core.kinds import python_number, with_tuples
from shoal.core.registry import AGENTS, ENVS, SELECTORS, USER_MODULE, Registry
from shoal.core.schedules import Scheduled
from shoal.core.struct import Struct, info_of
from shoal.core.user_code import is_installed
from shoal.interop.foreign import ForeignEnv
from shoal.specs.consent import check_consent, import_source
from shoal.specs.selector import Selector
from shoal.specs.settings import is_empty_static, user_fields

PLAIN = (str, bool, int, float, type(None))
NON_FINITE = ("inf", "-inf", "nan")  # numbers that JSON does not have; they are written as these strings
KINDS = ("env", "agent", "selector", "class", "function", "array", "dtype", "dict", "only_in_python")
REGISTRIES = {"env": ENVS, "agent": AGENTS, "selector": SELECTORS}
KIND_CLASSES = {"env": Env, "agent": Agent, "selector": Selector}
LARGEST_ARRAY = 200_000  # numbers; a larger array is not described, so that files stay small
LARGEST_LIST = 1_000  # numbers; the bytes of a larger array are written, so that files stay readable


@dataclasses.dataclass(frozen=True)
class Described:
    """The description of a value that is no number, string or tuple: its kind, its name, and its described fields."""

    kind: str  # of KINDS
    name: str
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    value: Any = dataclasses.field(default=None, compare=False, repr=False)  # for `only_in_python`: the value itself

    def __str__(self) -> str:
        """Return a short name; for a value with arrays also the start of a hash, which tells such values apart."""
        has_arrays = any(part.kind == "array" for _, part in inside(self))
        return (in_words(self) or self.kind) + f" {hashlib.sha256(repr(self).encode()).hexdigest()[:6]}" * has_arrays


def describe(value: Any) -> Any:
    """Return a value as numbers, strings, tuples and `Described`. What cannot be described becomes `only_in_python`.

    A schedule becomes its text.
    """
    value = python_number(value)
    if isinstance(value, Scheduled):
        return value.written()
    if isinstance(value, (Described, *PLAIN)):
        return value
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return tuple(describe(part) for part in value)
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return Described("dict", "", {name: describe(part) for name, part in value.items()})
    if isinstance(value, (np.ndarray, jax.Array)) and _is_small(value):
        array = np.asarray(value)
        return Described("array", str(array.dtype), {"values": with_tuples(array.tolist())})
    if _is_dtype(value):
        return Described("dtype", str(np.dtype(value)))  # type: ignore[call-overload]  # as _is_dtype says
    if is_described_class(type(value)):
        return _describe_fields(value)
    if _is_function(value) and (name := path_of(value)):
        return Described("function", name)
    return Described("only_in_python", getattr(value, "__qualname__", type(value).__qualname__), value=value)


def build(described: Any) -> Any:
    """Build the value of a description. Raises ValueError or TypeError for what cannot be built in this process."""
    if isinstance(described, tuple):
        return tuple(build(part) for part in described)
    if not isinstance(described, Described):
        return described
    fields = {name: build(part) for name, part in described.fields.items()}
    match described.kind:
        case "env" | "agent" | "selector" if ":" not in described.name:
            return REGISTRIES[described.kind][described.name].build(**fields)
        case "class":
            return _construct(described.name, fields)
        case "function":
            return _function(find(described.name), described.name)
        case "array":
            return np.asarray(fields["values"], np.dtype(described.name))
        case "dtype":
            return np.dtype(described.name)
        case "dict":
            return fields
    if described.kind != "only_in_python":
        raise ValueError(f"{described.name!r} is no registered {described.kind}.")
    if described.value is None:
        raise ValueError(f"{described.name} was given in Python, and no file can hold it.")
    return described.value


def describe_fields(value: Any) -> dict[str, Any]:
    """Describe every field of a struct, dataclass or flax module, by name, without those that `bind` fills in."""
    described = {}
    for name, field in user_fields(value).items():
        content = getattr(value, name)
        if is_empty_static(field, content):
            continue
        names = info_of(field).names  # of a traced choice, of which the field holds the index
        described[name] = names[int(content)] if names and np.ndim(content) == 0 else describe(content)
    return described


def name_of(value: Any, registry: Registry) -> tuple[str, bool]:
    """Return (the registered name of a value's class, True), or (the path that imports the class, False).

    For a class in a user's own file it is the path, because another process does not know names that only this file
    registers. A class that no other process can import is `__main__:Name`. A class that was made for an environment of
    another library has the name with which `registry` makes it again.
    """
    if isinstance(value, ForeignEnv):
        return value.name, True
    if user_file(type(value)) is None:
        for name in registry:
            entry = registry[name]
            if entry.cls is type(value) and all(_equal(getattr(value, k), v) for k, v in entry.preset.items()):
                return name, True
    return path_of(type(value)) or f"__main__:{type(value).__qualname__}", False


def path_of(found: Any) -> str:
    """Return `module:name` or `file.py:name`, from which any process can import an object; empty if none can."""
    module, name = getattr(found, "__module__", None), getattr(found, "__qualname__", getattr(found, "__name__", ""))
    if not module or module == "__main__" or "<" in name or "." in name:
        return ""
    if getattr(sys.modules.get(module), name, None) is not found:
        return ""
    return f"{user_file(found) or _public_module(module, name, found)}:{name}"


def user_file(found: Any) -> Path | None:
    """Return the file of a class or function if it is a user's own file; None for one of an installed package."""
    module = sys.modules.get(getattr(found, "__module__", "") or "")
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__ == "__main__":
        return None
    is_loose = "." not in module.__name__ and not hasattr(module, "__path__") and not is_installed(Path(file))
    return Path(file).resolve() if module.__name__.startswith(USER_MODULE) or is_loose else None


def is_described_class(cls: type) -> bool:
    """Return whether values of a class are described by their fields: structs, frozen dataclasses and flax modules."""
    if not dataclasses.is_dataclass(cls):
        return False
    return issubclass(cls, (Struct, nn.Module)) or cls.__dataclass_params__.frozen  # type: ignore[attr-defined]


def inside(described: Any, path: str = "") -> Iterator[tuple[str, Described]]:
    """Yield (path, `Described`) for every `Described` in a description, outer ones first."""
    if isinstance(described, Described):
        yield path, described
        parts: Any = described.fields.items() if described.kind != "array" else ()  # it holds only numbers
    else:
        parts = enumerate(described) if isinstance(described, tuple) else ()
    for name, part in parts:
        yield from inside(part, f"{path}.{name}" if path else str(name))


def in_words(described: Described) -> str:
    """Return a short name of a value, with its inner environment: `CartPole-v1`, `FrameStack(CartPole-v1)`, `MyEnv`."""
    name, within = described.name.rpartition(":")[2], described.fields.get("env")
    return f"{name}({in_words(within)})" if isinstance(within, Described) else name


def to_json(described: Any) -> Any:
    """Return a description as data for JSON; `inf` and `nan`, which JSON lacks, as strings that `from_json` reads."""
    if isinstance(described, Described):
        if described.kind == "array" and (array := build(described)).size > LARGEST_LIST:
            return {"array": described.name, "fields": _packed(array)}
        fields = {"fields": to_json(dict(described.fields))} if described.fields else {}
        return {described.kind: described.name, **fields}
    if isinstance(described, Mapping):
        return {name: to_json(part) for name, part in described.items()}
    if isinstance(described, (tuple, list)):
        return [to_json(part) for part in described]
    return str(described) if isinstance(described, float) and not math.isfinite(described) else described


def from_json(data: Any) -> Any:
    """Return the description of JSON data, the inverse of `to_json`. Imports and builds nothing. Raises ValueError."""
    if isinstance(data, list):
        return tuple(from_json(part) for part in data)
    if isinstance(data, Mapping):
        kind = next((kind for kind in KINDS if kind in data), None)
        fields = data.get("fields", {})
        if kind is None or not isinstance(data[kind], str) or not isinstance(fields, Mapping):
            raise ValueError(f"{dict(data)!r} describes no value: it needs one of {', '.join(KINDS)}, and its fields.")
        if kind == "array" and "base64" in fields:
            fields = {"values": _unpacked(data[kind], fields)}
        return Described(kind, data[kind], {name: from_json(part) for name, part in fields.items()})
    return float(data) if data in NON_FINITE else data


def _describe_fields(value: Any) -> Described:
    for kind, registry in REGISTRIES.items():
        if isinstance(value, KIND_CLASSES[kind]):
            name, is_registered = name_of(value, registry)
            if name.startswith("__main__:"):
                break
            return Described(kind if is_registered else "class", name, describe_fields(value))
    if name := path_of(type(value)):
        return Described("class", name, describe_fields(value))
    return Described("only_in_python", type(value).__qualname__, value=value)


def _construct(name: str, fields: dict[str, Any]) -> Any:
    cls = find(name)
    if not (isinstance(cls, type) and is_described_class(cls)):
        raise ValueError(f"{name} is no class of values: a struct, a frozen dataclass or a flax module is needed.")
    known = [field.name for field in dataclasses.fields(cls) if field.init]
    for field in fields:
        if field not in known:
            raise unknown_field(name, field, known)
    return cls(**fields)


def function_of(name: str) -> Any:
    """Import the function that the user names as `module:name` or `file.py:name`."""
    return _function(find(name, is_named=True), name)


def _function(found: Any, name: str) -> Any:
    if not _is_function(found):
        raise ValueError(f"{name} is no function written in Python.")
    return found


def find(path: str, is_named: bool = False) -> Any:
    """Import the class or function at a path of `path_of`. The user has named it, or it needs the user's consent."""
    source, _, name = path.rpartition(":")
    if not source or source.split(".")[0] in sys.stdlib_module_names:
        raise ValueError(
            f"{path!r} is no path of a class or function: write package.module:name of an installed package."
        )
    if not is_named:
        check_consent(source)
    module = import_source(source)
    if not hasattr(module, name):
        raise unknown_name("name", name, vars(module), f"It was looked for in {source}.")
    return getattr(module, name)


def _public_module(module: str, name: str, found: Any) -> str:
    """Return JAX's public module for one of its functions: names in `jax._src` change between versions."""
    if module.startswith("jax._src"):
        for public in ("jax.numpy", "jax.nn", "jax.nn.initializers", "jax.lax"):
            if getattr(importlib.import_module(public), name, None) is found:
                return public
    return module


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, (type, BuiltinFunctionType)) and hasattr(value, "__module__")


def _is_dtype(value: Any) -> bool:
    return isinstance(value, np.dtype) or (
        not isinstance(value, str) and hasattr(value, "dtype") and isinstance(value, type)
    )


def _is_small(array: Any) -> bool:
    return not is_key(array) and array.dtype.kind in "biufV" and array.size <= LARGEST_ARRAY


def _packed(array: np.ndarray) -> dict[str, Any]:
    """Return the shape and the bytes of an array as data for JSON."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {"shape": list(array.shape), "base64": base64.b64encode(little.tobytes()).decode()}


def _unpacked(dtype: str, fields: Mapping[str, Any]) -> list:
    """Return the nested list of numbers of `_packed`. Raises ValueError for data of another size."""
    try:
        content = base64.b64decode(fields["base64"], validate=True)
        return np.frombuffer(content, np.dtype(dtype).newbyteorder("<")).reshape(fields["shape"]).tolist()
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the array of {dtype} cannot be read: {error}") from error


def _equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    try:
        return bool(np.all(np.asarray(a == b)))
    except (TypeError, ValueError):
        return False
