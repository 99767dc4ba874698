"""Shoal's environments under `gymnasium.make("shoal/...")`. `import shoal.gym` registers them.

Only names are registered, from the index that shoal ships; no environment is imported before it is made. Gymnasium's
ids have one slash, so the slashes of a name are dashes there: `bsuite/catch-0` is `shoal/bsuite-catch-0`.
"""

import json
from pathlib import Path

import shoal

INDEX = Path(shoal.__file__).parent / "cli" / "index.json"


def gymnasium_id(name: str) -> str:
    """Return the id of one of shoal's names: `shoal/CartPole-v1`."""
    return f"shoal/{name.replace('/', '-')}"


def register_all() -> None:
    """Register the name of every environment of shoal with Gymnasium."""
    from gymnasium.envs.registration import EnvSpec, registry

    for _, _, names in json.loads(INDEX.read_text())["envs"]:
        for name in names:
            registry[gymnasium_id(name)] = EnvSpec(
                id=gymnasium_id(name),
                entry_point="shoal.interop.gymnasium_env:ShoalEnv",
                vector_entry_point="shoal.interop.gymnasium_vector:ShoalVectorEnv",
                kwargs={"env": name},
            )
