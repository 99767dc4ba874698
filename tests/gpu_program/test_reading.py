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
from cuda_program.count import Launch, Loop, launches, total
from cuda_program.hlo import Array, Module, parse_instruction
from cuda_program.thunks import parse_thunks
from cuda_program.traffic import Traffic, traffic

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
    """Three copies and a comparison. A trip of the outer loop: 6 launches, 2 more to read its condition, and 10 trips
    of 3 launches, whose condition is not needed. A branch of 2 + 1 launches, and one more to read which one it is.
    """
    assert total(launches(module, thunks)).launches == 4 + (2 + 6 + 10 * 3) + (1 + 3)
    asked = []
    seven = launches(module, thunks, lambda function: asked.append(function) or 7)
    assert total(seven).launches == 4 + 7 * (2 + 6 + 10 * 3) + (1 + 3)
    assert asked == ["update"]  # only where XLA does not know


def test_a_launch_names_the_line_of_shoal_and_its_loops(module, thunks):
    gather = next(row for row in launches(module, thunks) if len(row.loops) == 2)
    assert [(loop.source, loop.trips, loop.is_known, loop.functions[0]) for loop in gather.loops] == [
        ("shoal/example.py:11", 1, False, "update"),
        ("shoal/example.py:5", 10, True, "collect"),
    ]
    assert set(gather.loops[1].functions) == {"collect", "update.<locals>.one_update", "update"}  # no others called it
    add = next(row for row in launches(module, thunks) if row.instruction and row.instruction.name == "loop_add_fusion")
    assert add.source == "shoal/example.py:4"


def test_a_kernel_counts_what_it_gathers_and_what_it_updates(module):
    """It reads 64 indices, one step number and 64 cells, and writes 64 cells; each cell costs a sector of 32 bytes."""
    kernel = module.by_name["loop_dynamic_update_slice_fusion"]
    assert traffic(module, kernel)[:3] == (64 * 4 + 4 + 2 * 64 * 2, 64 * 4 + 4 + 64 * 32 + 64 * 2, 64)


def test_a_copy_reads_and_writes_and_a_reduction_reads_all(module):
    assert traffic(module, module.by_name["copy.25"]) == Traffic(2 * 64 * 4, 2 * 64 * 4)
    reduction = traffic(module, module.by_name["input_reduce_fusion"])
    assert (reduction.used, reduction.operations) == (10 * 64 * 2 + 4, 2 * 10 * 64)  # each is converted and added


def kernel_of(*lines):
    """The traffic of a fusion with these instructions."""
    body = "\n".join(f"  {line}" for line in lines)
    text = f"%body () -> s32[] {{\n{body}\n}}\nENTRY %main () -> s32[] {{\n  %k = s32[] fusion(), calls=%body\n}}\n"
    module = Module(text)
    return traffic(module, module.by_name["k"])


def test_only_the_gathered_elements_of_a_computed_array_are_read():
    found = kernel_of(
        "%x = f32[1000]{0} parameter(0)",
        "%y = f32[1000]{0} add(%x, %x)",
        "%i = s32[4,1]{1,0} parameter(1)",
        "ROOT %g = f32[4]{0} gather(%y, %i), slice_sizes={1}",
    )
    assert found.used == 2 * 4 * 4 + 4 * 4 + 4 * 4  # the sum reads two elements for each of four; indices; results
    assert found.operations == 4 + 4  # four are added, and four are gathered


@pytest.mark.parametrize(
    "result, moved", [("[100000,7,7]{2,1,0}", 72_200_000), ("[7,7,100000]{2,1,0}", 49 * 100_000 * 128)]
)
def test_a_large_array_is_read_once_or_again_for_each_cell(result, moved):
    """7 x 7 cells of each of 100,000 grids with 19 x 19: grid after grid, or one cell of all grids after the other."""
    found = kernel_of(
        "%grids = u16[36100000]{0} parameter(0)",
        "%i = s32[4900000,1]{1,0} iota(), iota_dimension=0",
        "%g = u16[4900000]{0} gather(%grids, %i), slice_sizes={1}",
        f"ROOT %views = u16{result} bitcast(%g)",
    )
    assert found == Traffic(2 * 4_900_000 * 2, moved + 4_900_000 * 2, 4_900_000, 4_900_000)


def test_a_scatter_writes_its_rows_and_does_not_read_the_rest():
    found = kernel_of(
        "%grids = u16[36100000]{0} parameter(0)",
        "%i = s32[10,1]{1,0} parameter(1)",
        "%new = u16[10]{0} parameter(2)",
        "ROOT %s = u16[36100000]{0} scatter(%grids, %i, %new), to_apply=%second",
    )
    assert found == Traffic(10 * 4 + 10 * 2 + 10 * 2, 10 * 4 + 10 * 2 + 10 * 128, 10, 10)


def test_the_slowest_limit_gives_the_time_of_a_launch():
    def launch(traffic, threads=0):
        return Launch((), 2, "kCustomKernel", traffic=traffic, threads=threads)

    assert launch(Traffic(1000, 1000)).microseconds("h100") == 1.2
    assert launch(Traffic(1000, 26_000_000)).microseconds("h100") == 10
    assert launch(Traffic(1000, 42_000_000)).microseconds("h200") == 10
    assert launch(Traffic(1000, 1000, places=1_160_000)).microseconds("h100") == 10
    assert launch(Traffic(1000, 1000, operations=80_000_000)).microseconds("h100") == 10
    assert launch(Traffic(1000, 1000), threads=2_110_000).microseconds("h100") == 10
    assert total([launch(Traffic(1000, 1000)), launch(Traffic(5, 26_000_000))]).kernels == 2 * 1.2 + 2 * 10


def test_the_host_needs_longer_for_trips_of_loops_than_for_launches():
    """A loop of 10 trips with 2 launches each costs 4 us a trip, one with 20 launches each 0.8 us a launch."""
    loop = Loop("while", 10, True, "", ())
    assert total([Launch((loop,), 20, "kCopy")]).host == 10 * 4
    assert total([Launch((loop,), 200, "kCopy")]).host == pytest.approx(200 * 0.8)
    assert total([Launch((loop._replace(is_known=False),), 20, "kCopy")]).host == pytest.approx(10 * 14 + 20 * 0.8)


def test_kernels_of_our_own_are_counted_as_opaque():
    own = parse_instruction('%k = f32[8]{0} custom-call(%x), custom_call_target="__gpu$xla.gpu.triton"')
    sums = total([Launch((), 3, "kCustomKernel", own), Launch((), 4, "kCopy")])
    assert (sums.launches, sums.opaque) == (7, 3)


def test_threads_are_read_from_the_sizes_of_a_launch(thunks):
    inner = next(thunk for thunk in thunks[3].children if thunk.kind == "kWhile")
    assert [thunk.threads for thunk in inner.children] == [1, 64, 1, 64]
    assert (
        next(thunk for thunk in thunks[3].children if thunk.instruction == "loop_broadcast_fusion").threads == 5 * 128
    )
