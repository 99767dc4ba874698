"""What the image of an observation shows, against MiniGrid's wrappers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.grid.views import VIEWS
from shoal.grid.wrappers import FullyObs, ImgObs, OneHotPartialObs, RGBImgObs, RGBImgPartialObs, SymbolicObs, ViewSize

NAME = "MiniGrid-DoorKey-6x6-v0"
# Which wrapper shows the same; tests/parity compares the wrappers with MiniGrid's.
WRAPPERS = {
    "partial": lambda env: env,
    "full": FullyObs,
    "symbolic": SymbolicObs,
    "one-hot": OneHotPartialObs,
    "rgb": RGBImgObs,
    "rgb-partial": RGBImgPartialObs,
}


def seen_columns(state):
    return (state.grid[state.x] & 15).astype(jnp.uint8)


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_what_the_wrapper_of_this_kind_shows(view):
    env, wrapped = make(NAME, view=view), WRAPPERS[view](make(NAME))
    assert env.observation_space == wrapped.observation_space
    for seed in range(3):
        key = make_key(seed)
        obs, expected = jax.jit(env.reset)(key)[0], jax.jit(wrapped.reset)(key)[0]
        jax.tree.map(np.testing.assert_array_equal, obs, expected)
        assert env.observation_space.contains(obs)


def test_a_function_of_the_user_is_the_image():
    env = make(NAME, view=seen_columns)
    assert env.observation_space["image"] == Box(0, 255, (6,), "uint8")
    obs, state = env.reset(make_key(0))
    np.testing.assert_array_equal(obs["image"], np.asarray(state.grid)[int(state.x)] & 15)
    assert sorted(obs) == ["direction", "image", "mission"]
    assert make(NAME, view=lambda state: state.x / 2).observation_space["image"] == Box(-np.inf, np.inf, ())
    assert make(NAME, view=lambda state: state.grid == 1).observation_space["image"] == Box(0, 1, (6, 6), "bool")


def test_wrappers_take_a_level_with_another_view():
    env = make(NAME, view="full")
    assert ImgObs(env).observation_space.shape == (6, 6, 3)
    assert ViewSize(env, view_size=5).observation_space["image"].shape == (5, 5, 3)
    with pytest.raises(ValueError, match="OneHotPartialObs reads the agent's view"):
        OneHotPartialObs(make(NAME, view="rgb"))


def test_pictures_show_the_agents_view_whatever_the_image_is():
    state = make(NAME).init(make_key(0))
    np.testing.assert_array_equal(make(NAME, view="symbolic").render(state), make(NAME).render(state))
