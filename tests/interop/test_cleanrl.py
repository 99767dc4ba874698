"""CleanRL's own scripts train in shoal's environments.

`SHOAL_TEST_CLEANRL=FOLDER pytest -m slow tests/interop/test_cleanrl.py` runs `ppo.py` and `dqn.py` of the clone of
CleanRL in FOLDER. They need torch, tensorboard and tyro.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from shoal.interop.cleanrl import CleanRLVectorEnv

FOLDER = os.environ.get("SHOAL_TEST_CLEANRL")


@pytest.fixture(autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def test_infos_are_those_of_gymnasium_029():
    envs = CleanRLVectorEnv("MountainCarContinuous-v0", 3, max_steps=2)
    envs.reset(seed=5)
    actions = np.array([[0.1], [0.2], [0.3]], np.float32)
    _, reward, *_, infos = envs.step(actions)
    assert "final_info" not in infos and "final_observation" not in infos
    obs, again, terminated, truncated, infos = envs.step(actions)
    assert truncated.all() and not terminated.any()
    for e, (info, final) in enumerate(zip(infos["final_info"], infos["final_observation"], strict=True)):
        assert info["episode"]["l"] == 2 and info["episode"]["r"] == pytest.approx(reward[e] + again[e])
        assert final.shape == (2,) and not np.array_equal(final, obs[e])
    assert infos["_final_observation"].all() and "final_obs" not in infos
    envs.step(actions)
    envs.reset(seed=5)
    envs.step(actions)
    _, _, _, truncated, infos = envs.step(actions)
    assert truncated.all() and [info["episode"]["l"] for info in infos["final_info"]] == [2, 2, 2]
    envs.step(actions)
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    _, _, _, truncated, infos = envs.step(actions)
    assert truncated.tolist() == [True, False, True] and infos["final_info"][1] is None
    *_, infos = envs.step(actions)
    assert infos["final_info"][1]["episode"]["l"] == 2 and infos["final_info"][0] is None


def test_returns_are_counted_for_each_environment_by_itself():
    envs = CleanRLVectorEnv("CartPole-v1", 2)
    envs.reset(seed=0)
    lengths, ended = np.zeros(2, int), []
    for step in range(60):
        *_, terminated, _, infos = envs.step(np.array([1, step % 2]))
        lengths += 1
        for e in np.flatnonzero(terminated):
            assert infos["final_info"][e]["episode"]["l"] == lengths[e] == infos["final_info"][e]["episode"]["r"]
            ended.append(e)
            lengths[e] = 0
        if "final_info" in infos:
            assert [info is None for info in infos["final_info"]] == (~terminated).tolist()
    assert ended.count(0) > 3 and ended.count(0) > ended.count(1)


# The name of CleanRL's vector environment stands for the one of shoal; the script is not touched.
RUN = """
import runpy, sys, gymnasium
from shoal.interop.cleanrl import CleanRLVectorEnv
gymnasium.vector.SyncVectorEnv = lambda makers: CleanRLVectorEnv("CartPole-v1", len(makers))
script = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path.insert(0, str(__import__("pathlib").Path(script).parents[1]))
runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(FOLDER is None, reason="SHOAL_TEST_CLEANRL names no clone of CleanRL")
@pytest.mark.parametrize("script", ["ppo", "dqn"])
def test_the_scripts_of_cleanrl_learn_cartpole(script, tmp_path):
    command = [sys.executable, "-c", RUN, str(Path(FOLDER).resolve() / "cleanrl" / f"{script}.py")]
    done = subprocess.run([*command, "--seed", "1", "--no-cuda"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    returns = [float(found) for found in re.findall(r"episodic_return=([\d.]+)", done.stdout)]
    assert np.mean(returns[-20:]) > 400
