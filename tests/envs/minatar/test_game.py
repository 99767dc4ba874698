"""All MinAtar games: ids, spaces, sticky actions, single and batched observations, pictures."""

import gymnasium
import jax
import jax.numpy as jnp
import minatar.gym
import numpy as np
import pytest

from environments import advance, init, noise, observe
from shoal.core.keys import make_key
from shoal.core.registry import ENVS, make
from shoal.core.struct import to_arrays
from shoal.envs.minatar.game import DOWN, FIRE, LEFT, RIGHT, UP, to_cells
from shoal.envs.minatar.nibbles import COUNT, equals, flag_at, hide_unflagged, repeated, select
from shoal.envs.minatar.slots import increment_decrement, where_equal
from shoal.rollouts.rollout import Rollout

GAMES = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]


@pytest.fixture(scope="module", autouse=True)
def registered():
    minatar.gym.register_envs()


def some_states(env, num_envs=8, num_steps=40):
    """States of random play, resets included."""
    rollout = Rollout.for_env(env, num_envs, num_steps)

    def act(obs, mask, key, carry):
        return jax.vmap(env.action_space.sample)(key), None, carry

    keys = jax.random.split(make_key(1), (num_steps, num_envs))
    collect = jax.jit(lambda key: rollout.collect(env, rollout.init(env, key), act, keys, make_key(2)))
    env_states, trajectory, _ = collect(make_key(0))
    return env_states.state, trajectory


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.filterwarnings("ignore:.*out of date")
def test_ids_and_spaces_are_minatars(game, version):
    theirs = gymnasium.make(f"MinAtar/{game}-{version}", disable_env_checker=True).unwrapped
    env = make(f"MinAtar/{game}-{version}")
    assert env.action_space.n == theirs.action_space.n
    assert list(env._actions) == list(theirs.action_set)
    assert env.observation_space.shape == tuple(theirs.observation_space.shape)
    assert env.observation_space.dtype == theirs.observation_space.dtype == bool
    assert list(env.channels) == list(theirs.game.env.channels)
    assert env.sticky_action_prob == theirs.game.sticky_action_prob == 0.1
    assert env.ramping and env.max_steps is None


@pytest.mark.parametrize("game", GAMES)
def test_gymnax_names_mean_the_minimal_actions(game):
    assert ENVS.aliases[f"{game}-MinAtar"] == f"MinAtar/{game}-v1"
    assert f"{game}-MinAtar" not in list(ENVS)


@pytest.mark.parametrize("game", GAMES)
def test_every_action_has_the_meaning_of_minatar(game):
    for version in ("v0", "v1"):
        env = make(f"MinAtar/{game}-{version}", sticky_action_prob=0.0)
        # Compiled, nothing of the game is left but this.
        last = jax.jit(
            lambda action, e=env: e.advance(e.init(make_key(0)), action, e.noise(make_key(1)))[0].last_action
        )
        assert [int(last(jnp.int32(action))) for action in range(len(env._actions))] == list(env._actions)


@jax.jit
def after_steps(env, state, keys):
    return jax.vmap(lambda key: env.advance(state, jnp.int32(RIGHT), env.noise(key))[0])(keys)


def test_an_action_sticks_as_often_as_asked_for():
    for probability in (0.0, 0.1, 1.0):
        env = make("MinAtar/Breakout-v0", sticky_action_prob=probability)
        state = init(env, make_key(0)).replace(last_action=jnp.int32(LEFT))
        after = after_steps(env, state, jax.random.split(make_key(3), 4000))
        assert abs(float(jnp.mean(after.last_action == LEFT)) - probability) < 0.02
        assert np.array_equal(np.asarray(after.paddle == 3), np.asarray(after.last_action == LEFT))


def test_the_very_first_action_may_be_replaced_by_no_operation():
    env = make("MinAtar/Breakout-v1", sticky_action_prob=1.0)
    after, *_ = advance(env, init(env, make_key(0)), jnp.int32(1), noise(env, make_key(0)))
    assert after.paddle == 4 and after.last_action == 0


def test_the_last_action_is_kept_across_episodes():
    # As MinAtar's Environment never clears it; gymnax's wrapper does on an explicit reset.
    env = make("MinAtar/Breakout-v1")
    ended = init(env, make_key(0)).replace(last_action=jnp.int32(LEFT), paddle=jnp.int32(0))
    following = env.carry_over(ended, init(env, make_key(1)))
    assert following.last_action == LEFT and following.paddle == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("game", GAMES)
def test_boards_observed_in_a_batch_equal_each_observed_alone(game):
    env = make(f"MinAtar/{game}-v1")
    states, trajectory = some_states(env)
    together = jax.jit(jax.vmap(env.observe))(states)
    assert together.dtype == bool and trajectory.obs.any()
    for i in range(8):
        alone = observe(env, jax.tree.map(lambda x, i=i: x[i], states))
        np.testing.assert_array_equal(together[i], alone)
    # Also for two members, each with boards of its own.
    twice = jax.tree.map(lambda x: jnp.stack([x, x[::-1]]), states)
    nested = jax.jit(jax.vmap(jax.vmap(env.observe)))(twice)
    np.testing.assert_array_equal(nested, np.stack([together, together[::-1]]))


@pytest.mark.parametrize("game", GAMES)
def test_ramping_changes_without_recompilation(game):
    traced = []

    @jax.jit
    def step(env, state, noise):
        traced.append(1)
        return env.advance(state, jnp.int32(0), noise)[0].time  # little to compile

    env = make(f"MinAtar/{game}-v1")
    for ramping in (True, False):
        step(to_arrays(env.replace(ramping=ramping)), init(env, make_key(0)), noise(env, make_key(0)))
    assert len(traced) == 1


@pytest.mark.sampled
@pytest.mark.parametrize("game", ["Breakout", "Asterix", "Seaquest", "SpaceInvaders"])
def test_a_time_limit_truncates_only_where_it_is_set(game):
    state = init(make(f"MinAtar/{game}-v1"), make_key(0)).replace(time=jnp.int32(2499))
    for limit, truncated in ((None, False), (2500, True)):
        env = make(f"MinAtar/{game}-v1", max_steps=limit)
        _, _, terminated, cut, _ = advance(env, state, jnp.int32(0), noise(env, make_key(0)))
        assert bool(cut) == truncated and not terminated


def test_freeways_own_time_limit_is_a_termination():
    # MinAtar ends it on step 2,501; gymnax truncates it on step 2,500.
    env = make("MinAtar/Freeway-v1")
    for time, ends in ((2498, False), (2499, False), (2500, True)):
        state = init(env, make_key(0)).replace(time=jnp.int32(time))
        _, _, terminated, truncated, _ = advance(env, state, jnp.int32(0), noise(env, make_key(0)))
        assert bool(terminated) == ends and not truncated


@pytest.mark.parametrize("game", GAMES)
def test_the_picture_shows_every_channel_in_its_color(game):
    env = make(f"MinAtar/{game}-v1")
    state = init(env, make_key(0))
    picture, seen = env.render(state), np.asarray(observe(env, state))
    assert picture.shape == (240, 240, 3)
    colors = {tuple(color) for color in picture.reshape(-1, 3).tolist()}
    shown = [style.color in colors for style in env.channels.values()]
    covered = {"trail"}  # at the start of Breakout it lies under the ball
    for name, is_shown, cells in zip(env.channels, shown, np.moveaxis(seen, -1, 0), strict=True):
        assert is_shown == cells.any() or name in covered
    assert len({style.color for style in env.channels.values()}) >= len(env.channels) - 1


@pytest.mark.parametrize("field, value", [("sticky_action_prob", 1.5), ("sticky_action_prob", -0.1), ("max_steps", 0)])
def test_invalid_values_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        make("MinAtar/Asterix-v1", **{field: value})


@pytest.mark.parametrize(
    "game, field", [("Asterix", "init_spawn_speed"), ("Asterix", "init_move_interval"), ("Asterix", "ramp_interval")]
    + [("Freeway", "player_speed"), ("Freeway", "time_limit"), ("SpaceInvaders", "enemy_move_interval")],
)  # fmt: skip
def test_intervals_are_at_least_one_step(game, field):
    with pytest.raises(ValueError, match=f"{field}=0"):
        make(f"MinAtar/{game}-v1", **{field: 0})
    assert getattr(make(f"MinAtar/{game}-v1", **{field: 2}), field) == 2


def test_operations_on_eight_4_bit_numbers_in_one_word():
    numbers = np.array([0, 9, 4, 15, 7, 4, 1, 10])
    word = jnp.uint32(sum(int(n) << 4 * i for i, n in enumerate(numbers)))
    for value in (0, 4, 9, 15):
        assert int(equals(word, value)) == sum(1 << 4 * i for i in range(COUNT) if numbers[i] == value)
    flags = equals(word, 4)
    kept = [int(hide_unflagged(flags, word)) >> 4 * i & 15 for i in range(COUNT)]
    assert kept == [15, 15, 4, 15, 15, 4, 15, 15]
    chosen = [int(select(flags, jnp.uint32(repeated(2)), word)) >> 4 * i & 15 for i in range(COUNT)]
    assert chosen == [0, 9, 2, 15, 7, 2, 1, 10]
    assert [int(flag_at(jnp.int32(i))) for i in (-1, 0, 7, 8)] == [0, 1, 1 << 28, 0]


def test_the_examples_in_the_package_docstring_are_true():
    row_words = jnp.array([0, 6, 513, *[0] * 7], jnp.uint32)
    cells = to_cells((row_words,))[:, :, 0]
    assert np.argwhere(cells).tolist() == [[1, 1], [1, 2], [2, 0], [2, 9]]
    lane_1_holds_4 = 0x00000010
    assert equals(jnp.uint32(0x00090042), 4) == lane_1_holds_4
    x = tuple(map(jnp.uint32, (0b101, 0b000, 0b011, 0b100)))  # columns 5, 4 and 9
    assert where_equal(x, 4) & 0b111 == 0b010
    moved = increment_decrement(x, jnp.uint32(0b001), jnp.uint32(0b100))  # columns 6, 4 and 8
    assert [int(where_equal(moved, number)) & 0b111 for number in (6, 4, 8)] == [0b001, 0b010, 0b100]


def test_action_numbers():
    assert (LEFT, UP, RIGHT, DOWN, FIRE) == (1, 2, 3, 4, 5)
