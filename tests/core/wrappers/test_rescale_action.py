"""RescaleAction: the same steps as with the actions of the inner environment, and what it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import Tally, advance, init
from shoal.core.checks import check_env
from shoal.core.registry import make
from shoal.core.spaces import Box
from shoal.core.struct import static, struct
from shoal.core.wrappers import RescaleAction
from shoal.envs.probes import ContinuousMatching

gymnasium = pytest.importorskip("gymnasium")


@struct
class Wide(ContinuousMatching):
    """A probe with a configurable action box."""

    space: Box = static(Box(-1.0, 1.0, (1,)))

    @property
    def action_space(self):
        return self.space


def test_it_keeps_the_contract():
    check_env(RescaleAction(make("Pendulum-v1"), 0.0, 1.0), steps=16)


def test_steps_are_those_of_the_rescaled_action():
    env, key = make("Pendulum-v1"), jax.random.key(1)
    wrapped = RescaleAction(env, low=0.0, high=1.0)
    for action, inner in ((0.0, -2.0), (0.5, 0.0), (0.75, 1.0), (1.0, 2.0), (9.0, 2.0)):
        one = advance(wrapped, init(wrapped, key), jnp.full(1, action), None)
        other = advance(env, init(env, key), jnp.full(1, inner), None)
        jax.tree.map(np.testing.assert_array_equal, one, other)


def test_actions_are_those_of_gymnasiums_wrapper():
    low, high = np.array([-1.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32)
    inner = Box((5.0, -2.0), (5.5, 2.0), (2,))
    theirs = gymnasium.wrappers.RescaleAction(
        _Spaces(*(np.asarray(side, np.float32) for side in (inner.low, inner.high))), low, high
    )
    ours = RescaleAction(Spy(space=inner), tuple(low.tolist()), tuple(high.tolist()))
    step = jax.jit(lambda action: ours.transition(ours.init(jax.random.key(0)), action, None))
    for action in np.random.default_rng(0).uniform(low, high, (20, 2)).astype(np.float32):
        seen = step(action)[3]["action"]
        np.testing.assert_allclose(seen, theirs.func(action), rtol=1e-5, atol=1e-5)


@struct
class Spy(Wide):
    """A probe whose info is the action."""

    def transition(self, state, action, noise):
        return state, jnp.float32(0), jnp.bool_(True), {"action": action}


class _Spaces(gymnasium.Env):
    """An environment of Gymnasium that has only spaces."""

    def __init__(self, low, high):
        self.action_space = gymnasium.spaces.Box(low, high)
        self.observation_space = gymnasium.spaces.Discrete(1)


@pytest.mark.parametrize(
    ("make_it", "error", "words"),
    [
        (lambda: RescaleAction(Tally()), TypeError, "actions in a Box of real numbers, not Discrete"),
        (lambda: RescaleAction(Wide(space=Box(0, 5, (1,), np.int32))), TypeError, "real numbers, not Box"),
        (lambda: RescaleAction(Wide(space=Box(0.0, np.inf, (1,)))), ValueError, "finite bounds of the inner"),
        (lambda: RescaleAction(make("Pendulum-v1"), 1.0, 1.0), ValueError, "finite low < high"),
        (lambda: RescaleAction(make("Pendulum-v1"), -np.inf, 1.0), ValueError, "finite low < high"),
        (lambda: RescaleAction(make("Pendulum-v1"), np.nan, 1.0), ValueError, "finite low < high"),
        (lambda: RescaleAction(make("Pendulum-v1"), (0.0, 0.0), 1.0), ValueError, r"of shape \(1,\)"),
        (lambda: RescaleAction(make("Pendulum-v1"), "a", 1.0), ValueError, "finite low < high"),
        (lambda: RescaleAction(make("Pendulum-v1"), None, 1.0), ValueError, "finite low < high"),
    ],
)
def test_what_cannot_be_rescaled_is_refused(make_it, error, words):
    with pytest.raises(error, match=words):
        make_it()
