"""Write TOML: Python's standard library only reads it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def lines_of(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield `key = value` for every value. A mapping within becomes dotted keys (`env.fields.gravity = 9.8`).

    One that holds a single plain value stays in one line: `target_kl = { none = true }`.

    Values are strings, numbers, booleans, lists and mappings; an empty mapping is `{}`. Raises TypeError for others.
    """
    for name, value in values.items():
        key = f"{prefix}{key_of(name)}"
        if isinstance(value, Mapping) and (len(value) > 1 or any(isinstance(part, Mapping) for part in value.values())):
            yield from lines_of(value, f"{key}.")
        else:
            yield f"{key} = {text_of(value)}"


def key_of(name: str) -> str:
    """Return a key, in quotes where it needs them: `gravity`, `"CartPole-v1:fast"`."""
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else text_of(name)


def text_of(value: Any) -> str:
    """Return a value as TOML. Numbers keep all their bits. Raises TypeError for a value that TOML does not have."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)  # inf and nan are TOML too
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key_of(name)} = {text_of(part)}" for name, part in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    raise TypeError(f"TOML has no {type(value).__name__}: {value!r:.60} cannot be written.")
