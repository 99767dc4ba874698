"""The network that is chosen for each observation space; stacked frames get the same kind as one frame."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from shoal.core.wrappers import FrameStack
from shoal.nn.tiles import TileNet
from shoal.nn.torso_choice import default_torso, torso_input
from weights import random_values, random_weights

NAMES = [
    "CartPole-v1",  # vectors
    "bsuite/catch/0",  # matrices
    "MinAtar/Breakout-v1",  # pictures
    "FourRooms-Image-v0",
    "MiniGrid-DoorKey-5x5-v0",  # images of categories, beside choices
    "Taxi-v4",  # choices
    "Blackjack-v1",
    "Doors-v0",
]


@pytest.mark.parametrize("times", [(4,), (3, 5)])
@pytest.mark.parametrize("name", NAMES)
def test_frames_are_read_by_the_kind_of_network_that_reads_one(name, times):
    bare = make(name)
    env = bare
    for n in times:
        env = FrameStack(env, n)
    one, many = (default_torso(e.observation_space, (8,), "relu") for e in (bare, env))
    assert type(one) is type(many)
    space = env.observation_space
    obs = jax.eval_shape(lambda key: torso_input(many, space, space.sample(key)), make_key(0))
    hidden = jax.eval_shape(lambda key, obs: many.apply(many.init(key, obs), obs), make_key(1), obs)
    assert hidden.shape == (8,)


def test_categories_of_every_frame_are_embedded():
    tiles = Box(0, (2, 1), (3, 3, 2), np.uint8)
    frames = Box(0, (2, 1, 2, 1), (3, 3, 4), np.uint8, frames=2)
    one, both = TileNet(tiles, (4,), "tanh"), TileNet(frames, (4,), "tanh")
    assert TileNet is type(default_torso(frames, (4,), "tanh"))
    old, new = (random_values(tiles, seed=i) for i in (0, 1))
    joined = np.concatenate([old, new], axis=-1)
    weights = random_weights(jax.eval_shape(both.init, make_key(2), joined))
    kernel = weights["params"]["TileConv_0"]["kernel"]
    assert kernel.shape == (9, 2 * (3 + 2), 16)  # a row for every category of every frame

    def maps(net, kernel, obs):
        params = weights["params"] | {"TileConv_0": {"kernel": kernel, "bias": jnp.zeros(16)}}
        return net.apply({"params": params}, obs, capture_intermediates=True, mutable=["intermediates"])[1][
            "intermediates"
        ]["TileConv_0"]["__call__"][0]

    @jax.jit
    def found(kernel, old, new, joined):
        apart = maps(one, kernel[:, :5], old) + maps(one, kernel[:, 5:], new)
        return maps(both, kernel, joined), apart

    np.testing.assert_allclose(*found(kernel, old, new, joined), atol=1e-5)


def test_many_frames_of_categories_are_still_categories():
    tiles = Box(0, (10, 5, 2), (7, 7, 3), np.uint8)
    many = Box(0, (10, 5, 2) * 16, (7, 7, 48), np.uint8, frames=16)
    assert type(default_torso(many, (8,), "relu")) is type(default_torso(tiles, (8,), "relu")) is TileNet
    weights = jax.eval_shape(lambda key: TileNet(many, (8,)).init(key, many.sample(key)), make_key(0))
    assert weights["params"]["TileConv_0"]["kernel"].shape == (9, 16 * 20, 16)


@pytest.mark.parametrize(
    ("name", "kernel", "inputs"),
    # Of the 7 x 7 cells that the agent sees: every second 3 x 3 cells, or each by itself.
    [("MiniGrid-DoorKey-5x5-v0", (9, 16), 9 * 16), ("BabyAI-GoToLocal-v0", (1, 32), 49 * 16)],
)
def test_cells_are_read_one_by_one_beside_an_instruction(name, kernel, inputs):
    space = make(name).observation_space
    torso = default_torso(space, (8,), "relu")
    weights = jax.eval_shape(lambda key: torso.init(key, space.sample(key)), make_key(0))["params"]
    positions, _, channels = weights["TileConv_0"]["kernel"].shape
    assert (positions, channels) == kernel
    assert inputs in {weights[name]["kernel"].shape[0] for name in weights if name.startswith("Dense_")}


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("name", ["MinAtar/Breakout-v1", "MiniGrid-DoorKey-5x5-v0"])
def test_frames_on_a_separate_axis_are_refused_with_a_remedy(name, layout):
    space = FrameStack(make(name), 4, layout).observation_space
    with pytest.raises(ValueError, match=r"an array of 4 axes.*FrameStack\(env, n\) without a layout.*torso='mlp'"):
        default_torso(space, (8,), "relu")


def test_a_stack_is_found_among_parts():
    stack = Box(0, 1, (4, 5, 5, 2))
    for space in (stack, Tuple((Discrete(2), stack)), Dict({"a": MultiDiscrete((2,)), "b": Dict({"c": stack})})):
        with pytest.raises(ValueError, match="an array of 4 axes"):
            default_torso(space, (8,), "relu")
