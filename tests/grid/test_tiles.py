"""Tiles and pictures without the reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.checks import check_env
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.cells import EMPTY, GOAL, cell
from shoal.grid.tiles import AGENT_SHIFT, HIGHLIGHT_SHIFT, atlas
from shoal.viz.animation import animate


def tile_of(code, size=16):
    tiles, number = atlas(size)
    return tiles[number[code]]


def test_an_empty_tile_has_lines_left_and_above():
    tile = tile_of(EMPTY)
    assert tile[0, 5].tolist() == tile[5, 0].tolist() == [33, 33, 33]  # one of three points is 100
    assert tile[1:, 1:].max() == 0


def test_highlight_adds_three_tenths_of_what_is_missing_to_white():
    # green (0, 255, 0) becomes (76.5, 255, 76.5), whose halves are cut off
    assert tile_of(int(GOAL) | 1 << HIGHLIGHT_SHIFT)[8, 8].tolist() == [76, 255, 76]


def test_an_agent_points_where_it_faces():
    # A triangle is wide behind and narrow ahead: (row, column) of a pixel that is red, and of one that is not.
    corners = [((4, 3), (4, 12)), ((3, 4), (12, 4)), ((4, 12), (4, 3)), ((12, 4), (3, 4))]
    for direction, (behind, ahead) in enumerate(corners):
        tile = tile_of(int(EMPTY) | (direction + 1) << AGENT_SHIFT)
        assert (tile[behind].tolist(), tile[ahead].tolist()) == ([255, 0, 0], [0, 0, 0])


def test_the_content_of_a_box_is_not_drawn():
    env = make("MiniGrid-Empty-5x5-v0")
    state = jax.jit(env.init)(make_key(0))
    pictures = [
        np.asarray(env.render(state.replace(grid=state.grid.at[2, 2].set(box))))
        for box in (cell("box", "grey"), cell("box", "grey", inside=cell("key", "red")))
    ]
    np.testing.assert_array_equal(*pictures)


def test_a_picture_is_as_wide_as_the_grid():
    env = make("MiniGrid-Empty-5x5-v0", tile_size=4)
    state = jax.jit(env.init)(make_key(0))
    assert env.render(state).shape == (20, 20, 3)
    assert env.replace(agent_pov=True).render(state).shape == (28, 28, 3)


def test_pictures_are_the_same_alone_and_in_a_batch():
    env = make("MiniGrid-DoorKey-5x5-v0", tile_size=4)
    states = jax.jit(jax.vmap(env.init))(jax.random.split(make_key(0), 3))
    together = jax.jit(jax.vmap(env.render))(states)
    for i in range(3):
        np.testing.assert_array_equal(together[i], env.render(jax.tree.map(lambda leaf, i=i: leaf[i], states)))


def test_a_level_with_a_picture_keeps_the_contract():
    check_env(make("MiniGrid-DoorKey-5x5-v0", agent_pov=True, tile_size=2), steps=8)


def test_a_level_can_be_animated(tmp_path):
    from PIL import Image

    env = make("MiniGrid-DoorKey-5x5-v0", tile_size=8)
    state = jax.jit(env.init)(make_key(0))
    states = [state, env.step(make_key(1), state, jnp.int32(1))[1]]
    with Image.open(animate(env, states, path=tmp_path / "level.gif", size=80)) as gif:
        assert gif.n_frames == 2
        first = np.asarray(gif.convert("RGB"))[-80:]  # below the mission and the caption
    truth = np.asarray(env.render(state)).repeat(2, axis=0).repeat(2, axis=1)
    assert first.shape == truth.shape
    assert (np.abs(first.astype(int) - truth).max(axis=2) <= 16).mean() > 0.95  # a palette rounds colors


def test_a_tile_needs_a_pixel():
    with pytest.raises(ValueError, match="tile_size=0 shows nothing: a cell needs at least 1 pixel"):
        make("MiniGrid-Empty-5x5-v0", tile_size=0)
