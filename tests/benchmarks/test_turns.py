"""Workers compile together and measure in turn; one that fails or is late loses only what it had not printed."""

import importlib.util
import sys
import textwrap
import time
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def turns():
    spec = importlib.util.spec_from_file_location("benchmarks_turns", BENCHMARKS / "turns.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def worker(turns, tmp_path):
    """Make a worker from the lines of a script, which begins with a function that prints a row with the time."""
    begin = """
        import json, sys, time
        def row(**numbers):
            print(json.dumps({**numbers, "at": time.monotonic()}), flush=True)
        def compiled():
            print("COMPILED", flush=True)
            sys.stdin.readline()
    """

    def make(name, script, seconds=20.0, **how):
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(begin) + textwrap.dedent(script))
        return turns.Worker("part", (sys.executable, str(path)), seconds, {"name": name}, **how)

    return make


def rows_of(turns, workers, compile_seconds=20.0, seconds=30.0):
    rows = []
    turns.take_turns(workers, rows.append, {}, compile_seconds, time.monotonic() + seconds)
    return rows


def test_all_compile_at_once_and_one_measures_at_a_time(turns, worker):
    script = """
        row(event="start")
        time.sleep(0.3)
        compiled()
        row(event="begin")
        time.sleep(0.2)
        row(event="end")
    """
    rows = rows_of(turns, [worker("a", script), worker("b", script)])
    at = {(row["name"], row["event"]): row["at"] for row in rows}
    assert max(at["a", "start"], at["b", "start"]) + 0.2 < at["a", "begin"]  # both were still compiling
    assert at["a", "end"] <= at["b", "begin"]
    assert {row["part"] for row in rows} == {"part"}


def test_a_crash_loses_only_what_was_not_printed(turns, worker):
    crash = """
        compiled()
        row(number=1)
        raise SystemExit("the reason")
    """
    rows = rows_of(turns, [worker("a", crash), worker("b", "compiled(); row(number=2)")])
    assert [row.get("number") for row in rows] == [1, None, 2]
    assert rows[1]["failed"] == "it ended with code 1" and "the reason" in rows[1]["log"]


def test_a_worker_that_is_late_is_ended(turns, worker):
    late = worker("late", "compiled(); row(number=1); time.sleep(60)", seconds=1.5)
    slow = worker("slow", "time.sleep(60)")
    begin = time.monotonic()
    rows = rows_of(turns, [late, slow, worker("c", "compiled(); row(number=2)")], compile_seconds=3.0)
    assert time.monotonic() - begin < 20
    assert [(row["name"], row.get("number"), row.get("failed")) for row in rows] == [
        ("slow", None, "its time was over"),
        ("late", 1, None),
        ("late", None, "its time was over"),
        ("c", 2, None),
    ]


def test_a_worker_that_takes_no_turns_runs_to_its_end(turns, worker):
    rows = rows_of(turns, [worker("a", "print('words'); row(number=1)", takes_turns=False)])
    assert [row["number"] for row in rows] == [1]
