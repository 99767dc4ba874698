"""Presets: published or measured hyperparameters, one TOML file per agent, with the evidence for each.

Files of the user's own have the same format, and may hold more than these (`training/preset_file.py`).

["CartPole-v1"]                  the default for this environment when an agent is given by name
["CartPole-v1:fast"]             a variant, chosen with `--preset fast`
steps = 500_000                  environment steps of each member
evidence = "64 seeds: ..."       what was measured, and on which hardware
num_envs = 8                     any other name is a field of the agent
env.gravity = 5                  or, in a variant, a field of the environment

"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.errors import did_you_mean, unknown_field
from shoal.core.kinds import checked_kinds, with_tuples
from shoal.core.registry import AGENTS, ENVS
from shoal.core.struct import static_fields


class Preset(NamedTuple):
    """Fields of an agent for one environment, the number of training steps, and the evidence that they work."""

    agent: str
    name: str  # an environment id, or `id:variant`
    fields: dict[str, Any]
    env_fields: dict[str, Any]  # changed fields of the environment; only a variant may have any
    steps: int  # environment steps of each member
    evidence: str

    @property
    def env(self) -> str:
        """The id of the environment."""
        return self.name.partition(":")[0]

    def build(self, **changes: Any) -> Any:
        """The agent with the fields of the preset; `changes` replace some of them."""
        return AGENTS[self.agent].build(**{**self.fields, **changes})


def presets(agent: str) -> dict[str, Preset]:
    """All presets of an agent, by name; an empty dict for an agent without a preset file.

    Raises ValueError or TypeError, which name the file and the table, for an unknown field or a wrong value.
    """
    path = Path(__file__).parent / f"{agent}.toml"
    return read(path, agent) if path.is_file() else {}


def find(agent: str, env: str, variant: str = "") -> Preset | None:
    """The preset of an agent for an environment, or None if there is none.

    Raises ValueError for a variant that does not exist; the message lists the existing ones.
    """
    all_presets = presets(agent)
    wanted = f"{env}:{variant}" if variant else env
    if variant and wanted not in all_presets:
        names = [name.partition(":")[2] or name for name in all_presets if name.partition(":")[0] == env]
        raise ValueError(
            f"{agent} has no preset {variant!r} for {env}.{did_you_mean(variant, names)} "
            f"It has: {', '.join(names) or 'none'}."
        )
    return all_presets.get(wanted)


@checked_kinds()
def preset(agent: str, env: str, variant: str = "") -> Preset:
    """The preset of an agent for an environment, such as `preset("ppo", "CartPole-v1").build()`.

    Raises ValueError if there is none.
    """
    found = find(AGENTS[agent].name, ENVS[env].name, variant)
    if found is None:
        raise ValueError(f"{agent} has no preset for {env}. It has: {', '.join(presets(agent)) or 'none'}.")
    return found


def read(path: Path, agent: str) -> dict[str, Preset]:
    """All presets of a preset file, checked against the fields of the agent."""
    return {name: _preset(agent, name, table, path) for name, table in read_tables(path).items()}


def read_tables(path: Path) -> dict[str, dict[str, Any]]:
    """The tables of a preset file by name, as TOML has them. Raises ValueError, with the line, for another content."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # of the encoding too
        raise ValueError(f"{path} is no TOML: {error}. docs/presets.md describes preset files.") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ValueError(
                f'{path}: {name} stands outside of a table: write the environment above it, as in ["CartPole-v1"].'
            )
    return tables


def _preset(agent: str, name: str, table: Mapping[str, Any], path: Path) -> Preset:
    cls = AGENTS[agent].cls
    fields = {key: with_tuples(value) for key, value in table.items() if key not in ("env", "steps", "evidence")}
    env_fields = {key: with_tuples(value) for key, value in table.get("env", {}).items()}
    where = f"preset [{name}] of {path.name}"
    if env_fields and ":" not in name:
        raise ValueError(f"{where} changes the environment: only a variant may, such as [{name}:changed].")
    for key, value in fields.items():
        if key not in cls.__dataclass_fields__:
            raise unknown_field(where, key, cls.__dataclass_fields__)
        if isinstance(value, tuple) and key not in static_fields(cls):
            raise TypeError(f"{where}: {key}={list(value)} must be one number; a preset holds no sweep.")
    steps, evidence = table.get("steps"), table.get("evidence")
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"{where} needs `steps`, a whole number of environment steps; it has {steps!r}.")
    if not isinstance(evidence, str) or not evidence.strip():
        raise ValueError(f"{where} needs `evidence`, a sentence saying what was measured.")
    return Preset(agent, name, fields, env_fields, steps, evidence)
