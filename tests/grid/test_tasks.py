"""Rewards and ends of episodes that replace those of a level."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from maps import drawn, play, steps
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.cells import EMPTY, cell
from shoal.grid.level import GridState
from shoal.grid.tasks import EVENTS, OWN, REWARDS
from shoal.specs.describe import build, describe, from_json, to_json

LETTERS = {
    "L": cell("lava"),
    "D": cell("door", "red", "closed"),
    "K": cell("key", "red"),
    "O": cell("ball", "red"),
    "X": cell("box", "red"),
}
# What happens in the strip, and the event that it is.
HAPPENS = [
    ("#>G#", "forward", "goal"),
    ("#>L#", "forward", "lava"),
    ("#>D#", "toggle", "door-opened"),
    ("#>K#", "pickup", "key-taken"),
    ("#>O#", "pickup", "ball-taken"),
    ("#>X#", "pickup", "box-taken"),
    ("#>.#", "forward", None),
]


def level(**fields):
    return make("MiniGrid-DoorKey-5x5-v0", **fields)


def strip(row, **more):
    return drawn(GridState, f"{'#' * len(row)} {row} {'#' * len(row)}", LETTERS, **more)


def distance_reward(before, after, action):
    """How far to the right the agent went in this step."""
    del action
    return (after.x - before.x).astype(jnp.float32)


def stands_still(before, after, action):
    return (before.x == after.x) & (action == 2)


@pytest.mark.parametrize("event", [name for name in EVENTS if name != "never"])
@pytest.mark.parametrize(("row", "action", "happened"), HAPPENS)
def test_an_event_is_rewarded_with_1_and_ends_the_episode(event, row, action, happened):
    _, reward, terminated, _ = play(level(reward=event, done=event), strip(row), action)
    assert (reward, terminated) == (float(event == happened), event == happened)


def test_an_event_happens_once():
    played = steps(level(reward="door-opened", done="never"), strip("#>D#"), *["toggle"] * 3, "done")
    assert played.reward == [1, 0, 1, 0] and played.terminated == [False] * 4
    holds = steps(level(reward="key-taken", done="never"), strip("#>K#"), "pickup", "left", "right", "drop", "pickup")
    assert holds.reward == [1, 0, 0, 0, 1]


def test_costs_of_steps_and_of_walls():
    cost = np.float32(-0.01)
    assert steps(level(reward="time-cost"), strip("#.>#"), "left", "forward").reward == [cost, cost]
    played = steps(level(reward="wall-cost"), strip("#>.#"), "forward", "forward", "left", "toggle")
    np.testing.assert_allclose(played.reward, [0, cost, 0, 0])
    assert steps(level(reward="none", done="never"), strip("#>G#"), "forward").reward == [0]


def test_never_leaves_only_the_time_limit():
    played = steps(level(done="never", max_steps=3), strip("#>GL#"), "forward", "forward", "left")
    assert played.terminated == [False] * 3 and played.truncated == [False, False, True]
    assert played.reward[0] == pytest.approx(1 - 0.9 / 3) and played.reward[1:] == [0, 0]


def test_rewards_are_added_and_any_end_ends_the_episode():
    both = level(reward=(OWN, "time-cost", distance_reward), done=(OWN, stands_still))
    _, reward, terminated, _ = play(both, strip("#>G#"), "forward")
    assert reward == pytest.approx((1 - 0.9 / 250) - 0.01 + 1) and terminated
    _, reward, terminated, _ = play(both, strip("#.>#"), "forward")
    assert reward == pytest.approx(-0.01) and terminated
    _, reward, terminated, _ = play(both, strip("#.<#"), "forward")
    assert reward == pytest.approx(-0.01 - 1) and not terminated


def test_own_is_the_reward_of_the_level():
    for name in ("MiniGrid-LavaGapS5-v0", "MiniGrid-Fetch-5x5-N2-v0", "BabyAI-GoToRedBall-v0"):
        env, same = make(name), make(name, reward=OWN, done=OWN)
        for one, other in zip(_random_steps(env), _random_steps(same), strict=True):
            np.testing.assert_array_equal(one, other)


def _random_steps(env):
    def step(carry, key):
        state = carry
        k_action, k_noise = jax.random.split(key)
        action = jax.random.randint(k_action, (), 0, 7)
        state, *rest = env.advance(state, action, env.noise(k_noise))
        return state, rest[:3]

    _, seen = jax.jit(lambda key: jax.lax.scan(step, env.init(key), jax.random.split(key, 200)))(make_key(1))
    return jax.tree.map(np.asarray, seen)


def test_a_reward_of_whole_numbers_or_flags_is_a_float():
    for function in (lambda before, after, action: after.x, lambda before, after, action: after.x > 0):
        _, _, reward, *_ = jax.eval_shape(lambda f=function: level(reward=f).step(make_key(0), strip("#>.#"), 2))
        assert reward.dtype == jnp.float32


def test_a_level_with_other_parts_passes_the_contract():
    shoal.check_env(level(reward=distance_reward, done=(OWN, stands_still), view="full"))


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"reward": "gaol"}, ValueError, "reward='gaol' is unknown. Did you mean goal\\? Choose one of own, goal"),
        ({"done": "time-cost"}, ValueError, "done='time-cost' is unknown"),
        ({"done": ()}, ValueError, "give a name, a function, or a tuple of several"),
        ({"reward": 3}, TypeError, "reward=3 is neither a name nor a function"),
        ({"reward": ("goal", 3)}, TypeError, "reward=3 is neither a name nor a function"),
        ({"reward": "my.py:bonus"}, ValueError, "given itself; on the command line it is FILE.py:FUNCTION"),
        ({"reward": lambda state: 1.0}, TypeError, r"write reward\(before, after, action\). It has the arguments"),
        ({"reward": lambda b, a, action: a.grid}, ValueError, r"returns an array \[5, 5\]: .* returns one number"),
        ({"reward": lambda b, a, action: (1.0, 2.0)}, ValueError, "returns a tuple: .* returns one number"),
        ({"done": lambda b, a, action: a.x}, ValueError, "a number of int32: .* returns one bool"),
        ({"done": lambda b, a, action: a.x > 1 or a.y > 1}, TypeError, "use jnp.where"),
        ({"view": ("full", "rgb")}, ValueError, "give a name, a function"),
        ({"view": "whole"}, ValueError, "view='whole' is unknown.* Choose one of partial, full"),
        ({"view": lambda state: {"a": state.grid}}, ValueError, r"returns a dict: view\(state\) returns one array"),
        ({"view": lambda state, action: state.grid}, TypeError, r"write view\(state\)"),
    ],
)
def test_wrong_parts_are_refused_in_one_message(fields, error, words):
    with pytest.raises(error, match=words):
        level(**fields)


def test_functions_are_written_into_descriptions_by_their_names():
    env = level(reward=("goal", distance_reward), done=stands_still, view="symbolic")
    described = describe(env)
    assert described.fields["done"].kind == "function" and described.fields["done"].name.endswith(":stands_still")
    again = build(from_json(to_json(described)))
    assert (again.reward, again.done, again.view) == (env.reward, env.done, env.view)
    assert not {"reward", "done", "view"} & {*describe(level()).fields}  # the specs of exact ids stay as they are


def test_every_ready_part_can_be_had():
    for name in REWARDS:
        assert level(reward=name).reward == name
    state = strip("#>K#", carrying=cell("ball", "red"))
    assert play(level(reward="key-taken"), state, "pickup")[1] == 0 and state.carrying != EMPTY
