"""The kernels that a GPU runs during a call: the microseconds and launches of each name, from JAX's profiler."""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

TIMELINE = 200  # kernels


def profile(call: Callable[[], None], units: int) -> dict[str, Any]:
    """The kernels of one call, each number for one of its `units` (steps or updates). `call` waits for its result.

    `timeline` has start and duration of some kernels in the middle of the call. `span_us` is the time from the first
    kernel to the last, `busy_us` that in which kernels ran. XLA runs no CUDA graph while it is profiled, so the span is
    longer than the time of a call that is not.
    """
    spent: dict[str, list[float]] = defaultdict(list)
    events_us: list[tuple[float, float]] = []  # start and duration of each kernel
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            call()
        (file,) = Path(folder).rglob("*.xplane.pb")
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            for line in plane.lines if plane.name.startswith("/device:GPU") else ():
                for event in line.events if line.name.startswith("Stream") else ():
                    spent[event.name].append(event.duration_ns / 1e3)
                    events_us.append((event.start_ns / 1e3, spent[event.name][-1]))
    kernels = [
        {
            "name": name[:120],
            "us": sum(times) / units,
            "launches": len(times) / units,
            "median_us": statistics.median(times),
        }
        for name, times in sorted(spent.items(), key=lambda item: -sum(item[1]))
    ]
    events_us.sort()
    middle = events_us[len(events_us) // 2 :][:TIMELINE]
    ends = [start + us for start, us in events_us]
    return {
        "busy_us": sum(kernel["us"] for kernel in kernels),
        "span_us": (max(ends) - events_us[0][0]) / units if ends else 0.0,
        "launches": sum(kernel["launches"] for kernel in kernels),
        "kernels": kernels[:60],
        "timeline": [[round(start - middle[0][0], 3), round(us, 3)] for start, us in middle],
    }
