"""Reading XLA's texts: `fixtures/update.*` is what it wrote for two nested loops and a branch (JAX 0.11.2, H100).

def collect(index, cells):                                       # index [64] int32, cells [64, 100] uint16
    def one_step(index, t):
        return index + 1, cells[jnp.arange(64), index]           # line 4
    return jax.lax.scan(one_step, index, jnp.arange(10))         # line 5
def update(index, cells, n):
    def one_update(i, loop):
        index, total = loop
        index, seen = collect(index, cells)
        return index % 7, total + jnp.sum(seen, dtype=jnp.int32)
    total = jax.lax.fori_loop(0, n, one_update, (index, jnp.int32(0)))  # line 11
    return jax.lax.cond(total[1] > 5, jnp.sort, lambda x: x * 2, total[0]), total[1]
"""

from pathlib import Path

import pytest
from cuda_program.count import Launch, launches, total
from cuda_program.hlo import Array, Module, Traffic, moved_by_gather, parse_instruction
from cuda_program.thunks import parse_thunks

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def module():
    return Module((FIXTURES / "update.hlo.txt").read_text())


@pytest.fixture(scope="module")
def thunks():
    return parse_thunks((FIXTURES / "update.thunks.txt").read_text(), (FIXTURES / "update.metadata.txt").read_text())


def test_an_instruction_has_its_arrays_and_operands():
    line = "  ROOT %f.1 = (f32[2,3]{0,1}, /*index=1*/s32[]) fusion(%a.1#2, %b), kind=kLoop, calls=%body"
    found = parse_instruction(line)
    assert (found.name, found.opcode, found.is_root) == ("f.1", "fusion", True)
    assert found.arrays == (Array("f32", (2, 3), (0, 1)), Array("s32", (), ()))
    assert found.bytes == 2 * 3 * 4 + 4
    assert [(operand.name, operand.index) for operand in found.operands] == [("a.1", 2), ("b", None)]


def test_labels_belong_to_the_loop_or_branch_around_them(thunks):
    outer, branch = thunks[3], thunks[5]
    assert [thunk.number for thunk in thunks] == [1, 2, 3, 4, 17, 21]
    assert {thunk.number: thunk.part for thunk in outer.children} == {5: "condition"} | dict.fromkeys(
        (6, 7, 8, 9, 14, 15, 16), "body"
    )
    inner = next(thunk for thunk in outer.children if thunk.kind == "kWhile")
    assert {thunk.number: thunk.part for thunk in inner.children} == {
        10: "condition",
        11: "body",
        12: "body",
        13: "body",
    }
    assert {thunk.number: thunk.part for thunk in branch.children} == dict.fromkeys((18, 19, 20), "branch")


def test_launches_are_counted_by_the_trips_of_their_loops(module, thunks):
    """Three copies and a comparison. In a trip of the outer loop 6 launches, 2 more because the host reads its condition
    and 10 trips of 3 launches, whose condition is not needed. A branch with 2 + 1 launches; the host reads its index.
    """
    assert total(launches(module, thunks)).launches == 4 + (2 + 6 + 10 * 3) + (1 + 3)
    asked = []
    seven = launches(module, thunks, lambda function: asked.append(function) or 7)
    assert total(seven).launches == 4 + 7 * (2 + 6 + 10 * 3) + (1 + 3)
    assert asked == ["update"]  # only where XLA does not know


def test_a_launch_names_the_line_of_shoal_and_its_loops(module, thunks):
    gather = next(row for row in launches(module, thunks) if len(row.loops) == 2)
    assert [(loop.source, loop.trips, loop.is_known) for loop in gather.loops] == [
        ("shoal/example.py:11", 1, False),
        ("shoal/example.py:5", 10, True),
    ]
    add = next(row for row in launches(module, thunks) if row.instruction and row.instruction.name == "loop_add_fusion")
    assert add.source == "shoal/example.py:4"


def test_a_kernel_counts_what_it_gathers_and_what_it_updates(module):
    """It reads 64 indices, one step number and 64 cells, and writes 64 cells; each cell costs a sector of 32 bytes."""
    kernel = module.by_name["loop_dynamic_update_slice_fusion"]
    assert module.traffic(kernel) == Traffic(64 * 4 + 4 + 2 * 64 * 2, 64 * 4 + 4 + 64 * 32 + 64 * 2)


def test_a_copy_reads_and_writes_and_a_reduction_reads_all(module):
    assert module.traffic(module.by_name["copy.25"]) == Traffic(2 * 64 * 4, 2 * 64 * 4)
    assert module.traffic(module.by_name["input_reduce_fusion"]).used == 10 * 64 * 2 + 4


def test_a_gather_of_long_rows_costs_little_more_than_its_bytes():
    row = "%g = u16[8,19,19]{2,1,0} gather(%x, %i), offset_dims={1,2}, slice_sizes={1,19,19}"
    assert moved_by_gather(parse_instruction(row)) == 8 * 736  # 19 x 19 x 2 = 722 bytes are 23 sectors


def test_a_small_launch_takes_the_shortest_time_and_a_large_one_that_of_its_bytes():
    small, large = (Launch((), 2, "kCopy", None, "", Traffic(n, n)) for n in (1000, 26_000_000))
    assert (small.microseconds, large.microseconds) == (1.2, 10)
    sums = total([small, large])
    assert (sums.microseconds, sums.smallest) == (2 * 1.2 + 2 * 10, 2)
