"""The Python examples of gymnax's own README, of both generations, run with one changed import.

`SHOAL_TEST_GYMNAX=CLONE pytest tests/interop/test_gymnax_readme.py`, where CLONE is a clone of gymnax with its tags.
"""

import os
import re
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import pytest

import shoal
import shoal.interop.gymnax as newer
from shoal.interop.gymnax import legacy, registered_envs

CLONE = os.environ.get("SHOAL_TEST_GYMNAX")
# By the version of the README in git; HEAD is a commit of gymnax 1.x.
IMPORTS = {"v0.0.9": "shoal.interop.gymnax.legacy", "HEAD": "shoal.interop.gymnax"}
pytestmark = pytest.mark.skipif(not CLONE, reason="SHOAL_TEST_GYMNAX names no clone of gymnax")


@pytest.fixture(autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


class Model:
    """A linear policy with the calls of a network of flax. The README leaves it to its reader."""

    @staticmethod
    def apply(policy_params, obs, key=None):
        return (obs @ policy_params)[None]


def scope_of(version):
    """What a reader has after the first example: the module, an environment, a state, keys; and a policy."""
    face = legacy if version == "v0.0.9" else newer
    env, env_params = face.make("Pendulum-v1")
    key_reset, key_step, key = jax.random.split(jax.random.key(0), 3)
    obs, state = env.reset(key_reset, env_params)
    values = {"env": env, "env_params": env_params, "obs": obs, "state": state, "action": jnp.zeros(1)}
    keys = {"key": key, "key_reset": key_reset, "key_step": key_step}
    return {**values, **keys, "gymnax": face, "jax": jax, "jnp": jnp, "model": Model, "policy_params": jnp.ones(3)}


def examples(version):
    """The Python examples of a version, with the changed import."""
    readme = subprocess.run(
        ["git", "-C", CLONE, "show", f"{version}:README.md"], capture_output=True, text=True, check=True
    ).stdout
    for code in re.findall(r"```python\n(.*?)```", readme, re.DOTALL):
        lines = [line.removeprefix("  ") if code.startswith("  ") else line for line in code.splitlines()]
        changed = "\n".join(lines).replace("import gymnax\n", f"import {IMPORTS[version]} as gymnax\n")
        yield changed.replace("from gymnax.", f"from {IMPORTS[version]}.").replace(".legacy.", ".")


@pytest.fixture
def own_package():
    """The package of the README's reader, with an environment of theirs."""
    module = types.ModuleType("my_package")
    module.MyEnvironment = lambda difficulty: shoal.make("CartPole-v1", gravity={"hard": 20.0}[difficulty])
    sys.modules["my_package"] = module
    yield
    del sys.modules["my_package"]
    if "MyEnvironment-v0" in registered_envs:
        registered_envs.remove("MyEnvironment-v0")
        newer.face._factories.pop("MyEnvironment-v0")


@pytest.mark.parametrize("version", IMPORTS)
def test_the_examples_of_the_readme_run(version, own_package, tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()  # into which an example writes an animation
    monkeypatch.chdir(tmp_path)
    ran = []
    for code in examples(version):
        scope = scope_of(version)
        if "StickyActionWrapper" in code:  # which needs discrete actions, in gymnax too
            scope["env"] = newer.make("CartPole-v1")[0]
        exec(compile(code, f"README of gymnax {version}", "exec"), scope)
        if "gymnax.register" in code:
            assert scope["params"].gravity == 20
        if "def rollout" in code:
            rows = scope["rollout"](scope["key"], scope["policy_params"], scope["env_params"], 30)
            assert [x.shape[0] for x in rows] == [30] * 5
        if "transition_gradient" in code:
            assert scope["transition_gradient"] == pytest.approx(0.15, rel=1e-5)  # 3 dt / (m l^2)
        ran.append(code)
    assert len(ran) >= {"v0.0.9": 5, "HEAD": 9}[version] and (tmp_path / "docs" / "anim.gif").stat().st_size > 0
