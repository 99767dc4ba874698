"""Paths to hyperparameters: the fields they reach, how these are replaced, and errors for unknown paths."""

import re

import jax
import numpy as np
import pytest

from shoal.agents.ppo import PPO
from shoal.core.ranges import Range
from shoal.core.struct import Number, Struct, hyper, static, struct
from shoal.core.wrappers.frame_stack import FrameStack
from shoal.core.wrappers.time_limit import TimeLimit
from shoal.envs.classic.cartpole import CartPole
from shoal.nn.torsos import MLP
from shoal.specs.settings import (
    AgentEnv,
    apply,
    get,
    hyperparameters,
    is_static,
    join,
    populate,
    replaced,
    separate,
)

PLAIN = AgentEnv(PPO(), CartPole())
NESTED = AgentEnv(PPO(network=MLP((8,), "relu")), TimeLimit(FrameStack(CartPole(gravity=5.0), 3), 50))


def test_paths_of_agent_and_environment_are_distinguished():
    values = {"learning_rate": 1e-3, "env.gravity": 5.0, "env.env.length": 0.5}
    assert separate(values) == ({"learning_rate": 1e-3}, {"gravity": 5.0, "env.length": 0.5})
    assert join(*separate(values)) == values
    assert separate({"environment": 1}) == ({"environment": 1}, {})


def test_a_value_is_put_where_its_path_leads():
    made = apply(NESTED, {"clip": 0.1, "network.hidden": (4, 4), "env.env.env.gravity": 1.5, "env.max_steps": 7})
    assert made.agent.clip == 0.1 and made.agent.network == MLP((4, 4), "relu")
    assert made.env.env.env.gravity == 1.5 and made.env.max_steps == 7
    assert made.env.env.n == 3 and made.agent.num_envs == NESTED.agent.num_envs  # the rest is as it was
    assert NESTED.env.env.env.gravity == 5.0


def test_a_whole_value_and_a_field_of_it_may_change_together():
    made = apply(NESTED, {"env.env": FrameStack(CartPole(), 2), "env.env.env.gravity": 1.5})
    assert made.env.env.n == 2 and made.env.env.env.gravity == 1.5


@struct
class Interval(Struct):
    """Two numbers, the lower one first; and a tuple of such."""

    low: Number = hyper(0.0)
    high: Number = hyper(1.0)
    parts: tuple = ()

    def __post_init__(self):
        if np.any(self.low > self.high):
            raise ValueError("empty")


def test_fields_that_are_checked_together_change_together():
    assert replaced(Interval(), {"low": 5.0, "high": 6.0}).low == 5.0
    with pytest.raises(ValueError, match="empty"):
        replaced(Interval(), {"low": 5.0})


def test_a_part_of_a_tuple_has_a_path():
    value = Interval(parts=(Interval(), Interval(high=3.0)))
    assert replaced(value, {"parts.1.high": 9.0}).parts[1].high == 9.0


def test_a_value_is_found_by_its_path():
    assert get(NESTED, "env.env.env.gravity") == 5.0 and get(NESTED, "network.activation") == "relu"
    assert get(NESTED, "learning_rate") == PPO().learning_rate and get(NESTED, "env") is NESTED.env


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("lerning_rate", "PPO has no field 'lerning_rate'. Did you mean learning_rate?"),
        ("env.gravity", "TimeLimit has no field 'gravity'. Did you mean env.env.env.gravity?"),
        ("env.env.grav", "FrameStack has no field 'grav'. Its fields are: env.env.env, env.env.n, env.env.layout."),
        ("network.hiden", "MLP has no field 'hiden'. Did you mean hidden?"),
        ("clip.x", "float has no field 'x'. Its fields are: none."),
        ("gravity", "PPO has no field 'gravity'"),
    ],
)
def test_the_error_of_an_unknown_path_suggests_near_ones(path, answer):
    for look in (lambda: get(NESTED, path), lambda: apply(NESTED, {path: 1}), lambda: is_static(NESTED, path)):
        with pytest.raises(TypeError, match=re.escape(answer)):
            look()


def test_static_and_traced_fields_are_distinguished():
    found = hyperparameters(NESTED)
    traced, fixed = ([path for path in found if found[path].static == static] for static in (False, True))
    assert {"learning_rate", "clip", "env.max_steps", "env.env.env.gravity"} <= set(traced)
    assert {"num_envs", "network.hidden", "network.activation", "env.env.n"} <= set(fixed)
    assert not set(traced) & set(fixed) and not {"observation_space", "env.env", "network"} & {*traced, *fixed}
    for path in (*traced, *fixed):
        assert is_static(NESTED, path) == (path in fixed)
    assert is_static(NESTED, "network") and not is_static(NESTED, "env.env")


@struct
class Holder(Struct):
    """A value inside a static field: none of its numbers can be traced."""

    inside: Interval = static(None)


def test_numbers_inside_a_static_field_are_static():
    held = AgentEnv(Holder(Interval()), CartPole())  # type: ignore[arg-type]
    found = hyperparameters(held)
    assert found["inside.low"].static and is_static(held, "inside.low") and not found["env.gravity"].static


def test_hyperparameters_carry_their_declared_search_range():
    found = hyperparameters(PLAIN)
    assert found["learning_rate"].search == Range(1e-5, 1e-2, "log") and found["env.gravity"].search is None


def test_every_leaf_of_a_population_has_a_leading_member_axis():
    rate, gravity = np.asarray([1e-3, 1e-4, 1e-5]), [1, 2.5, 3]
    made = populate(PLAIN, {"learning_rate": rate, "env.gravity": np.asarray(gravity)}, 3)
    for leaf in jax.tree.leaves(made):
        assert isinstance(leaf, np.ndarray) and leaf.shape[0] == 3 and leaf.dtype.itemsize == 4
    np.testing.assert_array_equal(made.agent.learning_rate, rate.astype(np.float32))
    np.testing.assert_array_equal(made.env.gravity, np.asarray(gravity, np.float32))
    assert made.agent.clip.strides == (0,)  # stored once
    one = jax.tree.map(lambda x: x[1], made)
    want = apply(PLAIN, {"learning_rate": 1e-4, "env.gravity": 2.5})
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(want), strict=True):
        assert mine == np.float32(theirs)


def test_a_population_accepts_pytrees_and_refuses_other_lengths():
    value = Interval(low=np.asarray([0.0, 0.5]))
    made = populate(PLAIN, {"env.length": np.asarray([0.25, 0.5])}, 2)
    assert made.env.length.shape == (2,)
    with pytest.raises(ValueError, match=r"env.length has shape \(2,\), and a population of 3 needs \(3, ...\)"):
        populate(PLAIN, {"env.length": np.asarray([0.25, 0.5])}, 3)
    holder = AgentEnv(Interval(parts=(Interval(),)), CartPole())  # type: ignore[arg-type]
    made = populate(holder, {"parts.0": value.replace(high=np.asarray([1.0, 2.0]))}, 2)
    np.testing.assert_array_equal(made.agent.parts[0].low, np.float32([0, 0.5]))
    assert made.agent.low.shape == (2,)
