"""The table of hyperparameters beside their defaults."""

import shoal
from folders import write_run
from pages import Page


def page_of(*folders, out=None):
    return Page(shoal.report(*folders, out=out))


def test_hyperparameters_stand_beside_their_defaults_with_those_that_were_changed_first(tmp_path):
    fields = {"learning_rate": 0.125, "clip": 0.2, "num_envs": 4}
    folder = write_run(tmp_path / "run", [[1, 2]] * 2, fields=fields, sweep={"gae_lambda": [0.5, 0.75]})
    rows = {row[0]: row[1:4] for row in page_of(folder).table("hyperparameter")}
    default = shoal.PPO().learning_rate
    assert rows["learning_rate"] == ["0.125", f"{default:g}", "set by the user"]
    assert rows["gae_lambda"] == ["0.5, 0.75", f"{shoal.PPO().gae_lambda:g}", "varies"] and "clip" not in rows


def test_runs_that_are_alike_have_no_differences_and_long_values_are_cut(tmp_path):
    alike = [write_run(tmp_path / name, [1, 2]) for name in ("a", "b")]
    page = Page(shoal.report(*alike, out=tmp_path / "alike.html"))
    assert "The runs have the same agent, environment, hyperparameters, steps and seeds." in page.text
    long = write_run(tmp_path / "long", [1, 2], fields={"optimizer": "x" * 100})
    rows = {row[0]: row[1:] for row in Page(shoal.report(alike[0], long, out=tmp_path / "c.html")).table("hyper")}
    assert rows["optimizer"][1] == "x" * 60 + "…"
