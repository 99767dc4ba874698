"""The memory of members: how many fit on the devices at a time and on the host, and the error where it is used up."""

import os

import jax
import pytest

from shoal.core.errors import OutOfMemory
from shoal.specs.spec import RunSpec
from shoal.training import memory
from shoal.training.memory import memory_errors, waves_of
from shoal.training.placement import make_placement
from shoal.training.plan import make_plan
from shoal.training.program import Split
from tiny import SPEC


def test_memory_is_assumed_where_the_system_does_not_report_it(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    assert memory.available_bytes() == int(0.8 * 8 * 2**30)


def test_one_member_too_large_for_memory_is_refused():
    with pytest.raises(ValueError, match="one member needs about .* MiB, more than the .* MiB available"):
        make_plan(RunSpec(**SPEC), memory_limit=1000)


def test_a_population_too_large_for_the_host_is_refused(monkeypatch):
    plan = make_plan(RunSpec(**SPEC, seeds=8))
    state = (plan.member_bytes - memory.rollout_bytes(plan.agent, plan.env)) // 2
    monkeypatch.setattr(memory, "host_bytes", lambda: 2 * 6 * state)
    make_plan(RunSpec(**{**SPEC, "seeds": 6}), memory_limit=2**30)
    with pytest.raises(ValueError, match="8 members of .* MiB each and a copy .* 6 members fit"):
        make_plan(RunSpec(**{**SPEC, "seeds": 8}), memory_limit=2**30)


@pytest.mark.parametrize(
    ("members", "limit", "devices", "split", "sizes"),
    [
        (5, 20, 1, None, [2, 2, 1]),  # two of 10 bytes at a time
        (5, 20, 3, None, [2, 2, 1]),  # a limit is for all devices together
        (4, 100, 1, None, [4]),
        (5, 0, 3, None, [3, 2]),  # 19 bytes on each device: one member, although 5.7 would fit if one could lie on two
        (5, 0, 4, Split(2, None, (), None), [5]),  # 38 bytes on each of two pairs: 3 members on each
    ],
)
def test_waves_are_as_equal_as_the_memory_allows(members, limit, devices, split, sizes, monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 19)
    waves = waves_of(members, 10, limit, devices, split)
    assert [wave.stop - wave.start for wave in waves] == sizes
    assert [wave.start for wave in waves] == [sum(sizes[:n]) for n in range(len(sizes))]


def test_memory_that_is_used_up_is_named_with_what_to_lower():
    used_up = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 byte")
    expected = r"4 members at a time need about 8.0 GiB .* Use fewer members at a time \(--memory-limit-gb 4: one part"
    with pytest.raises(OutOfMemory, match=expected), memory_errors(4, 2 * 2**30, make_placement(4)):
        raise used_up
    expected = "1 members at a time need about 2.0 GiB .* Use fewer environments or steps per update"
    with pytest.raises(OutOfMemory, match=expected), memory_errors(1, 2 * 2**30, make_placement(1)):
        raise used_up
    other = jax.errors.JaxRuntimeError("INTERNAL: another error")
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"), memory_errors(4, 2**30, make_placement(4)):
        raise other
