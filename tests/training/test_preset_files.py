"""Preset files: a run is written as one and trained again from it; files with mistakes are refused in plain words."""

import json
import shutil
import tomllib

import numpy as np
import pytest

import shoal
from commands import MY_ENV
from shoal import FrameStack, LearnedValueLoss, TimeLimit
from shoal.agents import presets
from shoal.nn.torsos import MLP
from shoal.specs.describe import describe, to_json
from shoal.specs.spec import RunSpec
from shoal.specs.toml import lines_of
from shoal.training.export_config import export_config
from shoal.training.jobs import make_job
from tiny import FIELDS, OPTIONS, SILENT

GOOD = '["CartPole-v1"]\nagent = "ppo"\nsteps = 256\nnum_envs = 4\nnum_steps = 16\nhidden = [8]\n'


@pytest.fixture
def write(tmp_path):
    """Write a preset file and return its path."""

    def written(text, name="mine.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return written


def spec_of(path, *names, **options):
    return make_job(*(names or (None, None)), preset=path, **options).spec


def test_a_run_that_is_exported_and_trained_again_has_the_same_bits(result, tmp_path):
    text = export_config(result.folder, tmp_path / "a.toml")
    best = int(np.argmax(result.curves["eval_return"][-1].reshape(2, 2).mean(axis=1)))
    again = shoal.train(preset=tmp_path / "a.toml", folder=tmp_path / "again", **SILENT)
    assert again.spec.fields["learning_rate"] == [1e-3, 1e-2][best]
    for name in ("train_return", "eval_return", "policy_loss"):
        np.testing.assert_array_equal(again.curves[name], result.curves[name][:, 2 * best : 2 * best + 2])
    score = result.curves["eval_return"][-1].reshape(2, 2).mean(axis=1)[best]
    assert f"Mean return {score:.6g} of 2 seeds" in text and str(result.folder) in text.partition("[")[0]
    other = tomllib.loads(export_config(result.folder, member=3 - 2 * best))["CartPole-v1"]
    assert other["learning_rate"] == [1e-2, 1e-3][best]


def folder_of(spec, path):
    """A run folder that holds a spec and nothing else: a run that has not recorded anything yet."""
    path.mkdir()
    (path / "spec.json").write_text(json.dumps(spec.to_json()))
    return path


def own_env(tmp_path, **fields):
    (tmp_path / "my_env.py").write_text(MY_ENV)
    return shoal.make(f"{tmp_path / 'my_env.py'}:MyEnv", **fields)


def test_every_kind_of_value_comes_back_from_a_file(tmp_path):
    env = TimeLimit(FrameStack(own_env(tmp_path, bonus=0.1), n=2), max_steps=None)
    agent = shoal.PPO(num_envs=4, network=MLP((8, 4)), shared=True, clip=0.1 + 0.2, optimizer="sgd")
    spec = make_job(agent, env, seeds=3, seed=7, steps=512, prng="threefry2x32", evaluations=0).spec
    export_config(folder_of(spec, tmp_path / "run"), tmp_path / "a.toml")
    again = spec_of(tmp_path / "a.toml")
    assert again == spec and again.fields["network"].fields["hidden"] == (8, 4)
    assert again.fields["clip"] == 0.1 + 0.2
    assert again.env_fields["max_steps"] is None and again.fields["shared"] is True
    inner = spec_of(tmp_path / "a.toml", fields={"network.hidden": (5,)}, env_fields={"env.env.bonus": 3.0})
    assert inner.fields["network"].fields["hidden"] == (5,)
    assert inner.env_fields["env"].fields["env"].fields["bonus"] == 3.0


def test_a_built_in_preset_file_is_read_like_one_of_the_users_own():
    path = f"{presets.__path__[0]}/ppo.toml"
    for env, variant in (("CartPole-v1", ""), ("CartPole-v1", "fast"), ("Acrobot-v1", "")):
        by_file = spec_of(path + f":{variant}" * bool(variant), "ppo", env)
        assert by_file == make_job("ppo", env, preset=variant).spec


def test_what_the_user_gives_replaces_what_the_file_has(write):
    path = write(GOOD + 'seeds = 4\ntarget_kl = "none"\nenv.gravity = 5\nenv.max_steps = { none = true }\n')
    spec = spec_of(path)
    assert (spec.agent, spec.env, spec.steps, spec.seeds) == ("ppo", "CartPole-v1", 256, 4)
    assert (spec.fields["hidden"], spec.env_fields["gravity"], spec.env_fields["max_steps"]) == ((8,), 5.0, None)
    given = spec_of(
        path, "ppo", "CartPole-v1", seeds=2, steps=512, fields={"hidden": (4,)}, env_sweep={"gravity": [1, 2]}
    )
    assert (given.seeds, given.steps, given.fields["hidden"]) == (2, 512, (4,))
    assert given.env_sweep == {"gravity": [1, 2]} and "gravity" not in given.env_fields
    assert spec_of(path, members={"clip": np.asarray([0.1, 0.2])}).seeds == 1
    assert shoal.preset("ppo", "CartPole-v1").build().num_envs == spec_of(None, "ppo", "CartPole-v1").fields["num_envs"]


def test_a_file_for_another_environment_is_used_with_a_note_and_for_another_agent_refused(write):
    path = write(GOOD + "env.gravity = 5\n")
    job = make_job("ppo", "Acrobot-v1", preset=path)
    assert job.spec.fields["num_envs"] == 4 and job.spec.env_fields["gravity"] == 9.8
    (note,) = job.notes
    assert "is for CartPole-v1, and its values are used for Acrobot-v1; env.gravity of that environment is not" in note
    with pytest.raises(ValueError, match="is for the agent ppo, not for dqn: train ppo"):
        spec_of(path, "dqn", "CartPole-v1")
    with pytest.raises(ValueError, match="needs the agent by name"):
        spec_of(path, shoal.PPO(), "CartPole-v1")
    assert make_job("ppo", "CartPole-v1", preset=path).notes == ()
    assert "env.gravity=5" in make_job("ppo", shoal.make("CartPole-v1"), preset=path).notes[0]
    wrapped = make_job("ppo", FrameStack(shoal.make("CartPole-v1"), n=2), preset=path)
    assert "used for FrameStack(CartPole-v1)" in wrapped.notes[0] and wrapped.spec.env_fields["n"] == 2


def test_a_preset_file_executes_no_code_without_consent(tmp_path, write):
    env = own_env(tmp_path, bonus=2.0)
    export_config(folder_of(make_job("ppo", env).spec, tmp_path / "run"), tmp_path / "a.toml")
    file = tmp_path / "my_env.py"
    assert spec_of(tmp_path / "a.toml").env_fields["bonus"] == 2.0  # the file is unchanged
    marker = tmp_path / "executed"
    code = f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n"
    shutil.copy(file, tmp_path / "before.py")
    file.write_text(code + MY_ENV)
    with pytest.raises(ValueError, match="my_env.py, which has changed since, so it is not executed without"):
        spec_of(tmp_path / "a.toml")
    (tmp_path / "evil.py").write_text(code + "def f(x):\n    return x\n")
    for line in ('activation = { function = "evil.py:f" }', 'agent = "evil.py:f"', 'env.class = "evil.py:f"'):
        text = GOOD.replace('agent = "ppo"\n', "") if line.startswith("agent") else GOOD
        with pytest.raises(ValueError, match="evil.py, which is not in its list of sources"):
            spec_of(write(text + line + "\n"), *([] if "env" in line or "agent" in line else ["ppo", "CartPole-v1"]))
    assert not marker.exists()
    with pytest.raises(ValueError, match="evil.py:f is no agent"):
        spec_of(write(GOOD.replace('"ppo"', '"evil.py:f"')), trust_source=True)
    assert marker.exists()


def test_naming_a_file_on_the_line_is_consent_for_it(tmp_path, write):
    own_env(tmp_path)
    path = write('["MyEnv"]\nagent = "ppo"\nnum_envs = 4\nenv.class = "my_env.py:MyEnv"\nenv.fields.bonus = 4\n')
    with pytest.raises(ValueError, match="not in its list of sources"):
        spec_of(path)
    job = make_job("ppo", f"{tmp_path / 'my_env.py'}:MyEnv", preset=path)
    assert job.spec.env_fields["bonus"] == 4.0 and not job.notes


def test_none_is_no_preset_in_python_as_on_the_command_line():
    assert make_job("ppo", "Acrobot-v1", preset="none").spec == make_job("ppo", "Acrobot-v1", preset=None).spec
    assert make_job("ppo", "Acrobot-v1", preset="none").spec != make_job("ppo", "Acrobot-v1").spec


# Runs in which several members differ.


def copy_of(result, path, spec=None, **curves):
    """A copy of a run with another spec and other curves."""
    shutil.copytree(result.folder, path)
    if spec is not None:
        shutil.rmtree(path / "checkpoints")  # they are of the spec before
        (path / "spec.json").write_text(json.dumps(spec.to_json()))
    if curves:
        np.savez(path / "curves.npz", **{**result.curves, **curves})
    return path


def test_structs_that_an_evolution_has_found_are_taken_from_its_run(result, tmp_path):
    loss = LearnedValueLoss.init(shoal.make_key(0))
    run = copy_of(result, tmp_path / "evolved")
    found = {"value_loss": to_json(describe(loss)), "learning_rate": 0.0625}
    (run / "found.json").write_text(json.dumps(found))
    text = export_config(run, tmp_path / "a.toml")
    table = tomllib.loads(text)["CartPole-v1"]
    assert table["found"] == str(run.resolve()) and table["learning_rate"] == 0.0625 and "value_loss" not in table
    spec = spec_of(tmp_path / "a.toml")
    assert spec.fields["value_loss"] == describe(loss) and spec.fields["learning_rate"] == 0.0625
    (run / "found.json").write_text(json.dumps({"learning_rate": 0.0625}))
    assert "found" not in tomllib.loads(export_config(run))["CartPole-v1"]


def test_the_best_living_member_of_a_run_with_a_selector_is_exported(result, tmp_path):
    spec = make_job("ppo", "CartPole-v1", seeds=4, fields=FIELDS, selector=shoal.RandomSearch(), **OPTIONS).spec
    records = len(result.curves["env_steps"])
    row = np.ones((records, 1))
    score = row * [5.0, 9.0, 7.0, np.nan]
    occupant = (row * [0, 1, 2, 3]).astype(int)
    occupant[-1, 1] = -1  # the best was dropped before the end
    rates = (row * [0.1, 0.2, 0.3, 0.4]).astype(np.float32)
    rates[-1, 2] = 0.0003
    curves = {"eval_return": score, "train_return": score, "occupant": occupant, "parent": occupant * 0 - 1}
    run = copy_of(result, tmp_path / "population", spec, **curves, learning_rate=rates, num_epochs=row * [1.0, 2, 3, 4])
    text = export_config(run, tmp_path / "a.toml")
    table = tomllib.loads(text)["CartPole-v1"]
    assert table["learning_rate"] == 0.0003 and "Mean return 7 at the end" in text and "member 2" in text
    assert "seeds" not in table and spec_of(tmp_path / "a.toml").selector is None
    assert tomllib.loads(export_config(run, member=1))["CartPole-v1"]["learning_rate"] == 0.2
    with pytest.raises(IndexError, match="members 0 to 3"):
        export_config(run, member=4)


def test_a_run_without_scores_needs_the_number_of_a_member(tmp_path):
    spec = make_job("ppo", "CartPole-v1", sweep={"clip": [0.1, 0.2]}, seeds=2).spec
    run = folder_of(spec, tmp_path / "run")
    with pytest.raises(ValueError, match="was not evaluated, so no setting is the best: give the number"):
        export_config(run)
    text = export_config(run, member=2)
    assert tomllib.loads(text)["CartPole-v1"]["clip"] == 0.2 and "It was not evaluated." in text
    one = folder_of(make_job("ppo", "CartPole-v1").spec, tmp_path / "one")
    (tmp_path / "a.toml").touch()
    with pytest.raises(FileExistsError, match="a.toml exists already"):
        export_config(one, tmp_path / "a.toml")
    with pytest.raises(ValueError, match="end its name in .toml"):
        export_config(one, tmp_path / "a")
    lambdas = make_job(shoal.PPO(surrogate=lambda *x: x), "CartPole-v1").spec
    with pytest.raises(ValueError, match="given in Python, which no file can hold: surrogate"):
        export_config(folder_of(lambdas, tmp_path / "lambda"))


# Files with mistakes.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('["CartPole-v1"]\nsteps 3\n', r"mine.toml is no TOML: .*line 2"),
        ("num_envs = 4\n", "num_envs stands outside of a table: write the environment above it"),
        ("", "holds no preset"),
        (GOOD + "num_env = 3\n", "has no field 'num_env'. Did you mean num_envs"),
        (GOOD + "seed_s = 3\n", "Did you mean seeds"),
        (GOOD + "env.gravitiy = 3\n", "has no field 'env.gravitiy'. Did you mean env.gravity"),
        (GOOD + 'env = "CartPole-v1"\n', "must hold fields, as in env.gravity = 5"),
        (GOOD + "learning_rate = [0.1, 0.2]\n", "must be one number; a preset holds no sweep"),
        (GOOD + 'learning_rate = "fast"\n', "learning_rate='fast' must be a number"),
        (GOOD + "learning_rate = true\n", "learning_rate=True must be a number"),
        (GOOD + "shared = 1\n", "shared=1 must be true or false"),
        (GOOD + "num_epochs = 1.5\n", "num_epochs=1.5 must be a whole number"),
        (GOOD.replace("[8]", "8"), r"hidden=8 must be a list, such as \[64, 64\]"),
        (GOOD + "optimizer = 7.5\n", "optimizer"),
        (GOOD + "clip = -1\n", "mine.toml: PPO.clip=-1.0 is out of range"),
        (GOOD + "clip = 2024-01-01\n", "2024-01-01 is no value: write a number"),
        (GOOD + 'seeds = "4"\n', "seeds='4' must be a whole number"),
        (GOOD + "sweep.clip = [0.1, 0.2]\n", "sweep|several"),
        (GOOD + 'selector = "pbt"\n', "selector is for several settings"),
        (GOOD + 'network = { class = "os:system" }\n', "network: .*no path of a class"),
        (GOOD + 'env.class = "shoal:FrameStack"\nenv.n = 2\n', "fields are under env.fields: env.fields.n"),
        ('["Cartpole-v9"]\nagent = "ppo"\n', "names no registered environment: name one. Did you mean CartPole-v1"),
        ('["CartPole-v1"]\nclip = 0.1\n', "names no agent: name one"),
        (GOOD + '["CartPole-v1:slow"]\nagent = "ppo"\n["Acrobot-v1"]\n', "has several presets. It has: CartPole-v1"),
    ],
)
def test_a_file_with_a_mistake_is_refused(text, message, write):
    with pytest.raises((ValueError, TypeError), match=message):
        spec_of(write(text))


def test_a_missing_file_and_an_unknown_name_are_told_apart(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    write(GOOD, "best.toml")
    with pytest.raises(FileNotFoundError, match="bets.toml does not exist: .* Did you mean best.toml"):
        spec_of("bets.toml", "ppo", "CartPole-v1")
    with pytest.raises(FileNotFoundError, match="The preset that comes with shoal is --preset fast, without .toml"):
        spec_of("fast.toml", "ppo", "CartPole-v1")
    with pytest.raises(ValueError, match="no preset 'best' for CartPole-v1.* For the file write --preset best.toml"):
        spec_of("best", "ppo", "CartPole-v1")
    with pytest.raises(ValueError, match="no preset 'slow'. It has: CartPole-v1. A variant is best.toml:VARIANT"):
        spec_of("best.toml:slow", "ppo", "CartPole-v1")
    folder_of(RunSpec("ppo", "CartPole-v1"), tmp_path / "run")
    with pytest.raises(ValueError, match="is a folder, and a preset is a file: `shoal export-config .*run` writes one"):
        spec_of(tmp_path / "run", "ppo", "CartPole-v1")


def test_toml_is_read_back_as_it_was_written():
    values = {
        "text": 'a "quoted" \\ line\nand é 🐟 \x7f \x01',
        "number": 0.1 + 0.2,
        "tiny": 5e-324,
        "infinite": [float("inf"), -0.0, 2**62],
        "odd key: x": {"deep": {"none": True, "list": [[1], [{"none": True}]]}, "empty": {}},
        "yes": True,
    }
    assert tomllib.loads("\n".join(lines_of(values))) == values
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        list(lines_of({"a": None}))


UNREADABLE = {"nested": "[" * 5_000 + "]" * 5_000, "long": "9" * 5_000, "NUL": "\x00", "open": "{a = " * 5_000}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_values_that_python_cannot_read_are_refused_in_words(value, write):
    with pytest.raises(ValueError, match=r"mine.toml is no TOML: .*\. docs/presets.md describes preset files"):
        spec_of(write(f"{GOOD}hidden2 = {value}"))
