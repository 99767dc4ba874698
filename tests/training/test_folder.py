"""The files with which every run describes itself."""

import json
from importlib import metadata

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.agents.ppo import PPO
from shoal.ops.statistics import iqm
from shoal.specs.spec import RunSpec, differences, opaque_fields, run_name, spec_for
from shoal.training.folder import RunFolder, provenance
from shoal.training.records import score_summary


@pytest.fixture
def never_installed(monkeypatch):
    """shoal runs from a folder on PYTHONPATH: no package of that name is installed."""
    version = metadata.version

    def without_shoal(name):
        if name == "shoal":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without_shoal)


def test_a_package_that_was_never_installed_is_recorded_as_unknown(never_installed):
    packages = provenance(1, 1, [])["packages"]
    assert packages["shoal"] == "unknown" and packages["numpy"] == np.__version__
    assert shoal.__version__ == "unknown"


def test_numpy_numbers_and_infinity_are_read_back():
    fields, sweep = {"learning_rate": np.float32(0.5)}, {"clip": [np.float32(0.25), np.float32(np.inf)]}
    spec = spec_for("ppo", "CartPole-v1", fields=fields, sweep=sweep, env_fields={"x_threshold": -np.inf})
    read = RunSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False)))
    assert read.fields == {"learning_rate": 0.5} and read.env_fields == {"x_threshold": -np.inf}
    assert read.sweep == {"clip": [0.25, np.inf]} and differences(spec, read) == opaque_fields(spec) == []


def test_jax_numbers_are_read_back():
    fields = {"learning_rate": jnp.float32(0.5), "clip": np.asarray(0.25)}
    sweep = {"gae_lambda": jnp.asarray([0.5, 0.75]), "discount": [jnp.float32(0.5), 0.75]}
    spec = spec_for("ppo", "CartPole-v1", fields=fields, sweep=sweep)
    assert spec.fields == {"learning_rate": 0.5, "clip": 0.25} and opaque_fields(spec) == []
    assert spec.sweep == {"gae_lambda": [0.5, 0.75], "discount": [0.5, 0.75]}
    assert RunSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert spec_for(PPO(learning_rate=jnp.float32(0.5)), "CartPole-v1").fields["learning_rate"] == 0.5
    uneven = ((1, 2), (3,))
    assert spec_for("ppo", "CartPole-v1", fields={"network": uneven}).fields == {"network": uneven}


def counting(steps):
    """A spec that holds what type checks, which run in tests alone, would have refused."""
    spec = RunSpec("ppo", "CartPole-v1")
    object.__setattr__(spec, "steps", steps)
    spec.__post_init__()
    return spec


@pytest.mark.parametrize("steps", [10_000, 1e4, np.int64(10_000), jnp.float32(1e4)])
def test_a_count_may_be_any_integer_type(steps):
    assert counting(steps).steps == 10_000 and type(counting(steps).steps) is int


@pytest.mark.parametrize("steps", [2.5, "many", True, float("nan"), float("inf"), [3]])
def test_a_value_that_is_not_an_integer_is_refused_as_a_count(steps):
    with pytest.raises(ValueError, match=r"steps=.* must be a whole number"):
        counting(steps)


def test_a_field_has_one_value_or_several():
    with pytest.raises(ValueError, match="clip is in fields and in sweep: give it one value, or several"):
        spec_for("ppo", "CartPole-v1", fields={"clip": 0.1}, sweep={"clip": [0.1, 0.2]})


def test_five_members_have_no_interval_and_six_have():
    for scores in (np.array([3.0]), np.array([3.0, 5.0]), np.arange(5.0)):
        few = score_summary(scores)
        assert few["iqm"] == iqm(scores) and np.isnan([few["iqm_low"], few["iqm_high"]]).all()
    six = score_summary(np.arange(6.0))
    assert 0 <= six["iqm_low"] < 2.5 < six["iqm_high"] <= 5


def test_the_command_line_of_a_provenance_has_no_password(monkeypatch):
    monkeypatch.setattr("sys.argv", ["shoal", "tune", "--storage=postgresql://me:secret@host/base", "--name", "a:b@c"])
    words = ["shoal", "tune", "--storage=postgresql://me:***@host/base", "--name", "a:b@c"]
    assert provenance(1, 1, [])["argv"] == words


def test_provenance_changes_since_the_first_start_are_named(tmp_path):
    here = provenance(1, 1, jax.local_devices())
    folder = RunFolder(tmp_path)
    folder.write_json("provenance.json", here)
    assert folder.provenance_changes(here) == []
    began = {
        **here,
        "xla_flags": "--once",
        "threads": "7",
        "cores": 5,
        "packages": {**here["packages"], "jax": "0.1"},
        "time": "yesterday",
    }
    folder.write_json("provenance.json", began)
    assert folder.provenance_changes(here) == [
        f"jax '0.1', now {jax.__version__!r}",
        f"xla_flags '--once', now {here['xla_flags']!r}",
        f"threads '7', now {here['threads']!r}",
        f"cores 5, now {here['cores']!r}",
    ]


def test_run_names_are_made_of_agent_and_environment():
    assert run_name("/home/u/my_agent.py:MyAgent", "classic") == "MyAgent-classic"
    assert run_name("ppo", "MinAtar/Breakout-v1") == "ppo-MinAtar-Breakout-v1"


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("study.json", "it is the folder of a study. `shoal report {0}` makes a page of it; `shoal trials {0}` lists"),
        ("race.json", "it is the folder of a race. `shoal race --resume {0}` continues it, or prints its result."),
        ("suite.json", "it is the folder of a suite. `shoal report {0}` makes a page of it; `shoal compare {0} OTHER`"),
        ("bsuite.json", "it is a folder of `shoal bsuite`. `shoal bsuite --resume {0}` continues it, or prints its"),
        ("other.json", "it has no spec.json. It holds runs: {0}/a/b."),
    ],
)
def test_a_folder_that_is_no_run_is_told_with_the_commands_for_it(file, words, tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / file).touch()
    (tmp_path / "a" / "b" / "spec.json").touch()
    with pytest.raises(FileNotFoundError) as error:
        RunFolder(tmp_path).read_spec()
    assert words.format(tmp_path) in str(error.value) and f" It holds runs: {tmp_path}/a/b." in str(error.value)
