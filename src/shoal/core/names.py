"""Names of environments. This module does not import JAX, so that listings are quick."""

from collections.abc import Iterable


def ranges(names: Iterable[str]) -> dict[str, list[str]]:
    """Group names that differ only in a final `/<number>`: `{"bsuite/catch/0-19": ["bsuite/catch/0", ...]}`.

    Any other name is a group of one.
    """
    by_stem: dict[str, list[str]] = {}
    for name in names:
        stem, _, index = name.rpartition("/")
        by_stem.setdefault(f"{stem}/" if stem and index.isdecimal() else name, []).append(name)
    groups: dict[str, list[str]] = {}
    for stem, group in by_stem.items():
        group.sort(key=lambda name: (len(name), name))
        first, last = group[0].rpartition("/")[2], group[-1].rpartition("/")[2]
        groups[group[0] if len(group) == 1 else f"{stem}{first}-{last}"] = group
    return groups
