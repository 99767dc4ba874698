"""GIFs read back with Pillow and MP4 files read back with ffmpeg: frames, timing, colors, sizes."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from shoal.canvas import BLACK, Canvas
from shoal.core.env import Env, State
from shoal.core.spaces import Discrete
from shoal.core.struct import struct
from shoal.viz.animation import animate, write_animation
from shoal.viz.gif import write_gif

TEAL = (0, 204, 204)
CAPTION_HEIGHT = 24  # pixels of a caption of one row


@struct
class DotState(State):
    x: jax.Array


@struct
class Dot(Env):
    """A dot that moves to the right; drawn on the host from concrete numbers."""

    def init(self, key):
        return DotState(jnp.int32(0), jnp.float32(0))

    def transition(self, state, action, noise):
        return state.replace(x=state.x + 1.0), jnp.float32(1), jnp.bool_(False), {}

    def observe(self, state):
        return state.x

    def render(self, state):
        assert isinstance(state.x, np.ndarray | np.generic), "the episode is brought to the host in one piece"
        canvas = Canvas(400, 200)
        canvas.circle((float(state.x), 100), 30, TEAL)
        return canvas.pixels()

    @property
    def observation_space(self):
        return Discrete(2)

    @property
    def action_space(self):
        return Discrete(2)


def moving_dot(steps):
    return DotState(jnp.arange(steps), jnp.linspace(30.0, 370.0, steps))


def read(path):
    with Image.open(path) as gif:
        frames, durations = [], []
        for index in range(gif.n_frames):
            gif.seek(index)
            frames.append(np.array(gif.convert("RGB")))
            durations.append(gif.info["duration"])
        return frames, durations, gif.info["loop"]


def test_a_gif_shows_its_frames_in_order_and_rests_on_the_last(tmp_path):
    frames = [np.full((20, 30, 3), shade, np.uint8) for shade in (0, 120, 240)]
    path = write_gif(iter(frames), tmp_path / "new" / "three.gif", fps=25, hold=0.5)
    back, durations, loop = read(path)
    np.testing.assert_array_equal(back, frames)
    assert durations == [40, 40, 540]  # 1000 / 25 ms, and half a second more at the end
    assert loop == 0  # forever


def test_large_plain_areas_keep_their_exact_color(tmp_path):
    states = moving_dot(12)
    frames = [np.asarray(Dot().render(jax.tree.map(lambda x, i=i: np.asarray(x[i]), states))) for i in range(12)]
    back, _, _ = read(write_gif(frames, tmp_path / "dot.gif"))
    colors = [color for _, color in sorted(Image.fromarray(back[5]).getcolors(), reverse=True)[:2]]
    assert colors == [(255, 255, 255), TEAL]
    assert np.abs(np.array(back).astype(int) - frames).max() <= 16  # smooth rims share colors


def test_many_colors_are_approximated(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (5, 5, 3)).repeat(8, axis=0).repeat(8, axis=1)
    ramp = np.linspace(0, 255, 40 * 40 * 3).reshape(40, 40, 3)
    frames = [noise.astype(np.uint8), ramp.astype(np.uint8)]
    back, _, _ = read(write_gif(frames, tmp_path / "rich.gif"))
    assert np.abs(np.array(back).astype(int) - frames).mean() < 8


def test_two_hundred_frames_make_a_small_file(tmp_path):
    path = animate(Dot(), moving_dot(200), np.arange(200.0), tmp_path / "dot.gif", max_frames=200)
    assert path.stat().st_size < 300_000
    assert len(read(path)[0]) == 200


def test_frames_of_a_long_episode_are_dropped_except_the_first_and_last(tmp_path):
    frames, _, _ = read(animate(Dot(), moving_dot(500), path=tmp_path / "dot.gif", max_frames=50))
    assert len(frames) == 50
    centers = [np.nonzero(frame[CAPTION_HEIGHT:, :, 0] < 128)[1].mean() + 0.5 for frame in (frames[0], frames[-1])]
    np.testing.assert_allclose(centers, [15, 185], atol=0.6)  # 30 and 370, drawn at half size


def test_a_list_of_states_draws_the_same_as_a_state_with_a_time_axis(tmp_path):
    states = moving_dot(5)
    listed = [jax.tree.map(lambda x, i=i: x[i], states) for i in range(5)]
    one = animate(Dot(), states, path=tmp_path / "one.gif")
    other = animate(Dot(), listed, path=tmp_path / "other.gif")
    assert one.read_bytes() == other.read_bytes()


def test_the_caption_shows_step_and_return(tmp_path):
    def caption(**how):
        frames, _, _ = read(animate(Dot(), moving_dot(2), path=tmp_path / "dot.gif", **how))
        assert frames[0].shape == (100 + CAPTION_HEIGHT, 200, 3)
        return frames[1][:CAPTION_HEIGHT]

    plain, scored, titled = caption(), caption(cumulative_rewards=[0.0, 7.5]), caption(title="best")
    halves = [(plain[:, :60], scored[:, :60], titled[:, :60]), (plain[:, 120:], scored[:, 120:], titled[:, 120:])]
    (step, step_too, step_three), (nothing, seven, nothing_too) = halves
    for other in (step_too, step_three):
        np.testing.assert_allclose(step.astype(int), other, atol=24)  # each file has its own palette
    assert (step < 100).any() and (seven < 100).any()
    assert (nothing > 200).all() and (nothing_too > 200).all()
    assert (titled[:, 80:120] < 200).any()


class Told(Dot):
    """A dot that is told where to go in the left half of its picture."""

    def mission_text(self, state):
        return "go to the left" if state.x < 200 else ""


def test_the_mission_stands_in_words_above_the_picture(tmp_path):
    plain, told = (
        read(animate(env, moving_dot(2), path=tmp_path / "dot.gif", title="best"))[0] for env in (Dot(), Told())
    )
    band = told[0].shape[0] - plain[0].shape[0]
    assert band > 0
    for before, after in zip(plain, told, strict=True):  # the caption, then the band, then the picture
        np.testing.assert_allclose(after[:CAPTION_HEIGHT].astype(int), before[:CAPTION_HEIGHT], atol=24)
        np.testing.assert_allclose(after[-100:].astype(int), before[-100:], atol=24)
    words = [frame[CAPTION_HEIGHT : CAPTION_HEIGHT + band] for frame in told]
    assert (words[0] < 100).any() and not (words[1] < 200).any()


def test_each_of_several_episodes_has_its_mission_above_it(tmp_path):
    both = DotState(jnp.zeros((1, 2), jnp.int32), jnp.array([[30.0, 370.0]]))
    plain, told = (
        read(animate([env] * 2, both, path=tmp_path / "dots.gif", title="best", size=200))[0][0]
        for env in (Dot(), Told())
    )
    band, width = told.shape[0] - plain.shape[0], told.shape[1] // 2
    words = told[-100 - band : -100]
    assert band > 0 and (words[1:-1, 1 : width - 1] < 100).any() and (words[1:-1, width + 1 : -1] > 200).all()


def test_tiny_pictures_are_enlarged_without_blur(tmp_path):
    class Pixels(Dot):
        def render(self, state):
            picture = np.full((10, 10, 3), 255, np.uint8)
            picture[4, int(state.time)] = BLACK
            return picture

    frames, _, _ = read(animate(Pixels(), moving_dot(3), path=tmp_path / "pixels.gif", size=200))
    expected = np.full((200, 200, 3), 255, np.uint8)
    expected[80:100, 40:60] = 0
    np.testing.assert_array_equal(frames[2][CAPTION_HEIGHT:], expected)


def test_a_picture_too_narrow_for_its_caption_is_centered_below_it(tmp_path):
    class Column(Dot):
        def render(self, state):
            return np.full((100, 5, 3), TEAL, np.uint8)

    frames, _, _ = read(animate(Column(), moving_dot(2), [0.0, 1.0], tmp_path / "column.gif", title="narrow"))
    columns = np.flatnonzero((frames[1][-300:] == TEAL).all(axis=(0, 2)))
    assert len(columns) == 15 and abs(columns.mean() - (frames[1].shape[1] - 1) / 2) <= 0.5


def decoded(path):
    """(frames [N, H, W, 3], frames per second) of a video, decoded by the program ffmpeg."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    about = subprocess.run([ffmpeg, "-i", path], capture_output=True, text=True, check=False).stderr
    (stream,) = [line for line in about.splitlines() if "Video:" in line]
    assert "h264" in stream and "yuv420p" in stream
    width, height = map(int, re.search(r" (\d+)x(\d+)[ ,]", stream).groups())
    raw = [ffmpeg, "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    pixels = np.frombuffer(subprocess.run(raw, capture_output=True, check=True).stdout, np.uint8)
    return pixels.reshape(-1, height, width, 3), float(re.search(r"([\d.]+) fps", stream)[1])


@pytest.mark.parametrize(("height", "width"), [(48, 64), (33, 51)])
def test_a_video_has_every_frame_at_its_speed_and_an_even_size(height, width, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    shades = np.array([20, 120, 240, 60, 180], np.uint8)
    frames = [np.full((height, width, 3), shade) for shade in shades]
    path = write_animation(iter(frames), tmp_path / "new" / "x.mp4", fps=12.5)
    back, fps = decoded(path)
    assert fps == 12.5 and back.shape == (5, height + height % 2, width + width % 2, 3)
    np.testing.assert_allclose(back.mean(axis=(1, 2, 3)), shades, atol=3)
    assert [file.name for file in path.parent.iterdir()] == ["x.mp4"]


def test_a_video_shows_all_steps_and_a_gif_120(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    states, returns = moving_dot(130), np.arange(130.0)
    frames, fps = decoded(animate(Dot(), states, returns, tmp_path / "dot.mp4", fps=60, size=60))
    assert len(frames) == 130 and fps == 60
    assert len(read(animate(Dot(), states, returns, tmp_path / "dot.gif", size=60))[0]) == 120


def test_the_message_of_a_failed_encoder_is_shown(tmp_path, monkeypatch):
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr("shoal.viz.mp4.ENCODING", ["-c:v", "no-such-codec", "-f", "mp4"])
    with pytest.raises(RuntimeError, match="ffmpeg could not write the video: .*no-such-codec"):
        write_animation([np.zeros((4, 4, 3), np.uint8)] * 50, tmp_path / "x.mp4")
    assert not list(tmp_path.iterdir())


def test_without_the_extra_a_video_names_the_package_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match=r"pip install 'shoal\[video\]'"):
        animate(Dot(), moving_dot(2), path=tmp_path / "x.mp4")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda at: write_gif([], at), "at least one frame"),
        (
            lambda at: write_gif([np.zeros((4, 4, 3), np.uint8), np.zeros((5, 4, 3), np.uint8)], at),
            r"same size; got \[4, 4\] and \[5, 4\]",
        ),
        (lambda at: write_gif([np.zeros((4, 4, 3))], at), r"uint8 \[H, W, 3\]; got float64 \[4, 4, 3\]"),
        (lambda at: write_gif([np.zeros((4, 4, 3), np.uint8)], at, fps=60), "at most 50 frames per second"),
        (lambda at: animate(Dot(), moving_dot(2), path=at.with_suffix(".avi")), "end it in .gif or .mp4"),
        (lambda at: write_animation([np.zeros((4, 4, 3), np.uint8)], at.with_suffix(".png")), "end it in .gif or .mp4"),
        (lambda at: animate(Dot(), [], path=at), "nothing to animate"),
        (lambda at: animate(Dot(), moving_dot(3), [1.0, 2.0], at), r"shape \[2\] for states of shape \[3\]"),
        (lambda at: animate(Dot(), moving_dot(3), path=at, max_frames=0), "max_frames=0"),
    ],
)
def test_states_that_cannot_be_rendered_are_refused(tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "x.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("states", "how", "kind", "message"),
    [
        (3, {}, TypeError, "states=3 are no states of an environment"),
        ([np.zeros(2)], {}, TypeError, "are no states of an environment"),
        (np.zeros((2, 3)), {}, TypeError, "are no states of an environment"),
        (jax.tree.map(lambda x: x[0], moving_dot(2)), {}, ValueError, "one state without a time axis"),
        (moving_dot(2), {"size": 10**30}, ValueError, "size=1000000000000000000000000000000 does not fit in 64 bits"),
        (moving_dot(2), {"columns": 0}, ValueError, "columns=0 must be from 1 to 16,384"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_words(states, how, kind, message, tmp_path):
    with pytest.raises(kind, match=message):
        animate(Dot(), states, path=tmp_path / "dot.gif", **how)
