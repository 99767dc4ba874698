"""`--wrap`, and flags of nested values: the environments they build, and commands on a wrapped run."""

import json
import shutil
from pathlib import Path

import pytest

from commands import MY_ENV, refused, say
from shoal.cli.main import main
from shoal.cli.train import train_parser
from shoal.cli.wraps import env_of
from shoal.specs.describe import Described, build, describe
from shoal.studies.throughput import Throughput
from tiny import FLAGS


def read(*words):
    """The command line as parsed by `shoal train`."""
    parser = train_parser()
    return parser.finish(parser.start(["ppo", *words]))


def test_wrappers_are_nested_in_the_order_of_the_command_line():
    env = read("CartPole-v1", "--wrap", "FrameStack:n=2,layout=last", "--wrap=TimeLimit:max-steps=20").named["env"]
    assert type(env).__name__ == "TimeLimit" and env.max_steps == 20
    assert (env.env.n, env.env.layout, env.env.env.max_steps) == (2, "last", 500)


def test_flags_of_a_wrapped_environment_are_paths_through_it():
    line = read("CartPole-v1", "--wrap", "TimeLimit:max_steps=9", "--env.max-steps", "none", "--env.env.gravity=9,10")
    assert line.env == ({"max_steps": None}, {"env.gravity": [9.0, 10.0]})


def test_a_wrapper_field_takes_words_lists_and_functions():
    lava = read("MiniGrid-LavaGapS5-v0", "--wrap", "NoDeath:objects=lava,ball,death_cost=-2").named["env"]
    assert lava.objects == ("lava", "ball") and lava.death_cost == -2.0
    seeded = read("MiniGrid-Empty-5x5-v0", "--wrap", "Reseed:seeds=3,5,first=1").named["env"]
    assert seeded.seeds == (3, 5) and seeded.first == 1
    hidden = read("CartPole-v1", "--wrap", "HideObservation:components=1,3").named["env"]
    assert hidden.components == (1, 3) and hidden.observation_space.shape == (2,)
    clipped = read("CartPole-v1", "--wrap", "TransformReward:function=jax.numpy:tanh").named["env"]
    assert clipped.function is build(Described("function", "jax.numpy:tanh"))


def test_fields_for_functions_take_names_and_functions_of_a_file(tmp_path):
    (tmp_path / "bonus.py").write_text("def right(before, after, action):\n    return after.x - before.x + 0.0\n")
    flags = ["--env.reward", "own+bonus.py:right", "--env.done", "door-opened", "--env.view=full"]
    line = read("MiniGrid-DoorKey-5x5-v0", *flags)
    (own, function), fixed = line.env.fixed["reward"], line.env.fixed
    assert own == "own" and function.__name__ == "right" and (fixed["done"], fixed["view"]) == ("door-opened", "full")
    env = env_of(line)
    assert env.reward == ("own", function) and env.observation_space["image"].shape == (5, 5, 3)
    assert describe(env).fields["reward"][1] == Described("function", f"{tmp_path / 'bonus.py'}:right")
    assert read("MiniGrid-DoorKey-5x5-v0", "--env.reward", "none").env.fixed == {"reward": None}
    assert read("MiniGrid-DoorKey-5x5-v0", "--env.done", "own,never").env.sweep == {"done": ["own", "never"]}


def test_a_user_wrapper_is_named_by_its_file(tmp_path):
    code = "from shoal import struct\nfrom shoal.core.wrappers.base import Wrapper\n\n"
    (tmp_path / "mine.py").write_text(f"{code}@struct\nclass Mine(Wrapper):\n    twist: float = 0.5\n")
    env = read("CartPole-v1", "--wrap", "mine.py:Mine:twist=2").named["env"]
    assert type(env).__name__ == "Mine" and env.twist == 2.0


WRAPS = ["--wrap", "FrameStack:n=2", "--wrap", "TimeLimit:max_steps=7"]


def test_render_uses_the_wrappers(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr("shoal.viz.videos.render", lambda env, **options: calls.append((env, options)) or [])
    assert say(capsys, "render", "CartPole-v1", *WRAPS, "--env.env.env.gravity", "20")[0] == 0
    (env, options), *_ = calls
    assert (env.max_steps, env.env.n, env.env.env.gravity) == (7, 2, 20.0)
    assert options["out"] == "CartPole-v1.gif" and not options["env_fields"]


def test_play_uses_the_wrappers_and_the_keys_of_a_level():
    from shoal.cli.game import LEVEL_KEYS, Game
    from shoal.cli.play import _environment, play_parser

    parser = play_parser()
    words = ["MiniGrid-Empty-5x5-v0", *WRAPS, "--env.max-steps", "9"]
    env = _environment(parser.finish(parser.start(words)))
    assert env.max_steps == 9 and type(env.env.env).__name__ == "Empty"
    assert Game(env, 0).keys == LEVEL_KEYS


def test_the_throughput_benchmark_uses_the_wrappers(monkeypatch, capsys):
    calls = []
    monkeypatch.setattr("shoal.studies.throughput.measure", lambda *given: calls.append(given[:3]) or given_row)
    given_row = Throughput("FrameStack(CartPole-v1)", 4, "random", 1.0, 1.0, 0, 0.0)
    status, _, err = say(capsys, "bench", "CartPole-v1", "Acrobot-v1", *WRAPS[:2], "--sizes", "4")
    assert status == 0, err
    assert [(name, env.n, size) for name, env, size in calls] == [
        ("FrameStack(CartPole-v1)", 2, 4),
        ("FrameStack(Acrobot-v1)", 2, 4),
    ]
    assert not [*Path().iterdir()]  # a file is written only with --out


@pytest.mark.parametrize(
    ("wrap", "answer"),
    [
        ("FramStack", "wrapper 'FramStack' is not registered. Did you mean FrameStack?"),
        ("FrameStack:m=4", "FrameStack has no field 'm'. Its fields are: n, layout."),
        ("FrameStack:n=2,n=3", "needs one n=VALUE for n"),
        ("FrameStack:n", "needs one n=VALUE for n"),
        ("FrameStack:n=x", "--wrap FrameStack:n x is not a whole number. The default is 4."),
        ("FrameStack:n=0", "FrameStack needs n from 1 to 1024, not 0."),
        ("FrameStack:n=2,4", "has several values: give one here, and sweep with --env.env.n 2,4."),
        ("Randomize", "Randomize needs sample: write --wrap Randomize:sample=MODULE:FUNCTION or FILE.py:FUNCTION."),
        ("Randomize:sample=task", "'task' is no path of a class or function"),
        ("TransformObservation:function=jax.numpy:tanh,space=3", "cannot be written on a command line"),
        ("shoal.envs.classic.cartpole:CartPole", "CartPole is not a wrapper"),
        ("", "wrapper '' is not registered"),
    ],
)
def test_an_invalid_wrapper_gives_one_line(wrap, answer, capsys):
    words = ["train", "ppo", "CartPole-v1", "--wrap", wrap, "--wrap", "TimeLimit"]
    assert answer in refused(capsys, *words, "--dry-run")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("CartPole-v1 --wrap FrameStack --env.gravity 3", "Did you mean --env.env.gravity?"),
        ("CartPole-v1 --wrap FrameStack --preset fast", "needs agent and environment by name"),
        ("--wrap FrameStack", "train needs an environment too"),
    ],
)
def test_options_that_conflict_with_a_wrapper_are_refused(words, answer, capsys):
    assert answer in refused(capsys, "train", "ppo", *words.split(), "--dry-run")


def test_every_environment_of_a_suite_is_wrapped(capsys):
    status, out, err = say(capsys, "train", "ppo", "--suite", "classic", "--wrap", "FrameStack:n=2", "--dry-run")
    assert status == 0 and "dry run: 5 runs" in out and out.count("environment FrameStack(") == 5, err


def test_a_list_of_values_for_an_inner_static_field_makes_one_run_each(capsys):
    words = "--wrap FrameStack --env.n 2,3 --env.env.integrator euler,semi-implicit --env.env.gravity 5,6 --dry-run"
    status, out, err = say(capsys, "train", "ppo", "CartPole-v1", *words.split())
    assert status == 0 and "dry run: 4 runs" in out and out.count("members     2 = 2 setting(s)") == 4, err


# Commands on a wrapped run.

BONUS = "--env.env.env.bonus"


@pytest.fixture(scope="module")
def wrapped_run(tmp_path_factory):
    """A run in a wrapped environment of a user file, with two values of an inner field."""
    root = tmp_path_factory.mktemp("wrapped")
    (root / "my_env.py").write_text(MY_ENV)
    wraps = ["--wrap", "FrameStack:n=2", "--wrap", "TimeLimit:max_steps=4", BONUS, "2,3"]
    words = [*FLAGS, *wraps, "--root", str(root), "--name", "run", "--no-figures"]
    assert main(["train", "ppo", f"{root / 'my_env.py'}:MyEnv", *words]) == 0
    return root / "run"


def test_a_wrapped_run_is_written_and_named(wrapped_run):
    spec = json.loads((wrapped_run / "spec.json").read_text())
    assert spec["env_sweep"] == {"env.env.bonus": [2.0, 3.0]} and spec["env_fields"]["max_steps"] == 4
    assert spec["env_fields"]["env"]["fields"]["n"] == 2
    summary = json.loads((wrapped_run / "summary.json").read_text())
    assert summary["env"] == "TimeLimit(FrameStack(MyEnv))"
    assert [s["mean"] for s in summary["settings"]] == [8.0, 12.0]  # four steps of 2, and of 3


def test_inner_fields_of_a_run_are_flags_of_eval(wrapped_run, capsys):
    words = ["eval", wrapped_run, "--episodes", "2", "--member", "0", "--sample", "--env.max-steps", "3"]
    _, out, _ = say(capsys, *words, BONUS, "5,6")
    rows = [line.split()[:5] for line in out.splitlines()[3:]]
    assert rows == [
        ["max_steps=3", f"env.env.bonus={b}", "sampled", "1", mean] for b, mean in (("5.0", "15"), ("6.0", "18"))
    ]
    assert "env.n is a static field, which cannot be swept" in refused(capsys, *words, "--env.env.n", "2,3")
    assert "Did you mean --env.env.env.bonus or" in refused(capsys, *words, "--env.bonus", "3")


def test_a_wrapped_run_is_resumed_as_it_was(wrapped_run, capsys):
    words = ["train", "--resume", wrapped_run, "--no-progress", "--no-figures"]
    status, out, err = say(capsys, *words, BONUS, "2,3", "--env.env.n", "2")
    assert status == 0 and "env.env.env.bonus=3" in out, err
    assert "env.env.n: 2 -> 3" in refused(capsys, *words, "--env.env.n", "3")
    assert "--wrap is for a new run" in refused(capsys, *words, "--wrap", "FrameStack")


def test_every_command_that_opens_a_run_accepts_trust_source(wrapped_run, tmp_path, capsys):
    folder = shutil.copytree(wrapped_run, tmp_path / "copy")
    (wrapped_run.parent / "my_env.py").rename(tmp_path / "gone.py")
    for words in (
        ["eval", folder, "--episodes", "2", BONUS, "7"],
        ["record", folder, "--steps", "20", "--out", "steps.npz"],
        ["export", folder, "--out", "policy"],
        ["train", "--resume", folder, BONUS, "2,3", "--dry-run"],
        ["train", "--spec", folder, "--dry-run"],
    ):
        assert "use --trust-source" in refused(capsys, *words)
        status, _, err = say(capsys, *words, "--trust-source")
        assert status == 0, err
    for command in ("render", "play"):  # which open the run before they need `render`
        assert "use --trust-source" in refused(capsys, command, folder)
        assert "no picture" in refused(capsys, command, folder, "--trust-source")
    (tmp_path / "gone.py").rename(wrapped_run.parent / "my_env.py")
