"""`shoal compare`: what it prints, draws and writes, and the options that it refuses."""

from pathlib import Path

import numpy as np
import pytest

from commands import refused, say
from folders import write_run


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Runs of two agents in two environments, with six seeds."""
    monkeypatch.chdir(tmp_path)
    for agent, better in (("ppo", 30), ("dqn", 0)):
        for env in ("One", "Two"):
            write_run(tmp_path / f"{agent}-{env}", 10.0 * np.arange(6) + better, agent=agent, env=f"my_env.py:{env}")
    return ["ppo-One", "ppo-Two", "dqn-One", "dqn-Two"]


def test_two_groups_are_compared_in_tables_and_sentences(runs, capsys):
    _, out, _ = say(capsys, "compare", *runs)
    lines = [line.split() for line in out.splitlines()]
    # The range is 0 to 80. ppo has 30 to 80, dqn 0 to 50; the IQM of six is the mean of the middle four.
    assert [line[2] for line in lines if line[:2] in (["ppo", "6"], ["dqn", "6"])] == ["0.6875", "0.3125"]
    assert ["One", "55"] in [line[:2] for line in lines]
    assert "One: 0 and 1 are the lowest and the highest score of these runs, 0 and 80" in out
    assert "ppo - dqn = 0.375, 95 % interval [0.375, 0.375] over at least 6 pairs in each environment" in out
    assert "ppo is better" in out and "probability that a member of ppo beats one of dqn: 0.875" in out


def test_a_reference_shows_normalized_scores_of_one_environment_too(runs, capsys):
    Path("own.toml").write_text('["One"]\nrandom = 5\ntarget = 105\n')
    _, out, _ = say(capsys, "compare", "ppo-One", "dqn-One", "--reference", "own.toml")
    assert "normalized scores, with 95 % intervals" in out and "A  6        0.5 " in out
    assert "One: 0 and 1 are random play 5, the target 105" in out and "A - B = 30" in out


def test_three_groups_have_a_row_for_each_pair(runs, capsys):
    labels = ["--label", "a=ppo-One", "--label", "b=dqn-One", "--label", "c=again"]
    write_run(Path("again"), np.arange(6.0), env="my_env.py:One")
    _, out, _ = say(capsys, "compare", *labels)
    assert [line.split()[:4] for line in out.splitlines() if " - " in line] == [
        ["a", "-", "b", "30"],
        ["a", "-", "c", "52.5"],
        ["b", "-", "c", "22.5"],
    ]


def test_a_group_of_many_runs_is_shown_by_its_first_run(runs, capsys):
    more = [f"more-{number}" for number in range(3)]
    for number, name in enumerate(more, 1):
        write_run(Path(name), np.arange(6.0), env="my_env.py:One", first_seed=6 * number)
    _, out, _ = say(capsys, "compare", "--label", f"a={','.join(['dqn-One', *more])}", "--label", "b=ppo-One")
    of_a, of_b = (line.split() for line in out.splitlines()[2:4])
    assert of_a[:6] == ["a", "dqn-One", "and", "3", "more", "24"] and of_b[:3] == ["b", "ppo-One", "6"]


def test_a_figure_and_a_table_are_written(runs, capsys):
    figure = ["--out", "f.svg", "--show", "aggregates,improvement", "--width", "5", "--title", "Mine"]
    _, out, _ = say(capsys, "compare", *runs, *figure, "--table", "t.csv", "--labels", "PPO,DQN", "--font", "times")
    assert out.splitlines()[-2:] == ["f.svg", "t.csv"]
    text = Path("f.svg").read_text()
    assert all(f">{words}<" in text for words in ("Mine", "IQM", "PPO", "PPO vs. DQN")) and "profile" not in text
    assert 'width="360pt"' in text
    assert Path("t.csv").read_text().splitlines()[1].startswith("One,PPO,55.0,")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--width", "5"], "--width is for a figure: give --out FILE too"),
        (["--labels", "a,b"], "--labels is for a figure or a table"),
        (["--label", "ppo-One"], "--label ppo-One has no name: write --label NAME=RUN,RUN"),
        (["--label", "a="], "the label 'a' names no run"),
        (["--out", "f.gif"], ".png"),
        (["--table", "t.docx"], ".tex"),
        (["--out", "f.png", "--show", "profil"], "there is no part 'profil'. Did you mean profile?"),
        (["--out", "f.png", "--labels", "a,b,c"], "3 labels do not fit the 2 groups ppo, dqn"),
        (["--out", "f.png", "--font", "Nosuchfont"], "font 'Nosuchfont' is not installed. Choose sans, latex, times"),
        (["--out", "f.png", "--width", "0.5"], "width=0.5 must be from 1 to 40 inches"),
        (["--reference", "none.toml"], "none.toml does not exist"),
    ],
)
def test_mistakes_are_refused_in_words(words, message, runs, capsys):
    assert message in refused(capsys, "compare", *runs, *words)
