"""The tables of a page from what `benchmarks/gpu_program.py` counted."""

import json
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
ROW = {
    "parts": 1024,
    "launches": 2.37,
    "bytes": 488_500,
    "least_bytes": 512_000,
    "kernel_microseconds": 2.9,
    "host_microseconds": 3.1,
    "opaque_launches": 0.0,
    "launches_of_a_gradient_step": 0.0,
}


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import counted_tables

    yield counted_tables
    for name in ("counted_tables", "page_parts", "results_page"):
        sys.modules.pop(name, None)


@pytest.fixture
def folder(page, monkeypatch, tmp_path):
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    return tmp_path


def write(folder, name, **rows):
    (folder / f"{name}.json").write_text(json.dumps({"rows": rows}))


def test_a_program_stands_beside_what_it_was(page, folder):
    write(folder, "gpu-program", **{"env MiniGrid-A-v0 --envs 1024": ROW, "env Probe-B-v0 --envs 1024": ROW})
    write(
        folder, "gpu-program-before", **{"env MiniGrid-A-v0 --envs 1024": {**ROW, "launches": 32, "bytes": 1_654_000}}
    )
    text = "\n".join(page.counted_section())
    assert "| `MiniGrid-A-v0` | 32 | 2.37 | 1.62 | 0.477 | 0.5 | 3.1 | 3.1 |" in text
    assert "Probe-B" not in text


def test_what_was_not_counted_before_is_empty(page, folder):
    row = {**ROW, "parts": 2048, "bytes": 2048e6, "least_bytes": 1024e6, "opaque_launches": 3.0, "launches": 1234.0}
    write(folder, "gpu-program", **{"agent sac --members 2048": row})
    write(folder, "gpu-program-before", **{"agent sac --members 2048": {"error": "no memory"}})
    assert "| `sac` | 2,048 |  | 1,234 |  |  | 1 | 0.5 |  | > 3.1 |" in "\n".join(page.counted_section())


def test_a_program_with_more_than_its_target_says_which_kernels_remain(page):
    rows = json.loads((page.RESULTS / "gpu-program.json").read_text())["rows"]
    missed = {command for command, target in page.TARGETS.items() if page.is_missed(rows[command], target)}
    assert missed == {command for command, target in page.TARGETS.items() if target.why_missed}


def test_agents_far_above_the_least_say_why(page):
    rows = json.loads((page.RESULTS / "gpu-program.json").read_text())["rows"]
    far = {
        command.split()[1]
        for command, row in rows.items()
        if row["bytes"] > 4 * row["least_bytes"] and re.fullmatch(r"agent \S+ --members 2048", command)
    }
    assert far == {name for names in page.WHY_MORE for name in names.split(", ")}
