"""`--wrap FrameStack:n=4`: put wrappers around an environment, as the command line describes them.

`train`, `render`, `play` and `bench` have the option.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args, get_origin

from shoal.cli.parser import Flag, Line, flags_of, full_path, read_values
from shoal.core.aliases import OTHER_NAMES
from shoal.core.errors import did_you_mean, unknown_field, unknown_name

if TYPE_CHECKING:
    from shoal.core.env import Env

FIELD_AHEAD = re.compile(r",(?=\w+=)")  # a comma before `name=`; a comma inside a value, as in seeds=1,2, is not


def wrapper_names() -> list[str]:
    """The names of the wrappers that the package exports. Does not import JAX."""
    import shoal

    return sorted(name for name, home in shoal._HOMES.items() if home.endswith(".wrappers"))


def add_wrap(parser: Any) -> None:
    """Add the option `--wrap` to a parser or a group of options."""
    about = "put a wrapper around the environment and the wrappers before it; may be repeated"
    parser.add_argument("--wrap", action="append", metavar="NAME:FIELD=X,...", help=about)


def env_of(line: Line) -> "Env":
    """The environment of a line in its wrappers, with the fields that the line gives single values."""
    from shoal.core.registry import make
    from shoal.specs.settings import replaced

    env = line.named["env"]
    return make(env, **line.env.fixed) if isinstance(env, str) else replaced(env, line.env.fixed, "env.")


def wrapped(env: str, wraps: Sequence[str] | None) -> Any:
    """The environment named `env` inside these wrappers, the first one innermost; `env` itself without wrappers.

    Raises ValueError or TypeError for an unknown wrapper, an unknown field or a wrong value.
    """
    from shoal.core.registry import make

    if not wraps:
        return env
    value = make(env)
    for i, text in enumerate(wraps, 1):
        value = _around(value, text, f"--env.{'env.' * (len(wraps) - i)}")
    return value


def _around(env: Any, text: str, prefix: str) -> Any:
    """The environment inside one more wrapper; `prefix` is the start of the flags of this wrapper's fields."""
    name, words = _split(text)
    cls = _class_of(name)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init and field.name != "env"}
    flags = {flag.name: flag for flag in flags_of(cls, {}, f"wrap {name}:")}
    chosen: dict[str, Any] = {}
    for pair in filter(None, FIELD_AHEAD.split(words)):
        field, equals, word = pair.partition("=")
        field = field.strip().replace("-", "_")
        if field not in fields:
            raise unknown_field(name, field, fields)
        if field in chosen or not equals:
            raise ValueError(f"--wrap {text} needs one {field}=VALUE for {field}, as in NAME:FIELD=VALUE,FIELD=VALUE.")
        values = _read(name, fields[field], flags.get(field), word)
        if len(values) > 1:
            option = f"{prefix}{field.replace('_', '-')}"
            raise ValueError(f"{name}.{field} has several values: give one here, and sweep with {option} {word}.")
        chosen[field] = values[0]
    for field in fields.values():
        if field.default is dataclasses.MISSING and field.name not in chosen:
            what = "MODULE:FUNCTION or FILE.py:FUNCTION" if _is_callable(field) else "VALUE"
            raise ValueError(f"{name} needs {field.name}: write --wrap {name}:{field.name}={what}.")
    return cls(env, **chosen)


def _read(name: str, field: dataclasses.Field, flag: Flag | None, word: str) -> list:
    """The values of a field, parsed from the text `word`: one, or several to sweep over."""
    from shoal.core.struct import NUMBERS
    from shoal.specs.describe import function_of

    if _is_callable(field):
        return [function_of(full_path(word))]
    if field.type in (int, float, *NUMBERS):
        flag = flag or Flag(f"--wrap {name}:{field.name}", field.name, None, False, "")
    elif flag is None and get_origin(field.type) is tuple:
        of_words = get_args(field.type)[0] is str
        flag = Flag(f"--wrap {name}:{field.name}", field.name, ("",) if of_words else (), True, "")
    if flag is None:
        raise ValueError(
            f"{name}.{field.name} cannot be written on a command line: wrap the environment in Python; --spec can "
            f"repeat that run from its folder."
        )
    return read_values(flag, word)


def _split(text: str) -> tuple[str, str]:
    """Split `--wrap` text into the name, `FrameStack` or `my_file.py:Mine`, and the text of its fields."""
    name, _, words = text.partition(":")
    if "." in name or "/" in name:
        attribute, _, words = words.partition(":")
        name = full_path(f"{name}:{attribute}")
    return name, words


def _class_of(name: str) -> type:
    import shoal
    from shoal.core.registry import ENVS
    from shoal.core.wrappers.base import Wrapper

    if ":" not in name and name not in wrapper_names():
        if name in OTHER_NAMES and not did_you_mean(name, wrapper_names()):
            raise ValueError(f"wrapper {name!r} is not registered: {OTHER_NAMES[name]}.")
        hint = "`shoal train --help` lists all; name one of your own as FILE.py:Class."
        raise unknown_name("wrapper", name, wrapper_names(), hint)
    cls = ENVS[name].cls if ":" in name else getattr(shoal, name)
    if not issubclass(cls, Wrapper):
        raise ValueError(f"{name} is not a wrapper: derive its class from shoal.core.wrappers.base.Wrapper.")
    return cls


def _is_callable(field: dataclasses.Field) -> bool:
    return any(get_origin(kind) is Callable or kind is Callable for kind in (field.type, *get_args(field.type)))
