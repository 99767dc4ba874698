"""Every agent with a network accepts every torso by name, and a user's torso with the inputs it declares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box, Dict, MultiDiscrete, zeros
from shoal.core.struct import to_arrays
from shoal.core.wrappers import TransformObservation
from shoal.nn.film import FiLMNet
from shoal.nn.impala import ImpalaCNN
from shoal.nn.parts_net import PartsNet
from shoal.nn.simba import Simba
from shoal.nn.simba_v2 import SimbaV2
from shoal.nn.tiles import TileNet
from shoal.nn.torsos import CNN, MLP
from shoal.rollouts.demonstrations import Demonstrations

ROLLOUT = {"num_envs": 2, "num_steps": 4}
REPLAY = ROLLOUT | {"buffer_size": 32, "batch_size": 4, "learning_starts": 0, "train_frequency": 1}
# The smallest agent of every class with a network, and an environment that it can play.
SMALL = {
    "ppo": (ROLLOUT, "CartPole-v1"),
    "pqn": (ROLLOUT, "CartPole-v1"),
    "dqn": (REPLAY, "CartPole-v1"),
    "sac": (REPLAY, "Pendulum-v1"),
    "td3": (REPLAY, "Pendulum-v1"),
    "crossq": (REPLAY, "Pendulum-v1"),
    "tqc": (REPLAY, "Pendulum-v1"),
    "droq": (REPLAY, "Pendulum-v1"),
    "fasttd3": (REPLAY, "Pendulum-v1"),
    "es": ({"population_size": 8, "episode_steps": 30}, "CartPole-v1"),
    "bc": ({"batch_size": 4, "num_batches": 2}, "CartPole-v1"),
}
TILES = Box(0, (3, 2), (4, 5, 2), np.uint8)
SPACES = {
    "vector": Box(-1.0, 1.0, (3,)),
    "picture": Box(0, 255, (4, 5, 2), np.uint8),
    "tiles": TILES,
    "text": MultiDiscrete((3,) * 4, np.uint8, text=True),
    "tiles and text": Dict({"image": TILES, "mission": MultiDiscrete((3,) * 4, np.uint8, text=True)}),
}


def vector_of(obs):
    return jnp.clip(obs[:3], -1, 1)


def picture_of(obs):
    return jnp.broadcast_to((obs[0] > 0).astype(jnp.uint8), (4, 5, 2))


def text_of(obs):
    return jnp.array([1, 2, 0, 0], jnp.uint8) + (obs[0] > 0).astype(jnp.uint8) * jnp.array([1, 0, 0, 0], jnp.uint8)


FUNCTIONS = {"vector": vector_of, "picture": picture_of, "tiles": picture_of, "text": text_of}
FUNCTIONS["tiles and text"] = lambda obs: {"image": picture_of(obs), "mission": text_of(obs)}


def built(name, observation, **fields):
    """(agent, environment): a small agent, bound to an environment with the given kind of observations."""
    sizes, env_name = SMALL[name]
    env = TransformObservation(make(env_name), FUNCTIONS[observation], SPACES[observation])
    if name == "bc":
        space = SPACES[observation]
        obs = jax.tree.map(lambda x: jnp.zeros((8, *x.shape), x.dtype), zeros(space))
        fields["demonstrations"] = Demonstrations(obs, jnp.zeros(8, jnp.int32))
    return to_arrays(AGENTS[name].build(**sizes, **fields).bind(env)), to_arrays(env)


def shapes(agent, env):
    """Shapes of a fresh state and of one after an update, without computing anything."""
    before = jax.eval_shape(agent.init, make_key(0), env)
    return before, jax.eval_shape(agent.update, before, env, jnp.int32(0))[0]


def test_every_agent_class_with_a_network_is_in_the_table():
    classes = {entry.cls for entry in AGENTS.values() if "network" in entry.cls.__dataclass_fields__}
    assert {AGENTS[name].cls for name in SMALL} == classes


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("torso", "observation", "kind"),
    [
        ("mlp", "picture", MLP),
        ("simba", "vector", Simba),
        ("simbav2", "vector", SimbaV2),
        ("cnn", "picture", CNN),
        ("tiles", "tiles", TileNet),
        ("auto", "text", PartsNet),
        ("auto", "tiles and text", TileNet),
    ],
)
@pytest.mark.parametrize("name", SMALL)
def test_a_torso_is_chosen_by_name(name, torso, observation, kind):
    agent, env = built(name, observation, torso=torso, hidden=(6,))
    assert type(agent.network) is kind and agent.network.hidden == (6,)
    before, after = shapes(agent, env)
    assert jax.tree.structure(before) == jax.tree.structure(after)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SMALL)
def test_every_agent_reads_an_instruction_with_film(name):
    agent, env = built(name, "tiles and text", torso="film", hidden=(6, 4))
    assert type(agent.network) is FiLMNet and (agent.network.channels, agent.network.hidden) == (6, (4,))
    before, after = shapes(agent, env)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    with pytest.raises(ValueError, match="torso='film' reads one image of categories and one instruction"):
        built(name, "tiles", torso="film")


@pytest.mark.parametrize("name", SMALL)
def test_a_torso_name_gives_the_same_network_for_every_agent(name):
    kinds = {"vector": MLP, "picture": CNN, "tiles": TileNet, "text": PartsNet, "tiles and text": TileNet}
    for observation, kind in kinds.items():
        assert type(built(name, observation)[0].network) is kind  # auto
    impala = built(name, "picture", torso="impala")[0].network
    assert type(impala) is ImpalaCNN and impala.layer_norm == (name == "pqn")
    with pytest.raises(ValueError, match="torso='tiles' needs images of categories"):
        built(name, "picture", torso="tiles")
    with pytest.raises(ValueError, match="hidden=.* changes nothing in this network"):
        built(name, "picture", torso="impala", hidden=(7,))
    for observation in ("text", "tiles and text"):
        of_bow, of_auto = (built(name, observation, torso=torso)[0].network for torso in ("bow", "auto"))
        assert of_bow == of_auto.clone(encoder="bow")
    with pytest.raises(ValueError, match="torso='bow' needs a text, and there is none in"):
        built(name, "tiles", torso="bow")
    choices = "auto, mlp, cnn, nature, impala, tiles, bow, film, simba, simbav2"
    with pytest.raises(ValueError, match=f"torso='rnn' is unknown. Choose one of {choices}"):
        built(name, "vector", torso="rnn")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "observation", "torso"), [("dqn", "tiles", "auto"), ("bc", "picture", "cnn"), ("es", "picture", "mlp")]
)
def test_an_update_with_a_torso_learns(name, observation, torso):
    agent, env = built(name, observation, torso=torso, hidden=(6,))
    before = jax.jit(agent.init)(make_key(0), env)
    after = jax.jit(agent.update)(before, env, jnp.int32(0))[0]
    old, new = (jax.tree.leaves(agent.policy_state(state)) for state in (before, after))
    assert all(np.isfinite(x).all() for x in new)
    assert any((x != y).any() for x, y in zip(old, new, strict=True) if x.ndim)


class Own:
    """A torso that is no flax module: one matrix product; it records the shape of its input."""

    def init(self, key, features):
        self.seen.append(jax.tree.map(lambda x: (x.shape[-3:], x.dtype), features))
        return jnp.zeros((features.shape[-1], 5))

    def apply(self, weights, features):
        x = features.astype(jnp.float32) @ weights
        return x.mean((-3, -2)) if self.sees_image else x

    def __init__(self, sees_image, **declared):
        self.seen, self.sees_image = [], sees_image
        self.__dict__ |= declared


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    ("declared", "shape", "dtype"),
    [
        ({}, (4, 5, 2), jnp.float32),
        ({"reads": "image"}, (4, 5, 2), jnp.float32),
        ({"reads": "vector"}, (40,), jnp.float32),
        ({"reads": "observation"}, (4, 5, 2), jnp.uint8),
    ],
    ids=["nothing", "image", "vector", "observation"],
)
def test_a_user_torso_gets_the_inputs_it_declares(name, declared, shape, dtype):
    own = Own(len(shape) == 3, **declared)
    agent, env = built(name, "picture", network=own)
    jax.eval_shape(agent.init, make_key(0), env)
    joined = name in ("sac", "td3", "tqc", "fasttd3") and shape == (40,)  # a critic's vector has the action beside it
    assert {seen[1] for seen in own.seen} == {jnp.dtype(dtype)}
    assert {seen[0][-len(shape) :] for seen in own.seen} == {shape} | ({(41,)} if joined else set())


def test_an_invalid_torso_is_refused():
    for wrong in (CNN, "cnn", object()):
        with pytest.raises(TypeError, match=r"network=.* must have init\(key, features\) and apply"):
            built("ppo", "picture", network=wrong)
    with pytest.raises(ValueError, match="Own.reads='pixels' is unknown. Choose one of vector, image, observation"):
        built("ppo", "picture", network=Own(True, reads="pixels"))
    with pytest.raises(ValueError, match=r"CNN reads one image \[H, W, C\], and observations here are Box"):
        built("ppo", "vector", network=CNN())


def test_a_user_torso_of_dense_layers_is_treated_as_an_mlp():
    known = built("ppo", "vector", network=Own(False, is_dense=True))[0]
    unknown = built("ppo", "vector", network=Own(False))[0]
    assert (known.weights_per_step, unknown.weights_per_step) == (15, 0)
    assert built("ppo", "vector", hidden=(5,))[0].weights_per_step == 20
    nets = [agent._nets for agent in (known, unknown)]
    obs = jnp.ones((7, 3))
    weights = jax.tree.map(lambda x: x + 0.1, nets[0].init(make_key(0), obs))
    (policy, value), (same, too) = (net.policy_and_value(weights, obs) for net in nets)
    np.testing.assert_allclose(policy.logits, same.logits, rtol=1e-6)
    np.testing.assert_allclose(value, too, rtol=1e-6)
