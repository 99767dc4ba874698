"""The report of one run: what its page says and shows, and that nothing in it can run or be loaded."""

import ast
import base64
import hashlib
import json
import os

import numpy as np
import pytest

import shoal
from folders import PROVENANCE, change_curves, gif, write_run
from pages import Page
from shoal.core.errors import DamagedError
from shoal.ops.statistics import bootstrap_interval
from shoal.reports import videos
from shoal.reports.python_call import in_python
from shoal.reports.reproduce import started_with
from shoal.reports.words import number
from shoal.specs.spec import RunSpec, resolved
from shoal.training.jobs import make_job

SCORES = [100.0, 200.0, 300.0, 1000.0]  # of four: the interquartile mean is that of the middle two, 250


def page_of(*folders, out=None):
    return Page(shoal.report(*folders, out=out))


def test_a_page_states_the_result_with_its_interval(tmp_path):
    page = page_of(write_run(tmp_path / "first", SCORES * 2))
    low, high = bootstrap_interval(SCORES * 2)
    words = "The interquartile mean (IQM) of the returns of 8 seeds is 250; its 95 % confidence interval reaches from "
    assert f"{words}{number(low)} to {number(high)}. The mean is 400, and the worst seed reached 100." in page.text
    assert "ppo on CartPole-v1" in page.text and "100 fresh episodes" in page.text
    assert [row[0] for row in page.table("member")] == [*"37261504"]  # the best first
    assert [row[2] for row in page.table("member")][::2] == ["1,000", "300", "200", "100"]


def test_one_member_has_no_interval_and_equal_members_need_none(tmp_path):
    assert "The return is 7.5 (1 seed). From fewer than 6" in page_of(write_run(tmp_path / "one", [7.5])).text
    assert "confidence interval reaches" not in page_of(write_run(tmp_path / "five", [1, 2, 3, 4, 5])).text
    page = page_of(write_run(tmp_path / "same", [500, 500, 500]))
    assert "The return is 500, the same for all 3 seeds." in page.text


def test_the_best_setting_of_a_sweep_comes_first_and_is_not_called_unbiased(tmp_path):
    sweep = {"learning_rate": [1e-3, 1e-4], "clip": [0.1, 0.2]}
    scores = [[1, 2, 3], [10, 20, 30], [4, 5, 6], [7, 8, 9]]
    page = page_of(write_run(tmp_path / "grid", scores, sweep=sweep))
    assert "The best of 4 settings is learning_rate 0.001, clip 0.2." in page.text
    assert "its score is somewhat too high" in page.text
    rows = page.table("learning_rate")
    assert [(row[0], row[1], row[2].split()[0]) for row in rows] == [
        ("0.001", "0.2", "20"),
        ("0.0001", "0.2", "8"),
        ("0.0001", "0.1", "5"),
        ("0.001", "0.1", "2"),
    ]
    heat = next(rows for rows in page.tables if rows[0][0].startswith("learning_rate ↓"))
    assert heat[1:] == [["0.0001", "5", "8"], ["0.001", "2", "20"]]  # rows ascend, columns are clip 0.1 and 0.2
    assert "by learning_rate" in page.text and "by clip" in page.text


@pytest.mark.parametrize("kind", ["run", "comparison"])
def test_names_from_users_are_escaped(kind, tmp_path):
    evil = "<script>alert(1)</script>"
    folder = tmp_path / evil.replace("/", "")
    provenance = {**PROVENANCE, "argv": ["shoal", "train", f"'\"><img src=x onerror=alert(2)>{evil}"], "cpu": evil}
    fields = {"optimizer": evil, "activation": "</style></title>"}
    write_run(folder, [1, 2], provenance=provenance, env=f"file.py:{evil}", fields=fields, sweep={evil: [1]})
    others = [write_run(tmp_path / "other", [1, 2])] if kind == "comparison" else []
    page = page_of(folder, *others, out=tmp_path / "page.html")  # its elements are closed in order
    assert len(page.named("script")) == len(page.named("style")) == 1
    assert not page.named("img") and "alert(" not in page.raw["script"]
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert "<script>alert(1)" in page.text  # as text


def test_a_page_loads_nothing_and_its_policy_allows_only_its_own_style_and_script(tmp_path):
    folder = write_run(tmp_path / "run", SCORES)
    (folder / "videos").mkdir()
    (folder / "videos" / "best.gif").write_bytes(gif())
    page = page_of(folder)
    addresses = [each[key] for _, each in page.elements for key in ("src", "href", "data", "action") if key in each]
    assert addresses and all(address.startswith(("data:", "#")) for address in addresses)
    assert "url(" not in page.raw["style"] and "@import" not in page.raw["style"]
    assert not any("style" in attributes for _, attributes in page.elements)  # the policy forbids them
    policy = next(each["content"] for each in page.named("meta") if "http-equiv" in each)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    for name in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.raw[name].encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
    names = {each["id"] for each in page.named("section")}
    assert {each["href"][1:] for each in page.named("a") if each["href"].startswith("#")} == names


def test_an_unfinished_run_is_reported_as_far_as_it_is(tmp_path):
    page = page_of(write_run(tmp_path / "half", SCORES, steps=24_000, summary=False))
    assert "This run is not finished. Every member was trained for 6,000 of 24,000 steps (25 %)" in page.text
    assert f"shoal train --resume {tmp_path / 'half'}" in page.text and "is 400" in page.text


def test_missing_and_damaged_parts_are_said_and_do_not_matter(tmp_path):
    bare = write_run(tmp_path / "bare", SCORES, summary=False, provenance=None)
    (bare / "curves.npz").unlink()
    page = page_of(bare)
    assert "There is no result yet." in page.text and "no provenance.json" in page.text
    broken = write_run(tmp_path / "broken", SCORES)
    (broken / "summary.json").write_text("{}")
    (broken / "curves.npz").write_bytes((broken / "curves.npz").read_bytes()[:300])
    page = page_of(broken)
    assert "curves.npz is damaged" in page.text and "summary.json is damaged" in page.text


def test_a_run_before_its_first_evaluation_shows_the_returns_of_training(tmp_path):
    folder = write_run(tmp_path / "early", [10, 30], summary=False)
    change_curves(folder, eval_return=lambda value: value.fill(np.nan))
    assert "After 6,000 steps, the mean return in training is 20 (2 members)" in page_of(folder).text
    change_curves(folder, train_return=lambda value: value.fill(np.nan))
    assert "No episode has ended yet" in page_of(folder).text


def test_stopped_members_and_episodes_that_were_cut_off_are_warned_of(tmp_path):
    cut = {"evaluation_episodes_cut_off": 7, "longest_evaluation_episode": 500}
    folder = write_run(tmp_path / "run", SCORES, summary=cut)
    change_curves(folder, alive=lambda value: value.__setitem__((slice(3, None), [1, 2]), False))
    page = page_of(folder)
    assert (
        "2 of 4 members were stopped early, because a loss or a weight became infinite or NaN: members 1, 2."
        in page.text
    )
    assert "7 of 400 evaluation episodes did not end within 500 steps" in page.text
    assert [row[0] for row in page.table("member") if row[-1] == "stopped"] == ["2", "1"]


def test_a_large_population_gives_a_small_page_with_the_best_and_the_worst(tmp_path):
    scores = np.random.default_rng(0).permutation(1000.0 + np.arange(1000))
    path = shoal.report(write_run(tmp_path / "many", scores, records=100))
    page = Page(path)
    assert path.stat().st_size < 1_000_000
    shown = [row[2] for row in page.table("member")]
    assert shown == [f"{v:,}" for v in (*range(1999, 1969, -1), *range(1009, 999, -1))]
    assert "960 in between are left out" in page.text


def test_videos_are_in_the_page_unless_they_are_too_large_or_no_gif(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", SCORES)
    (folder / "videos").mkdir()
    for name, content in {"best.gif": gif(), "worst.gif": b"GIF89a" + bytes(9000), "odd.gif": b"<svg>"}.items():
        (folder / "videos" / name).write_bytes(content)
    os.mkfifo(folder / "videos" / "pipe.gif")  # reading it would never end
    monkeypatch.setattr(videos, "LARGEST", 5000)
    page = page_of(folder)
    (picture,) = page.named("img")
    assert picture["src"] == "data:image/gif;base64," + base64.b64encode(gif()).decode()
    assert "videos/worst.gif in the run folder is not shown here: it has 9 kB; a file may have 5 kB" in page.text
    assert "videos/odd.gif in the run folder is not shown here: it is no GIF" in page.text
    assert "videos/pipe.gif in the run folder is not shown here" in page.text


def test_hyperparameters_stand_beside_their_defaults_with_those_that_were_changed_first(tmp_path):
    fields = {"learning_rate": 0.125, "clip": 0.2, "num_envs": 4}
    folder = write_run(tmp_path / "run", [[1, 2]] * 2, fields=fields, sweep={"gae_lambda": [0.5, 0.75]})
    rows = {row[0]: row[1:4] for row in page_of(folder).table("hyperparameter")}
    default = shoal.PPO().learning_rate
    assert rows["learning_rate"] == ["0.125", f"{default:g}", "set by the user"]
    assert rows["gae_lambda"] == ["0.5, 0.75", f"{shoal.PPO().gae_lambda:g}", "varies"] and "clip" not in rows


def test_the_command_that_started_a_run_has_no_folder_of_a_program():
    assert started_with(PROVENANCE) == "shoal train ppo CartPole-v1 --seeds 4"
    assert started_with({"argv": ["/x/shoal/__main__.py", "train", "a b"]}) == "shoal train 'a b'"
    assert started_with({"argv": ["run.py", "1"]}) == "python run.py 1" and started_with({"argv": [""]}) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": {"learning_rate": 0.1, "hidden": [8]}, "env_fields": {"gravity": 5.0}, "evaluations": 0},
        {"sweep": {"clip": [0.1, 0.3]}, "env_sweep": {"gravity": [5, 10]}, "seed": 7, "prng": "threefry2x32"},
        {"points": {"clip": [0.1, 0.3], "env.gravity": [5.0, 9.0]}, "fields": {"target_kl": 0.02}},
    ],
)
def test_the_python_code_of_a_page_makes_the_same_run(changes):
    spec = resolved(RunSpec.from_json({"agent": "ppo", "env": "CartPole-v1", "steps": 512, "seeds": 2, **changes}))
    (call,) = [each for each in ast.walk(ast.parse(in_python(spec, "runs/a"))) if isinstance(each, ast.Call)]
    words = [ast.literal_eval(each) for each in call.args]
    job = make_job(*words, **{each.arg: ast.literal_eval(each.value) for each in call.keywords})
    assert job.spec == spec


def test_a_run_that_no_literals_describe_is_made_again_from_its_spec():
    spec = RunSpec("ppo", "CartPole-v1", selector=shoal.PBT(vary={"clip": (0.1, 0.3)}))
    assert "job_from_spec('runs/x')" in in_python(spec, "runs/x")


def test_the_spec_can_be_saved_from_the_page(tmp_path):
    folder = write_run(tmp_path / "run", SCORES)
    (link,) = [each for each in page_of(folder).named("a") if each.get("download") == "spec.json"]
    kind, _, content = link["href"].partition(",")
    assert kind == "data:application/json;base64"
    assert json.loads(base64.b64decode(content)) == json.loads((folder / "spec.json").read_text())


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
