"""The tables of a page from what `benchmarks/gpu.py` wrote."""

import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def page(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(DOCS))
    import gpu_parts

    monkeypatch.setattr(gpu_parts, "RESULTS", tmp_path)
    yield gpu_parts
    for name in ("gpu_parts", "page_parts", "results_page"):
        sys.modules.pop(name, None)


def write(folder, part, *rows):
    (folder / f"gpu-{part}.json").write_text(json.dumps({"machine": {}, "rows": rows}))


def test_there_is_nothing_without_measurements(page):
    assert page.parts() == []


def test_rates_of_shoal_and_of_peers_are_side_by_side(page, tmp_path):
    size = {"env": "CartPole-v1", "num_envs": 1024}
    profile = {"busy_us": 7.0, "span_us": 9.0, "launches": 3.1, "counted": {"launches": 3.0, "estimated_us": 6.5}}
    write(
        tmp_path,
        "stepping",
        {**size, "side": "shoal", "steps_per_second": 140e6},
        {**size, "side": "shoal", **profile},
        {**size, "side": "gymnax", "steps_per_second": 51.2e6},
        {**size, "side": "navix", "failed": "its time was over"},
        {**size, "side": "navix", "error": "too little memory"},
    )
    text = "\n".join(page.parts())
    assert "| CartPole-v1 | shoal | 140 |\n| CartPole-v1 | gymnax | 51.2 |" in text
    assert "| CartPole-v1, 1,024 environments | 3.1 | 7.0 µs | 9.0 µs | 3.0 | 6.5 µs |" in text
    assert "| NAVIX |" not in text


def test_forms_that_change_nothing_are_left_out(page, tmp_path):
    work = {"agent": "ppo", "agents": 2048, "env": "CartPole-v1", "side": "shoal"}
    forms = ({}, {"flat_weights": True}, "cpu")
    timed = [{**work, "form": form, "us_per_unit": 1e4 * i, "steps_per_second": 1.0} for i, form in enumerate(forms)]
    write(tmp_path, "forms", *timed, {**work, "form": {"steps_per_trip": 1}, "unchanged": True})
    text = "\n".join(page.parts())
    assert "| as it is | 0.0 |" in text and "| `flat_weights=True` | 10,000.0 |" in text
    assert "| of a CPU | 20,000.0 |" in text and "steps_per_trip" not in text


def test_whole_runs_stand_beside_those_of_navix(page, tmp_path):
    run = {"env": "MiniGrid-Empty-Random-5x5-v0", "agents": 16}
    ours = {"steps_per_agent": 1_001_472, "train_seconds": 1.82, "compile_seconds": 63.0, "mean_return": 0.9647}
    theirs = {"steps_per_agent": 1_000_000, "run_s": 5.27, "compile_s": 47.9}
    write(
        tmp_path,
        "articles",
        {**run, **ours, "side": "shoal", "steps_per_second": 8.819e6},
        {**run, **theirs, "side": "navix", "steps_per_second": 3.033e6},
        {**run, "side": "navix", "failed": "its time was over"},
    )
    text = "\n".join(page.parts())
    assert "| MiniGrid-Empty-Random-5x5-v0 | shoal | 16 x 1,001,472 | 1.8 s | 63 s | 8.82 | 0.965 |" in text
    assert "| MiniGrid-Empty-Random-5x5-v0 | NAVIX | 16 x 1,000,000 | 5.3 s | 48 s | 3.03 |  |" in text
    assert text.count("NAVIX |") == 1


def test_failed_tests_are_named(page, tmp_path):
    results = [{"test": "a[x]", "outcome": "passed"}, {"test": "b[y]", "outcome": "failed"}, {"skipped": 2}]
    write(tmp_path, "correctness", *results)
    assert "1 of 2 tests passed before the time was over. Failed: `b[y]`." in "\n".join(page.parts())
