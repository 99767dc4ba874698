"""`CheapTalk`: the message by hand, and nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from environments import Tally, init, observe, play
from shoal.core.checks import check_env
from shoal.core.spaces import Box
from shoal.core.wrappers import CheapTalk, FlattenObservation
from shoal.core.wrappers.cheap_talk import MessageNetwork
from shoal.envs.classic.cartpole import CartPole

KEY = jax.random.key(3)
GENERATOR = np.random.default_rng(0)
SIZES = (4, 5, 3, 2)
LAYERS = tuple(
    {
        "kernel": GENERATOR.normal(size=pair).astype(np.float32),
        "bias": GENERATOR.normal(size=pair[1]).astype(np.float32),
    }
    for pair in zip(SIZES[:-1], SIZES[1:], strict=True)
)
TALK = CheapTalk(CartPole(), MessageNetwork(LAYERS), hidden=SIZES[1:-1])


def message_in_numpy(obs):
    x = obs
    for layer in LAYERS[:-1]:
        x = np.maximum(x @ layer["kernel"] + layer["bias"], 0)
    return 2 * np.pi * np.tanh(x @ LAYERS[-1]["kernel"] + LAYERS[-1]["bias"])


def test_the_message_equals_a_network_in_numpy_and_follows_the_observation():
    state = init(TALK, KEY).replace(x=jnp.float32(1.5), theta=jnp.float32(-0.1))
    obs, inner = np.asarray(observe(TALK, state)), np.asarray(observe(TALK.env, state))
    np.testing.assert_array_equal(obs[:4], inner)
    np.testing.assert_allclose(obs[4:], message_in_numpy(inner), rtol=1e-5)
    assert obs.dtype == np.float32 and np.abs(obs[4:]).max() > 0.1


def test_without_weights_every_message_is_zero():
    talk = CheapTalk(CartPole(), size=3)
    assert [layer["kernel"].shape for layer in talk.message.layers] == [(4, 64), (64, 64), (64, 3)]
    np.testing.assert_array_equal(observe(talk, init(talk, KEY))[4:], np.zeros(3))


def test_rewards_and_dynamics_do_not_change():
    actions, nothing = (0, 1, 1, 0, 1), [None] * 5
    bare, talking = play(CartPole(), actions, nothing, KEY), play(TALK, actions, nothing, KEY)
    for (state, obs, *rest), (same_state, seen, *same) in zip(bare, talking, strict=True):
        jax.tree.map(np.testing.assert_array_equal, state, same_state)
        np.testing.assert_array_equal(seen[:4], obs)
        assert same == rest


def test_the_space_has_the_bounds_of_the_message_and_the_network_reaches_them():
    loud = jax.tree.map(lambda x: x * 1e3, TALK.message)
    talk = TALK.replace(message=loud, scale=0.7)
    low, high = talk.observation_space.bounds()
    np.testing.assert_allclose(high, [4.8, np.inf, 24 * np.pi / 180, np.inf, 0.7, 0.7], rtol=1e-6)
    np.testing.assert_array_equal(low, -high)
    obs = observe(talk, init(talk, KEY))
    np.testing.assert_allclose(np.abs(obs[4:]), 0.7, rtol=1e-6)
    assert bool(talk.observation_space.contains(obs))


def test_other_weights_and_another_scale_compile_nothing():
    before = observe._cache_size()
    state = init(TALK, KEY)
    for talk in (TALK, TALK.replace(scale=np.pi), TALK.replace(message=MessageNetwork.init(KEY, TALK.sizes))):
        observe(talk, state)
    assert observe._cache_size() == before + 1


def test_random_kernels_have_the_variance_of_one_input():
    network = MessageNetwork.init(KEY, (50, 400, 2))
    np.testing.assert_allclose(np.std(network.layers[0]["kernel"]), 1 / np.sqrt(50), rtol=0.03)
    assert not np.any(network.layers[1]["bias"])


def test_the_contract_holds_around_observations_of_another_dtype():
    check_env(CheapTalk(FlattenObservation(Tally()), size=1, hidden=()), steps=8)


def test_members_may_have_their_own_messages():
    stacked = jax.tree.map(lambda x: np.stack([x, 0 * x]), TALK.message)
    members, state = TALK.replace(message=stacked), init(TALK, KEY)
    assert members.message.layers[0]["kernel"].shape == (2, 4, 5)
    seen = jax.vmap(lambda message: observe(TALK.replace(message=message), state))(members.message)
    np.testing.assert_allclose(seen[0, 4:], message_in_numpy(np.asarray(seen[0, :4])), rtol=1e-5)
    np.testing.assert_array_equal(seen[1, 4:], [0, 0])


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: CheapTalk(Tally()), ValueError, "FlattenObservation around the environment first"),
        (lambda: CheapTalk(CartPole(), size=0), ValueError, "at least one number, not size=0"),
        (lambda: CheapTalk(CartPole(), hidden=(4, 0)), ValueError, "a layer without units"),
        (lambda: CheapTalk(CartPole(), TALK.message), ValueError, r"the sizes here are \(4, 64, 64, 2\)"),
        (lambda: CheapTalk(CartPole(), {"kernel": 1}), TypeError, "a value of dict: give a shoal.MessageNetwork"),
        (lambda: CheapTalk(CartPole(), scale=-1.0), ValueError, "out of range"),
    ],
)
def test_what_cannot_be_a_channel_is_refused(make, error, said):
    with pytest.raises(error, match=said):
        make()


def test_its_names_are_public():
    assert shoal.CheapTalk is CheapTalk and shoal.MessageNetwork is MessageNetwork
    assert isinstance(TALK.observation_space, Box)
