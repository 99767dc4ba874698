"""How to make a run again: its command and its spec."""

import base64
import json

import shoal
from folders import PROVENANCE, write_run
from pages import Page
from shoal.reports.reproduce import started_with
from shoal.training.folder import RunFolder
from shoal.training.verification import hashes_of

SCORES = [100.0, 200.0, 300.0, 1000.0]  # of four: the interquartile mean is that of the middle two, 250


def page_of(*folders, out=None):
    return Page(shoal.report(*folders, out=out))


def test_the_command_that_started_a_run_has_no_folder_of_a_program():
    assert started_with(PROVENANCE) == "shoal train ppo CartPole-v1 --seeds 4"
    assert started_with({"argv": ["/x/shoal/__main__.py", "train", "a b"]}) == "shoal train 'a b'"
    assert started_with({"argv": ["run.py", "1"]}) == "python run.py 1" and started_with({"argv": [""]}) == ""


def test_the_spec_can_be_saved_from_the_page(tmp_path):
    folder = write_run(tmp_path / "run", SCORES)
    (link,) = [each for each in page_of(folder).named("a") if each.get("download") == "spec.json"]
    kind, _, content = link["href"].partition(",")
    assert kind == "data:application/json;base64"
    assert json.loads(base64.b64decode(content)) == json.loads((folder / "spec.json").read_text())


def test_the_devices_and_versions_of_a_run_are_named(tmp_path):
    provenance = {**PROVENANCE, "devices": ["H100", "H100", "cpu"], "cores": 8}
    page = Page(shoal.report(write_run(tmp_path / "run", SCORES, provenance=provenance)))
    assert "2 x H100, cpu, 8 cores" in page.text and "0.1.0, commit 0a0a0a0a0a0a" in page.text
    assert "1.0 s compiling, 2.0 s training" in page.text and "XLA flags" not in page.text


def test_a_verification_is_a_line_and_says_when_files_have_changed_since(tmp_path):
    folder = RunFolder(write_run(tmp_path / "run", SCORES))
    found = {"outcome": "verified", "share": 0.25, "time": "2026-11-27T02:00:00", "cpu": "a CPU"}
    folder.write_json("verified.json", {**found, "hashes": hashes_of(folder)})
    words = "verified on 2026-11-27 (a CPU): 25 % of all records of members were executed again"
    assert words in Page(shoal.report(folder.path)).text
    folder.write_json("spec.json", {**folder.read_json("spec.json"), "keep_checkpoints": 2})
    assert "no: files have changed since 2026-11-27" in Page(shoal.report(folder.path)).text
    folder.write_json("verified.json", {**found, "outcome": "differs", "hashes": hashes_of(folder)})
    assert "The files of this run contradict each other" in Page(shoal.report(folder.path)).text
