"""Count the launches of a CUDA program and the bytes they move, and estimate how long they take.

A kernel takes as long as the slowest of these limits, which were measured with kernels of shoal on an H200:
- the launch itself: 1.2 us, for kernels too small to take longer;
- its bytes over the bandwidth: 4.2 TB/s on an H200, and 2.6 TB/s on an H100. Reading one number at a random place of an
  array larger than the cache costs as much as reading 128 bytes in a row (`traffic`);
- random places, from memory or from the cache: 116 per nanosecond;
- starting threads: 211 per nanosecond. XLA starts one for every 4 numbers, so that arrays of 8 and 16 bits are filled
  at 0.8 and 1.7 TB/s;
- operations on numbers: 8,000 per nanosecond. That is far below what a GPU can add and multiply, because the operations
  are those of XLA's text, each with several instructions, most of them for indices.

The host needs 0.8 us for a launch and 4 us for a trip of a loop, with the CUDA graphs that XLA makes by default, and
14 us for a trip of a loop whose number of trips it does not know. Where that takes longer than the kernels, the host
limits the program: the two times are kept apart, and the larger one is the estimate. It is the least that the host
needs: programs of few trips took longer. 100 steps of 1,024 environments, in 80 programs without loops of unknown
length, took 1.3 to 7.3 us for each launch on an H200, median 3.5: 1.0 to 5.8 times the estimate, median 2.8.

How good it is: on that H200 (2026-11-26) the kernels of eleven programs took 0.86 to 1.93 times the estimate, median
1.16. On an H100 (2026-11-24, `results/gpu-environments.json`), which no limit was fitted to, a step of 1,048,576
environments of sixteen kinds took 0.66 to 1.32 times the estimate, median 1.12; of bytes alone it took 1.26 to 2.85
times. The estimate is too optimistic for kernels that read views along another axis than they write them, and for
small kernels with much work in each thread. Of kernels of our own (`shoal.ops.kernels`) and of other calls of compiled
code it knows only the bytes: they are counted as `opaque`, and the program takes longer than estimated.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cuda_program.hlo import Instruction, Module
from cuda_program.thunks import Thunk
from cuda_program.traffic import NOTHING, Traffic, traffic

BANDWIDTHS = {"h100": 2.6e6, "h200": 4.2e6}  # bytes in a microsecond
LAUNCH = 1.2  # microseconds
PLACES, THREADS, OPERATIONS = 116e3, 211e3, 8e6  # in a microsecond
HOST_LAUNCH, HOST_TRIP, HOST_UNKNOWN_TRIP = 0.8, 4.0, 14.0  # microseconds
NO_LAUNCH = ("kAsyncDone", "kHostToDeviceCopyDone", "kSequential", "kCommandBuffer", "kAsyncStart")


class Loop(NamedTuple):
    """A loop around launches."""

    name: str
    trips: int
    is_known: bool  # whether XLA knows the number of trips; otherwise `trips` is what the reader of the program says
    source: str  # the line of shoal
    functions: tuple[str, ...]  # of shoal that called each other, the innermost first


class Launch(NamedTuple):
    """A kernel, a copy, or a read of one number by the host, `times` times in the whole program."""

    loops: tuple[Loop, ...]  # around it, the outermost first
    times: float
    kind: str
    instruction: Instruction | None = None
    source: str = ""
    traffic: Traffic = NOTHING  # of one launch
    threads: int = 0

    @property
    def is_opaque(self) -> bool:
        """Whether the launch is a call of compiled code, of whose work XLA's text says nothing."""
        return self.instruction is not None and self.instruction.opcode == "custom-call"

    def limits(self, gpu: str) -> dict[str, float]:
        """The microseconds of one launch that each limit allows at least; the largest is the estimate."""
        return {
            "launch": LAUNCH,
            "bytes": self.traffic.moved / BANDWIDTHS[gpu],
            "places": self.traffic.places / PLACES,
            "threads": self.threads / THREADS,
            "operations": self.traffic.operations / OPERATIONS,
        }

    def microseconds(self, gpu: str) -> float:
        """The estimated time of one launch."""
        return max(self.limits(gpu).values())


class Total(NamedTuple):
    """Sums over launches."""

    launches: float
    used: float  # bytes
    moved: float  # bytes
    kernels: float  # estimated microseconds of all kernels
    host: float  # estimated microseconds in which the host launches them
    opaque: float  # launches whose work is not known

    def per(self, number: float) -> "Total":
        """The sums divided by a number."""
        return Total(*(value / number for value in self))


Trips = Callable[[str], int]  # the function that has a loop -> its number of trips, for loops where XLA knows none


def launches(module: Module, thunks: Sequence[Thunk], trips: Trips = lambda function: 1) -> list[Launch]:
    """All launches of a program. Of a conditional, all branches are counted."""
    return list(_Walk(module, trips).through(thunks, (), 1.0, None))


def total(rows: Sequence[Launch], gpu: str = "h100") -> Total:
    """Sums over launches."""
    return Total(
        sum(row.times for row in rows),
        sum(row.times * row.traffic.used for row in rows),
        sum(row.times * row.traffic.moved for row in rows),
        sum(row.times * row.microseconds(gpu) for row in rows),
        _host_microseconds(rows),
        sum(row.times for row in rows if row.is_opaque),
    )


def trips_of(loops: Sequence[Loop]) -> int:
    """How often the innermost of these loops runs in the whole program."""
    trips = 1
    for loop in loops:
        trips *= loop.trips
    return trips


def _host_microseconds(rows: Sequence[Launch]) -> float:
    of_loop: Counter[tuple[Loop, ...]] = Counter()
    for row in rows:
        of_loop[row.loops] += row.times  # type: ignore[assignment]  # times are whole numbers
    result = 0.0
    for loops, times in of_loop.items():
        trips = trips_of(loops)
        if loops and not loops[-1].is_known:
            result += trips * HOST_UNKNOWN_TRIP + HOST_LAUNCH * times
        else:
            result += max(trips * HOST_TRIP * bool(loops), HOST_LAUNCH * times)
    return result


class _Walk(NamedTuple):
    module: Module
    trips: Trips

    def through(
        self, thunks: Sequence[Thunk], loops: tuple[Loop, ...], times: float, outer: Instruction | None
    ) -> Iterator[Launch]:
        for thunk in thunks:
            instruction = self.module.by_name.get(thunk.instruction, outer)
            if thunk.kind == "kWhile":
                yield from self._loop(thunk, loops, times)
            elif thunk.kind == "kConditional":
                yield Launch(loops, times, "read by the host")
                yield from self.through(thunk.children, loops, times, None)
            elif thunk.children:
                yield from self.through(thunk.children, loops, times, instruction)
            elif thunk.kind not in NO_LAUNCH:
                yield self._launch(thunk, loops, times, instruction)

    def _loop(self, thunk: Thunk, loops: tuple[Loop, ...], times: float) -> Iterator[Launch]:
        instruction = self.module.by_name.get(thunk.instruction)
        source, functions = self.module.source(instruction) if instruction else ("", ())
        known = instruction.trips if instruction else None
        trips = self.trips(functions[0] if functions else "") if known is None else known
        inside = (*loops, Loop(thunk.instruction, trips, known is not None, source, functions))
        if known is None:  # then the host reads the condition before each trip
            condition = [child for child in thunk.children if child.part == "condition"]
            yield from self.through(condition, inside, times * trips, None)
            yield Launch(inside, times * trips, "read by the host", source=source)
        body = [child for child in thunk.children if child.part != "condition"]
        yield from self.through(body, inside, times * trips, None)

    def _launch(self, thunk: Thunk, loops: tuple[Loop, ...], times: float, instruction: Instruction | None) -> Launch:
        if instruction is None:
            return Launch(loops, times, thunk.kind, threads=thunk.threads)
        source, _ = self.module.source(instruction)
        return Launch(loops, times, thunk.kind, instruction, source, traffic(self.module, instruction), thunk.threads)
