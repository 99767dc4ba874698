"""Every agent in a population with a selector: copies, new members, resume; no sample of a copy joins two episodes."""

import functools
import shutil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from learners import all_agents, bound, playable, unbound
from shoal.core.agent import Buffer
from shoal.core.env import Env, State
from shoal.core.keys import make_key, stream
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct, to_arrays
from shoal.population.halving import Halving
from shoal.population.pbt import PBT
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.jobs import make_job
from shoal.training.loop import Run
from shoal.training.program import begin, reseed, reseed_in_new_episodes

# What `new_episodes` resets, of the agents that keep environment states: all that belongs to the running episodes.
OF_EPISODES = {"env_states", "action", "carry", "discounted_return"}
OPTIONS_OF = {
    "ppo": [{}, {"memory": "lstm", "memory_size": 4, "num_minibatches": 1, "normalize_reward": True}],
    "dqn": [{}, {"memory": "gru", "memory_size": 4}],
    "sac": [{}, {"memory": "gru", "memory_size": 4}],
}
RECORDS = 4


@struct
class Tagged(State):
    """The random number of an episode, which no other episode has."""

    tag: Float[Array, ""]


@struct
class Tags(Env):
    """Observe the number of the episode and the steps in it. Half of the episodes terminate at step 3; limit 5."""

    max_steps: Number | None = 5
    continuous: bool = static(False)

    @property
    def observation_space(self):
        return Box(0.0, 1e7, (2,))

    @property
    def action_space(self):
        return Box(-1.0, 1.0, (1,)) if self.continuous else Discrete(2)

    def init(self, key):
        return Tagged(jnp.int32(0), jax.random.randint(key, (), 0, 2**23).astype(jnp.float32))

    def transition(self, state, action, noise):
        return state, jnp.float32(1), (state.tag % 2 == 0) & (state.time >= 3), {}

    def observe(self, state):
        return jnp.stack([state.tag, state.time.astype(jnp.float32)])


def has_buffer(state):
    return any(isinstance(x, Buffer) for x in jax.tree.leaves(state, is_leaf=lambda x: isinstance(x, Buffer)))


def assert_equal(left, right, name):
    for x, y in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        numbers = (jax.random.key_data(z) if jnp.issubdtype(z.dtype, jax.dtypes.prng_key) else z for z in (x, y))
        np.testing.assert_array_equal(*map(np.asarray, numbers), err_msg=name)


@pytest.mark.parametrize("name", all_agents())
def test_new_episodes_forget_the_running_ones_and_keep_what_was_learned(name):
    env = make(playable(name))
    for fields in OPTIONS_OF.get(name, [{}]):
        agent = bound(name, env, **fields)

        @jax.jit
        def restart(agent, env):
            first = agent.init(make_key(0), env)
            later = jax.tree.map(
                lambda x: (
                    x
                    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key)
                    else ~x
                    if x.dtype == bool
                    else x + jnp.ones_like(x)
                ),
                first,
            )  # another value in every leaf, as after training
            return first, later, *(agent.new_episodes(state, env, make_key(1)) for state in (first, later))

        _, later, from_first, from_later = restart(agent, to_arrays(env))
        parts = [part for part in later.__dataclass_fields__ if jax.tree.leaves(getattr(later, part))]
        is_reset = set() if has_buffer(later) else OF_EPISODES & {*parts}
        assert ("env_states" in is_reset) == ("env_states" in parts and not has_buffer(later))
        for part in parts:
            if part not in is_reset:
                assert_equal(getattr(from_later, part), getattr(later, part), part)
            elif part != "action":  # it follows from the table too
                assert_equal(getattr(from_later, part), getattr(from_first, part), part)
        if is_reset:
            assert not np.any(from_later.env_states.state.time) and not np.any(from_later.env_states.episode_return)


REPLAY = {
    "dqn": {"n_step": 3},
    "c51": {},
    "sac": {"n_step": 3},
    "td3": {"env": Tags(continuous=True)},
    "crossq": {"env": Tags(continuous=True)},
    "tqc": {"env": Tags(continuous=True)},
    "droq": {"env": Tags(continuous=True)},
    "fasttd3": {"env": Tags(continuous=True)},
    "ddpg": {"env": Tags(continuous=True)},
}


@pytest.mark.parametrize("name", [n if n == "dqn" else pytest.param(n, marks=pytest.mark.slow) for n in REPLAY])
def test_no_sample_of_a_copy_joins_two_episodes(name):
    fields = {"num_envs": 2, "num_steps": 4, "hidden": (4,), "buffer_size": 256, "batch_size": 4, "discount": 0.5}
    fields |= {"learning_starts": 1e6, **REPLAY[name]}
    env = fields.pop("env", Tags())
    agent = to_arrays(AGENTS[name].build(**fields).bind(env))
    member = jax.jit(begin)(agent, env, jnp.int32(0), make_key(0))
    update = jax.jit(lambda state, clock: agent.update(state, env, clock)[0])

    def trained(state, first):
        for clock in range(first, first + 3):
            state = update(state, jnp.int32(clock))
        return state

    member = member.replace(state=trained(member.state, 0))
    key = stream(make_key(0), "turnover")
    for copy in (
        jax.jit(reseed)(member, agent, jnp.int32(7), key),
        jax.jit(reseed_in_new_episodes)(member, agent, env, jnp.int32(7), key),
    ):
        state = trained(copy.state, 3)
        n_step, replay = fields.get("n_step", 1), state.replay
        behind, of_env = np.meshgrid(np.arange(n_step, 24), np.arange(2), indexing="ij")  # all that can be sampled
        index = replay.index(replay.newest(jnp.int32(5)), jnp.asarray(behind.ravel()), jnp.asarray(of_env.ravel()))
        batch = jax.tree.map(np.asarray, replay.take(index, 0.5, n_step))
        goes_on = batch.bootstrap > 0
        steps = np.log2(1 / np.where(goes_on, batch.bootstrap, 1))  # of each sample: 0.5**steps is left
        assert goes_on.sum() > 20 and (~goes_on).any() and set(steps[goes_on]) <= {1.0, 2.0, 3.0}
        tag, time = batch.observed.obs.T
        next_tag, next_time = batch.next_observed.obs.T
        np.testing.assert_array_equal(next_tag[goes_on], tag[goes_on])
        np.testing.assert_array_equal(next_time[goes_on], (time + steps)[goes_on])


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_a_sequence_of_a_copy_is_reset_where_another_episode_begins(name):
    fields = {"num_envs": 2, "num_steps": 4, "buffer_size": 48, "batch_size": 4, "learning_starts": 1e6}
    fields |= {"hidden": (16,), "memory": "gru", "memory_size": 3, "sequence_length": 8, "burn_in": 3}
    env = Tags()
    agent = to_arrays(AGENTS[name].build(**fields).bind(env))
    member = jax.jit(begin)(agent, env, jnp.int32(0), make_key(0))
    update = jax.jit(lambda state, clock: agent.update(state, env, clock)[0])
    state = member.state
    for clock in range(4):
        state = update(state, jnp.int32(clock))
    copy = jax.jit(reseed_in_new_episodes)(member.replace(state=state), agent, env, jnp.int32(7), make_key(1))
    state = copy.state
    for clock in range(4, 8):
        state = update(state, jnp.int32(clock))
    behind, of_env = np.meshgrid(np.arange(agent.incomplete, 6), np.arange(2), indexing="ij")  # all of 6 rollouts
    index = state.replay.index(state.replay.newest(jnp.int32(7)), *map(jnp.asarray, (behind.ravel(), of_env.ravel())))
    read = state.replay.take_sequences(index, 0.5, 1, 3, 8).history
    tag, time = np.moveaxis(np.asarray(read.observed.obs), -1, 0)
    np.testing.assert_array_equal(np.asarray(read.is_first)[1:], tag[1:] != tag[:-1])
    np.testing.assert_array_equal(np.asarray(read.is_first)[1:], time[1:] == 0)
    for carry in jax.tree.leaves(read.carry):  # initially 0
        np.testing.assert_array_equal(np.all(carry.reshape(len(carry), -1) == 0, axis=1), time[0] == 0)
    assert (time[0] == 0).any() and (time[0] > 0).any()


# Runs of every agent.


def with_scores(standing):
    """The standing with a score for each slot: agents that solve the probe have equal ones, and nobody is copied."""
    return standing._replace(score=np.roll(np.arange(5.0), standing.record))


@struct
class Copies(PBT):
    """PBT by these scores."""

    def select(self, state: Any, standing: Any, key: Any) -> Any:
        return super().select(state, with_scores(standing), key)


@struct
class GoesOn(Copies):
    """The same; copies go on in the episodes of their originals."""

    def select(self, state: Any, standing: Any, key: Any) -> Any:
        state, turnover = super().select(state, standing, key)
        return state, turnover._replace(new_episodes=False)


@struct
class Refills(Halving):
    """Halving by these scores."""

    def select(self, state: Any, standing: Any, key: Any) -> Any:
        return super().select(state, with_scores(standing), key)


SELECTORS = {
    "new episodes": Copies(quantile=0.4),
    "the same episodes": GoesOn(quantile=0.4),
    "refilled": Refills(eta=2, refill="fresh"),
}


@functools.cache
def planned(name, selector):
    """The plan of a run of five members in which every agent learns before the first turnover."""
    probe = playable(name)
    sizes = bound(name, make(probe))
    per_record = max(2, int(sizes.learns_from) // sizes.steps_per_update + 2)
    options = {"steps": RECORDS * per_record * sizes.steps_per_update, "seeds": 5, "records": RECORDS}
    options |= {"evaluations": RECORDS, "eval_episodes": 2, "eval_max_steps": 5}
    chosen = SELECTORS[selector]
    if name == "a2c":  # a PPO with other values, which all count as given
        chosen = chosen.replace(vary=["learning_rate", "discount"])
    return make_job(unbound(name, make(probe)), probe, selector=chosen, **options).plan()


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("name", ["pqn", *(name for name in sorted(AGENTS) if name != "pqn")])
@pytest.mark.sampled
def test_every_agent_trains_with_selectors_and_resumes_bit_for_bit(name, selector, tmp_path):
    with jax.numpy_dtype_promotion("standard"):
        plan = planned(name, selector)
        whole, cut = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "cut")
        whole.create()
        run = Run(plan, whole)
        run.train()
        shutil.copytree(whole.path, cut.path)
        shutil.rmtree(checkpoint.newest(cut.checkpoints))
        again = Run(plan, cut)
        again.train(resume=True)
    roster, curves = run.state.roster, run.records.arrays()
    assert (roster.occupant >= 5).any() and ((roster.parent >= 0).any() == (selector != "refilled"))
    assert run.records.columns["alive"][-1].all()
    found, expected = ({**np.load(checkpoint.newest(f.checkpoints) / "learners.npz")} for f in (cut, whole))
    assert found.keys() == expected.keys()
    for leaf in expected:
        np.testing.assert_array_equal(found[leaf], expected[leaf], err_msg=leaf)
    for column, curve in curves.items():
        if column != "wall_seconds":
            np.testing.assert_array_equal(again.records.arrays()[column], curve, err_msg=column)
