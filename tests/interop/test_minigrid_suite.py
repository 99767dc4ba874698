"""MiniGrid's own tests, run on shoal's environments under Gymnasium's calls.

`SHOAL_TEST_MINIGRID=FOLDER pytest -m slow tests/interop/test_minigrid_suite.py`, where FOLDER is a clone of MiniGrid
3.2.0, writes the numbers of outcomes into `minigrid-suite.txt` in the folder for temporary files. The package minigrid
must be installed.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

FOLDER = os.environ.get("SHOAL_TEST_MINIGRID")
FILES = ("test_envs.py", "test_wrappers.py")  # others test the bot, the tile solver and scripts, not environments

# Failures that are no faults: what the test asks for is not part of Gymnasium's calls.
EXPLAINED = {
    r"object has no attribute '\w+'": "an attribute of MiniGrid's class that is not Gymnasium's",
    r"<EmptyEnv<MiniGrid-Empty-8x8-v0>": "the name of MiniGrid's class",
    r"the action 4 is not in the action space Discrete\(3\)": "an action outside of the space, which MiniGrid ignores",
}


def outcomes(report: Path) -> tuple[collections.Counter, list[str]]:
    """How many tests had each outcome, explained failures by reason, and the names of failures without one."""
    counts, others = collections.Counter(), []
    for case in ElementTree.parse(report).iter("testcase"):
        found = [part for part in case if part.tag in ("failure", "error", "skipped")]
        if not found or found[0].tag == "skipped":
            counts["skipped" if found else "passed"] += 1
            continue
        text = f"{found[0].get('message')}\n{found[0].text}"
        reason = next((why for pattern, why in EXPLAINED.items() if re.search(pattern, text)), None)
        counts[reason] += 1
        if reason is None:
            others.append(f"{case.get('name')}: {text[:300]}")
    return counts, others


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(FOLDER is None, reason="SHOAL_TEST_MINIGRID names no clone of MiniGrid")
def test_minigrids_own_tests_pass(tmp_path):
    shutil.copytree(Path(FOLDER) / "tests", tmp_path / "tests")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "minigrid_with_shoal", f"--junitxml={tmp_path}/report.xml"]
    paths = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths, "SDL_VIDEODRIVER": "dummy"}
    subprocess.run([*command, *(f"tests/{name}" for name in FILES)], cwd=tmp_path, env=env, check=False)
    counts, others = outcomes(tmp_path / "report.xml")
    (Path(tempfile.gettempdir()) / "minigrid-suite.txt").write_text(f"{dict(counts)}\n")
    assert counts["passed"] > 980 and not others, others[:20]
