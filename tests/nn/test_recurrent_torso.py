"""A torso with a memory, and networks that read its hidden vectors."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.keys import make_key
from shoal.core.spaces import Box, Discrete
from shoal.nn.action_value import Critics
from shoal.nn.memory import GRU
from shoal.nn.policy_network import PolicyNetwork
from shoal.nn.recurrent_torso import RecurrentTorso
from shoal.nn.torsos import MLP
from weights import random_values

SPACE, TORSO, MEMORY = Box(-1.0, 1.0, (3,)), MLP((6,), "relu"), GRU(5)
OBS = random_values(SPACE, (4, 2))


def test_without_a_memory_hidden_vectors_are_those_of_the_torso():
    torso = RecurrentTorso(TORSO, SPACE)
    weights, width = torso.init(make_key(0), OBS)
    hidden, carry = torso.hidden(weights, OBS, None)
    assert width == 6 and carry is None and torso.first_carry(OBS) is None and set(weights) == {"torso"}
    np.testing.assert_array_equal(hidden, TORSO.apply(weights["torso"], OBS))


def test_steps_equal_a_whole_sequence_with_a_reset():
    torso = RecurrentTorso(TORSO, SPACE, MEMORY)
    weights, width = torso.init(make_key(0), OBS, make_key(1))
    assert width == 5 and torso.first_carry(OBS).shape == (4, 2, 5)
    is_first = jnp.asarray([[True, True], [False, False], [False, True], [False, False]])
    hidden, carries = jax.jit(torso.unroll)(weights, OBS, is_first, torso.initial_carry((2,)))
    carry, step = torso.initial_carry((2,)), jax.jit(torso.hidden)
    for t in range(4):
        carry = jnp.where(is_first[t][:, None], 0, carry)
        read, carry = MEMORY.step(weights["memory"], TORSO.apply(weights["torso"], OBS[t]), carry)
        np.testing.assert_allclose(hidden[t], read, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(carries[t], carry, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(step(weights, OBS[3], carries[2])[0], hidden[3], rtol=1e-5, atol=1e-6)


def test_a_policy_with_a_memory_reads_hidden_vectors():
    network = PolicyNetwork(TORSO, SPACE, 4, MEMORY)
    weights = jax.jit(network.init)(make_key(0), OBS)
    hidden, _ = network.recurrent_torso.hidden(weights, OBS, network.recurrent_torso.first_carry(OBS))
    assert hidden.shape == (4, 2, 5)
    expected = np.asarray(hidden) @ np.asarray(weights["head"]["kernel"])
    np.testing.assert_allclose(jax.jit(network.__call__)(weights, hidden), expected, rtol=1e-4, atol=1e-6)


def test_each_critic_with_a_memory_reads_its_own_hidden_vectors():
    boxed, chosen = (Critics(TORSO, SPACE, s, 3, memory=MEMORY) for s in (Box(-1.0, 1.0, (2,)), Discrete(4)))
    hidden = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 2, 5)), jnp.float32)
    action = random_values(boxed.action_space, (4, 2))
    weights = jax.jit(boxed.init)(make_key(0), OBS, action)
    q_values = jax.jit(boxed.__call__)(weights, hidden, action)
    assert weights["memory"]["recurrent"].shape[0] == 3 and q_values.shape == (3, 4, 2)
    for k in range(3):
        joint, head = (jax.tree.map(lambda x, k=k: np.asarray(x[k]), weights[name]) for name in ("joint", "head"))
        joint = joint["params"]["Dense_0"]
        with np.errstate(invalid="ignore"):  # NumPy's products can find a flag that another thread has set
            behind = np.concatenate([hidden[k], action], axis=-1) @ joint["kernel"] + joint["bias"]
            expected = (np.maximum(behind, 0) @ head["kernel"] + head["bias"])[..., 0]
        np.testing.assert_allclose(q_values[k], expected, rtol=1e-4, atol=1e-5)
    weights = jax.jit(chosen.init)(make_key(0), OBS, jnp.zeros((4, 2), jnp.int32))
    assert "joint" not in weights and jax.jit(chosen.every)(weights, hidden).shape == (3, 4, 2, 4)
