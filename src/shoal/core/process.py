"""One check for all compiled code: JAX does not work in a process that was forked from one in which it runs.

There it would wait for threads that do not exist, without an end and without a message.
"""

import os
import sys
from functools import lru_cache


def check_process() -> None:
    """Raise RuntimeError in a process that was forked from one in which JAX runs."""
    if _first_process() != os.getpid():
        raise RuntimeError(
            "this process was forked from one in which JAX runs, and JAX does not work after a fork. Start processes "
            "with 'spawn': multiprocessing.get_context('spawn'), gymnasium.make_vec(..., vectorization_mode='async', "
            "vector_kwargs={'context': 'spawn'}), or SubprocVecEnv(..., start_method='spawn'). One program that trains "
            "or steps many at once, as train(seeds=8) or ShoalVectorEnv, is faster than processes."
        )


@lru_cache(maxsize=1)
def _first_process() -> int:
    """Return the number of the process that called this first. A forked process has this result already."""
    return os.getpid()


def _before_fork() -> None:
    """Note this process where JAX runs in it, though no code of shoal has run compiled code yet."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and bridge.backends_are_initialized():
        _first_process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)
