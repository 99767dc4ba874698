"""Count the launches of a CUDA program and the bytes they move, and estimate how long they take."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from cuda_program.hlo import Instruction, Module, Traffic
from cuda_program.thunks import Thunk

LAUNCH_FLOOR = 1.2  # microseconds; a smaller kernel takes as long
BANDWIDTH = 2.6e6  # bytes per microsecond that an H100 reads and writes
NO_LAUNCH = ("kAsyncDone", "kHostToDeviceCopyDone", "kSequential", "kCommandBuffer", "kAsyncStart")


class Loop(NamedTuple):
    """A loop around launches."""

    name: str
    trips: int
    is_known: bool  # whether XLA knows the number of trips; otherwise `trips` is what the reader of the program says
    source: str  # the line of shoal
    function: str


class Launch(NamedTuple):
    """A kernel, a copy, or a read of one number by the host, `times` times in the whole program."""

    loops: tuple[Loop, ...]  # around it, the outermost first
    times: float
    kind: str
    instruction: Instruction | None
    source: str
    traffic: Traffic  # of one launch

    @property
    def microseconds(self) -> float:
        """Estimated time of one launch."""
        return max(LAUNCH_FLOOR, self.traffic.moved / BANDWIDTH)


class Total(NamedTuple):
    """Sums over launches."""

    launches: float
    used: float  # bytes
    moved: float  # bytes
    microseconds: float  # estimated
    smallest: float  # launches that take the shortest time that a launch can take

    def per(self, number: float) -> "Total":
        """The sums divided by a number."""
        return Total(*(value / number for value in self))


Trips = Callable[[str], int]  # the function of shoal that has a loop -> its number of trips, where XLA knows none


def launches(module: Module, thunks: Sequence[Thunk], trips: Trips = lambda function: 1) -> list[Launch]:
    """All launches of a program. Of a conditional, all branches are counted."""
    return list(_Walk(module, trips).through(thunks, (), 1.0, None))


def total(rows: Sequence[Launch]) -> Total:
    """Sums over launches."""
    return Total(
        sum(row.times for row in rows),
        sum(row.times * row.traffic.used for row in rows),
        sum(row.times * row.traffic.moved for row in rows),
        sum(row.times * row.microseconds for row in rows),
        sum(row.times for row in rows if row.microseconds == LAUNCH_FLOOR),
    )


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
                yield Launch(loops, times, "read by the host", None, "", Traffic(0, 0))
                yield from self.through(thunk.children, loops, times, None)
            elif thunk.children:
                yield from self.through(thunk.children, loops, times, instruction)
            elif thunk.kind not in NO_LAUNCH:
                yield self._launch(thunk, loops, times, instruction)

    def _loop(self, thunk: Thunk, loops: tuple[Loop, ...], times: float) -> Iterator[Launch]:
        instruction = self.module.by_name.get(thunk.instruction)
        source, function = self.module.source(instruction) if instruction else ("", "")
        known = instruction.trips if instruction else None
        loop = Loop(
            thunk.instruction, self.trips(function) if known is None else known, known is not None, source, function
        )
        inside = (*loops, loop)
        condition = [each for each in thunk.children if each.part == "condition"]
        body = [each for each in thunk.children if each.part != "condition"]
        if not loop.is_known:  # then the host reads the condition before each trip
            yield from self.through(condition, inside, times * loop.trips, None)
            yield Launch(inside, times * loop.trips, "read by the host", None, source, Traffic(0, 0))
        yield from self.through(body, inside, times * loop.trips, None)

    def _launch(self, thunk: Thunk, loops: tuple[Loop, ...], times: float, instruction: Instruction | None) -> Launch:
        if instruction is None:
            return Launch(loops, times, thunk.kind, None, "", Traffic(0, 0))
        source, _ = self.module.source(instruction)
        return Launch(loops, times, thunk.kind, instruction, source, self.module.traffic(instruction))
