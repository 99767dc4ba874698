"""Presets: they are read from files and checked, and given fields override them."""

import pytest

import shoal
from shoal import PPO
from shoal.agents import presets
from shoal.core.registry import AGENTS, ENVS
from shoal.specs.describe import describe_fields
from shoal.training.jobs import make_job

GOOD = '["CartPole-v1"]\nsteps = 1000\nevidence = "by hand"\nhidden = [8]\nnum_envs = 2\n'


def write_presets(tmp_path, text):
    path = tmp_path / "ppo.toml"
    path.write_text(text)
    return path


def test_every_preset_binds_to_its_environment():
    for agent in AGENTS:
        for preset in presets.presets(agent).values():
            preset.build().bind(ENVS[preset.env].build(**preset.env_fields))


def test_given_fields_override_the_preset_of_the_agent(tmp_path, monkeypatch):
    table = presets.read(
        write_presets(tmp_path, GOOD + 'learning_rate = 0.5\n["CartPole-v1:fast"]\nsteps = 7\nevidence = "x"\n'), "ppo"
    )
    monkeypatch.setattr(presets, "presets", lambda agent: table)
    spec = make_job("ppo", "CartPole-v1", fields={"num_envs": 8}, sweep={"learning_rate": [0.1]}).spec
    usual = describe_fields(PPO())
    rest = {name: value for name, value in usual.items() if name != "learning_rate"}  # which is swept
    assert spec.fields == {**rest, "hidden": (8,), "num_envs": 8} and spec.steps == 1000
    assert make_job("ppo", "CartPole-v1", preset="fast", steps=9).spec.steps == 9
    assert make_job("ppo", "CartPole-v1", preset="fast").spec.steps == 7
    assert make_job("ppo", "CartPole-v1", preset=None).spec.fields == usual
    assert make_job(PPO(), "CartPole-v1").spec.fields == usual  # a value is taken as it is
    with pytest.raises(ValueError, match="no preset 'fats' for CartPole-v1. Did you mean fast"):
        make_job("ppo", "CartPole-v1", preset="fats")
    assert shoal.preset("ppo", "CartPole-v1").build(num_envs=4).num_envs == 4
    with pytest.raises(ValueError, match="ppo has no preset for Pendulum-v1. It has: CartPole-v1"):
        shoal.preset("ppo", "Pendulum-v1")


def test_given_fields_override_the_environment_fields_of_a_preset(tmp_path, monkeypatch):
    light = '["CartPole-v1:light"]\nsteps = 7\nevidence = "x"\nenv.gravity = 5.0\nenv.force_mag = 8\n'
    table = presets.read(write_presets(tmp_path, GOOD + light), "ppo")
    monkeypatch.setattr(presets, "presets", lambda agent: table)
    usual = describe_fields(shoal.make("CartPole-v1"))
    light = {**usual, "gravity": 5.0, "force_mag": 8}
    assert make_job("ppo", "CartPole-v1").spec.env_fields == usual
    assert make_job("ppo", "CartPole-v1", preset="light").spec.env_fields == light
    changed = make_job(
        "ppo", "CartPole-v1", preset="light", env_fields={"gravity": 1}, env_sweep={"force_mag": [5, 10]}
    )
    rest = {name: value for name, value in usual.items() if name != "force_mag"}
    assert changed.spec.env_fields == {**rest, "gravity": 1} and changed.spec.env_sweep == {"force_mag": [5, 10]}
    with pytest.raises(ValueError, match="changes the environment: only a variant may"):
        presets.read(write_presets(tmp_path, GOOD + "env.gravity = 5.0\n"), "ppo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "num_env = 3\n", "has no field 'num_env'. Did you mean num_envs"),
        (GOOD + "learning_rate = [0.1, 0.2]\n", "must be one number"),
        (GOOD.replace("1000", '"1e3"'), "needs `steps`"),
        (GOOD.replace('"by hand"', '" "'), "needs `evidence`"),
    ],
)
def test_a_preset_that_is_misspelled_is_refused(text, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        presets.read(write_presets(tmp_path, text), "ppo")
