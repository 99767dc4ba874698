"""`shoal play` in a pseudo-terminal: the drawn pictures, the keys, and that the terminal is restored afterwards."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.cli.game import keys_of
from shoal.cli.main import main
from shoal.cli.screen import LEAVE, Size, half_blocks, shrunk
from shoal.core.keys import make_key
from shoal.core.registry import make

UP, LEFT, RIGHT = "\x1b[A", "\x1b[D", "\x1bOC"
CELL = re.compile(r"\x1b\[38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m|▀|\x1b\[K")


class Console:
    """A pseudo-terminal that collects the output."""

    def __init__(self, columns=80, rows=30):
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.theirs)
        self.painted = b""
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self):
        while True:
            try:
                self.painted += os.read(self.ours, 65536)
            except OSError:
                return

    def press(self, keys):
        os.write(self.ours, keys.encode())

    def text(self):
        return self.painted.decode(errors="replace")

    def wait_for(self, what, seconds=60):
        until = time.monotonic() + seconds
        while what not in self.text():
            assert time.monotonic() < until, f"{what!r} was not painted: {self.text()[-300:]!r}"
            time.sleep(0.02)

    def is_restored(self):
        return termios.tcgetattr(self.theirs) == self.before and LEAVE in self.text()

    def close(self):
        os.close(self.theirs)
        os.close(self.ours)


@pytest.fixture
def console(monkeypatch):
    monkeypatch.setenv("COLORTERM", "truecolor")
    console = Console()
    yield console
    console.close()


def play(console, *words):
    """The exit status of a game in a terminal, played by this process."""
    with (
        pytest.MonkeyPatch.context() as patch,
        os.fdopen(os.dup(console.theirs), "r") as keys,
        os.fdopen(os.dup(console.theirs), "w") as paper,
    ):
        patch.setattr(sys, "stdin", keys)
        patch.setattr(sys, "stdout", paper)
        return main(["play", *words])


def pixels(frame):
    """A drawn picture as uint8 [H, W, 3]."""
    rows, upper, lower, pair = [], [], [], None
    for found in CELL.finditer(frame):
        if found[0] == "▀":
            upper.append(pair[:3])
            lower.append(pair[3:])
        elif found[0] == "\x1b[K":
            rows += [upper, lower] if upper else []
            upper, lower = [], []
        else:
            pair = [int(number) for number in found.groups()]
    return np.array(rows, np.uint8)


def frames(text):
    """The output, one string for each screen."""
    return text.split("\x1b[H")[2:]  # after the first: that it compiles


def test_a_game_is_drawn_and_played(console):
    console.press(RIGHT + UP + UP + "q")
    assert play(console, "MiniGrid-Empty-5x5-v0", "--seed", "3") == 0
    console.wait_for("1 episode of Empty: 0")
    shown = frames(console.text())
    assert len(shown) == 4 and "get to the green goal square" in shown[0]
    assert ["step 0/100" in shown[0], "step 3/100" in shown[3]] == [True, True]
    env = make("MiniGrid-Empty-5x5-v0", tile_size=10)  # 26 lines are 52 rows of pixels, for 5 cells
    state, step = jax.jit(env.init)(make_key(0)), jax.jit(env.step)  # Empty begins in one way only
    for frame, action in zip(shown, (1, 2, 2, None), strict=True):
        np.testing.assert_array_equal(pixels(frame), env.render(state))
        if action is not None:
            state = step(make_key(0), state, jnp.int32(action))[1]
    assert console.is_restored()


def test_the_next_key_after_an_episode_begins_a_new_episode(console):
    console.press(UP + UP + RIGHT + UP + UP + "x" + UP + "r" + "q")
    assert play(console, "MiniGrid-Empty-5x5-v0") == 0
    console.wait_for("episodes of Empty")
    shown = frames(console.text())
    assert "terminated: press any key" in shown[5] and "return 0.955" in shown[5]  # 1 - 0.9 * 5 / 100
    assert "step 0/100" in shown[6] and "step 1/100" in shown[7] and "step 0/100" in shown[8]
    assert "3 episodes of Empty: 0.955, 0, 0" in console.text()


def test_environments_that_are_not_levels_are_played_with_digit_keys(console):
    console.press("0" + "1" + RIGHT + "7" + "q")
    assert play(console, "CartPole-v1") == 0
    console.wait_for("1 episode of CartPole: 3")
    shown = frames(console.text())
    assert "step 3/500" in shown[-1] and "actions: 0 left  1 right" in shown[-1]
    assert pixels(shown[0]).shape[1] <= 80


def test_a_too_small_terminal_prints_the_remedy(console):
    fcntl.ioctl(console.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 60, 0, 0))
    console.press("q")
    assert play(console, "MiniGrid-Empty-16x16-v0") == 0
    console.wait_for("1 episode")
    assert "enlarge the window, or add --env.agent-pov true" in console.text()
    assert pixels(frames(console.text())[0]).shape[0] <= 12


def test_an_error_restores_the_terminal(console, monkeypatch):
    def fall_over(self, key):
        raise RuntimeError("out of order")

    monkeypatch.setattr("shoal.cli.game.Game.press", fall_over)
    console.press(UP)
    with pytest.raises(RuntimeError, match="out of order"):
        play(console, "MiniGrid-Empty-5x5-v0", "--debug")
    console.wait_for(LEAVE)
    assert console.is_restored()


def test_ctrl_c_restores_the_terminal():
    console = Console()
    # As a terminal starts it, also where the tests themselves run in the background, with SIGINT ignored.
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from shoal.cli.main import main\n"
        "sys.exit(main())\n"
    )
    words = [sys.executable, "-c", code, "play", "MiniGrid-Empty-5x5-v0", "--no-cache"]
    ends = {"stdin": console.theirs, "stdout": console.theirs, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **ends, start_new_session=True) as game:
        try:
            console.wait_for("step 0/100", 120)
            game.send_signal(signal.SIGINT)  # what Ctrl-C in its own terminal sends
            _, said = game.communicate(timeout=60)
        finally:
            game.kill()
    assert (game.returncode, said.decode()) == (130, "shoal: interrupted.\n")
    console.wait_for(LEAVE)
    assert console.is_restored()
    console.close()


def test_play_is_refused_without_a_terminal(capsys):
    assert main(["play", "MiniGrid-Empty-5x5-v0"]) == 2
    assert capsys.readouterr().err == (
        "shoal: shoal play reads single keys and shows pictures: run it in a terminal, without pipes.\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["MiniGrid-Emty-5x5-v0"], "Did you mean MiniGrid-Empty-5x5-v0"),
        (["Probe-ConstantReward-v0"], "Probe-ConstantReward-v0 has no pictures"),
        (["MiniGrid-Empty-5x5-v0", "--env.view-size", "3,5"], "--env.view-size has several values"),
        (["MiniGrid-Empty-5x5-v0", "--env.view-size", "4"], "view_size=4 must be odd"),
        (["MiniGrid-Empty-5x5-v0", "--sed", "1"], "unknown flag --sed. Did you mean --seed"),
    ],
)
def test_mistakes_are_reported_before_anything_is_drawn(capsys, words, said):
    assert main(["play", *words]) == 2
    assert said in capsys.readouterr().err


def test_keys_of_a_level_are_those_of_minigrid():
    level = shoal.make("MiniGrid-Empty-5x5-v0")
    keys = keys_of(7, level)
    assert [keys[key] for key in ("left", "right", "up", "tab", "pagedown", "space", "enter")] == list(range(7))
    assert set(keys_of(3, level)) == {"left", "right", "up"}


@pytest.mark.parametrize(
    ("name", "arrows"),  # actions of left, down, right, up, from the manual pages of the environments
    [
        ("CartPole-v1", (0, None, 1, None)),
        ("MountainCar-v0", (0, None, 2, None)),
        ("FrozenLake-v1", (0, 1, 2, 3)),
        ("CliffWalking-v1", (3, 2, 1, 0)),
        ("Taxi-v4", (3, 0, 2, 1)),
        ("GridWorld-v0", (2, 1, 0, 3)),
        ("MinAtar/Breakout-v1", (1, None, 2, None)),
        ("MinAtar/Seaquest-v0", (1, 4, 3, 2)),
        ("Acrobot-v1", (None, None, None, None)),
    ],
)
def test_an_arrow_is_the_action_of_its_direction(name, arrows):
    env = shoal.make(name)
    keys = keys_of(env.action_space.n, env)
    assert tuple(keys.get(key) for key in ("left", "down", "right", "up")) == arrows
    assert len(env.action_names) in (0, env.action_space.n) and keys["0"] == 0


@pytest.mark.parametrize(
    ("name", "key", "moved"),
    [("FrozenLake-v1", "right", 1), ("CliffWalking-v1", "up", -12), ("GridWorld-v0", "up", None)],
)
def test_an_arrow_moves_in_its_direction(name, key, moved):
    fields = {"is_slippery": False} if name == "FrozenLake-v1" else {}
    env = shoal.make(name, **fields)
    _, state = env.reset(shoal.make_key(0))
    after = env.step(shoal.make_key(1), state, keys_of(env.action_space.n, env)[key])[1]
    if moved is None:
        assert int(after.row) == int(state.row) - 1
    else:
        assert int(after.index) == int(state.index) + moved


def test_half_blocks_hold_two_rows_of_pixels():
    picture = np.array([[[1, 2, 3]], [[4, 5, 6]], [[7, 8, 9]]], np.uint8)
    lines = half_blocks(picture)
    assert lines == ["\x1b[38;2;1;2;3;48;2;4;5;6m▀\x1b[0m", "\x1b[38;2;7;8;9;48;2;0;0;0m▀\x1b[0m"]
    assert half_blocks(picture[:1], true_color=False) == ["\x1b[38;5;16;48;5;16m▀\x1b[0m"]
    assert "48;5;46" in half_blocks(np.array([[[255, 0, 0]], [[0, 250, 0]]], np.uint8), true_color=False)[0]


def test_pictures_are_scaled_to_fit_the_terminal():
    picture = np.arange(4 * 8 * 3, dtype=np.uint8).reshape(4, 8, 3)
    assert shrunk(picture, Size(30, 10)).shape == (12, 24, 3)  # three times as wide as it is
    halves = picture.reshape(2, 2, 4, 2, 3).mean((1, 3))
    np.testing.assert_array_equal(shrunk(picture, Size(4, 10)), np.floor(halves + 0.5))


def test_a_policy_is_shown_until_the_user_stops_it(console):
    def viewer():
        console.wait_for("step 20/500")
        console.press(" ")  # stops
        console.wait_for("space pauses and continues")
        time.sleep(0.3)
        still = console.text()
        time.sleep(0.3)
        stood.append(console.text() == still)
        console.press("r")
        time.sleep(0.1)
        console.press("q")

    stood = []
    thread = threading.Thread(target=viewer)
    thread.start()
    assert play(console, "zoo:ppo/CartPole-v1", "--speed", "200") == 0
    thread.join()
    console.wait_for("2 episodes of CartPole")
    shown = frames(console.text())
    steps = [int(re.search(r"step (\d+)/500", frame)[1]) for frame in shown]
    assert stood == [True] and steps[:21] == list(range(21)) and steps[-1] == 0
    assert console.is_restored()


def test_a_run_or_an_environment_may_stand_after_its_options(capsys):
    assert main(["play", "--member", "9", "zoo:ppo/CartPole-v1"]) == 2
    assert "member 9 does not exist" in capsys.readouterr().err
    assert main(["play", "--env.gravity", "3,4", "CartPole-v1"]) == 2
    assert "--env.gravity has several values" in capsys.readouterr().err


def test_play_refuses_unknown_policies_and_members(capsys):
    assert main(["play", "zoo:ppo/CartPole"]) == 2
    assert "the zoo has no 'ppo/CartPole'. Did you mean ppo/CartPole-v1 or" in capsys.readouterr().err
    assert main(["play", "zoo:ppo/CartPole-v1", "--member", "first"]) == 2
    assert "--member first is unknown" in capsys.readouterr().err
