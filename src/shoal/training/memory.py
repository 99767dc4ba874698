"""The memory of the members of a run: what they need, how many fit on the devices at a time, and on the host."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import OutOfMemory
from shoal.core.keys import make_key
from shoal.training.host import host_bytes
from shoal.training.placement import Placement
from shoal.training.program import Member, Split, begin


def state_bytes(agent: Agent, env: Env) -> int:
    """Return the bytes of one member between two updates. A checkpoint needs as many."""
    shapes: Member = jax.eval_shape(lambda a, e: begin(a, e, jnp.int32(0), make_key(0)), agent, env)
    return _bytes(shapes)


def rollout_bytes(agent: Agent, env: Env) -> int:
    """Estimate the bytes that an update of one member needs beside its state: six copies of its rollout."""
    obs = jax.eval_shape(lambda e: e.observe(e.init(make_key(0))), env)
    step_bytes = _bytes(obs) + 64  # action, reward, flags, value, advantage, target, log-probability, noise
    return 6 * agent.steps_per_update * step_bytes


def training_bytes(agent: Agent, env: Env, of_state: int) -> int:
    """Return the bytes that the training of one member needs, with a state of so many bytes.

    They are the state before an update and the one after it; agent and environment, which may hold demonstrations; and
    the rollout.
    """
    return 2 * of_state + _bytes((agent, env)) + rollout_bytes(agent, env)


def available_bytes() -> int:
    """Return the bytes that a run may use: 80 % of the memory of a device, or of the whole host on a CPU."""
    device = jax.local_devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    return int(0.8 * (stats["bytes_limit"] if stats else host_bytes()))


def waves_of(members: int, of_member: int, limit: int, devices: int, split: Split | None) -> list[slice]:
    """Divide M members into slices that fit in memory: `limit` bytes in all, or what is available on each device.

    A member needs `of_member` bytes. Raises ValueError if not even one fits.
    """
    together = min(split.devices, devices) if split else 1  # devices with a memory of their own that share a member
    available = limit or available_bytes() * together
    fitting = available // of_member * (1 if limit else devices // together)
    if fitting < 1:
        raise ValueError(
            f"one member needs about {of_member / 2**20:.0f} MiB, more than the {available / 2**20:.0f} MiB "
            "available: use fewer environments or steps per update."
        )
    count = math.ceil(members / fitting)
    size = math.ceil(members / count)
    return [slice(i, min(i + size, members)) for i in range(0, members, size)]


def check_host(members: int, of_state: int) -> None:
    """Raise ValueError for more members, with states of so many bytes, than the memory of the host holds.

    The host holds the states of all members, and a copy of them while a checkpoint is written.
    """
    fitting = host_bytes() // (2 * of_state)
    if members > fitting:
        raise ValueError(
            f"{members:,} members of {of_state / 2**20:.3g} MiB each and a copy for the checkpoint need "
            f"{2 * members * of_state / 2**30:.1f} GiB, and this host has {host_bytes() / 2**30:.1f}: "
            f"{fitting:,} members fit. Train fewer at a time, or keep less in each (a smaller buffer, fewer "
            "environments)."
        )


@contextmanager
def memory_errors(members: int, of_member: int, placement: Placement) -> Iterator[None]:
    """Turn JAX's error for memory that is used up, within this context, into OutOfMemory.

    So many `members` are on the devices at a time, and a member needs `of_member` bytes.
    """
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        devices = placement.mesh.size if placement.mesh else 1
        needed, there = of_member * members / devices / 2**30, available_bytes() / 0.8 / 2**30
        lower = "fewer environments or steps per update, a smaller buffer or smaller networks"
        if members > devices:
            limit = max(0.1, round(needed * devices / 2, 1))
            lower = f"fewer members at a time (--memory-limit-gb {limit:g}: one part after another), or {lower}"
        raise OutOfMemory(
            f"the memory of {placement.describe().partition(',')[0]} is used up: {members:,} members at a time need "
            f"about {needed:.1f} GiB on each device (estimated before compiling), and it has {there:.1f} GiB. Use "
            f"{lower}."
        ) from error


def _bytes(tree: Any) -> int:
    def size(leaf: Any) -> int:
        width = 8 if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf.dtype.itemsize
        return math.prod(leaf.shape) * width

    return sum(size(leaf) for leaf in jax.tree.leaves(tree))
