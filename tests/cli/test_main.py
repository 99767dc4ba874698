"""The command line: what it makes, and what each mistake is answered with. In process, except where it must die."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from shoal.cli.main import _small_loop, main
from shoal.core.registry import ENVS
from shoal.training import checkpoint
from shoal.training.host import SMALL_LOOP, STEPPING_LOOP, prepare
from tiny import FLAGS

MY_ENV = '''
import jax.numpy as jnp

from shoal import Box, Discrete, Env, Number, State, struct


@struct
class MyEnv(Env):
    """A world of my own."""

    bonus: Number = 1.0
    max_steps: Number | None = 5

    @property
    def observation_space(self):
        return Box(0.0, 1.0, (2,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return State(jnp.int32(0))

    def observe(self, state):
        return jnp.zeros((2,), jnp.float32)

    def transition(self, state, action, noise):
        return state, jnp.asarray(self.bonus, jnp.float32), jnp.bool_(False), {}
'''


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


@pytest.fixture(autouse=True)
def _work_in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small finished run: two settings, two seeds."""
    root = tmp_path_factory.mktemp("runs")
    words = ["--seeds", "2", "--learning-rate", "1e-3,1e-2", "--root", str(root), "--name", "small", "--no-figures"]
    assert main(["train", "ppo", "CartPole-v1", *FLAGS, *words]) == 0
    return root / "small"


def say(capsys, *words):
    """(status, standard output, standard error) of a command line."""
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def refused(capsys, *words):
    """The line that answers a mistake: one, on standard error, with status 2."""
    status, _, err = say(capsys, *words)
    assert status == 2 and err.startswith("shoal: ") and err.count("\n") == 1, err
    return err


# Help answers at once.


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"], ["trian"]])
def test_help_needs_no_jax(words):
    code = f"import sys\nfrom shoal.cli.main import main\nmain({words})\nassert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_the_help_of_train_lists_hyperparameters_and_constants(capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", "ppo", "CartPole-v1", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert end.value.code == 0
    assert "--clip X[,X] bound on the change of ratio and value; from 0 to 1e+09; default 0.2" in text
    assert "--env.gravity X[,X] default 9.8" in text and "--observation-space" not in text


# Mistakes.


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("trian", "unknown command 'trian'. Did you mean train?"),
        ("train pppo CartPole-v1", "agent 'pppo' is not registered. Did you mean ppo?"),
        ("train ppo CartPol-v1", "env 'CartPol-v1' is not registered. Did you mean CartPole-v1"),
        ("train CartPole-v1 ppo", "the agent comes first: shoal train ppo CartPole-v1"),
        ("train ppo os.path:join", "os.path:join is no env: name a class that has @struct above it"),
        ("train ppo CartPole-v1 --lr 1", "Did you mean --learning-rate? `shoal train ppo CartPole-v1 --help` lists"),
        ("train ppo CartPole-v1 --lerning-rate 1", "unknown flag --lerning-rate. Did you mean --learning-rate"),
        ("train ppo CartPole-v1 --env.gravty 1", "unknown flag --env.gravty. Did you mean --env.gravity"),
        ("train ppo CartPole-v1 Pendulum-v1", "'Pendulum-v1' was not expected"),
        ("train ppo", "train needs an agent and an environment"),
        ("train ppo CartPole-v1 --num-minibatches 5", "num_minibatches=5 does not divide. Try 2 or 4."),
        ("train ppo CartPole-v1 --discount 1.5", "PPO.discount=1.5 is out of range: it must lie in [0, 1]"),
        ("train ppo CartPole-v1 --discount high", "--discount high is not a number. The default is 0.99."),
        ("train ppo CartPole-v1 --num-envs 1.5", "--num-envs 1.5 is not a whole number"),
        ("train ppo CartPole-v1 --shared maybe", "--shared maybe is not true or false"),
        ("train ppo CartPole-v1 --steps many", "argument --steps: many is not a whole number"),
        ("train ppo CartPole-v1 --seeds 1.5", "argument --seeds: 1.5 is not a whole number"),
        ("train ppo CartPole-v1 --seed 99999999999999999999", "seed=99999999999999999999 does not fit in 64 bits"),
        ("train ppo CartPole-v1 --steps 1e99", "steps must be at most 1,000,000,000,000,000"),
        ("train ppo CartPole-v1 --num-envs inf", "--num-envs inf is not a whole number"),
        ("train ppo CartPole-v1 --hidden 64,0", "hidden=(64, 0) has a layer without units"),
        ("train ppo CartPole-v1 --env.gravity nan", "--env.gravity nan is not a number"),
        ("train ppo CartPole-v1 --env.max-steps 9,0", "max_steps=0 is no time limit: it must be a whole number"),
        ("train ppo CartPole-v1 --threads -4", "--threads -4 must be at least 1"),
        ("train ppo CartPole-v1 --devices -1", "devices=-1 must not be negative"),
        ("train ppo CartPole-v1 --memory-limit-gb -1", "the memory limit must not be negative"),
        ("train ppo CartPole-v1 --memory-limit-gb x", "argument --memory-limit-gb: x is not a number"),
        ("train ppo CartPole-v1 --steps 0", "steps=0 must be at least 1"),
        ("train ppo CartPole-v1 --steps", "argument --steps: expected one argument"),
        ("train ppo CartPole-v1 --prng dice", "prng='dice' is unknown. Choose one of: mix32"),
        ("train ppo CartPole-v1 --surrogate x", "surrogate='x' is unknown. Choose one of clipped"),
        ("train ppo CartPole-v1 --preset speedy", "ppo has no preset 'speedy' for CartPole-v1"),
        ("train ppo CartPole-v1 --devices 99", "devices=99 were asked for, but JAX sees"),
        ("train ppo CartPole-v1 --memory-limit-gb 1e-6", "more than the"),
        ("train ppo --suite clasic", "suite 'clasic' is not registered. Did you mean classic?"),
        ("train ppo CartPole-v1 --suite classic", "not both"),
        ("train ppo nothing.py:MyEnv", "nothing.py does not exist"),
        ("train --resume nothing", "nothing is not a run folder: it has no spec.json"),
        ("eval nothing", "nothing is not a run folder"),
        ("bench nothing", "env 'nothing' is not registered"),
        ("bench CartPole-v1 --sizes few", "--sizes few is not a list of whole numbers"),
        ("plot nothing", "nothing"),
        ("compare nothing nothing", "nothing is not a run folder"),
        ("render CartPol-v1", "env 'CartPol-v1' is not registered"),
        ("envs CartPol-v1", "env 'CartPol-v1' is not registered"),
    ],
)
def test_a_mistake_is_answered_in_one_line(words, answer, capsys):
    assert answer in refused(capsys, *words.split())


def test_debug_shows_where_an_error_comes_from():
    with pytest.raises(ValueError, match="is not registered"):
        main(["train", "pppo", "CartPole-v1", "--debug"])


def test_an_existing_run_is_not_overwritten(run, capsys):
    words = ["train", "ppo", "CartPole-v1", *FLAGS, "--root", run.parent, "--name", "small"]
    assert "already holds a run. Continue it with `shoal train --resume" in refused(capsys, *words)


def test_the_folders_of_all_runs_are_checked_before_the_first(run, tmp_path, capsys):
    import shutil

    shutil.copytree(run, tmp_path / "runs" / "x" / "num_envs=8")
    words = ["train", "ppo", "CartPole-v1", *FLAGS[2:], "--name", "x"]
    assert "num_envs=8 already holds a run" in refused(capsys, *words, "--num-envs", "4,8")
    assert "num_envs=4 is asked for twice" in refused(capsys, *words, "--num-envs", "4,4")
    assert [path.name for path in Path("runs/x").iterdir()] == ["num_envs=8"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    words = ["train", "ppo", "CartPole-v1", *FLAGS, "--root", tmp_path / "file"]
    assert "cannot be written" in refused(capsys, *words)


def test_resuming_with_changed_flags_says_what_changed(run, capsys):
    err = refused(capsys, "train", "--resume", run, "--steps", "512", "--clip", "0.3")
    assert "cannot be resumed with changes (steps: 256 -> 512; clip: the default -> 0.3)" in err


@pytest.mark.parametrize("option", ["--name", "--root", "--preset", "--suite"])
def test_resuming_refuses_flags_of_a_new_run(option, run, capsys):
    assert f"{option} is for a new run" in refused(capsys, "train", "--resume", run, option, "classic")


def test_a_dry_run_of_a_resumed_run_trains_nothing(run, capsys):
    before = (run / "provenance.json").stat().st_mtime_ns, (run / "summary.json").stat().st_mtime_ns
    status, out, _ = say(capsys, "train", "--resume", run, "--dry-run")
    assert status == 0 and "members     4 = 2 setting(s) x 2 seed(s)" in out
    assert before == ((run / "provenance.json").stat().st_mtime_ns, (run / "summary.json").stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--member 9", "member 9 does not exist: the population has members 0 to 3"),
        ("--member worst", "--member worst is unknown: give a number, `best` or `all`."),
        ("--episodes 0", "episodes=0 must be at least 1"),
        ("--env.gravty 3", "unknown flag --env.gravty. Did you mean --env.gravity?"),
        ("--env.integrator euler,semi-implicit", "integrator shapes the program: give one value at a time"),
    ],
)
def test_a_mistake_about_a_run_is_answered_in_one_line(words, answer, run, capsys):
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
def test_a_run_of_a_class_of_a_notebook_says_what_is_missing(words, run, tmp_path, capsys):
    import shutil

    folder = shutil.copytree(run, tmp_path / "copy")
    for name, change in (("spec", {"env": "__main__:Drift"}), ("provenance", {"only_in_python": ["env"]})):
        file = folder / f"{name}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    said = refused(capsys, *words.replace("RUN", str(folder)).split())
    assert "was made in Python with env of its own, which no file can hold: give env=" in said


def test_a_class_of_the_other_kind_is_refused(capsys):
    Path("my_env.py").write_text(MY_ENV)
    said = refused(capsys, "train", "my_env.py:MyEnv", "CartPole-v1")
    assert "my_env.py:MyEnv is no agent but an env: it has no `bind`" in said
    assert "PPO is no env but an agent" in refused(capsys, "train", "ppo", "shoal.agents.ppo:PPO")


@pytest.mark.parametrize(
    ("file", "content", "words", "answer"),
    [
        ("spec.json", b'{"agent": "pp', "eval RUN", "spec.json is damaged"),
        ("spec.json", b'{"agent": "pp', "plot RUN", "spec.json is damaged"),
        ("curves.npz", b"PK", "eval RUN --member best", "curves.npz is damaged"),
        ("curves.npz", b"", "plot RUN", "curves.npz is damaged"),
        ("curves.npz", b"PK", "train --resume RUN --no-progress", "curves.npz is damaged"),
        ("checkpoints/best/manifest.json", b'{"format": 3}', "eval RUN --which best", "its manifest has no spec"),
        (".writable/x", b"", "train --resume RUN", "copy cannot be written: Is a directory."),
    ],
)
def test_a_damaged_or_read_only_run_is_answered_in_one_line(file, content, words, answer, run, tmp_path, capsys):
    import shutil

    folder = shutil.copytree(run, tmp_path / "copy")
    if "/x" in file:
        (folder / file).parent.unlink(missing_ok=True)
        (folder / file).parent.mkdir()
    (folder / file).write_bytes(content)
    assert answer in refused(capsys, *[folder if word == "RUN" else word for word in words.split()])


def test_a_file_that_cannot_be_used_is_answered_in_one_line(run, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert "file/x: Not a directory" in refused(capsys, "render", run, "--max-steps", "2", "--out", "file/x/a.gif")
    words = ["CartPole-v1", "--sizes", "1", "--seconds", "0", "--out", "file/bench.json"]
    status, out, err = say(capsys, "bench", *words)
    assert status == 2 and "file: File exists" in err and "steps/s" not in out  # said before anything is measured
    Path("half.npz").write_bytes(b"PK")
    Path("empty.npz").touch()
    with open("array.npz", "wb") as file:
        np.save(file, np.zeros(3))
    for name in ("half.npz", "empty.npz", "array.npz"):
        said = refused(capsys, "train", "bc", "CartPole-v1", "--demonstrations", name, "--dry-run")
        assert f"{name} holds no demonstrations" in said


def test_an_infinite_memory_limit_is_refused(capsys):
    said = refused(capsys, "train", "ppo", "CartPole-v1", "--memory-limit-gb", "inf", "--dry-run")
    assert "the memory limit of inf GB is no size" in said


# What train makes.


def test_a_run_leaves_its_files_and_a_table(run, capsys):
    names = {path.name for path in run.iterdir()}
    assert {"spec.json", "provenance.json", "metrics.jsonl", "curves.npz", "summary.json", "checkpoints"} <= names
    spec = json.loads((run / "spec.json").read_text())
    assert spec["sweep"] == {"learning_rate": [1e-3, 1e-2]} and spec["fields"]["hidden"] == [8]
    assert len(json.loads((run / "summary.json").read_text())["per_member"]) == 4


def test_a_dry_run_compiles_nothing_and_says_sizes(capsys):
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: compiled.append(name))
    words = "train ppo CartPole-v1 --steps 100_000 --seeds 8 --learning-rate 1e-4,3e-4 --dry-run --preset none"
    status, out, _ = say(capsys, *words.split())
    jax.monitoring.clear_event_listeners()
    assert status == 0 and not [name for name in compiled if "backend_compile" in name]
    assert "members     16 = 2 setting(s) x 8 seed(s)" in out
    assert "Box((-4.8, -inf, -0.41887903, -inf), (4.8, inf, 0.41887903, inf), (4,))" in out  # not 4.800000190734863
    assert "196 x 512 steps = 100,352 steps a member" in out  # 100,000 / (4 x 128), rounded up
    assert "weights     9,155 numbers" in out  # 2 x (4 x 64 + 64 + 64 x 64 + 64) + (64 x 2 + 2) + (64 + 1)
    assert not Path("runs").exists()


def test_a_dry_run_takes_the_time_of_runs_and_skips_what_is_none(run, capsys):
    from shoal.training.export import export

    export(run, "runs/policy")  # has a summary, and no speed
    for name, text in (("half", '{"agent": "ppo", '), ("list", "[1]")):
        Path("runs", name).mkdir()
        Path("runs", name, "summary.json").write_text(text)
    assert "time        unknown" in say(capsys, "train", "ppo", "CartPole-v1", "--dry-run")[1]
    status, out, _ = say(capsys, "train", "ppo", "CartPole-v1", "--dry-run", "--root", run.parent)
    assert status == 0 and "the median of 1 earlier run(s)" in out


def test_a_list_on_a_field_that_shapes_the_program_is_one_run_each(capsys):
    words = "train ppo CartPole-v1 --num_envs=2,4 --env.integrator euler,semi-implicit --discount 0.9,0.99 --dry-run"
    _, out, _ = say(capsys, *words.split())
    assert "dry run: 4 runs" in out and out.count("members     2 = 2 setting(s) x 1 seed(s)") == 4


def test_negative_numbers_and_tuples_are_values(capsys):
    words = "train ppo CartPole-v1 --env.reset-low -0.2,-1e-1 --hidden 32,16 --shared true --preset none --dry-run"
    _, out, _ = say(capsys, *words.split())
    assert "env.reset_low: -0.2, -0.1" in out and "hidden=(32, 16) shared=True" in out


@pytest.mark.parametrize(("name", "runs"), [("classic", 5), ("minigrid-10", 10)])
def test_a_suite_is_a_run_for_each_of_its_worlds(name, runs, capsys):
    from shoal.cli.train import suites

    _, out, _ = say(capsys, "train", "ppo", "--suite", name, "--dry-run")
    assert all(env in ENVS and env in out for env in suites()[name]["envs"]) and f"dry run: {runs} runs" in out


def test_a_world_of_my_own_trains_and_is_found_again(tmp_path, capsys):
    (tmp_path / "my_env.py").write_text(MY_ENV)
    words = [*FLAGS, "--env.bonus", "2,3", "--root", tmp_path / "runs"]
    status, out, err = say(capsys, "train", "ppo", "my_env.py:MyEnv", *words)
    assert status == 0, err
    assert "env.bonus=2" in out and " 10 " in out and " 15 " in out  # five steps of 2 and of 3
    os.chdir("/")
    status, out, _ = say(capsys, "eval", tmp_path / "runs" / "ppo-MyEnv", "--episodes", "2", "--member", "1")
    assert status == 0 and " 15 " in out


def test_infinity_is_kept_and_read_back(capsys):
    import shoal

    words = ["--env.theta-threshold", "inf", "--env.x-threshold", "inf,2.4", "--no-figures", "--name", "r"]
    status, out, err = say(capsys, "train", "ppo", "CartPole-v1", *FLAGS, *words)
    assert status == 0 and "env.x_threshold=inf" in out, err
    spec = json.loads(Path("runs/r/spec.json").read_text())
    assert spec["env_fields"] == {"theta_threshold": "inf"} and spec["env_sweep"] == {"x_threshold": ["inf", 2.4]}
    assert shoal.load_result("runs/r").spec.env_fields == {"theta_threshold": float("inf")}
    assert shoal.load_result("runs/r").settings == [{"env.x_threshold": float("inf")}, {"env.x_threshold": 2.4}]
    assert say(capsys, "eval", "runs/r", "--episodes", "2")[0] == 0
    assert say(capsys, "train", "--resume", "runs/r", *words[:4], "--no-figures", "--no-progress")[0] == 0


# What is done with a run.


def test_eval_tells_greedy_and_sampled_returns_of_every_world(run, capsys):
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


@pytest.mark.parametrize(
    "words",
    [
        ["--episodes", "2", "--env.gravity", "5", "RUN"],
        ["--env.gravity=5", "RUN", "--episodes", "2"],
        ["--env.force-mag", "-1", "RUN", "--episodes=2"],
    ],
)
def test_eval_finds_its_run_wherever_it_stands(words, run, capsys, monkeypatch):
    said = say(capsys, "eval", *[run if word == "RUN" else word for word in words])
    assert said == say(capsys, "eval", run, *[word for word in words if word != "RUN"]) and said[0] == 0
    monkeypatch.chdir(run)  # a run itself, which is not the one meant
    assert "../nothing is not a run folder" in refused(capsys, "eval", "--episodes", "2", "../nothing")


@pytest.mark.parametrize("words", [["--env.gravity", "5"], ["--env.gravity=5", "--episodes", "2"]])
def test_eval_misses_a_run_that_is_not_there(words, capsys):
    assert "required: RUN" in refused(capsys, "eval", *words)


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
    _, out, _ = say(capsys, "compare", run, run)
    assert "A - B = 0, 95 % interval [0, 0] over 4 pairs" in out and "one of B: 0.500" in out


def test_render_films_a_run_and_a_world(run, capsys):
    status, out, _ = say(capsys, "render", run, "--member", "best", "--max-steps", "5", "--out", "a.gif")
    assert status == 0 and out.strip() == "a.gif" and Path("a.gif").stat().st_size > 0
    status, _, err = say(capsys, "render", "CartPole-v1", "--max-steps", "5")
    assert status == 0, err
    assert Path("CartPole-v1.gif").read_bytes()[:3] == b"GIF"


def test_render_of_all_heeds_every_option(run, tmp_path, capsys):
    import shutil

    made = []
    for words in ([], ["--max-steps", "3"], ["--max-steps", "3", "--sample"], ["--max-steps", "3", "--seed", "5"]):
        folder = shutil.copytree(run, tmp_path / str(len(made)))
        status, _, err = say(capsys, "render", folder, *words)
        assert status == 0, err
        made.append({path.name: path.read_bytes() for path in (folder / "videos").iterdir()})
    assert all(set(films) == {"best.gif", "median.gif", "worst.gif"} for films in made)
    assert len({films["best.gif"] for films in made}) == 4


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--member 2", "--member is for a run; CartPole-v1 is a world"),
        ("--which best", "--which is for a run"),
        ("--sample", "--sample is for a run"),
        ("--max-steps -5", "--max-steps -5 must be at least 1"),
    ],
)
def test_render_of_a_world_refuses_what_is_for_a_run(words, answer, capsys):
    assert answer in refused(capsys, "render", "CartPole-v1", *words.split())


def test_eval_of_an_exported_policy_says_which_weights_it_holds(run, capsys):
    assert say(capsys, "export", run, "--which", "best", "--out", "policy")[0] == 0
    assert "(best weights)" in say(capsys, "eval", "policy", "--episodes", "2", "--which", "last")[1]


def test_plot_draws_one_run_or_several(run, capsys):
    assert say(capsys, "plot", run, "--x", "wall", "--out", "one.png")[0] == 0
    assert say(capsys, "plot", run, run, "--out", "two.svg")[0] == 0
    assert Path("one.png").is_file() and Path("two.svg").is_file()
    assert say(capsys, "plot", "zoo:ppo/CartPole-v1")[1] == "curves.png\n" and Path("curves.png").is_file()
    assert say(capsys, "plot", "zoo:ppo/CartPole-v1", run, "--out", "both.png")[0] == 0


def test_listings_name_everything_and_show_manuals(capsys):
    assert "CartPole-v1" in say(capsys, "envs")[1]
    names = [line.split()[0] for line in say(capsys, "envs", "cartpole")[1].splitlines()[2:]]
    assert names[:3] == ["CartPole-v0", "CartPole-v1", "bsuite/cartpole/0-19"]
    page = say(capsys, "envs", "CartPole-v1")[1]
    assert "cart position, m" in page and "--env.mass-pole" in page
    assert "ppo" in say(capsys, "agents")[1] and "--learning-rate" in say(capsys, "agents", "ppo")[1]


def test_the_doctor_names_devices_and_cache(capsys):
    _, out, _ = say(capsys, "doctor")
    assert f"{len(jax.local_devices())}" and "cpu: cpu" in out and "jaxlib" in out and "cache" in out


@pytest.mark.parametrize("advice", [[], ["an NVIDIA GPU is here"]])
def test_the_doctor_ends_with_1_where_something_needs_attention(advice, capsys, monkeypatch):
    monkeypatch.setattr("shoal.cli.doctor._advice", lambda seen: iter(advice))
    status, out, _ = say(capsys, "doctor")
    assert status == len(advice) and ("nothing needs attention" in out) == (not advice)


@pytest.mark.parametrize("command", ["render", "record", "export"])
def test_all_members_are_for_eval_only(command, run, capsys):
    assert "--member all is unknown: give a number or `best`." in refused(capsys, command, run, "--member", "all")


def test_a_policy_of_the_zoo_is_exported_into_the_folder_at_hand(capsys):
    status, out, err = say(capsys, "export", "zoo:ppo/CartPole-v1")
    assert status == 0 and out.startswith("ppo-CartPole-v1-policy ("), err


@pytest.mark.parametrize(
    ("jaxlib", "threads", "expected"),
    [
        ("0.10.2", "2", True),
        ("0.10.2", "16", False),
        ("0.11.0", "", True),
        ("0.11.1", "2", False),
        ("0.9.2", "2", False),
    ],
)
def test_the_doctor_knows_which_versions_can_deadlock(jaxlib, threads, expected):
    from shoal.cli.doctor import can_deadlock

    assert can_deadlock(jaxlib, threads) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", f"--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={SMALL_LOOP}"),
        ("--xla_backend_extra_options=mine=1", "--xla_backend_extra_options=mine=1"),
        ("--a=1", f"--a=1 --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold={SMALL_LOOP}"),
    ],
)
def test_small_loops_are_asked_for_unless_the_user_asks_otherwise(monkeypatch, given, expected):
    monkeypatch.delitem(sys.modules, "jax")
    for name, value in {**os.environ, "XLA_FLAGS": given}.items():
        monkeypatch.setenv(name, value)  # so that what `prepare` sets is undone
    prepare(threads=2)
    assert os.environ["XLA_FLAGS"] == expected


def test_stepping_without_a_network_fuses_larger_loops():
    assert _small_loop("bench", ["CartPole-v1"]) == STEPPING_LOOP
    assert _small_loop("bench", ["CartPole-v1", "--policy", "mlp"]) == SMALL_LOOP
    assert _small_loop("bench", ["CartPole-v1", "--policy=mlp"]) == SMALL_LOOP
    assert _small_loop("train", ["ppo", "CartPole-v1"]) == SMALL_LOOP


@pytest.mark.parametrize(
    ("words", "cache", "threads"),
    [
        ("--no_cache --threads 1e1", False, 10),
        ("--no-cache --threads=1_6", False, 16),
        ("--threads -4", True, 0),
        ("--threads many", True, 0),
        ("--steps 5", True, 0),
    ],
)
def test_what_the_host_needs_to_know_is_read_as_the_parser_reads_it(words, cache, threads, monkeypatch, capsys):
    asked = {}
    monkeypatch.setattr("shoal.training.host.prepare", lambda **options: asked.update(options))
    with monkeypatch.context() as once:
        once.delitem(sys.modules, "jax")
        once.setattr("shoal.cli.train.train", lambda words: None)
        assert main(["train", "ppo", "CartPole-v1", *words.split()]) == 0
    assert (asked["cache"], asked["threads"]) == (cache, threads)


def test_a_benchmark_on_the_cpu_keeps_jax_from_anything_else(monkeypatch, capsys):
    monkeypatch.setattr("shoal.training.host.prepare", lambda **options: None)
    monkeypatch.setenv("JAX_PLATFORMS", "")
    with monkeypatch.context() as once:
        once.delitem(sys.modules, "jax")
        once.setattr("shoal.cli.measure.measure", lambda words: None)
        assert main(["bench", "CartPole-v1", "--device=cpu"]) == 0
    assert os.environ["JAX_PLATFORMS"] == "cpu"
    assert "--device gpu: JAX sees none here" in refused(capsys, "bench", "CartPole-v1", "--device", "gpu")


def test_a_block_is_refused_where_all_members_run_in_one_call(monkeypatch, capsys):
    from functools import partial

    from shoal.training.placement import place

    monkeypatch.setattr("shoal.training.plan.place", partial(place, on_mesh=True))
    said = refused(capsys, "train", "ppo", "CartPole-v1", *FLAGS, "--seeds", "2", "--block", "2")
    assert "block=2 is for CPUs; here it is 2 x cpu, all members at a time" in said and not Path("runs").exists()


def test_evaluations_that_records_have_no_room_for_are_said(capsys):
    words = ["train", "ppo", "CartPole-v1", "--evaluations", "50", "--records", "3", "--dry-run"]
    assert "3, 3 (not 50) of them evaluated" in say(capsys, *words)[1]


def test_the_steps_of_a_small_rollout_are_one_kernel():
    code = (
        "import shoal\n"
        "shoal.prepare(cache=False)\n"
        "import jax\n"
        "from shoal.training.placement import CPU_OPTIONS\n"
        "env = shoal.make('CartPole-v1')\n"
        "agent = shoal.PPO(hidden=(8,)).bind(env)\n"
        "state = jax.eval_shape(agent.init, jax.random.key(0), env)\n"
        "update = jax.jit(lambda s: agent.update(s, env, jax.numpy.int32(0))).lower(state)\n"
        "print(update.compile(compiler_options=CPU_OPTIONS).as_text().count('xla_cpu_small_call'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "XLA_FLAGS": ""}, capture_output=True, text=True, timeout=120
    )
    assert int(done.stdout) >= 2, done.stderr  # the rollout, and the sum of advantages


def test_the_host_is_set_up_before_jax_and_what_is_set_is_honored():
    code = (
        "import os, shoal\n"
        "shoal.prepare()\n"
        "import jax\n"
        "print(os.environ['NPROC'], jax.config.jax_compilation_cache_dir)\n"
    )
    given = {**os.environ, "NPROC": "5", "JAX_COMPILATION_CACHE_DIR": "/nowhere", "XLA_FLAGS": ""}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["5", "/nowhere"], done.stderr
    import shoal

    with pytest.raises(RuntimeError, match="must come before JAX is imported"):
        shoal.prepare()


# Dying.


def test_a_killed_run_is_resumed_bit_for_bit(run, tmp_path):
    """SIGKILL at a random moment after the first record; what follows is what an undisturbed run gives."""
    words = ["train", "ppo", "CartPole-v1", *FLAGS, "--seeds", "2", "--learning-rate", "1e-3,1e-2", "--no-figures"]
    process = subprocess.Popen([sys.executable, "-m", "shoal.cli.main", *words, "--name", "r"], cwd=tmp_path)
    folder = tmp_path / "runs" / "r"
    deadline = time.monotonic() + 200
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.002)
    time.sleep(float(np.random.default_rng().uniform(0, 0.1)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main(["train", "--resume", str(folder), "--no-progress", "--no-figures"]) == 0
    resumed, straight = (np.load(checkpoint.newest(f / "checkpoints") / "learners.npz") for f in (folder, run))
    with resumed, straight:
        assert set(resumed) == set(straight)
        for name in straight:
            np.testing.assert_array_equal(resumed[name], straight[name], err_msg=name)
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 4


def test_ctrl_c_in_a_last_chunk_starts_no_other_run(capsys, monkeypatch):
    from shoal.training.records import Records

    save = Records.save

    def save_and_interrupt(self, *arguments):
        save(self, *arguments)
        if len(self) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as once:
        once.setattr(Records, "save", save_and_interrupt)
        words = [*FLAGS[2:], "--num-envs", "4,8", "--no-figures", "--name", "r"]
        status, _, err = say(capsys, "train", "ppo", "CartPole-v1", *words)
    assert status == 130 and "stopped when all was trained. To draw it: shoal train --resume runs/r/num_envs=4" in err
    assert [path.name for path in Path("runs/r").iterdir()] == ["num_envs=4"]
    assert Path("runs/r/num_envs=4/summary.json").is_file()


def test_ctrl_c_is_heard_in_the_middle_of_a_chunk_and_the_second_does_not_wait(tmp_path):
    words = "train ppo CartPole-v1 --steps 100_000_000_000 --records 1 --no-figures --seeds 1"  # hours
    command = [sys.executable, "-m", "shoal.cli.main", *words.split()]
    answers = ("compiled in", "stopping when this chunk is saved; Ctrl-C again stops at once", "interrupted")
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            for answer in answers:
                while answer not in (line := process.stderr.readline()):
                    assert line, f"ended before it said {answer!r}"
                time.sleep(0.5)  # into the chunk
                process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            process.kill()


def test_ctrl_c_ends_with_130_and_says_how_to_resume(tmp_path, capsys, monkeypatch):
    from shoal.training.records import Records

    save = Records.save

    def save_and_interrupt(self, *arguments):
        save(self, *arguments)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as once:
        once.setattr(Records, "save", save_and_interrupt)
        status, _, err = say(capsys, "train", "ppo", "CartPole-v1", *FLAGS, "--no-figures", "--name", "r")
    assert status == 130 and "Continue with: shoal train --resume runs/r" in err
    assert main(["train", "--resume", "runs/r", "--no-progress", "--no-figures"]) == 0
    assert checkpoint.newest(tmp_path / "runs" / "r" / "checkpoints") is not None
