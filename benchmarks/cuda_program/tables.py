"""Print what was counted: a row of a table, and the launches of one program with the lines of shoal they come from."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from cuda_program.count import Launch, Loop, total, trips_of
from cuda_program.device import Compiled
from cuda_program.programs import GRADIENT_LOOP, Program

HEADER = (
    "| program | launches | of a gradient step | KB | KB moved | least KB | times the least | kernels, us | host, us |",
    "|---|---|---|---|---|---|---|---|---|",
)


def row_of(program: Program, compiled: Compiled, rows: Sequence[Launch], gpu: str) -> dict[str, Any]:
    """The row of a program: sums of one unit (a step, an update or a reset) of all its parts together."""
    if program.unit == "update":  # XLA does not know how often the outermost loop runs; one trip is one update
        rows = [row for row in rows if row.loops and not row.loops[0].is_known]
    sums = total(rows, gpu).per(program.units)
    learning = total([row for row in rows if is_gradient_step(row)], gpu)
    return {
        "unit": program.unit,
        "parts": program.parts,
        "launches": round(sums.launches, 2),
        "bytes": round(sums.used),
        "bytes_moved": round(sums.moved),
        "least_bytes": round(program.least_bytes),
        "kernel_microseconds": round(sums.kernels, 2),
        "host_microseconds": round(sums.host, 2),
        "opaque_launches": round(sums.opaque, 2),
        "gpu": gpu,
        "gradient_steps": program.gradient_steps,
        "launches_of_a_gradient_step": _each(learning.launches, program.gradient_steps),
        "bytes_of_a_gradient_step": _each(learning.used, program.gradient_steps),
        "loops_of_unknown_length": len({loop for row in rows for loop in row.loops if not loop.is_known}),
        "trace_seconds": round(compiled.trace_seconds, 1),
        "compile_seconds": round(compiled.compile_seconds, 1),
    }


def is_gradient_step(row: Launch) -> bool:
    """Whether a launch is inside of a loop over gradient steps."""
    return any(GRADIENT_LOOP.search(function) for loop in row.loops for function in loop.functions)


def line(name: str, row: dict[str, Any]) -> str:
    """A row of a Markdown table. Bytes are those of one part: of one environment, or of one member."""
    parts, least = row["parts"], row["least_bytes"]
    cells = [
        name,
        f"{row['launches']:,.1f}",
        f"{row['launches_of_a_gradient_step']:,.1f}" if row["launches_of_a_gradient_step"] else "-",
        *(f"{value / parts / 1000:,.3g}" for value in (row["bytes"], row["bytes_moved"], least)),
        f"{row['bytes'] / least:.1f}" if least else "-",
        f"{'> ' * bool(row['opaque_launches'])}{row['kernel_microseconds']:,.1f}",
        f"{row['host_microseconds']:,.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def summary(row: dict[str, Any]) -> str:
    """The counted numbers of one program in words."""
    unit, parts = row["unit"], row["parts"]
    kernels, host = row["kernel_microseconds"], row["host_microseconds"]
    text = [
        f"counted, {'a batch of resets' if unit == 'reset' else f'one {unit}'} of {parts:,} together:",
        f"  launches {row['launches']:,.1f}",
        f"  bytes    {_size(row['bytes'])}, at least {_size(row['least_bytes'])}; "
        f"memory moves {_size(row['bytes_moved'])} in the time of its random reads",
        f"  bytes for each of {parts:,}: {_size(row['bytes'] / parts)}, at least {_size(row['least_bytes'] / parts)}",
    ]
    if row["launches_of_a_gradient_step"]:
        text.append(
            f"  gradient steps {row['gradient_steps']:g}, each with {row['launches_of_a_gradient_step']:,.1f} launches "
            f"and {_size(row['bytes_of_a_gradient_step'])}"
        )
    time = max(kernels, host)
    text.append(
        f"estimated for an {row['gpu'].upper()}: {time:,.1f} us, {parts / time:,.4g} M {unit}s of one part/s "
        f"(kernels {kernels:,.1f} us, the host that launches them {host:,.1f} us)"
    )
    if row["opaque_launches"]:
        text.append(f"  too short: of {row['opaque_launches']:g} kernels of our own only the bytes are known")
    text.append(f"traced in {row['trace_seconds']} s, compiled in {row['compile_seconds']} s")
    return "\n".join(text)


def kernels(rows: Sequence[Launch], most: int, gpu: str) -> str:
    """For each loop, its launches in one trip, the slowest first: as Markdown tables."""
    by_loop: dict[tuple[Loop, ...], list[Launch]] = defaultdict(list)
    for row in rows:
        by_loop[row.loops].append(row)
    text = []
    for loops, group in by_loop.items():
        sums = total(group, gpu).per(trips_of(loops))
        in_short = f"{sums.launches:.1f} launches a trip, {_size(sums.used)}, {sums.kernels:.1f} us"
        text += ["", f"### {_path(loops)}: {in_short}", ""]
        text += ["| times | us | limit | bytes | moved | kernel | result | line |", "|---|---|---|---|---|---|---|---|"]
        slowest = sorted(group, key=lambda row: -row.times * row.microseconds(gpu))
        text += [_kernel(row, trips_of(loops), gpu) for row in slowest[:most]]
        if len(slowest) > most:
            text.append(f"\n... and {len(slowest) - most} more")
    return "\n".join(text)


def _kernel(row: Launch, trips: int, gpu: str) -> str:
    arrays = [str(array) for array in row.instruction.arrays] if row.instruction else []
    limits = row.limits(gpu)
    cells = (
        f"{row.times / trips:g}",
        f"{row.microseconds(gpu):.1f}",
        "opaque" if row.is_opaque else max(limits, key=limits.__getitem__),
        _size(row.traffic.used),
        _size(row.traffic.moved),
        row.instruction.name if row.instruction else row.kind,
        " ".join(arrays[:2]) + (f" + {len(arrays) - 2}" if len(arrays) > 2 else ""),
        row.source,
    )
    return f"| {' | '.join(cells)} |"


def _path(loops: Sequence[Loop]) -> str:
    names = (f"{loop.trips}{'' if loop.is_known else '?'} x {loop.source or loop.name}" for loop in loops)
    return ", in it ".join(names) or "outside of loops"


def _each(value: float, number: float) -> float:
    return round(value / number, 2) if number else 0.0


def _size(number: float) -> str:
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "KB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number:.3g} B"
