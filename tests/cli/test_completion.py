"""`shoal completion`: what bash completes with the printed script, called as bash calls it."""

import subprocess

import pytest

from commands import say

ASK = """source /dev/stdin
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_shoal
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def complete(capsys):
    """The completions of a line whose last word is the one under the cursor."""
    status, script, err = say(capsys, "completion", "bash")
    assert status == 0, err

    def ask(line):
        done = subprocess.run(
            ["bash", "-c", ASK, "bash", *line.split(" ")], input=script, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.split()

    return ask


def test_bash_completes_commands_options_fields_and_names(complete, tmp_path):
    assert complete("shoal tr") == ["train", "trials", "track"] and complete("shoal trai") == ["train"]
    assert complete("shoal train pp") == ["ppo"]
    assert complete("shoal train ppo CartPole-v") == ["CartPole-v0", "CartPole-v1"]
    assert complete("shoal train ppo CartPole-v1 --learning-r") == ["--learning-rate"]
    assert complete("shoal train ppo CartPole-v1 --no-f") == ["--no-figures"]
    assert complete("shoal train ppo CartPole-v1 --wrap Frame") == ["FrameStack"]
    assert complete("shoal eval --epis") == ["--episodes"]
    (tmp_path / "my-run").mkdir()
    assert complete("shoal eval my") == ["my-run"]
    assert complete("shoal completion z") == ["zsh"]


def test_zsh_gets_the_same_function(capsys):
    for_bash, for_zsh = (say(capsys, "completion", shell)[1] for shell in ("bash", "zsh"))
    assert for_zsh.endswith(for_bash) and for_zsh.startswith("autoload")
