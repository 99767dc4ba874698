"""`shoal race` on the command line: contestants with settings, and mistakes in words."""

import json

import pytest

from commands import refused, say

ENV, CARTPOLE = ("--env", "FrozenLake-v1"), ("--env", "CartPole-v1")
TINY = ("--steps", "1000", "--records", "2", "--evaluations", "1", "--eval-episodes", "3", "--no-progress")


def test_settings_are_read_with_the_types_of_fields(tmp_path, capsys):
    text = "q-learning learning-rate=0.5 anneal=1 epsilon_end=0.2"
    words = ("race", "q-learning", text, *ENV, *TINY, "--at-most", 8, "--batch", 4, "--root", tmp_path, "--name", "r")
    status, out, _ = say(capsys, *words, "--env.map-name", "8x8")
    assert status == 0 and out.splitlines()[-1] == str(tmp_path / "r")
    assert f"between q-learning and {text} on FrozenLake-v1: " in out
    one, other = json.loads((tmp_path / "r" / "race.json").read_text())["contestants"]
    fields = other["spec"]["fields"]
    assert (fields["learning_rate"], fields["anneal"], fields["epsilon_end"]) == (0.5, 1, 0.2)
    assert one["spec"]["env_fields"]["map_name"] == other["spec"]["env_fields"]["map_name"] == "8x8"
    err = refused(capsys, *words)
    assert "already holds a race. Continue it with `shoal race --resume" in err
    assert "leave --alpha out" in refused(capsys, "race", "--resume", tmp_path / "r", "--alpha", 0.1)
    assert "leave contestants out" in refused(capsys, "race", "sarsa", "--resume", tmp_path / "r")


def test_a_class_in_a_file_takes_part_with_settings(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    imports = "from shoal import struct\nfrom shoal.agents.tabular import QTable\n"
    (tmp_path / "my_agent.py").write_text(imports + "\n\n@struct\nclass Mine(QTable):\n    pass\n")
    words = ("race", "my_agent.py:Mine", "my_agent.py:Mine learning_rate=0.5", "sarsa", *ENV, *TINY)
    status, out, err = say(capsys, *words, "--at-most", 8, "--batch", 8, "--name", "r")
    assert status == 0, err
    assert "between Mine and my_agent.py:Mine learning_rate=0.5 on" in out and "between Mine and sarsa" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "needs two or more contestants"),
        (("sarsa", *ENV), "needs two or more contestants. 'sarsa' is alone"),
        (("sarsa", "sarsa", *ENV), "sarsa and sarsa are the same contestant"),
        (("sarsa", "sarsa learning_rate=0.1", *ENV), "are the same contestant"),
        (("sarsa", "q-learning"), "a race needs an environment: --env CartPole-v1"),
        (("sarsa", "q-lerning", *ENV), "'q-lerning' is not registered. Did you mean q-learning?"),
        (("sarsa", "q-learning lr=0.1", *ENV), "the contestant 'q-learning lr=0.1': lr is no field of it."),
        (("sarsa", "q-learning discont=0.1", *ENV), "Did you mean discount?"),
        (("sarsa", "q-learning learning_rate=0.1,0.2", *ENV), "learning_rate has several values"),
        (("sarsa", "q-learning learning_rate", *ENV), "learning_rate is no setting. Write NAME=VALUE"),
        (("sarsa", "q-learning learning_rate=x", *ENV), "'q-learning learning_rate=x': --learning-rate x is not"),
        (("sarsa", "sarsa learning_rate=2", *ENV), "the contestant 'sarsa learning_rate=2': "),
        (("sarsa", "sarsa num_steps=0", *ENV), "the contestant 'sarsa num_steps=0': num_steps=0 must be at least 1"),
        (("sarsa", "sarsa init=x", *ENV), "the contestant 'sarsa init=x': x is not a run folder"),
        (("ppo", "ppo num_minibatches=7", *CARTPOLE), "the contestant 'ppo num_minibatches=7': num_envs="),
        (("sarsa", "q-learning", *ENV, "--steps", "0"), "shoal: steps=0 must be at least 1"),
        (("sarsa", "q-learning", "--env", "FrozenLak-v1"), "shoal: env 'FrozenLak-v1' is not registered"),
        (("sarsa", "q-learning seeds=4", *ENV), "seeds of a contestant are the members of a population"),
        (("sarsa", "q-learning selector=pbt", *ENV), "the selector pbt needs a population"),
        (("sarsa", "q-learning selector.every=4", *ENV), "selector.every is for a selector: name one"),
        (("sarsa", "'q-learning", *ENV), "is not complete"),
        (("sarsa", "q-learning", *ENV, "--alpha", "1"), "alpha=1 must lie between 0 and 1"),
        (("sarsa", "q-learning", *ENV, "--alpha", "0"), "alpha=0 must lie between 0 and 1"),
        (("sarsa", "q-learning", *ENV, "--margin", "-1"), "margin=-1 must be a finite number, 0 or more"),
        (("sarsa", "q-learning", *ENV, "--at-most", "4"), "at_most=4 seeds end before the first look"),
        (("sarsa", "q-learning", *ENV, "--at-most", "4", "--batch", "4"), "give at_most=6 or more"),
        (("sarsa", "q-learning", *ENV, "--alpha", "1e-9"), "give a larger alpha"),
        (("sarsa", "q-learning", *ENV, "--at-most", "3e9"), "at_most=3000000000 must be at most 2,147,483,648"),
        (("sarsa", "q-learning", *ENV, "--fitness", "best"), "fitness='best' is unknown: choose last"),
        (("sarsa", "q-learning", *ENV, "--fitness", "reach:high"), "fitness='reach:high' is unknown"),
        (("sarsa", "q-learning", *ENV, "--evaluations", "0"), "fitness=last scores evaluations, and sarsa has none"),
        (("sarsa", "q-learning", *ENV, "--env.desc", "a,b"), "a race is on one environment"),
        (("--resume", "nowhere"), "nowhere is no race: it does not exist."),
        (("ppo", "q-learning", *ENV, "--seeds", "4"), "--seeds"),
    ],
)
def test_mistakes_are_told_in_words(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, "race", *words)
    assert not (tmp_path / "runs").exists()


def test_the_help_lists_the_command(capsys):
    status, out, _ = say(capsys, "--help")
    assert status == 0 and "race           train seeds until it is decided" in out
    assert "--margin" in say(capsys, "race", "--help")[1]
