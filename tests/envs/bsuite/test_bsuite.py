"""bsuite's environments without the reference: errors, boards as values, populations, pictures, gymnax's bugs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mnist_files
from environments import advance, init, noise, observe
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import static_fields
from shoal.envs.bsuite.bandit import SimpleBandit
from shoal.envs.bsuite.cartpole import BsuiteCartpole
from shoal.envs.bsuite.cartpole_swingup import CartpoleSwingup
from shoal.envs.bsuite.catch import Catch
from shoal.envs.bsuite.deep_sea import DeepSea
from shoal.envs.bsuite.digits import SIDE, DigitsBandit, draw_digits
from shoal.envs.bsuite.discounting_chain import DiscountingChain
from shoal.envs.bsuite.memory_chain import MemoryChain
from shoal.envs.bsuite.mnist import MNISTBandit
from shoal.envs.bsuite.mountain_car import BsuiteMountainCar
from shoal.envs.bsuite.reward_noise import RewardNoise
from shoal.envs.bsuite.reward_scale import RewardScale
from shoal.envs.bsuite.umbrella_chain import UmbrellaChain
from shoal.rollouts.rollout import Rollout


@pytest.mark.parametrize(
    "build, words",
    [
        (lambda: Catch(rows=1), "Catch.rows=1 is out of range: give a whole number from 2 to 127"),
        (lambda: Catch(columns=0), "Catch.columns=0"),
        (lambda: DeepSea(size=1), "DeepSea.size=1 is out of range"),
        (lambda: DeepSea(size=128), "from 2 to 127"),
        (lambda: DeepSea(mapping_seed=-1), "DeepSea.mapping_seed=-1 is not a valid seed"),
        (lambda: DeepSea(unscaled_move_cost=float("nan")), "unscaled_move_cost=nan"),
        (lambda: SimpleBandit(num_actions=1), "SimpleBandit.num_actions=1"),
        (lambda: SimpleBandit(mapping_seed=2**31), "not a valid seed"),
        (lambda: SimpleBandit(num_actions=2**31), "num_actions=2147483648 is out of range"),
        (lambda: DiscountingChain(mapping_seed=-3), "DiscountingChain.mapping_seed=-3"),
        (lambda: MemoryChain(memory_length=0), "MemoryChain.memory_length=0 .* of at least 1"),
        (lambda: MemoryChain(num_bits=0), "MemoryChain.num_bits=0"),
        (lambda: UmbrellaChain(chain_length=2.5), "UmbrellaChain.chain_length=2.5 .* a whole number"),
        (lambda: UmbrellaChain(n_distractor=-1), "UmbrellaChain.n_distractor=-1"),
        (lambda: BsuiteCartpole(height_threshold=1.5), "height_threshold=1.5 .* from -1 to 1"),
        (lambda: BsuiteCartpole(timescale=0.0), "timescale=0.0 .* above 0"),
        (lambda: BsuiteCartpole(timescale=1e-9), "more than a million steps"),
        (lambda: CartpoleSwingup(x_reward_threshold=-1.0), "x_reward_threshold=-1"),
        (lambda: BsuiteMountainCar(episode_steps=0), "BsuiteMountainCar.episode_steps=0"),
        (lambda: RewardNoise(noise_scale=-1.0), "RewardNoise.noise_scale=-1"),
        (lambda: RewardScale(reward_scale=float("inf")), "RewardScale.reward_scale=inf"),
        (lambda: MNISTBandit(fraction=1.5), "MNISTBandit.fraction=1.5 .* from 0 to 1"),
        (lambda: DigitsBandit(count=3), "DigitsBandit.count=3"),
        (lambda: RewardNoise(env="bsuite/cach/0"), "Did you mean bsuite/catch/0"),
    ],
)
def test_invalid_values_are_refused(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_a_wrapper_around_an_environment_without_counters_is_refused():
    with pytest.raises(TypeError, match="which CartPole does not have"):
        RewardNoise(env="CartPole-v1")


def test_a_mapping_seed_cannot_be_traced():
    with pytest.raises(TypeError, match="SimpleBandit.mapping_seed is read once, when the environment is constructed"):
        jax.vmap(lambda seed: SimpleBandit(mapping_seed=seed).order)(jnp.arange(3))


# Boards.


def test_a_board_follows_its_seed_and_is_a_leaf():
    env = SimpleBandit()
    assert "mapping_seed" not in static_fields(env) and len(jax.tree.leaves(env)) == 2
    changed = env.replace(mapping_seed=5)
    np.testing.assert_array_equal(changed.order, np.random.RandomState(5).choice(range(11), 11, replace=False))
    assert (changed.order != env.order).any()
    sea = DeepSea(size=12, mapping_seed=3)
    np.testing.assert_array_equal(sea.right, np.random.RandomState(3).binomial(1, 0.5, [12, 12]))
    np.testing.assert_array_equal(sea.replace(size=10).right, np.random.RandomState(3).binomial(1, 0.5, [10, 10]))


@pytest.mark.parametrize("build", [SimpleBandit, lambda **seed: DeepSea(size=6, **seed)])
def test_environments_of_many_mapping_seeds_are_stepped_as_one_batch(build):
    worlds = build(mapping_seed=np.arange(4))
    axes = jax.tree.map(lambda leaf: 0 if np.ndim(leaf) else None, worlds)

    def rewards(env):
        def step(state, action):
            state, reward, *_ = advance(env, state, action, None)
            return state.replace(time=state.time % 3), reward

        return jax.lax.scan(step, init(env, make_key(0)), jnp.array([1, 0, 1, 1, 0, 0], jnp.int32))[1]

    together = jax.jit(jax.vmap(rewards, in_axes=(axes,)))(worlds)
    play = jax.jit(rewards)
    alone = [play(build(mapping_seed=seed)) for seed in range(4)]
    np.testing.assert_allclose(together, alone, rtol=1e-6)
    assert len({tuple(row.tolist()) for row in np.asarray(alone)}) > 1


def test_lengths_are_traced_so_that_a_sweep_is_one_program():
    lengths = jnp.array([1, 3, 10], jnp.int32)

    def episode(length):
        env = MemoryChain().replace(memory_length=length)
        state = init(env, make_key(0))
        return jax.lax.scan(lambda s, _: ((r := advance(env, s, jnp.int32(0), None))[0], r[2]), state, None, 12)[1]

    ended = jax.jit(jax.vmap(episode))(lengths)
    np.testing.assert_array_equal(jnp.argmax(ended, axis=1) + 1, lengths + 1)


# Bugs of gymnax.


def test_arms_survive_resets_and_regret_accumulates():
    env = make("SimpleBandit-bsuite")
    _, seen = counted(env, 12, lambda obs: jnp.zeros(1, jnp.int32))
    assert len(set(seen.reward[:, 0].tolist())) == 1 and seen.terminated.all()
    np.testing.assert_allclose(_.state.missed[0], 12 * (10 - env.order[0]))


def test_the_end_of_a_discounting_chain_is_a_termination():
    _, seen = counted(make("DiscountingChain-bsuite"), 100, lambda obs: jnp.zeros(1, jnp.int32))
    assert seen.terminated[-1].all() and not seen.truncated.any()


def test_counters_survive_automatic_resets():
    for name, counter in (("memory_len/0", "wrong"), ("umbrella_length/1", "wrong"), ("catch/0", "misses")):
        worlds, seen = counted(make(f"bsuite/{name}"), 90, lambda obs: jnp.zeros(1, jnp.int32))
        lost = int((seen.reward[seen.terminated] == -1).sum())
        assert int(getattr(worlds.state, counter)[0]) == lost > 2, name


def test_a_memory_chain_shows_bits_in_its_space_and_the_query_one_step_before_the_end():
    env = MemoryChain(memory_length=3, num_bits=4)
    state = init(env, make_key(1)).replace(query=jnp.int32(2))
    bits = 2 * np.asarray(state.context, float) - 1
    seen = [np.asarray(observe(env, state))]
    for _ in range(4):
        state, *_ = advance(env, state, jnp.int32(0), None)
        seen.append(np.asarray(observe(env, state)))
        assert env.observation_space.contains(observe(env, state))
    # By hand, bsuite's order: the observation shows the time before the step, so the start appears twice.
    nothing = [0] * 4
    expected = [[1, 0, *bits], [1, 0, *bits], [2 / 3, 0, *nothing], [1 / 3, 2, *nothing], [0, 0, *nothing]]
    np.testing.assert_allclose(seen, expected, rtol=1e-6)


def counted(env, steps, act):
    rollout = Rollout.for_env(env, 1, steps)
    policy = lambda obs, mask, noise, carry: (act(obs), None, carry)  # noqa: E731

    @jax.jit
    def collect(key):
        return rollout.collect(env, rollout.init(env, key), policy, jnp.zeros(steps), make_key(1))

    worlds, seen, _ = collect(make_key(0))
    return worlds, jax.tree.map(np.asarray, seen)


# Pictures of digits.


def test_the_error_of_missing_mnist_files_names_the_argument(monkeypatch, tmp_path):
    monkeypatch.delenv("SHOAL_MNIST", raising=False)
    env = make("bsuite/mnist_noise/3")  # building and listing need no files
    assert env.observation_space.shape == (28, 28)
    with pytest.raises(ValueError, match=r"give path=\.\.\., or set SHOAL_MNIST, to the folder .* DigitsBandit-v0"):
        jax.eval_shape(env.init, make_key(0))
    with pytest.raises(ValueError, match="holds neither train-images-idx3-ubyte.gz nor"):
        MNISTBandit(str(tmp_path)).init(make_key(0))


def test_files_that_are_not_mnists_are_refused(tmp_path):
    mnist_files.write(tmp_path)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(labels.read_bytes())
    with pytest.raises(ValueError, match="train-images-idx3-ubyte.gz is not train-images-idx3-ubyte of MNIST"):
        MNISTBandit(str(tmp_path)).init(make_key(0))
    whole = labels.read_bytes()
    for broken in (b"\x1f\x8bnonsense", whole[:12] + b"\xff\xff" + whole[14:]):
        labels.write_bytes(broken)
        with pytest.raises(ValueError, match="damaged"):
            MNISTBandit(str(tmp_path), 0.5).init(make_key(0))


def test_files_without_gz_are_read_too(tmp_path):
    import gzip

    images, _ = mnist_files.write(tmp_path, count=3)
    for path in list(tmp_path.iterdir()):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    np.testing.assert_array_equal(MNISTBandit(str(tmp_path)).data()[0], images)


def test_digit_images_are_reproducible_and_distinguishable():
    images, labels = draw_digits(600)
    assert images.shape == (600, SIDE, SIDE) and images.dtype == np.uint8 and np.bincount(labels).tolist() == [60] * 10
    np.testing.assert_array_equal(draw_digits(40)[0], images[:40])
    flat = images.reshape(600, -1).astype(float)
    nearest = [np.argmin(np.square(flat[:400] - picture).sum(axis=1)) for picture in flat[400:]]
    assert (labels[nearest] == labels[400:]).mean() > 0.95
    assert len(np.unique(flat, axis=0)) == 600


def test_only_the_label_of_the_digit_is_rewarded():
    env = DigitsBandit(count=20)
    state = init(env, make_key(4))
    label = int(env.data()[1][int(state.picture)])
    assert observe(env, state).max() > 0.7
    for answer in range(10):
        after, reward, terminated, *_ = advance(env, state, jnp.int32(answer), None)
        assert reward == (1 if answer == label else -1) and terminated
        assert env.bsuite_info(after)["total_regret"] == (0 if answer == label else 2)
        assert not observe(env, after).any()


# Pictures of environments.


def pixels_of(picture, color):
    return int((picture == np.array(color, np.uint8)).all(axis=-1).sum())


def test_pictures_show_the_state():
    from shoal.envs.bsuite import catch, deep_sea, umbrella_chain

    env = Catch()
    state = init(env, make_key(0)).replace(ball=jnp.int8(3), time=jnp.int32(4), paddle=jnp.int8(1))
    picture = env.render(state)
    assert tuple(picture[4 * 40 + 20, 3 * 40 + 20]) == catch.BALL and tuple(picture[391, 60]) == catch.PADDLE
    sea = DeepSea(10)
    at = init(sea, make_key(0)).replace(column=jnp.int8(2), time=jnp.int32(6))
    assert tuple(sea.render(at)[6 * 40 + 10, 2 * 40 + 20]) == deep_sea.DIVER
    day = UmbrellaChain(10, 20)
    state = init(day, make_key(0))
    wet = [day.render(state.replace(need=jnp.bool_(need))) for need in (False, True)]
    assert pixels_of(wet[0], umbrella_chain.SUN) > 1000 > 0 < pixels_of(wet[1], umbrella_chain.RAIN)
    dry = [pixels_of(day.render(state.replace(has=jnp.bool_(has))), umbrella_chain.CANOPY) for has in (False, True)]
    assert dry[0] == 0 < dry[1]


@pytest.mark.parametrize("name", ["bandit/0", "discounting_chain/1", "memory_size/16", "cartpole/0", "mountain_car/0"])
def test_a_picture_changes_with_the_state(name):
    env = make(f"bsuite/{name}")
    state = init(env, make_key(0))
    after = state
    for _ in range(3):
        after, *_ = advance(env, after, jnp.int32(2 if env.action_space.n > 2 else 1), noise(env, make_key(1)))
    assert (env.render(state) != env.render(after)).any()
