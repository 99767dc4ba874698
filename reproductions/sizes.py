"""Sizes of parts as words of a command line: `--size torch.trials=20`, `--size speeds.envs=CartPole-v1,Acrobot-v1`."""

from collections.abc import Sequence
from typing import Any

from reproductions.reproduction import Reproduction, Sizes
from shoal.core.errors import unknown_field


def read_sizes(reproduction: Reproduction, words: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read `PART.NAME=VALUE` words: sizes by part and name, of the kinds that the part's own sizes have.

    Raises ValueError or TypeError for a word that cannot be read, and for an unknown part or size.
    """
    found: dict[str, dict[str, Any]] = {}
    for word in words:
        path, _, text = word.partition("=")
        owner, _, name = path.partition(".")
        if not (owner and name and text):
            raise ValueError(f"--size {word}: write PART.NAME=VALUE, as in --size torch.trials=20.")
        part = reproduction.part(owner)
        if name not in part.here:
            raise unknown_field(f"part {part.name}", name, part.here)
        try:
            found.setdefault(owner, {})[name] = _read(text, part.here[name])
        except ValueError:
            own = f"--size {path}={_text(part.here[name])}"
            raise ValueError(f"--size {word}: write it as the part's own, {own}.") from None
    return found


def size_words(part: str, sizes: Sizes) -> list[str]:
    """The words that `read_sizes` reads, each after `--size`."""
    return [word for name, value in sizes.items() for word in ("--size", f"{part}.{name}={_text(value)}")]


def _read(text: str, like: Any) -> Any:
    """Read a number, a text, or several of them with commas between."""
    if isinstance(like, (list, tuple)):
        return [type(like[0])(word) for word in text.split(",")]
    return type(like)(text)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
