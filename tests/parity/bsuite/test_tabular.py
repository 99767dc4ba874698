"""bsuite's environments with integer states: equal step by step, counters included, over thousands of episodes."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from bsuite.environments import bandit, catch, deep_sea, discounting_chain, memory_chain, umbrella_chain
from bsuite.utils import wrappers

from parity.bsuite.replay import assert_replays, play
from shoal.core.registry import make
from shoal.envs.bsuite.bandit import SimpleBandit
from shoal.envs.bsuite.catch import Catch
from shoal.envs.bsuite.deep_sea import DeepSea
from shoal.envs.bsuite.discounting_chain import DiscountingChain
from shoal.envs.bsuite.memory_chain import MemoryChain
from shoal.envs.bsuite.reward_noise import RewardNoise
from shoal.envs.bsuite.reward_scale import RewardScale
from shoal.envs.bsuite.umbrella_chain import UmbrellaChain

pytestmark = pytest.mark.sampled

STEPS = 20_000
ULP = 1.2e-7  # XLA divides by a constant through its reciprocal, so shares of time may be off by the last bit


def nothing(queue, state):
    pass


@pytest.mark.parametrize("rows, columns", [(10, 5), (2, 1), (7, 8), (20, 30)])
def test_catch_is_bsuites(rows, columns):
    seen = play(Catch(rows, columns), STEPS if rows == 10 else 2_000)
    assert_replays(catch.Catch(rows, columns), seen, lambda queue, state: queue.put("randint", state.ball))


def diving(env):
    # Right with probability 3/4, so that the last column and its treasure are visited.
    def policy(state, action):
        right = jnp.asarray(env.right)[state.time, state.column.astype(jnp.int32)].astype(jnp.int32)
        return jnp.where((action == 0) & (state.time % 3 != 1), 1 - right, right)

    return policy


@pytest.mark.parametrize("size, seed, cost", [(10, 42, 0.01), (50, 42, 0.01), (2, 0, 0.3), (8, 7, 0.0)])
def test_deep_sea_is_bsuites(size, seed, cost):
    env = DeepSea(size, mapping_seed=seed, unscaled_move_cost=cost)
    theirs = deep_sea.DeepSea(size, mapping_seed=seed, unscaled_move_cost=cost)
    np.testing.assert_array_equal(env.right, theirs._action_mapping)
    seen = play(env, STEPS if size == 10 else 3_000, policy=diving(env) if size < 50 else None)
    assert size == 50 or seen.info["denoised_return"][-1] > 10
    assert_replays(theirs, seen, nothing, put_chance, spare=True, rtol=1e-6, atol=1e-9)


def put_chance(queue, noise, before, done):
    # A right move draws a number even where the sea is deterministic: `or` asks for it first.
    queue.put("rand", 0.01)


def test_the_stochastic_deep_sea_is_bsuites():
    env = make("bsuite/deep_sea_stochastic/0")
    theirs = deep_sea.DeepSea(10, deterministic=False, mapping_seed=42)
    seen = play(env, STEPS, policy=diving(env))

    def put(queue, noise, before, done):
        if done and before.column in (0, 9):
            queue.put("randn", float(noise.reward))
        queue.put("rand", float(noise.uniform))

    assert_replays(theirs, seen, nothing, put, spare=True, rtol=1e-6, atol=1e-6)
    still = (seen.noise.uniform <= 0.1).mean()
    assert 0.08 < still < 0.12


def test_deep_sea_without_shuffled_actions_is_bsuites():
    env = DeepSea(6, randomize_actions=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = deep_sea.DeepSea(6, randomize_actions=False)
    assert_replays(theirs, play(env, 2_000), nothing, put_chance, spare=True, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_bandit_is_bsuites(seed):
    theirs = bandit.SimpleBandit(seed)
    assert_replays(theirs, play(SimpleBandit(mapping_seed=seed), 5_000 if seed == 0 else 200), nothing, rtol=1e-7)


def test_a_bandit_of_another_size_is_bsuites():
    assert_replays(bandit.SimpleBandit(3, 4), play(SimpleBandit(4, 3), 200), nothing, rtol=1e-7)


@pytest.mark.parametrize("seed", [0, 1, 4, 7])
def test_discounting_chain_is_bsuites(seed):
    seen = play(DiscountingChain(seed), STEPS if seed == 0 else 2_000)
    assert_replays(discounting_chain.DiscountingChain(seed), seen, nothing, rtol=ULP)


@pytest.mark.parametrize("length, bits", [(1, 1), (2, 1), (5, 1), (2, 3), (1, 4), (30, 40)])
def test_memory_chain_is_bsuites(length, bits):
    def put(queue, state):
        queue.put("binomial", state.context.astype(int))
        queue.put("randint", state.query)

    seen = play(MemoryChain(length, bits), STEPS if length == 5 else 2_000)
    assert seen.info["total_perfect"][-1] > 5 and seen.info["total_regret"][-1] > 5
    assert_replays(memory_chain.MemoryChain(length, bits), seen, put, rtol=ULP)


def bits_of(words, count):
    bit = np.arange(count)
    return (words[bit // 32] >> (bit % 32).astype(np.uint32) & 1).astype(int)


@pytest.mark.parametrize("length, distractors", [(1, 20), (2, 0), (10, 31), (20, 32), (100, 20), (20, 100)])
def test_umbrella_chain_is_bsuites(length, distractors):
    env = UmbrellaChain(length, distractors)

    def put_start(queue, state):
        queue.put("binomial", int(state.need))
        queue.put("binomial", int(state.has))
        queue.put("binomial", bits_of(state.distractors, distractors))

    def put_step(queue, noise, before, done):
        if not done:
            queue.put("binomial", bits_of(noise, distractors + 1)[-1])
        queue.put("binomial", bits_of(noise, distractors))

    seen = play(env, STEPS if length == 10 else 3_000)
    assert_replays(umbrella_chain.UmbrellaChain(length, distractors), seen, put_start, put_step, rtol=ULP)


def test_reward_noise_is_bsuites_and_leaves_the_counters_alone():
    seen = play(RewardNoise(Catch(), 3.0), 5_000)
    theirs = wrappers.RewardNoise(catch.Catch(), 3.0)
    put_start = lambda queue, state: queue.put("randint", state.ball)  # noqa: E731
    put_step = lambda queue, noise, before, done: queue.put("randn", float(noise[0]))  # noqa: E731
    assert_replays(theirs, seen, put_start, put_step, rtol=1e-6, atol=1e-6)
    assert 2.8 < seen.reward[~seen.done].std() < 3.2


def test_reward_scale_is_bsuites_and_leaves_the_counters_alone():
    seen = play(RewardScale(Catch(), 30.0), 3_000)
    theirs = wrappers.RewardScale(catch.Catch(), 30.0)
    assert_replays(theirs, seen, lambda queue, state: queue.put("randint", state.ball))
