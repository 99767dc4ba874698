"""The options of a run as flags: `eval_max_steps` is `--eval-max-steps`."""

from typing import Any

from shoal.cli.parser import real_number, whole_number
from shoal.specs.options import OPTIONS

READERS: dict[Any, Any] = {int: whole_number, str: str, float | None: real_number}  # by the type of an option


def add_run_options(group: Any, of: str = "", **words: str) -> None:
    """Add the flags of a group of options, or those named in `words`, which are then their help texts if not empty."""
    for name, field in OPTIONS.items():
        about = field.metadata
        if not (name in words or about["group"] == of != ""):
            continue
        option = f"--{name.replace('_', '-')}"
        default = f" ({about['when_default']})" if about["when_default"] else ""
        text = words.get(name) or f"{about['help']}{default}"
        if field.type is bool:
            group.add_argument(option, action="store_const", const=True, help=text)
        else:
            group.add_argument(option, type=READERS[field.type], metavar=about["metavar"], help=text)
