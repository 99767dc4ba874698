"""Values as plain data and back: equal values, readable JSON, and only classes of values are built."""

import json
import textwrap
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.agents.ppo import PPO
from shoal.core.errors import UntrustedError
from shoal.core.registry import AGENTS, ENVS, import_file
from shoal.core.spaces import Box
from shoal.core.struct import info_of
from shoal.core.wrappers.frame_stack import FrameStack
from shoal.core.wrappers.time_limit import TimeLimit
from shoal.core.wrappers.transform_reward import ClipReward, TransformReward
from shoal.nn.torsos import MLP
from shoal.specs.describe import (
    LARGEST_ARRAY,
    LARGEST_LIST,
    Described,
    build,
    describe,
    from_json,
    inside,
    path_of,
    to_json,
)


def through_a_file(value):
    """The JSON text of a value, and the value built from it."""
    text = json.dumps(to_json(describe(value)), allow_nan=False)
    return json.loads(text), build(from_json(json.loads(text)))


def assert_equal_values(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_array_equal(one, other)
        assert type(one) is type(other)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["one of a class", "every"])
def test_registered_environments_and_agents_are_read_back(every):
    for registry in (ENVS, AGENTS):
        one_of_each = {registry[name].cls: name for name in registry}
        for name in registry if every else one_of_each.values():
            value = registry[name].build()
            assert_equal_values(value, through_a_file(value)[1])


def test_a_wrapped_environment_is_readable_and_read_back():
    value = ClipReward(TimeLimit(FrameStack(shoal.make("CartPole-v1", gravity=5), 2), 50), -0.5, np.inf)
    said, made = through_a_file(value)
    assert_equal_values(value, made)
    assert said["class"] == "shoal.core.wrappers.transform_reward:ClipReward"
    assert said["fields"]["high"] == "inf" and said["fields"]["low"] == -0.5
    inner = said["fields"]["env"]["fields"]["env"]
    assert inner["class"] == "shoal.core.wrappers.frame_stack:FrameStack" and inner["fields"]["n"] == 2
    assert inner["fields"]["env"]["env"] == "CartPole-v1" and inner["fields"]["env"]["fields"]["gravity"] == 5.0


def test_defaults_are_recorded_but_not_values_set_by_bind():
    said = to_json(describe(PPO(learning_rate=0.5)))
    assert said["agent"] == "ppo" and said["fields"]["learning_rate"] == 0.5 and said["fields"]["clip"] == 0.2
    assert not {"rollout", "observation_space", "network"} & set(said["fields"])


def test_a_choice_is_written_by_its_name():
    traced = [(name, f) for name in AGENTS for f in AGENTS[name].cls.__dataclass_fields__.values()]
    name, field = next((name, f) for name, f in traced if len(info_of(f).names) > 1)
    value = AGENTS[name].build(**{field.name: info_of(field).names[1]})
    said, made = through_a_file(value)
    assert said["fields"][field.name] == info_of(field).names[1] and getattr(made, field.name) == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (MLP((8,), "relu"), "shoal.nn.torsos:MLP"),
        (Box(np.zeros(2, np.float32), np.ones(2, np.float32), (2,)), "shoal.core.spaces:Box"),
        ((1, (2.5, "x"), None), [1, [2.5, "x"], None]),
        ({"a": (1, 2), "b": {"fields": 3}}, ""),
        (jax.nn.relu, "jax.nn:relu"),
        (path_of, "shoal.specs.describe:path_of"),
        (np.dtype("uint8"), "uint8"),
        (float("-inf"), "-inf"),
        (jnp.float32(0.5), 0.5),
        (np.int64(3), 3),
    ],
)
def test_values_of_every_kind_are_read_back(value, said):
    data, made = through_a_file(value)
    assert made == value and (data[next(iter(data))] if isinstance(data, dict) else data) == said


def test_an_array_keeps_its_bits_and_dtype():
    for value in (np.float32([[0.1, np.inf]]), np.asarray([True, False]), jnp.arange(3, dtype=jnp.uint8)):
        made = through_a_file(value)[1]
        np.testing.assert_array_equal(made, value)
        assert made.dtype == value.dtype


@pytest.mark.parametrize("dtype", ["float32", "bool", ">i4", jnp.bfloat16])
def test_a_large_array_is_written_as_its_bytes(dtype):
    value = (np.arange(LARGEST_LIST + 2).reshape(2, -1) * 0.7).astype(dtype)
    said, made = through_a_file(value)
    assert said["fields"]["shape"] == [2, LARGEST_LIST // 2 + 1] and len(json.dumps(said)) < 12 * value.nbytes
    np.testing.assert_array_equal(made, value)
    assert made.dtype == value.dtype
    with pytest.raises(ValueError, match="cannot be read"):
        from_json({"array": "float32", "fields": {"shape": [3], "base64": said["fields"]["base64"]}})


def test_values_that_cannot_be_imported_are_reported_and_kept_in_memory():
    def closure(reward):
        return reward

    value = FrameStack(TransformReward(shoal.make("CartPole-v1"), closure), 2)
    described = describe(value)
    assert [path for path, part in inside(described, "env") if part.kind == "only_in_python"] == ["env.env.function"]
    assert build(described).env.function is closure
    with pytest.raises(ValueError, match="closure was given in Python, and no file can hold it"):
        build(from_json(to_json(described)))
    big = np.zeros(LARGEST_ARRAY + 1)
    assert describe(big).kind == "only_in_python" and describe(jax.random.key(0)).kind == "only_in_python"


def test_a_class_of_a_user_file_is_described_by_its_path(tmp_path):
    file = tmp_path / "my_net.py"
    file.write_text("import flax.linen as nn\nclass Net(nn.Module):\n    width: int = 3\n")
    value = import_file(file).Net(width=5)
    said, made = through_a_file(value)
    assert said == {"class": f"{file}:Net", "fields": {"width": 5}} and made == value


def test_a_module_outside_a_package_is_a_user_file(tmp_path, monkeypatch):
    (tmp_path / "loose_module.py").write_text("def twice(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import loose_module  # type: ignore[import-not-found]  # was just written

    assert path_of(loose_module.twice) == f"{tmp_path / 'loose_module.py'}:twice"
    assert through_a_file(loose_module.twice)[1] is loose_module.twice  # the same file is one module


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ({"class": "os:system"}, "is no path of a class or function"),
        ({"function": "os:system"}, "is no path of a class or function"),
        ({"function": "subprocess:run"}, "is no path of a class or function"),
        ({"class": "shoal.specs.describe:path_of"}, "is no class of values"),
        ({"class": "shoal.training.folder:RunFolder", "fields": {"path": "x"}}, "is no class of values"),
        ({"function": "shoal.nn.torsos:MLP"}, "is no function"),
        ({"function": "numpy:frombuffer"}, "is no function"),
        ({"class": "shoal.nn.torsos:MPL"}, "'MPL' is not registered. Did you mean MLP"),
        ({"class": "nowhere.at_all:X"}, "module 'nowhere.at_all' cannot be found"),
        ({"class": "MLP"}, "is no path"),
        ({"class": "shoal.nn.torsos:MLP", "fields": {"hiden": [8]}}, "no field 'hiden'. Did you mean hidden"),
        ({"env": "CartPole-v1", "fields": {"gravty": 8}}, "no field 'gravty'. Did you mean gravity"),
        ({"env": "evil.py:Evil"}, "'evil.py:Evil' is no registered env"),
    ],
)
def test_a_description_builds_no_other_classes_or_functions(data, answer):
    with pytest.raises((ValueError, TypeError), match=answer):
        build(from_json(data))


@pytest.mark.parametrize("data", [{}, {"fields": {}}, {"class": 3}, {"class": "x", "fields": [1]}])
def test_data_that_is_no_description_is_refused(data):
    with pytest.raises(ValueError, match="describes no value"):
        from_json(data)


def test_reading_a_description_imports_nothing(tmp_path):
    file = tmp_path / "loud.py"
    file.write_text(textwrap.dedent("raise SystemExit('was run')"))
    read = from_json({"class": f"{file}:X"})
    assert isinstance(read, Described) and not isinstance(read, types.ModuleType)
    with pytest.raises(UntrustedError, match="is not executed without your consent"):
        build(read)
    with pytest.raises(ImportError, match="loud.py:1: SystemExit: was run"):
        import_file(file)
