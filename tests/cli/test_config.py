"""`shoal export-config`, and `shoal train` with a preset file."""

import tomllib

from commands import refused, say

PRESET = '["CartPole-v1"]\nagent = "ppo"\nsteps = 256\nseeds = 3\nnum_envs = 4\nnum_steps = 16\nenv.gravity = 5\n'


def words(text):
    return text.split()


def test_a_run_is_exported_and_the_file_is_taken_as_a_preset(run, tmp_path, capsys):
    status, out, _ = say(capsys, "export-config", run, "--out", "best.toml")
    assert status == 0 and out == "best.toml\n"
    table = tomllib.loads((tmp_path / "best.toml").read_text())["CartPole-v1"]
    assert (table["seeds"], table["num_envs"], table["hidden"]) == (2, 4, [8])
    printed = say(capsys, "export-config", run, "--member", "2")[1]
    assert tomllib.loads(printed)["CartPole-v1"]["learning_rate"] == 1e-2
    assert "best.toml exists already" in refused(capsys, "export-config", run, "--out", "best.toml")
    assert "must end in .toml" in refused(capsys, "export-config", run, "--out", "best.json")
    assert "has members 0 to 3" in refused(capsys, "export-config", run, "--member", "9")
    status, out, _ = say(capsys, "train", "--preset", "best.toml", "--seeds", "5", "--clip", "0.3,0.1", "--dry-run")
    assert status == 0 and "members     10 = 2 setting(s) x 5 seed(s)" in out and "hidden=(8,)" in out


def test_help_shows_the_values_of_a_preset_file(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(PRESET)
    for line in ("train ppo CartPole-v1 --preset mine.toml --help", "train --help --preset mine.toml"):
        status, out, _ = say(capsys, *line.split())
        flat = " ".join(out.split())
        assert status == 0 and "hyperparameters of ppo, with mine.toml (256 steps, seeds 3)" in flat
        assert "preset 16; default 128" in flat and "preset 5; default 9.8" in flat
    flat = " ".join(say(capsys, *words("train ppo CartPole-v1 --preset fast --help"))[1].split())
    assert "with its preset for CartPole-v1 (100,000 steps)" in flat


def test_a_preset_file_for_another_environment_is_noted_and_for_another_agent_refused(tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(PRESET)
    status, out, _ = say(capsys, *words("train ppo Acrobot-v1 --preset mine.toml --dry-run"))
    assert status == 0 and out.startswith("note: mine.toml is for CartPole-v1, and its values are used for Acrobot-v1")
    wrapped = words("train --preset mine.toml --wrap TimeLimit:max_steps=9 --env.env.gravity 7 --dry-run")
    status, out, _ = say(capsys, *wrapped)
    assert status == 0 and "TimeLimit(CartPole-v1)" in out and "gravity=7" in out
    assert "is for the agent ppo" in refused(capsys, *words("train dqn CartPole-v1 --preset mine.toml --dry-run"))
    assert "mine.tml does not exist" in refused(capsys, *words("train ppo CartPole-v1 --preset ./mine.tml"))
