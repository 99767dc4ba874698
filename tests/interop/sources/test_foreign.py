"""Environments of other JAX libraries in shoal, shown with a small library that has the form of gymnax."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from other_libraries import small_gymnax
from shoal.cli.main import main
from shoal.core.checks import check_env
from shoal.core.errors import UnknownNameError
from shoal.core.keys import make_key
from shoal.core.spaces import Box, Discrete
from shoal.interop.foreign import box, unbounded
from shoal.interop.gymnax_calls import space_of
from shoal.interop.sources import gymnax as source
from tiny import FIELDS, FLAGS, OPTIONS, SILENT


@pytest.fixture(autouse=True)
def _small_gymnax(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnax", small_gymnax())
    source.class_of.cache_clear()
    yield
    source.class_of.cache_clear()


def test_constants_and_arguments_become_fields():
    env = shoal.make("gymnax/Corridor-v0", prize=3, length=6)
    assert env.observation_space == Box(0, 99, (2,)) and env.action_space == Discrete(2)
    assert (env.prize, env.slip, env.noisy, env.length, env.max_steps) == (3.0, 0.0, False, 6, 5)
    with pytest.raises(TypeError, match=r"has no field 'prise'. Did you mean prize"):
        shoal.make("gymnax/Corridor-v0", prise=3)
    with pytest.raises(TypeError, match=r"has no field 'costs'"):  # it is no plain number
        shoal.make("gymnax/Corridor-v0", costs=3)


def test_the_environment_keeps_the_rules():
    assert check_env(shoal.make("gymnax/Corridor-v0", slip=0.2)) > 0


def test_the_end_of_the_corridor_terminates_and_the_time_limit_truncates():
    """Two steps to the right reach the end of a corridor of 2; in one of 9 the limit of 5 steps comes first."""
    for length, steps, terminated, truncated in ((2, 2, True, False), (9, 5, False, True), (5, 5, True, True)):
        env = shoal.make("gymnax/Corridor-v0", length=length, prize=2.5)
        obs, state = env.reset(make_key(0))
        for t in range(steps):
            assert obs.tolist() == [t, t]
            obs, state, reward, *ends, _ = env.step(make_key(t), state, 1)
            assert [*map(bool, ends)] == ([terminated, truncated] if t == steps - 1 else [False, False])
        assert obs.tolist() == [steps, steps]  # the final observation, not the first one of another episode
        assert reward == (2.5 if terminated else 0)


def test_the_limit_is_a_field_that_a_wrapper_may_remove():
    env = shoal.TimeLimit(shoal.make("gymnax/Corridor-v0", length=50), max_steps=None)
    _, state = env.reset(make_key(0))
    for t in range(12):
        _, state, _, terminated, truncated, _ = env.step(make_key(t), state, 1)
        assert not terminated and not truncated


def test_the_noise_of_a_step_reaches_the_library():
    env = shoal.make("gymnax/Corridor-v0", slip=0.3)
    _, state = env.reset(make_key(0))
    moved = jax.vmap(lambda key: env.step(key, state, jnp.int32(1))[0][0])(jax.random.split(make_key(1), 4000))
    np.testing.assert_allclose(moved.mean(), 0.7, atol=0.03)  # 4 standard deviations are 0.029


def test_a_population_over_a_constant_and_seeds_trains_resumes_and_is_evaluated(tmp_path):
    run, chosen = tmp_path / "run", {"env_fields": {"length": 3}, "env_sweep": {"slip": [0.0, 0.9]}, "seeds": 2}
    options = {"fields": FIELDS, **OPTIONS, **chosen, **SILENT}
    shoal.train("ppo", "gymnax/Corridor-v0", folder=run, **options)
    resumed = shoal.train(resume=run, steps=512, **SILENT)
    assert len(resumed.members) == 4 and '"gymnax/Corridor-v0"' in (run / "spec.json").read_text()
    episodes = shoal.evaluate(run, episodes=50, max_steps=5)
    assert episodes.episode_length.shape == (4, 50) and episodes.episode_length.max() <= 5
    successes = (episodes.episode_return.reshape(2, 2, 50) > 0).mean(axis=(1, 2))
    assert successes[0] > successes[1]  # with 90 % slips, three steps to the right rarely come within five


def test_the_command_line_trains_and_shows_the_fields(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "ppo", "gymnax/Corridor-v0", *FLAGS, "--env.slip", "0.5"]) == 0
    assert main(["envs", "gymnax/Corridor-v0"]) == 0
    assert "--env.slip" in capsys.readouterr().out


def test_the_list_of_environments_names_the_libraries_and_theirs(capsys):
    assert main(["envs"]) == 0
    listed = capsys.readouterr().out
    assert "`shoal envs LIBRARY/`" in listed and "gymnasium/, gymnax/" in listed
    for name in ("gymnax", "gymnax/"):
        assert main(["envs", name]) == 0
        assert capsys.readouterr().out.split() == ["gymnax/Corridor-v0", "gymnax/Wordy-v0", "gymnax/Unsteady-v0"]
    assert main(["envs", "gymnasium"]) == 0
    assert "gymnasium/CartPole-v1" in capsys.readouterr().out.split()


def test_a_value_inside_a_wrapper_is_stored_by_its_name(tmp_path):
    env = shoal.TimeLimit(shoal.make("gymnax/Corridor-v0", prize=2.0), max_steps=4)
    shoal.train("ppo", env, folder=tmp_path / "run", fields=FIELDS, **OPTIONS, **SILENT)
    assert shoal.evaluate(tmp_path / "run", episodes=3, max_steps=5).episode_length.max() <= 4


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match=r"'gymnax/Coridor-v0' is not registered. Did you mean gymnax/Corridor"):
        shoal.make("gymnax/Coridor-v0")


def test_what_shoal_cannot_hold_is_named():
    with pytest.raises(TypeError, match=r"the observation space of gymnax/Wordy-v0 is .*Text.*which shoal cannot hold"):
        shoal.make("gymnax/Wordy-v0")
    env = shoal.make("gymnax/Unsteady-v0")
    _, state = env.reset(make_key(0))
    with pytest.raises(TypeError, match=r"gymnax/Unsteady-v0 has int32\[\] in its state after a reset and float32\[\]"):
        env.step(make_key(0), state, 1)


@pytest.mark.parametrize("name", ["gymnax", "brax", "craftax", "jumanji", "navix", "playground"])
def test_a_missing_package_is_named_with_its_extra(name, monkeypatch):
    package = {"brax": "brax.envs", "craftax": "craftax.craftax_env", "playground": "mujoco_playground"}.get(name, name)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    known = {"craftax": "Craftax-Symbolic-v1"}.get(name, "ant")
    called = package.partition(".")[0]
    with pytest.raises(ImportError, match=rf"{name}/{known} needs the package '{called}', .*'shoal\[{name}\]'"):
        shoal.make(f"{name}/{known}")


def test_spaces_have_the_shapes_and_dtypes_of_real_elements():
    like = jax.ShapeDtypeStruct((2,), np.uint8)
    assert box(-np.inf, np.inf, like) == Box(0, 255, (2,), np.uint8)
    assert box(0, 1, jax.ShapeDtypeStruct((2,), np.bool_)) == Box(0, 1, (2,), np.bool_)
    assert box([0, -1], 1, jax.ShapeDtypeStruct((2,), np.float32)) == Box((0.0, -1.0), 1.0, (2,))
    tree = unbounded({"a": like, "b": (jax.ShapeDtypeStruct((), np.float32),)})
    assert tree["a"] == Box(0, 255, (2,), np.uint8) and tree["b"].spaces == (Box(-np.inf, np.inf),)


def test_a_declared_shape_that_is_wrong_is_replaced_by_the_real_one():
    from other_libraries import Box as Theirs

    space = space_of(Theirs(0, 1, (3,), np.float32), "it", jax.ShapeDtypeStruct((5,), np.float32))
    assert space == Box(-np.inf, np.inf, (5,))
