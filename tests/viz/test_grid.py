"""Several episodes side by side in one animation: where each picture stands, its caption, and members of a run."""

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import shoal
from shoal.core.env import Env, State
from shoal.core.spaces import Discrete
from shoal.core.struct import struct
from shoal.viz.animation import animate
from shoal.viz.grid import default_columns


@struct
class Times(State):
    """A state whose `time` may have axes: annotations are checked only in shoal's own classes."""


@struct
class Shade(Env):
    """A picture in one gray level: that of the environment, plus the time."""

    level: float = 0.0

    def init(self, key):
        return Times(jnp.int32(0))

    def transition(self, state, action, noise):
        return state, jnp.float32(1), jnp.bool_(False), {}

    def observe(self, state):
        return state.time

    def render(self, state):
        return np.full((40, 100, 3), round(self.level) + int(state.time), np.uint8)

    @property
    def observation_space(self):
        return Discrete(2)

    @property
    def action_space(self):
        return Discrete(2)


ENVS = [Shade(level) for level in (10.0, 60.0, 110.0, 160.0, 210.0)]
STATES = Times(jnp.tile(jnp.arange(3)[:, None], (1, 5)))  # [T, E]


@pytest.fixture
def frames(monkeypatch):
    """The frames of the animations that are drawn, before a GIF reduces their colors."""
    found = []

    def keep(pictures, path, **options):
        found.append([picture[..., 0].astype(int) for picture in pictures])
        return path

    monkeypatch.setattr("shoal.viz.animation.write_animation", keep)
    return found


def test_every_episode_has_its_place_and_its_time(frames, tmp_path):
    animate(ENVS, STATES, path=tmp_path / "five.gif", columns=3, size=100)
    assert len(frames[0]) == 3
    for time, frame in enumerate(frames[0]):
        assert frame.shape[1] == 3 * 102  # a line of one pixel around each picture
        top = frame.shape[0] - 2 * 42  # the caption of all; without returns and titles no picture has its own
        middles = [frame[top + 21 + 42 * (n // 3), 51 + 102 * (n % 3)] for n in range(6)]
        assert middles == [10 + time, 60 + time, 110 + time, 160 + time, 210 + time, 240]  # the last place is empty


@pytest.mark.parametrize("size", [25, 100, 300])
def test_captions_of_all_sizes_leave_the_pictures_whole(size, frames, tmp_path):
    titles = [f"learning_rate=0.000{n} seed={n}" for n in range(5)]
    returns = np.arange(15.0).reshape(3, 5) * 100
    animate(ENVS, STATES, returns, tmp_path / "a.gif", title="ppo", titles=titles, columns=5, size=size)
    last = frames[0][-1]
    assert {frame.shape for frame in frames[0]} == {last.shape}
    wide = last.shape[1] // 5
    for n, level in enumerate((12, 62, 112, 162, 212)):
        tile = last[:, n * wide : (n + 1) * wide]
        assert (tile == level).sum(axis=1).max() == size and (
            tile[-size * 2 // 5 - 1 :] == level
        ).sum() == size**2 * 0.4


def test_a_grid_is_written_as_a_gif(tmp_path):
    path = animate(ENVS, STATES, path=tmp_path / "five.gif", columns=3, size=100)
    with Image.open(path) as gif:
        assert gif.n_frames == 3 and gif.size[0] == 3 * 102


def test_the_grid_is_a_little_wider_than_high():
    assert default_columns(24, 400, 600) == 5  # 5 x 600 pixels and 5 x 400
    assert default_columns(12, 100, 100) == 4
    assert default_columns(3, 400, 600) == 3 and default_columns(1, 10, 10) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda at: animate(ENVS[:2], STATES, path=at), "2 environments are given for states of 5"),
        (lambda at: animate(ENVS[0], STATES, np.zeros(3), at), r"shape \[3\] for states of shape \[3, 5\]"),
        (lambda at: animate(ENVS[0], STATES, path=at, titles=["a"]), "1 titles are given for 5 episodes"),
        (lambda at: animate(ENVS[0], STATES, path=at, columns=0), "columns=0 must be from 1 to 16,384"),
        (lambda at: animate(ENVS[0], Times(jnp.arange(3)), path=at, columns=2), "these are of one"),
        (lambda at: animate(ENVS[0], Times(jnp.zeros((2, 101), int)), path=at), "101 pictures side by side are too"),
        (lambda at: animate(ENVS[0], Times(jnp.zeros((2, 3, 4), int)), path=at), r"shape \[2, 3, 4\]"),
    ],
)
def test_a_grid_that_cannot_be_drawn_is_refused(call, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "x.gif")
    assert not list(tmp_path.iterdir())


def test_members_of_a_run_are_drawn_side_by_side(result, frames, tmp_path):
    how = {"size": 120, "max_steps": 3, "out": tmp_path / "a.gif"}
    shoal.render(result.folder, members="all", columns=4, **how)
    shoal.render(result.folder, members=[3, 0], **how)
    all_of_them, two = frames
    assert len(all_of_them) == len(two) == 4 and two[0].shape[1] == 2 * 122
    for place, member in enumerate([3, 0]):  # the same pictures, below other captions
        tiles = (two[-1][-82:, 122 * place :], all_of_them[-1][-82:, 122 * member :])
        np.testing.assert_array_equal(tiles[0][:, :122], tiles[1][:, :122])


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"members": [0, 4]}, IndexError, "member 4 does not exist: the population has members 0 to 3"),
        ({"members": "some"}, ValueError, "members='some' is unknown"),
        ({"members": []}, ValueError, "choose from 1 to 100 members"),
        ({"members": [0], "member": 1}, ValueError, "give only one"),
        ({"columns": 2}, ValueError, "give members too"),
    ],
)
def test_wrong_members_are_refused(options, error, message, result):
    with pytest.raises(error, match=message):
        shoal.render(result.folder, **options)
