"""The fields of an agent that describe its memory: `memory`, `memory_size` and `memory_window`."""

from typing import Any

from shoal.core.agent import check_counts, refuse_ignored
from shoal.core.struct import static
from shoal.nn.memory.contract import MEMORIES, Memory
from shoal.nn.memory.gtrxl import GTrXL


def memory_field() -> Any:
    """Declare `memory`: the name of a memory, or "none"."""
    return static("none", choices=("none", *MEMORIES), help="what remembers earlier observations, after the torso")


def window_field() -> Any:
    """Declare `memory_window`: how many steps of the episode the transformer sees, this one included."""
    return static(32, help="steps that gtrxl sees; the other memories have no such limit")


def memory_of(agent: Any) -> Memory | None:
    """The memory of an agent with these fields; None for "none"."""
    if agent.memory == "none":
        return None
    window = (agent.memory_window,) if MEMORIES[agent.memory] is GTrXL else ()
    return MEMORIES[agent.memory](agent.memory_size, *window)


def check_memory_fields(agent: Any) -> None:
    """Raise ValueError for a size or a window that the memory of an agent cannot have or does not read."""
    if agent.memory == "none":
        return refuse_ignored(agent, "with memory='none'", "memory_size", "memory_window")
    check_counts(agent, "memory_size", "memory_window")
    memory: Any = memory_of(agent)
    if not isinstance(memory, GTrXL):
        return refuse_ignored(agent, f"with memory={agent.memory!r}, which has no window", "memory_window")
    if memory.window < 2:
        raise ValueError("memory_window=1 sees only the present observation: use at least 2.")
    if memory.size % memory.heads:
        raise ValueError(
            f"memory_size={memory.size} cannot be divided by the {memory.heads} heads of gtrxl: use "
            f"{memory.heads * max(1, round(memory.size / memory.heads))}."
        )
