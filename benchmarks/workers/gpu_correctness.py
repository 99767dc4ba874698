"""Run `tests/test_gpu.py` and print each result as a line of JSON as soon as it is there: `--workers 12`."""

import argparse
import json
import os
import sys
from pathlib import Path

import pytest

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=12)
parser.add_argument("--rehearse", action="store_true", help="two tests, on a CPU")
args = parser.parse_args()
ROOT = Path(__file__).resolve().parents[2]


class Rows:
    """A plugin of pytest that prints the outcome of each test, and counts how many were skipped."""

    skipped = 0

    def pytest_runtest_logreport(self, report):
        """Print a test that has run, or that failed before it ran."""
        if report.outcome == "skipped":
            self.skipped += 1
        elif report.when == "call" or report.outcome != "passed":
            lines = str(report.longrepr or "").strip().splitlines()
            row = {"test": report.nodeid.partition("::")[2], "outcome": report.outcome, "seconds": report.duration}
            print("\n" + json.dumps({**row, **({"says": lines[-1][:300]} if lines else {})}), flush=True)


os.environ |= {"SHOAL_TEST_WITHOUT_GPU": "1"} if args.rehearse else {"SHOAL_TEST_PLATFORM": "cuda,cpu"}
some = ["-k", "(CliffWalking and cpu) or steps[CliffWalking-v1]"] if args.rehearse else []
os.chdir(ROOT)
rows = Rows()
parallel = ["-n", str(args.workers), "--dist", "worksteal"] if args.workers else ["-p", "no:xdist"]
code = pytest.main(
    ["tests/test_gpu.py", "-q", "-p", "no:benchmark", "-m", "not slow", *some, *parallel], plugins=[rows]
)
print(json.dumps({"skipped": rows.skipped}), flush=True)
sys.exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else code)
