"""A policy exported as NumPy or torch code, ONNX or a program of JAX acts as it does in shoal, without shoal."""

import functools
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from environments import Tally
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS
from shoal.core.spaces import Box, mask_size
from shoal.training.export import export
from shoal.training.folder import zoo
from shoal.training.policy import Policy, has_masks
from shoal.training.policy_formats import write_portable
from tiny import FIELDS, OPTIONS, SILENT
from weights import random_values, random_weights

NEEDED = {"numpy": "numpy", "torch": "torch", "onnx": "onnxruntime", "jax": "flatbuffers"}
ABOUT = {"trained": "a test", "return": "1"}
SMALL = {"num_envs": 4, "hidden": (8,)}
GRID = "MiniGrid-DoorKey-5x5-v0"
LEVEL = "BabyAI-GoToLocal-v0"
CASES = {
    "dense": ("ppo", "CartPole-v1", SMALL),
    "bounds": ("ppo", "Pendulum-v1", {**SMALL, "normalize_observation": True}),
    "pixels": ("ppo", "MinAtar/Breakout-v1", SMALL),
    "tiles": ("ppo", GRID, SMALL),
    "words": ("ppo", LEVEL, SMALL),
    "bag of words": ("dqn", LEVEL, {"hidden": (8,), "torso": "bow"}),
    "film": ("ppo", LEVEL, {"num_envs": 4, "torso": "film", "hidden": (8, 4)}),
    "mask": ("ppo", Tally, SMALL),
    "gru": ("ppo", "CartPole-v1", {**SMALL, "memory": "gru", "memory_size": 8}),
    "lstm": ("ppo", "Pendulum-v1", {**SMALL, "memory": "lstm", "memory_size": 8}),
    "mingru": ("pqn", "CartPole-v1", {**SMALL, "memory": "mingru", "memory_size": 8}),
    "lru": ("ppo", Tally, {**SMALL, "memory": "lru", "memory_size": 8}),
    "gtrxl": ("ppo", "CartPole-v1", {**SMALL, "memory": "gtrxl", "memory_size": 8}),
    "values with a memory": ("dqn", "CartPole-v1", {"hidden": (8,), "memory": "gru", "memory_size": 8}),
    "quantiles": ("dqn", "Acrobot-v1", {"hidden": (8,), "head": "quantile", "atoms": 5, "dueling": True}),
    "categories": ("dqn", "CartPole-v1", {"hidden": (8,), "head": "categorical", "atoms": 5, "noisy": True}),
    "masked values": ("dqn", Tally, {"hidden": (8,)}),
    "impala": ("pqn", "MinAtar/Freeway-v1", {"num_envs": 4, "torso": "impala"}),
    "squashed": ("sac", "Pendulum-v1", {"hidden": (8,)}),
    "choices of sac": ("sac", "CartPole-v1", {"hidden": (8,)}),
    "deterministic": ("td3", "Pendulum-v1", {"hidden": (8,)}),
    "evolved": ("es", "MountainCarContinuous-v0", {"hidden": (8,)}),
    "table": ("q-learning", "CliffWalking-v1", {}),
    "gelu": ("ppo", "CartPole-v1", {**SMALL, "activation": "gelu"}),
}


def policy_of(agent, env, **fields):
    """A policy with random weights, for which nothing is compiled."""
    env = shoal.make(env) if isinstance(env, str) else env()
    actor = AGENTS[agent].cls(**fields).bind(env)
    state = jax.eval_shape(lambda key: actor.init(key, env), make_key(0))
    weights = random_weights(jax.eval_shape(actor.policy_state, state), 0.7)
    if getattr(weights, "obs_stats", None) is not None:
        weights = weights.replace(obs_stats=jax.tree.map(jnp.abs, weights.obs_stats))
    return Policy(actor, weights, env)


def inputs_of(policy, count, seed=0):
    """(observation, mask or None), so many random ones, as NumPy arrays."""
    random, space = np.random.default_rng(seed), policy.env.observation_space
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (np.clip(side, -3, 3) for side in space.bounds())
        obs = random.uniform(low, high, (count, *space.shape)).astype(space.dtype)
    else:
        obs = jax.tree.map(np.asarray, random_values(space, (count,), seed))
    masks = random.random((count, mask_size(policy.env.action_space))) < 0.6
    masks[:, :1] = True
    mask = masks if has_masks(policy.env) else [None] * count
    return [(jax.tree.map(lambda x, i=i: x[i], obs), mask[i]) for i in range(count)]


def acted(policy, inputs, length=5):
    """The actions of a policy, and its carries after each, in episodes of this length."""
    steps = []
    for i, (obs, mask) in enumerate(inputs):
        if i % length == 0:
            policy.reset()
        action = policy(obs, mask)
        carry = policy.carry if hasattr(policy, "carry") else jax.tree.leaves(policy._carry)
        steps.append((np.asarray(action), [np.asarray(x) for x in carry]))
    return steps


@functools.cache
def expected(name):
    """(policy, inputs, what the policy does) of a case, in three episodes."""
    agent, env, fields = CASES[name]
    policy = policy_of(agent, env, **fields)
    inputs = inputs_of(policy, 15)
    return policy, inputs, acted(policy, inputs)


def opened(folder):
    """The class `Policy` in the `policy.py` of a folder."""
    spec = importlib.util.spec_from_file_location(f"policy_in_{folder.name.replace('-', '_')}", folder / "policy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Policy()


def assert_same(found, wanted):
    for (action, carry), (right, right_carry) in zip(found, wanted, strict=True):
        assert action.dtype == right.dtype and action.shape == right.shape
        np.testing.assert_allclose(action, right, rtol=1e-5, atol=1e-5)
        assert len(carry) == len(right_carry)
        for mine, known in zip(carry, right_carry, strict=True):
            np.testing.assert_allclose(mine, known, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(13)
@pytest.mark.parametrize("kind", NEEDED)
@pytest.mark.parametrize("case", CASES)
def test_an_exported_policy_acts_as_in_shoal(case, kind, tmp_path):
    pytest.importorskip(NEEDED[kind])
    policy, inputs, wanted = expected(case)
    made = opened(write_portable(policy, tmp_path / "policy", kind, ABOUT))
    assert_same(acted(made, inputs), wanted)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", NEEDED)
@pytest.mark.parametrize("name", zoo())
def test_every_policy_of_the_zoo_acts_as_in_shoal_on_1000_observations(name, kind, tmp_path):
    pytest.importorskip(NEEDED[kind])
    policy = shoal.load(f"zoo:{name}")
    inputs = inputs_of(policy, 1000)
    made = opened(export(f"zoo:{name}", tmp_path / "policy", format=kind))
    assert_same(acted(made, inputs, 100), acted(policy, inputs, 100))


BARE = """
import sys, time
sys.path = [path for path in sys.path if "site-packages" not in path] + sys.argv[1:]
from policy import Policy
import numpy as np
assert not {"jax", "shoal", "flax"} & set(sys.modules)
policy = Policy()
took = []
for _ in range(200):
    start = time.perf_counter()
    action = policy([0.0, 0.1, 0.2, 0.3])
    took.append(time.perf_counter() - start)
print(int(action), sorted(took)[100])
"""


def test_policy_py_needs_only_numpy_and_less_than_a_millisecond_for_a_dense_network(tmp_path):
    folder = export("zoo:ppo/CartPole-v1", tmp_path / "policy", format="numpy")
    only = tmp_path / "site"  # NumPy, and nothing else of this environment
    only.mkdir()
    for part in Path(np.__file__).parents[1].glob("numpy*"):
        (only / part.name).symlink_to(part)
    command = [sys.executable, "-I", "-c", BARE, str(only), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    action, seconds = done.stdout.split()
    assert int(action) == shoal.load("zoo:ppo/CartPole-v1")(np.asarray([0, 0.1, 0.2, 0.3], np.float32))
    assert float(seconds) < 1e-3


class Sorter(nn.Module):
    """A torso with an operation that only JAX has."""

    @nn.compact
    def __call__(self, features):
        return jnp.sort(nn.Dense(4)(features))


def test_a_part_that_a_format_cannot_hold_is_named(tmp_path):
    policy = policy_of("ppo", "CartPole-v1", num_envs=4, network=Sorter())
    message = (
        r"format='numpy' cannot hold a part of this policy: sort in Sorter.__call__ \(test_policy_formats.py:\d+\)"
    )
    with pytest.raises(ValueError, match=message):
        write_portable(policy, tmp_path / "policy", "numpy", ABOUT)
    assert not (tmp_path / "policy").exists()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two seeds."""
    with jax.numpy_dtype_promotion("standard"):
        root = tmp_path_factory.mktemp("runs")
        return shoal.train("ppo", "CartPole-v1", seeds=2, fields=FIELDS, root=root, cache=False, **OPTIONS, **SILENT)


def test_a_run_that_is_not_finished_is_exported_and_its_readme_says_what_it_is(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    (tmp_path / "run" / "summary.json").unlink()
    folder = export(tmp_path / "run", tmp_path / "policy", 1, format="numpy")
    assert sorted(file.name for file in folder.iterdir()) == ["README.md", "policy.py", "signature.json", "weights.npz"]
    policy, inputs = shoal.load(run.folder, 1), inputs_of(shoal.load(run.folder, 1), 5)
    assert_same(acted(opened(folder), inputs), acted(policy, inputs))
    with np.load(folder / "weights.npz") as weights:
        numbers = sum(weights[name].size for name in weights.files)
    text = (folder / "README.md").read_text()
    assert "ppo on CartPole-v1, 256 steps (the run is not finished)" in text and "member 1 (seed=1)" in text
    assert re.search(r"\| return \| [\d.]+ on average of 100 fresh episodes .*95 % interval [\d.]+ to [\d.]+", text)
    assert f"| all | | | {numbers} |" in text and "hidden=" in text and "jax " in text and "Apache-2.0" in text
    signature = json.loads((folder / "signature.json").read_text())
    assert signature["inputs"] == [{"name": "observation", "dtype": "float32", "shape": [4]}]


def test_wrong_requests_are_refused_before_anything_is_written(run, tmp_path):
    with pytest.raises(ValueError, match="format='nunpy' is unknown. Did you mean numpy"):
        export(run.folder, tmp_path / "policy", format="nunpy")
    with pytest.raises(ValueError, match="half precision is for format='shoal'"):
        export(run.folder, tmp_path / "policy", half=True, format="numpy")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(FileExistsError, match="full already holds something: choose another --out"):
        export(run.folder, tmp_path / "full", format="numpy")
    assert not (tmp_path / "policy").exists()


def test_policy_py_explains_wrong_observations_and_masks(tmp_path):
    made = opened(write_portable(expected("mask")[0], tmp_path / "policy", "numpy", ABOUT))
    obs, mask = {"total": np.zeros(2, np.uint8), "last": 1}, [True, False, True]
    with pytest.raises(ValueError, match=r"needs the action mask: policy\(observation, mask\)"):
        made(obs)
    with pytest.raises(ValueError, match=r"observation\['total'\] has the shape \(3, 2\), not \(2,\): give one"):
        made({**obs, "total": np.zeros((3, 2), np.uint8)}, mask)
    with pytest.raises(ValueError, match=r"observation\['last'\] is of float64, not int32"):
        made({**obs, "last": 1.5}, mask)
    with pytest.raises(ValueError, match=r"observation\['total'\] has a number that uint8 does not hold"):
        made({**obs, "total": np.array([0, 256])}, mask)
    assert made(obs, mask) in (0, 2)
