"""Compiled code in a forked process: every door says what to do, and none waits for ever."""

import os
import select
import signal
import time
import traceback

import jax
import numpy as np
import pytest

import shoal
from shoal.core.keys import make_key
from shoal.gym import ShoalEnv, ShoalFuncEnv, ShoalVectorEnv
from shoal.training.jobs import make_job
from tiny import SILENT

SECONDS = 5  # of a door, before it counts as one that waits for ever


@pytest.fixture(scope="module")
def doors():
    """Calls of compiled code by name; what the parent process would share with them exists already."""
    key, env = make_key(0), shoal.make("CartPole-v1")
    obs, state = env.reset(key)
    single, many = ShoalEnv("CartPole-v1"), ShoalVectorEnv("CartPole-v1", 2)
    single.reset(seed=0)
    many.reset(seed=0)
    functional, policy, job = (
        ShoalFuncEnv("CartPole-v1"),
        shoal.load("zoo:ppo/CartPole-v1"),
        make_job("ppo", "CartPole-v1"),
    )
    obs = np.asarray(obs)
    policy(obs)
    return {
        "make_key": lambda: make_key(1),
        "Env.reset": lambda: env.reset(key),
        "Env.step": lambda: env.step(key, state, 0),
        "check_env": lambda: shoal.check_env(env, key),
        "train": lambda: shoal.train("ppo", "CartPole-v1", steps=256, **SILENT),
        "train_all": lambda: shoal.train_all("ppo", ["CartPole-v1"], steps=256),
        "tune": lambda: shoal.tune("ppo", "CartPole-v1", trials=1),
        "evolve": lambda: shoal.evolve("ppo", "CartPole-v1", vary={"learning_rate": None}),
        "plan": lambda: job.plan(),
        "load": lambda: shoal.load("zoo:ppo/CartPole-v1"),
        "policy": lambda: policy(obs),
        "policy.sample": lambda: policy.sample(obs, key),
        "evaluate": lambda: shoal.evaluate(policy, episodes=1),
        "rollout": lambda: shoal.rollout(policy, key=key, num_steps=1),
        "record": lambda: shoal.record(policy, steps=1),
        "Gymnasium's reset": lambda: single.reset(),
        "Gymnasium's step": lambda: single.step(0),
        "Gymnasium's vector reset": lambda: many.reset(),
        "Gymnasium's vector step": lambda: many.step(np.zeros(2, np.int64)),
        "Gymnasium's functions": lambda: functional.initial(key),
    }


def outcome(call):
    """What a call does in a forked process: the name and text of its error, or that it waits for ever."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            call()
            answer = "it returned"
        except BaseException as error:
            answer = f"{type(error).__name__}: {error} {traceback.format_exc()}"
        os.write(writing, answer.encode()[:4000])
        os._exit(0)
    os.close(writing)
    answered, _, _ = select.select([reading], [], [], SECONDS)
    answer = os.read(reading, 4000).decode() if answered else "it waits for ever"
    os.close(reading)
    if not answered:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
def test_no_door_waits_for_ever_in_a_forked_process(doors):
    jax.block_until_ready(jax.random.key_data(make_key(0)))
    start = time.monotonic()
    answers = {name: outcome(call) for name, call in doors.items()}
    wrong = {
        name: answer for name, answer in answers.items() if not answer.startswith("RuntimeError: this process was")
    }
    assert not wrong, wrong
    assert time.monotonic() - start < 20
