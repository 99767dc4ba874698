"""MiniGrid's wrappers and pictures around BabyAI's levels."""

from functools import partial

import jax
import jax.numpy as jnp
import minigrid.wrappers as theirs
import numpy as np
import pytest

import shoal.grid.wrappers as ours
from parity.babyai.harness import start_of_ours
from parity.babyai.players import FORWARD_BIASED
from parity.babyai.reference import begin, fresh
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.wrappers import StickyActions, TimeLimit
from shoal.grid.words import decode
from shoal.grid.wrappers.flat_obs import CHARACTERS, characters

LOCAL, BOSS = "BabyAI-GoToLocal-v0", "BabyAI-MiniBossLevel-v0"
BOTH = {
    "FullyObs": (ours.FullyObs, theirs.FullyObsWrapper),
    "OneHotPartialObs": (ours.OneHotPartialObs, theirs.OneHotPartialObsWrapper),
    "RGBImgObs": (partial(ours.RGBImgObs, tile_size=5), partial(theirs.RGBImgObsWrapper, tile_size=5)),
    "RGBImgPartialObs": (ours.RGBImgPartialObs, theirs.RGBImgPartialObsWrapper),
    "SymbolicObs": (ours.SymbolicObs, theirs.SymbolicObsWrapper),
    "ViewSize": (partial(ours.ViewSize, view_size=5), partial(theirs.ViewSizeWrapper, agent_view_size=5)),
}


def play(name, wrap, wrap_theirs, steps=25):
    """(our observation, the reference's) of each step of an episode that begins in a layout of ours, and both sides."""
    env, wrapped, reference = make(name), wrap(make(name)), fresh(name, seed=0)
    state = jax.jit(env.init)(make_key(3))
    begin(reference, start_of_ours(env, jax.tree.map(np.asarray, state)))
    other = wrap_theirs(reference)

    @jax.jit
    def step(state, action):
        state, *_ = wrapped.advance(state, action, None)
        return state, wrapped.observe(state)

    rng = np.random.default_rng(1)
    for _ in range(steps):
        action = int(rng.choice(7, p=FORWARD_BIASED))
        state, obs = step(state, jnp.int32(action))
        their_obs, _, terminated, _, _ = other.step(action)
        yield env, state, jax.tree.map(np.asarray, obs), their_obs, reference
        if terminated:
            return


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("name", [BOSS, LOCAL])
def test_observations_are_minigrids(name, kind):
    count = 0
    for _, _, obs, their_obs, _ in play(name, *BOTH[kind]):
        np.testing.assert_allclose(obs["image"], their_obs["image"])
        assert decode(obs["mission"]) == their_obs["mission"]
        count += 1
    assert count > 5


def test_pictures_are_minigrids():
    for env, state, _, _, reference in play(BOSS, lambda env: env, lambda env: env, steps=8):
        pictured = env.replace(tile_size=8)
        np.testing.assert_array_equal(pictured.render(state), reference.get_frame(tile_size=8))
        pictured = pictured.replace(agent_pov=True)
        np.testing.assert_array_equal(pictured.render(state), reference.get_frame(tile_size=8, agent_pov=True))


@pytest.mark.parametrize("name", [LOCAL, BOSS])
def test_missions_are_padded_to_one_length_and_spelled(name):
    env = make(name)
    state = jax.jit(env.init)(make_key(2))
    text = env.mission_text(state)
    padded = ours.DictObservationSpace(env, max_words=72)
    mission = padded.observe(state)["mission"]
    assert mission.shape == (72,) and decode(mission) == text and padded.observation_space["mission"].nvec == (61,) * 72
    spelled = characters(env.mission(state), env.longest_mission)
    assert "".join(CHARACTERS[i] for i in np.asarray(spelled) if i < len(CHARACTERS)) == text
    assert ours.FlatObs(env, max_length=env.longest_mission).observe(state).shape == (147 + 28 * env.longest_mission,)
    with pytest.raises(ValueError, match=f"missions of this level have up to {env.longest_mission} characters"):
        ours.FlatObs(env, max_length=20)
    with pytest.raises(ValueError, match=f"missions of this level have up to {env.mission_length} words"):
        ours.DictObservationSpace(env, max_words=3)


def test_wrappers_keep_the_time_limit_of_the_episode():
    env = StickyActions(ours.ActionBonus(make(BOSS)), 0.1)
    state = jax.jit(env.init)(make_key(0))
    own = int(state.inner.inner.limit)
    assert int(env.limit_of(state)) == own and env.limit_range == (100, 800)
    late = state.replace(time=jnp.int32(own - 1))
    assert bool(env.advance(late, jnp.int32(6), env.noise(make_key(1)))[3])
    assert not bool(TimeLimit(env).advance(late, jnp.int32(6), env.noise(make_key(1)))[3])
