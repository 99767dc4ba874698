"""Every wrapper against the corresponding MiniGrid class, step by step from the reference's own layouts."""

from functools import partial

import jax
import jax.numpy as jnp
import minigrid.wrappers as theirs
import numpy as np
import pytest

import shoal.grid.wrappers as ours
from parity.minigrid.reference import make_reference, packed_grid
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.level import GridState, begin
from shoal.grid.words import decode, encode
from shoal.grid.wrappers.base import level_of
from shoal.grid.wrappers.flat_obs import characters

KEY = make_key(0)
DOORKEY, CROSSING = "MiniGrid-DoorKey-5x5-v0", "MiniGrid-LavaCrossingS9N1-v0"
DOORS, DISTSHIFT = "MiniGrid-RedBlueDoors-6x6-v0", "MiniGrid-DistShift1-v0"  # 12 x 6, and 9 x 7 with a goal: oblong
BIASED = [0.12, 0.12, 0.42, 0.12, 0.05, 0.12, 0.05]
OBSERVATIONS = {
    "FullyObs": (ours.FullyObs, theirs.FullyObsWrapper),
    "OneHotPartialObs": (ours.OneHotPartialObs, theirs.OneHotPartialObsWrapper),
    "RGBImgObs": (ours.RGBImgObs, theirs.RGBImgObsWrapper),
    "RGBImgObs-5": (partial(ours.RGBImgObs, tile_size=5), partial(theirs.RGBImgObsWrapper, tile_size=5)),
    "RGBImgPartialObs": (ours.RGBImgPartialObs, theirs.RGBImgPartialObsWrapper),
    "SymbolicObs": (ours.SymbolicObs, theirs.SymbolicObsWrapper),
    "FlatObs": (ours.FlatObs, theirs.FlatObsWrapper),
    "DictObservationSpace": (ours.DictObservationSpace, theirs.DictObservationSpaceWrapper),
    "ViewSize-5": (partial(ours.ViewSize, view_size=5), partial(theirs.ViewSizeWrapper, agent_view_size=5)),
    "DirectionObs-slope": (ours.DirectionObs, theirs.DirectionObsWrapper),
    "DirectionObs-angle": (partial(ours.DirectionObs, kind="angle"), partial(theirs.DirectionObsWrapper, type="angle")),
    "DirectionObs-angle_atan2": (
        partial(ours.DirectionObs, kind="angle_atan2"),
        partial(theirs.DirectionObsWrapper, type="angle_atan2"),
    ),
    "ImgObs": (ours.ImgObs, theirs.ImgObsWrapper),
    "ImgObs-RGBImgObs": (
        lambda env: ours.ImgObs(ours.RGBImgObs(env)),
        lambda env: theirs.ImgObsWrapper(theirs.RGBImgObsWrapper(env)),
    ),
    "FlatObs-FullyObs": (
        lambda env: ours.FlatObs(ours.FullyObs(env)),
        lambda env: theirs.FlatObsWrapper(theirs.FullyObsWrapper(env)),
    ),
}


def test_every_wrapper_of_minigrid_has_a_counterpart():
    kinds = [kind for kind in vars(theirs).values() if isinstance(kind, type) and kind.__module__ == theirs.__name__]
    own = {name for name in vars(ours) if name[0].isupper()}
    assert own == {kind.__name__.removesuffix("Wrapper") for kind in kinds}


def level_state(reference):
    """The reference's situation at the start of an episode, as our state."""
    return GridState(**begin(packed_grid(reference), *map(int, reference.agent_pos), int(reference.agent_dir)))


def with_level_state(state, inside):
    """A wrapper's state around another state of the level."""
    return inside if isinstance(state, GridState) else state.replace(inner=with_level_state(state.inner, inside))


def play(wrap_ours, wrap_theirs, name, episodes, steps, compare, noise_for=None):
    """Step both sides from the reference's layouts, and `compare(our observation, reward, flags; theirs)` each time."""
    env = wrap_ours(make(name))
    reference = wrap_theirs(make_reference(name))

    @jax.jit  # one program for first observations and for steps
    def step(state, action, noise, begins):
        after, *numbers, _ = env.advance(state, action, noise)
        return after, numbers, env.observe(jax.tree.map(partial(jnp.where, begins), state, after))

    begin = jax.jit(lambda inside: with_level_state(env.init(KEY), inside))  # the level's own layout is never made
    carry_over, fixed = jax.jit(env.carry_over), jax.jit(env.noise)(KEY)
    space, ended = env.observation_space, None
    rng, met = np.random.default_rng(1), []
    for episode in range(episodes):
        obs, _ = reference.reset(seed=episode)
        state = begin(level_state(reference.unwrapped))
        state = state if ended is None else carry_over(ended, state)
        _, _, seen = step(state, jnp.int32(0), fixed, True)
        compare(jax.tree.map(np.asarray, seen), obs)
        for _ in range(steps):
            action = int(rng.choice(7, p=BIASED))
            noise = fixed if noise_for is None else noise_for(reference, rng)
            state, numbers, seen = step(state, jnp.int32(action), noise, False)
            obs, *their_numbers, _ = reference.step(action)
            assert space.contains(seen)
            compare(jax.tree.map(np.asarray, seen), obs)
            np.testing.assert_allclose(np.array(numbers, float), np.array(their_numbers, float), rtol=1e-6, atol=1e-6)
            met.append(tuple(map(float, their_numbers)))
            if their_numbers[1] or their_numbers[2]:
                break
        ended = state
    return met


def same_observation(mine, other):
    if not isinstance(other, dict):
        np.testing.assert_array_equal(mine, other)
        return
    assert set(mine) == set(other)
    for part, value in other.items():
        if part == "mission" and isinstance(value, str):
            assert decode(mine[part]) == value
        else:
            np.testing.assert_allclose(mine[part], value, rtol=1e-6)  # of integers, equality


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations_are_minigrids(kind):
    met = play(*OBSERVATIONS[kind], DOORKEY, 4, 40, same_observation)
    assert len(met) > 80


def oblong(kind):
    return DISTSHIFT if kind.startswith("DirectionObs") else DOORS  # which has no goal


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_observations_of_an_oblong_grid_are_minigrids(kind):
    met = play(*OBSERVATIONS[kind], oblong(kind), 4, 40, same_observation)
    assert len(met) > 20


@pytest.mark.parametrize("kind", OBSERVATIONS)
@pytest.mark.parametrize("is_oblong", [False, True])
def test_spaces_have_minigrids_shapes(kind, is_oblong):
    wrap_ours, wrap_theirs = OBSERVATIONS[kind]
    name = oblong(kind) if is_oblong else DOORKEY
    mine, other = wrap_ours(make(name)).observation_space, wrap_theirs(make_reference(name)).observation_space
    if not hasattr(other, "spaces"):
        assert mine.shape == other.shape and mine.dtype == other.dtype
        return
    for part in set(other.spaces) - {"mission"}:
        assert mine[part].shape == other[part].shape
    if kind == "DictObservationSpace":
        assert mine["mission"].nvec == tuple(other["mission"].nvec)


def ignore_observations(mine, other):
    del mine, other


@pytest.mark.sampled
@pytest.mark.parametrize("name", [DOORKEY, DOORS])
def test_action_bonus_is_minigrids_over_episodes(name):
    met = play(ours.ActionBonus, theirs.ActionBonus, name, 4, 60, ignore_observations)
    bonuses = {round(reward, 6) for reward, *_ in met}
    assert {1.0, round(1 / np.sqrt(2), 6), 0.5} <= bonuses  # the first, second and fourth time


@pytest.mark.sampled
@pytest.mark.parametrize("name", [DOORKEY, DOORS])
def test_position_bonus_is_minigrids_over_episodes(name):
    scaled = partial(ours.PositionBonus, scale=0.3), partial(theirs.PositionBonus, scale=0.3)
    met = play(*scaled, name, 4, 60, ignore_observations)
    assert min(reward for reward, *_ in met) < 0.3 / np.sqrt(20)  # counts were not reset


class Scripted:
    """In the place of the reference's random numbers: those that our wrapper was given."""

    def __init__(self, chance, action):
        self.chance, self.action = chance, action

    def random(self):
        return self.chance

    def integers(self, n):
        assert n == 7
        return self.action


@pytest.mark.parametrize("random_action", [None, 2])
def test_stochastic_actions_equal_minigrid_with_the_same_random_numbers(random_action):
    def draw(reference, rng):
        chance, action = float(np.float32(rng.random())), int(rng.integers(7))
        reference.unwrapped._np_random = Scripted(chance, action)
        return (jnp.float32(chance), jnp.int32(action)), None

    wrap = partial(ours.StochasticAction, probability=0.6, random_action=random_action)
    other = partial(theirs.StochasticActionWrapper, prob=0.6, random_action=random_action)
    play(wrap, other, DOORKEY, 3, 40, same_observation, draw)


def test_no_death_is_minigrids():
    wrap = partial(ours.NoDeath, objects=("lava",), death_cost=-0.5)
    other = partial(theirs.NoDeath, no_death_types=("lava",), death_cost=-0.5)
    met = play(wrap, other, CROSSING, 12, 60, same_observation)
    assert (-0.5, 0.0, 0.0) in met
    assert not any(terminated and reward <= 0 for reward, terminated, _ in met)


@pytest.mark.parametrize(
    "text",
    [
        "get the red key from the purple room, unlock the red door and go to the goal",
        "you must fetch a yellow ball",
        "traverse the rooms to get to the goal",
    ],
)
def test_flat_missions_are_encoded_as_in_minigrid(text):
    reference = theirs.FlatObsWrapper(make_reference(DOORKEY))
    flat = reference.observation({"image": np.zeros(0, np.uint8), "mission": text}).reshape(96, 28)
    expected = np.where(flat.any(axis=1), flat.argmax(axis=1), 28)
    padded = jnp.asarray(encode(text, length=20))
    np.testing.assert_array_equal(characters(padded, 96), expected)


def test_reseed_takes_its_seeds_in_minigrids_order():
    reference, seeds = make_reference("MiniGrid-Empty-Random-6x6-v0"), (1, 2, 3)
    by_layout = {}
    for seed in seeds:
        reference.reset(seed=seed)
        by_layout[(*map(int, reference.agent_pos), int(reference.agent_dir))] = seed
    assert len(by_layout) == len(seeds)
    wrapped, order = theirs.ReseedWrapper(reference, seeds=seeds, seed_idx=1), []
    for _ in range(5):
        wrapped.reset()
        order.append(by_layout[(*map(int, reference.agent_pos), int(reference.agent_dir))])

    env = ours.Reseed(make("MiniGrid-Empty-Random-6x6-v0"), seeds=seeds, first=1)
    init, carry_over, init_level = jax.jit(env.init), jax.jit(env.carry_over), jax.jit(level_of(env).init)
    states = [init(KEY)]
    for i in range(4):
        states.append(carry_over(states[-1], init(make_key(i))))
    for seed, state in zip(order, states, strict=True):
        expected = init_level(make_key(seed))
        assert all(jax.tree.leaves(jax.tree.map(jnp.array_equal, state.inner, expected)))
