"""Memories: networks after a torso whose output depends on all earlier observations of the episode.

A memory is a value with a `size` (units of its output) and four functions (`contract.Memory`): `init` makes weights,
`initial_carry` what it knows at the start of an episode, `step` reads one input, and `unroll` reads the inputs of T
steps, with the same result. `tests/memory_check.py` tests this contract for any memory.

Axes: D inputs, H units.
"""

from shoal.nn.memory.contract import MEMORIES, Memory
from shoal.nn.memory.gru import GRU
from shoal.nn.memory.gtrxl import GTrXL
from shoal.nn.memory.lru import LRU
from shoal.nn.memory.lstm import LSTM
from shoal.nn.memory.mingru import MinGRU

__all__ = ["GRU", "GTrXL", "LRU", "LSTM", "MEMORIES", "Memory", "MinGRU"]
