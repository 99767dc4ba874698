"""Which folders have a report, and where it is written."""

import pytest

import shoal
from folders import write_run
from pages import Page
from shoal.core.errors import DamagedError

SCORES = [100.0, 200.0, 300.0, 1000.0]  # of four: the interquartile mean is that of the middle two, 250


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is nothing to report: give at least one run folder"):
        shoal.report()
    with pytest.raises(FileNotFoundError, match="is not a run folder: it has no spec.json"):
        shoal.report(tmp_path)
    run = write_run(tmp_path / "run", SCORES)
    with pytest.raises(FileNotFoundError, match=f"Did you mean {run}"):
        shoal.report(tmp_path / "runn")
    with pytest.raises(ValueError, match="end its name in .html"):
        shoal.report(run, out=tmp_path / "page.pdf")
    with pytest.raises(ValueError, match="is given twice"):
        shoal.report(run, f"{run}/")
    (run / "spec.json").write_text("{")
    with pytest.raises(DamagedError, match="spec.json is damaged"):
        shoal.report(run)
    assert not (run / "report.html").exists()


def test_a_trained_run_and_a_policy_of_the_zoo_have_reports(result, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = shoal.report(result, out=tmp_path / "new" / "page.html")
    best = max(result.summary["settings"], key=lambda setting: setting["mean"])
    page = Page(path)
    assert f"The best of 2 settings is learning_rate {best['setting']['learning_rate']:g}" in page.text
    assert {row[0] for row in page.table("hyperparameter")} == {"hidden", "learning_rate", "num_steps"}
    assert "value_loss" in page.text and "entropy" in page.text  # other metrics
    exported = shoal.report("zoo:ppo/CartPole-v1")
    assert str(exported) == "report.html" and "an exported policy" in Page(exported).text
