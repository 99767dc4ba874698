"""Jobs: runs of wrapped worlds and networks from start to end, repeated, resumed and made to go on."""

import jax
import numpy as np
import pytest

import shoal
from shoal.agents.ppo import PPO
from shoal.cli.main import main
from shoal.core.wrappers.frame_stack import FrameStack
from shoal.nn.torsos import MLP
from shoal.training.folder import RunFolder
from tiny import OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory):
    """A network of one's own in a wrapped world, at two gravities."""
    return shoal.train(
        PPO(network=MLP((8,), "relu"), num_envs=4, num_steps=16),
        FrameStack(shoal.make("CartPole-v1"), 2),
        env_sweep={"env.gravity": [5.0, 10.0]},
        root=tmp_path_factory.mktemp("runs"),
        **OPTIONS,
        **SILENT,
    )


def test_a_wrapped_run_is_named_and_loaded_without_its_values(wrapped):
    assert wrapped.folder.name == "ppo-FrameStack-CartPole-v1"
    assert repr(wrapped).startswith("<Result ppo on FrameStack(CartPole-v1): mean return")
    policy = shoal.load(wrapped.folder, 1)
    assert policy.env.env.gravity == 10.0 and policy(np.zeros((2, 4))).shape == ()
    for mine, theirs in zip(policy.weights.weights["actor"], wrapped.policies[1].weights.weights["actor"], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_wrapped_run_is_evaluated_in_another_inner_world(wrapped):
    many = shoal.evaluate(wrapped.folder, episodes=2, max_steps=8, env_fields={"env.force_mag": 0.0})
    alone = shoal.evaluate(shoal.load(wrapped.folder, 1), episodes=2, max_steps=8, env_fields={"env.force_mag": 0.0})
    np.testing.assert_array_equal(many.episode_return[1], alone.episode_return)
    with pytest.raises(TypeError, match="FrameStack has no field 'gravity'. Did you mean env.env.gravity?"):
        shoal.evaluate(wrapped.folder, episodes=2, env_fields={"gravity": 0.0})


def test_a_wrapped_run_is_evaluated_and_resumed_from_the_command_line(wrapped, capsys):
    assert main(["eval", str(wrapped.folder), "--episodes", "2"]) == 0
    assert "env.env.gravity=10.0" in capsys.readouterr().out
    assert main(["train", "--resume", str(wrapped.folder), "--no-progress", "--no-figures"]) == 0
    assert main(["train", "--resume", str(wrapped.folder), "--env.n", "3"]) == 2
    assert "env.n: 2 -> 3" in capsys.readouterr().err


def test_a_wrapped_run_is_exported_and_loaded(wrapped, tmp_path):
    made = shoal.load(RunFolder(_export(wrapped.folder, tmp_path / "policy")).path)
    assert made.env.env.gravity == 10.0 and made.env.n == 2


def _export(run, out):
    from shoal.training.export import export

    return export(run, out, 1)
