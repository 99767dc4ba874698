"""Print what was counted: a row of a table, and the launches of one program with the lines of shoal they come from."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from cuda_program.count import Launch, Loop, Total, total
from cuda_program.device import Compiled
from cuda_program.programs import GRADIENT_LOOP, Program

HEADER = (
    "| program | launches | of a gradient step | KB | KB in sectors | least KB | times the least | estimate, us |",
    "|---|---|---|---|---|---|---|---|",
)


def row_of(program: Program, compiled: Compiled, rows: Sequence[Launch]) -> dict[str, Any]:
    """What is kept of a program: sums of one unit (a step, an update or a reset) of all its parts together."""
    if program.unit == "update":  # XLA does not know how often the outermost loop runs; one trip is one update
        rows = [row for row in rows if row.loops]
    sums = total(rows).per(program.units)
    learning = total([row for row in rows if any(GRADIENT_LOOP.search(loop.function) for loop in row.loops)])
    return {
        "unit": program.unit,
        "parts": program.parts,
        "launches": round(sums.launches, 2),
        "launches_at_the_floor": round(sums.smallest, 2),
        "bytes": round(sums.used),
        "bytes_in_sectors": round(sums.moved),
        "least_bytes": round(program.least_bytes),
        "microseconds": round(sums.microseconds, 2),
        "gradient_steps": program.gradient_steps,
        "launches_of_a_gradient_step": _each(learning.launches, program.gradient_steps),
        "bytes_of_a_gradient_step": _each(learning.moved, program.gradient_steps),
        "loops_of_unknown_length": len({loop for row in rows for loop in row.loops if not loop.is_known}),
        "trace_seconds": round(compiled.trace_seconds, 1),
        "compile_seconds": round(compiled.compile_seconds, 1),
    }


def line(name: str, row: dict[str, Any]) -> str:
    """A row of a Markdown table. Bytes are those of one part: of one environment, or of one member."""
    parts, least = row["parts"], row["least_bytes"]
    cells = [
        name,
        f"{row['launches']:,.1f}",
        f"{row['launches_of_a_gradient_step']:,.1f}" if row["gradient_steps"] else "-",
        *(f"{value / parts / 1000:,.3g}" for value in (row["bytes"], row["bytes_in_sectors"], least)),
        f"{row['bytes'] / least:.1f}" if least else "-",
        f"{row['microseconds']:,.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def summary(row: dict[str, Any]) -> str:
    """The counted numbers of one program in words."""
    unit, parts = row["unit"], row["parts"]
    rate = parts / row["microseconds"]
    text = [
        f"counted, {'a batch of resets' if unit == 'reset' else f'one {unit}'} of {parts:,} together:",
        f"  launches  {row['launches']:,.1f}, of which {row['launches_at_the_floor']:,.1f} take the shortest time",
        f"  bytes     {_size(row['bytes'])}; in whole sectors {_size(row['bytes_in_sectors'])}; "
        f"at least {_size(row['least_bytes'])}",
        f"  bytes for each of {parts:,}: {_size(row['bytes'] / parts)}; at least {_size(row['least_bytes'] / parts)}",
    ]
    if row["gradient_steps"]:
        text.append(
            f"  gradient steps {row['gradient_steps']:g}, each with {row['launches_of_a_gradient_step']:,.1f} launches "
            f"and {_size(row['bytes_of_a_gradient_step'])}"
        )
    text.append(f"estimated: {row['microseconds']:,.1f} us, {rate:,.4g} M {unit}s of one part/s")
    text.append(f"traced in {row['trace_seconds']} s, compiled in {row['compile_seconds']} s")
    return "\n".join(text)


def kernels(rows: Sequence[Launch], most: int) -> str:
    """For each loop, its launches in one trip, the slowest first: as Markdown tables."""
    by_loop: dict[tuple[Loop, ...], list[Launch]] = defaultdict(list)
    for row in rows:
        by_loop[row.loops].append(row)
    text = []
    for loops, group in by_loop.items():
        trips = 1
        for loop in loops:
            trips *= loop.trips
        sums = total(group).per(trips)
        text += [
            "",
            f"### {_path(loops)}: {_in_short(sums)}",
            "",
            "| times | us | read + written | in sectors | kernel | result | line |",
        ]
        text.append("|---|---|---|---|---|---|---|")
        slowest = sorted(group, key=lambda row: -row.times * row.microseconds)
        text += [_kernel(row, trips) for row in slowest[:most]]
        if len(slowest) > most:
            text.append(f"\n... and {len(slowest) - most} more")
    return "\n".join(text)


def _kernel(row: Launch, trips: int) -> str:
    name = row.instruction.name if row.instruction else row.kind
    arrays = [str(array) for array in row.instruction.arrays] if row.instruction else []
    result = " ".join(arrays[:2]) + (f" + {len(arrays) - 2}" if len(arrays) > 2 else "")
    cells = (
        f"{row.times / trips:g}",
        f"{row.microseconds:.1f}",
        _size(row.traffic.used),
        _size(row.traffic.moved),
        name,
        result,
        row.source,
    )
    return f"| {' | '.join(cells)} |"


def _path(loops: Sequence[Loop]) -> str:
    if not loops:
        return "outside of loops"
    names = (f"{loop.trips}{'' if loop.is_known else '?'} x {loop.source or loop.name}" for loop in loops)
    return ", in it ".join(names)


def _in_short(sums: Total) -> str:
    return f"{sums.launches:.1f} launches a trip, {_size(sums.used)}, {sums.microseconds:.1f} us"


def _each(value: float, number: float) -> float:
    return round(value / number, 2) if number else 0.0


def _size(number: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number:.3g} B"
