"""Replay of sequences in NumPy: a buffer with random content, and how a network with a GRU reads sequences of it."""

import jax
import jax.numpy as jnp
import numpy as np

from shoal.agents.replay_agent import Observed
from shoal.core.spaces import Discrete, zeros


def filled(agent, carry, seed=0):
    """A buffer with random content: episodes that terminate or are truncated, and random carries like `carry`."""
    random = np.random.default_rng(seed)
    space, shown = agent.action_space, agent.observation_space.shape
    replay = agent.empty_replay(Observed(jnp.zeros((agent.num_envs, *shown)), None), zeros(space), carry)
    shape = (replay.rows, agent.num_envs)
    terminated, truncated = random.random(shape) < 0.12, random.random(shape) < 0.12
    slots = np.cumsum(truncated & ~terminated, axis=0) % replay.final_observed.obs.shape[0]
    normal = lambda *size: jnp.asarray(random.normal(size=size), jnp.float32)  # noqa: E731
    is_discrete = isinstance(space, Discrete)
    return replay.replace(
        observed=Observed(normal(*shape, *shown), None),
        action=jnp.asarray(random.integers(0, 2, shape), jnp.int32) if is_discrete else normal(*replay.action.shape),
        reward=normal(*shape),
        terminated=jnp.asarray(terminated),
        truncated=jnp.asarray(truncated),
        final_observed=Observed(normal(*replay.final_observed.obs.shape), None),
        final_slot=jnp.asarray(slots, jnp.int32),
        carry=jax.tree.map(lambda x: normal(*x.shape), replay.carry),
    )


def index_of(agent, sequences):
    """The indices of sequences, which are pairs of a first row and an environment."""
    return jnp.asarray([row // agent.num_steps * agent.num_envs + env for row, env in sequences], jnp.int32)


def dense(layer, x):
    return x @ layer["kernel"] + layer["bias"]


class NumpyGRU:
    """A torso of one layer and a GRU in double precision. Its output is its carry."""

    def __init__(self, weights):
        self.weights = jax.tree.map(lambda x: np.asarray(x, np.float64), weights)

    def step(self, obs, carry):
        """The hidden vector after one more observation."""
        x = np.maximum(dense(self.weights["torso"]["params"]["Dense_0"], obs), 0)
        memory = self.weights["memory"]
        of_input, of_carry = np.split(dense(memory["input"], x), 3), np.split(carry @ memory["recurrent"], 3)
        reset, update = (1 / (1 + np.exp(-of_input[i] - of_carry[i])) for i in (0, 1))
        new = np.tanh(of_input[2] + reset * of_carry[2])
        return (1 - update) * new + update * carry

    def read(self, replay, carry, start, env, rows):
        """The hidden vectors of rows: from the stored carry [R / T, E, H] on, with resets where an episode begins."""
        hidden, found = np.asarray(carry[start // replay.rows_at_once, env], np.float64), []
        for row in range(start, start + rows):
            before = (row - 1) % replay.rows
            if row > start and (replay.terminated[before, env] or replay.truncated[before, env]):
                hidden = np.zeros_like(hidden)
            hidden = self.step(np.asarray(replay.observed.obs[row % replay.rows, env]), hidden)
            found.append(hidden)
        return found


def joined(replay, row, env, n_step, discount):
    """(sum of rewards, factor of the next value, steps after the first, true next observation) of a sample."""
    total, factor = 0.0, 1.0
    for k in range(n_step):
        last = (row + k) % replay.rows
        total += factor * replay.reward[last, env]
        factor *= discount
        if replay.terminated[last, env] or replay.truncated[last, env]:
            break
    after = replay.observed.obs[(last + 1) % replay.rows, env]
    if replay.truncated[last, env]:
        after = replay.final_observed.obs[replay.final_slot[last, env], env]
    return total, 0.0 if replay.terminated[last, env] else factor, k, after
