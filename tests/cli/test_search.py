"""`--search`: the ranges from which `--random` samples, as written on the command line."""

import pytest

from commands import refused, say
from shoal.cli.search import read_search


def test_ranges_are_read_as_python_gives_them():
    texts = [
        "learning-rate=log(1e-4, 1e-1)",
        "env.gravity=5..15",
        "clip",
        "gae_lambda=0.5...75",
        "num=-3..-1",
        "tau=0.1|1e-2",
        "on=true|False",
    ]
    assert read_search(texts) == {
        "learning_rate": (1e-4, 1e-1, "log"),
        "env.gravity": (5, 15),
        "clip": None,
        "gae_lambda": (0.5, 0.75),
        "num": (-3, -1),
        "tau": (0.1, 0.01, "choice"),
        "on": (True, False, "choice"),
    }


def test_samples_come_from_the_given_ranges_also_inside_a_wrapper(capsys):
    words = "--wrap FrameStack:n=2 --random 3 --search env.env.gravity=5..6 --search learning_rate=log(0.1,0.2)"
    status, out, err = say(capsys, "train", "ppo", "CartPole-v1", *words.split(), "--preset", "none", "--dry-run")
    assert status == 0 and "members     3 = 3 setting(s) x 1 seed(s)" in out, err
    drawn = {
        line.split()[1]: [float(v) for v in line.split(": ")[1].split(", ")]
        for line in out.splitlines()
        if line.split()[:1] == ["settings"]
    }
    assert [*drawn] == ["env.env.gravity:", "learning_rate:"]
    assert all(5 <= g <= 6 for g in drawn["env.env.gravity:"]) and all(0.1 <= r <= 0.2 for r in drawn["learning_rate:"])


def test_static_fields_have_a_run_with_its_own_samples_for_each_value(capsys):
    words = "--random 3 --search env.gravity=5|10|15 --shared true,false --memory none,gru --preset none --dry-run"
    status, out, err = say(capsys, "train", "ppo", "CartPole-v1", *words.split())
    assert status == 0 and "dry run: 4 runs" in out and out.count("members     3 = 3 setting(s)") == 4, err
    drawn = {line for line in out.splitlines() if "env.gravity:" in line}
    assert len(drawn) == 1 and {*drawn.pop().split(": ")[1].split(", ")} <= {"5", "10", "15"}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--search", "clip=0.1..0.2"], "--search sets what --random samples: give --random N too."),
        (["--random", "2", "--search", "clip=0.1-0.2"], "--search clip=0.1-0.2 is not a range: write PATH=LOW..HIGH"),
        (["--random", "2", "--search", "clip=log(0.1)"], "is not a range"),
        (["--random", "2", "--search", "clip=a|b"], "which makes a run of its own for each, as in --clip a,b."),
        (["--random", "2", "--search", "=1..2"], "names nothing"),
        (["--random", "2", "--search", "clip", "--search", "clip=1..2"], "clip=1..2 is given twice"),
        (["--random", "2", "--search", "clip=0.3..0.2"], "the lower one first"),
        (["--random", "2", "--search", "clp=0.1..0.2"], "PPO has no field 'clp'. Did you mean clip?"),
        (["--random", "2", "--search", "num_envs=2..4"], "num_envs shapes the program, so it cannot be sampled"),
        (
            ["--random", "2", "--search", "shared=true|false"],
            "give it a list of values, which makes a run",
        ),
        (
            ["--random", "2", "--search", "clip=true|false"],
            "clip cannot be sampled from (True, False): give",
        ),
        (["--random", "2", "--search", "surrogate=clipped|kl"], "as in --surrogate clipped,kl."),
        (["--random", "2", "--search", "clip=0.1..0.2", "--clip", "0.1"], "clip is given with --search and"),
        (["--spec", "x", "--search", "clip"], "leave --search out"),
    ],
)
def test_an_invalid_range_gives_one_line(words, answer, capsys):
    named = [] if "--spec" in words else ["ppo", "CartPole-v1"]
    assert answer in refused(capsys, "train", *named, *words, "--dry-run")
