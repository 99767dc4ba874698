"""Which hyperparameters of a run differ from the defaults of its agent and environment, in one line."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from shoal.agents import presets
from shoal.core.registry import AGENTS, ENVS, Registry
from shoal.core.struct import info_of
from shoal.specs.describe import Described, describe, in_words
from shoal.specs.settings import join, setting_in_words
from shoal.specs.spec import RunSpec, plain


def changes_in_words(spec: RunSpec) -> str:
    """Return `preset: num_envs=16 gae_lambda=0.95; also clip=0.1`: values that differ from the class's defaults.

    Values that are swept are left out. The result is empty where nothing differs.
    """
    changed = join(changed_fields(spec.agent, spec.fields, AGENTS), changed_fields(spec.env, spec.env_fields, ENVS))
    changed = {path: in_words(value) if isinstance(value, Described) else value for path, value in changed.items()}
    found = presets.find(spec.agent, spec.env) if spec.agent in AGENTS and spec.env in ENVS else None
    values = {} if found is None else join(found.fields, found.env_fields)
    fields = join(spec.fields, spec.env_fields)
    if not values or any(path in fields and plain(fields[path]) != plain(value) for path, value in values.items()):
        return setting_in_words(with_whole_numbers(changed))
    changed = with_whole_numbers(changed)
    own = {path: value for path, value in changed.items() if path in values}
    others = {path: value for path, value in changed.items() if path not in values}
    return f"preset: {setting_in_words(own)}" + f"; also {setting_in_words(others)}" * bool(others)


def with_whole_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with whole numbers as ints: hyperparameters are kept as floats, and 128.0 is hard to read."""
    return {
        path: int(value) if isinstance(value, float) and value.is_integer() else value for path, value in values.items()
    }


def changed_fields(name: str, fields: Mapping[str, Any], registry: Registry) -> dict[str, Any]:
    """The values that differ from the defaults of a registered name; not those that follow from others (None)."""
    entry = registry[name]
    changed = {}
    for field in dataclasses.fields(entry.cls):
        default, names = entry.preset.get(field.name, field.default), info_of(field).names
        if names and isinstance(default, int):
            default = names[default]
        if field.name in fields and default is not None and plain(fields[field.name]) != plain(describe(default)):
            changed[field.name] = fields[field.name]
    return changed
