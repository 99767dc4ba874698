"""The commands that use a finished run: `shoal eval`, `render`, `plot`, `compare`, `verify`, `export` and `record`."""

import json
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from commands import refused, say
from shoal.training import checkpoint

# Commands on a finished run.


def test_eval_prints_greedy_and_sampled_returns_for_every_environment(run, capsys):
    _, out, _ = say(capsys, "eval", run, "--episodes", "2", "--env.gravity", "5,10")
    rows = [line.split()[:4] for line in out.splitlines()[3:]]
    assert rows == [
        [f"learning_rate={rate}", f"gravity={gravity}", how, "2"]
        for gravity in ("5.0", "10.0")
        for how in ("greedy", "sampled")
        for rate in ("0.001", "0.01")
    ]
    _, out, _ = say(capsys, "eval", run, "--episodes", "2", "--member", "3")
    assert [line.split()[:3] for line in out.splitlines()[3:]] == [["all", "greedy", "1"], ["all", "sampled", "1"]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        ["--episodes", "2", "--env.gravity", "5", "RUN"],
        ["--env.gravity=5", "RUN", "--episodes", "2"],
        ["--env.force-mag", "-1", "RUN", "--episodes=2"],
    ],
)
def test_eval_accepts_the_run_at_any_position(words, run, capsys, monkeypatch):
    said = say(capsys, "eval", *[run if word == "RUN" else word for word in words])
    assert said == say(capsys, "eval", run, *[word for word in words if word != "RUN"]) and said[0] == 0
    monkeypatch.chdir(run)  # a run itself, which is not the one meant
    assert "../nothing is not a run folder" in refused(capsys, "eval", "--episodes", "2", "../nothing")


def test_an_unknown_flag_before_the_run_is_named(run, capsys):
    assert "unknown flag --gravity" in refused(capsys, "eval", "--gravity", "5", run)
    assert "unknown flag --gravity. Did you mean --env.gravity?" in refused(capsys, "eval", run, "--gravity", "-5")


def test_eval_gives_each_setting_its_own_members(run, capsys):
    import shoal

    returns = shoal.evaluate(run, episodes=2).episode_return.mean(axis=1)  # [4]: two settings, two seeds each
    _, out, _ = say(capsys, "eval", run, "--episodes", "2")
    means = [float(line.split()[4]) for line in out.splitlines()[3:] if "greedy" in line]
    np.testing.assert_allclose(means, [returns[:2].mean(), returns[2:].mean()], rtol=1e-3)


def test_compare_pairs_members_that_share_setting_and_seed(run, capsys):
    _, out, _ = say(capsys, "compare", run, shutil.copytree(run, "copy-to-compare"))
    assert "A - B = 0 over 4 pairs" in out and "too few pairs to decide: an interval needs 6" in out
    assert "one of B: 0.500" in out


def test_render_makes_gifs_of_a_run_and_of_an_environment(run, capsys):
    status, out, _ = say(capsys, "render", run, "--member", "best", "--max-steps", "5", "--out", "a.gif")
    assert status == 0 and out.strip() == "a.gif" and Path("a.gif").stat().st_size > 0
    status, _, err = say(capsys, "render", "CartPole-v1", "--max-steps", "5")
    assert status == 0, err
    assert Path("CartPole-v1.gif").read_bytes()[:3] == b"GIF"


def test_render_of_a_run_applies_every_option(run, tmp_path, capsys):
    made = []
    for words in ([], ["--max-steps", "3"], ["--max-steps", "3", "--sample"], ["--max-steps", "3", "--seed", "5"]):
        folder = shutil.copytree(run, tmp_path / str(len(made)))
        status, _, err = say(capsys, "render", folder, *words)
        assert status == 0, err
        made.append({path.name: path.read_bytes() for path in (folder / "videos").iterdir()})
    assert all(set(gifs) == {"best.gif", "median.gif", "worst.gif"} for gifs in made)
    assert len({gifs["best.gif"] for gifs in made}) == 4


def test_eval_of_an_exported_policy_says_which_weights_it_holds(run, capsys):
    assert say(capsys, "export", run, "--which", "best", "--out", "policy")[0] == 0
    assert "(best weights)" in say(capsys, "eval", "policy", "--episodes", "2", "--which", "last")[1]


def test_plot_draws_one_run_or_several(run, capsys):
    assert say(capsys, "plot", run, "--x", "wall", "--out", "one.png")[0] == 0
    assert say(capsys, "plot", run, run, "--out", "two.svg")[0] == 0
    assert Path("one.png").is_file() and Path("two.svg").is_file()
    assert say(capsys, "plot", "zoo:ppo/CartPole-v1")[1] == "curves.png\n" and Path("curves.png").is_file()
    assert say(capsys, "plot", "zoo:ppo/CartPole-v1", run, "--out", "both.png")[0] == 0


def test_plot_draws_a_metric_or_all_figures_of_a_run(run, tmp_path, capsys):
    folder = shutil.copytree(run, tmp_path / "copy")
    assert say(capsys, "plot", folder)[1].split() == [f"{folder}/figures/learning_curves.png"]  # of one sweep
    assert say(capsys, "plot", folder, "--metric", "value_loss")[1].strip() == f"{folder}/figures/value_loss.png"
    assert say(capsys, "plot", folder, "--by", "learning-rate", "--out", "by.svg")[1] == "by.svg\n"
    assert "learning_rate 0.01" in Path("by.svg").read_text()
    assert "Did you mean value_loss?" in refused(capsys, "plot", folder, "--metric", "value-loss")
    assert "'gamma' does not vary in" in refused(capsys, "plot", folder, "--by", "gamma,learning-rate")
    assert "--by is for one run" in refused(capsys, "plot", folder, folder, "--by", "learning-rate")


def test_render_names_the_formats_and_the_extra(run, capsys, monkeypatch):
    assert "must end in .gif or .mp4" in refused(capsys, "render", run, "--out", "a.avi")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert "pip install 'shoal[video]'" in refused(capsys, "render", run, "--out", "a.mp4")


@pytest.mark.parametrize("command", ["render", "record", "export"])
def test_only_eval_accepts_all_members(command, run, capsys):
    assert "--member all is unknown: give a number or `best`." in refused(capsys, command, run, "--member", "all")


def test_a_policy_of_the_zoo_is_exported_into_the_current_folder(capsys):
    status, out, err = say(capsys, "export", "zoo:ppo/CartPole-v1")
    assert status == 0 and out.startswith("ppo-CartPole-v1-policy ("), err


def test_a_policy_is_exported_for_a_program_without_shoal(capsys):
    status, out, err = say(capsys, "export", "zoo:ppo/CartPole-v1", "--format", "numpy")
    assert (
        status == 0 and out.startswith("ppo-CartPole-v1-numpy (") and Path("ppo-CartPole-v1-numpy/policy.py").exists()
    ), err
    answer = refused(capsys, "export", "zoo:ppo/CartPole-v1", "--format", "nunpy")
    assert "format='nunpy' is unknown. Did you mean numpy? Choose one of shoal, numpy, torch, onnx, jax." in answer


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--member 9", "member 9 does not exist: the population has members 0 to 3"),
        ("--member worst", "--member worst is unknown: give a number, `best` or `all`."),
        ("--episodes 0", "episodes=0 must be at least 1"),
        ("--env.gravty 3", "unknown flag --env.gravty. Did you mean --env.gravity?"),
        ("--env.integrator euler,semi-implicit", "integrator is a static field, which cannot be swept"),
    ],
)
def test_a_mistake_about_a_run_gives_one_line(words, answer, run, capsys):
    assert answer in refused(capsys, "eval", run, *words.split())


def flip_a_bit(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "answer"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-100]), "is damaged or incomplete"),
        (flip_a_bit, "does not match the hash in its manifest"),
        (lambda file: file.unlink(), "is damaged or incomplete"),
    ],
)
def test_a_damaged_checkpoint_is_refused(damage, answer, run, tmp_path, capsys):
    import shutil

    shutil.copytree(run, tmp_path / "copy")
    damage(checkpoint.newest(tmp_path / "copy" / "checkpoints") / "policies.npz")
    assert answer in refused(capsys, "eval", tmp_path / "copy")


@pytest.mark.parametrize("words", ["eval RUN", "train --resume RUN"])
def test_a_run_of_a_notebook_class_asks_for_the_missing_value(words, run, tmp_path, capsys):
    import shutil

    folder = shutil.copytree(run, tmp_path / "copy")
    for name, change in (("spec", {"env": "__main__:Drift"}), ("provenance", {"only_in_python": ["env"]})):
        file = folder / f"{name}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    said = refused(capsys, *words.replace("RUN", str(folder)).split())
    assert "was made in Python with an environment of your own, which no file can hold: give env=" in said


@pytest.mark.parametrize(
    ("file", "content", "words", "answer"),
    [
        ("spec.json", b'{"agent": "pp', "eval RUN", "spec.json is damaged"),
        ("spec.json", b'{"agent": "pp', "plot RUN", "spec.json is damaged"),
        ("curves.npz", b"PK", "eval RUN --member best", "curves.npz is damaged"),
        ("curves.npz", b"", "plot RUN", "curves.npz is damaged"),
        ("curves.npz", b"PK", "train --resume RUN --no-progress", "curves.npz is damaged"),
        ("checkpoints/best/manifest.json", b'{"format": 3}', "eval RUN --which best", "it has no sha256"),
        (".writable/x", b"", "train --resume RUN", "copy cannot be written: Is a directory."),
    ],
)
def test_a_damaged_or_read_only_run_gives_one_line(file, content, words, answer, run, tmp_path, capsys):
    import shutil

    folder = shutil.copytree(run, tmp_path / "copy")
    if "/x" in file:
        (folder / file).parent.unlink(missing_ok=True)
        (folder / file).parent.mkdir()
    (folder / file).write_bytes(content)
    assert answer in refused(capsys, *[folder if word == "RUN" else word for word in words.split()])


def test_an_unusable_file_gives_one_line(run, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert "file/x: Not a directory" in refused(capsys, "render", run, "--max-steps", "2", "--out", "file/x/a.gif")
    words = ["CartPole-v1", "--sizes", "1", "--seconds", "0", "--out", "file/bench.json"]
    status, out, err = say(capsys, "bench", *words)
    assert status == 2 and "file: File exists" in err and "steps/s" not in out  # refused before anything is measured
    Path("half.npz").write_bytes(b"PK")
    Path("empty.npz").touch()
    with open("array.npz", "wb") as file:
        np.save(file, np.zeros(3))
    for name in ("half.npz", "empty.npz", "array.npz"):
        said = refused(capsys, "train", "bc", "CartPole-v1", "--demonstrations", name, "--dry-run")
        assert f"{name} holds no demonstrations" in said


def test_episodes_that_the_limit_of_steps_cut_off_are_counted(run, capsys):
    _, out, _ = say(capsys, "eval", run, "--episodes", "2", "--max-steps", "3")  # no pole falls within 3 steps
    assert "16 of 16 episodes were cut off after 3 steps: their returns are those so far (--max-steps)" in out
    assert "`shoal train` reports greedy actions" in out
    words = "train q-learning CliffWalking-v1 --steps 100 --records 2 --evaluations 1 --seeds 2 --no-figures --name c"
    limits = "--eval-episodes 3 --eval-max-steps 5"  # the goal is 13 steps away
    said = "6 of 6 episodes were cut off after 5 steps: their returns are those so far (--eval-max-steps)"
    assert said in say(capsys, *words.split(), *limits.split())[1]
    assert said in say(capsys, "train", "--resume", "runs/c", "--no-figures")[1]


def test_a_wrong_member_is_refused_before_the_run_is_loaded(run, capsys, monkeypatch):
    monkeypatch.setattr("shoal.training.policy.load_policies", None)
    assert "--member -1 must be at least 0" in refused(capsys, "eval", run, "--member", "-1")


def test_report_writes_a_page_into_the_folder_of_a_run_or_here(run, tmp_path, capsys):
    folder = shutil.copytree(run, tmp_path / "copy")
    status, out, _ = say(capsys, "report", folder)
    page = folder / "report.html"
    assert status == 0 and out == f"{page} ({page.stat().st_size / 1000:,.0f} kB)\n"
    assert say(capsys, "report", folder, "zoo:ppo/CartPole-v1")[1].startswith("report.html (")
    assert "report needs a run folder, as in `shoal report" in refused(capsys, "report")
    assert "must end in .html" in refused(capsys, "report", folder, "--out", "a.pdf")
    assert "is not a run folder" in refused(capsys, "report", tmp_path / "nothing")


def test_the_bot_of_minigrid_is_recorded(capsys, tmp_path):
    import shoal

    pytest.importorskip("minigrid", reason="the bot is MiniGrid's")
    file = tmp_path / "bot.npz"
    words = ("record", "babyai-bot", "BabyAI-GoToLocal-v0", "--env.room-size", "5", "--env.num-dists", "2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        status, out, err = say(capsys, *words, "--steps", "40", "--out", str(file))
    assert status == 0 and out.startswith("the bot solved 64 of 64 levels\n"), err
    assert shoal.load_demonstrations(file).obs["image"].shape[1:] == (7, 7, 3)


def test_verify_prints_what_was_compared_and_its_status_is_that_of_the_run(run, tmp_path, capsys):
    folder = shutil.copytree(run, tmp_path / "run")
    status, out, _ = say(capsys, "verify", folder, "--at-most", "0")
    rows = [line.split()[:2] for line in out.splitlines()]
    assert status == 1 and ["same", "summary.json"] in rows
    assert out.splitlines()[-1].endswith("not verified; 0 % of all records of members were executed again")
    (folder / "metrics.jsonl").write_text("")
    status, out, _ = say(capsys, "verify", folder, "--at-most", "0")
    assert status == 1 and ["differs", "metrics.jsonl"] in [line.split()[:2] for line in out.splitlines()]
    assert "must be a number of minutes" in refused(capsys, "verify", folder, "--at-most", "-1")
