"""Environments of Gymnasium in worker processes, compared with Gymnasium's own vector environments."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import shoal
from shoal.interop.from_gymnasium import action_for, element_of
from shoal.interop.sources.gymnasium import GymnasiumEnv
from shoal.training import checkpoint
from shoal.training.host_envs import HostEnvs
from tiny import SILENT

ODD = '''
import os
import time

import gymnasium
import numpy as np


class Unpicklable(Exception):
    def __init__(self, text, function):
        super().__init__(text)
        self.function = function


class Odd(gymnasium.Env):
    """Does what `mode` says in its third step; until then its observation is its number of steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, mode="none"):
        self.mode = mode

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        if self.time == 3 and self.mode == "raise":
            raise Unpicklable(f"{self.time % 7} is odd", lambda: 0)
        if self.time == 3 and self.mode == "exit":
            os._exit(5)
        return np.full(1, self.time, np.float32), 1.0, False, False, {"sleeps": time.sleep(0.01)}


gymnasium.register("Odd-v0", Odd, max_episode_steps=20)
'''
FIELDS = {"num_envs": 3, "num_steps": 16, "num_minibatches": 2, "num_epochs": 1, "hidden": (8,)}
SMALL = {"fields": FIELDS, "eval_max_steps": 20, "eval_episodes": 2}


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture
def odd(tmp_path, monkeypatch):
    """A file in the working folder that registers Odd-v0. Returns shoal's name of it."""
    (tmp_path / "odd_envs.py").write_text(ODD)
    monkeypatch.chdir(tmp_path)
    yield "gymnasium/odd_envs:Odd-v0"
    gymnasium.registry.pop("Odd-v0", None)
    sys.modules.pop("shoal_user_odd_envs", None)


def alive(pids):
    """The processes that are running: a zombie has ended."""
    found = []
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
            found.append(pid)
    return found


def in_group(number):
    """The processes of a group."""
    everybody = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [pid for pid in alive(everybody) if os.getpgid(pid) == number]


def assert_ended(pids, seconds=20.0):
    """The processes end within some seconds."""
    end = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(pids)


def pids_of(envs):
    """The process ids of the workers of `HostEnvs`."""
    return [process.pid for process in envs.simulators._envs.processes]


@pytest.mark.parametrize("name", ["Taxi-v4", "Pendulum-v1", "CartPole-v1"])  # with masks, real actions, ends
def test_workers_step_and_reset_any_of_their_environments_as_gymnasium_does(name):
    """5 environments of 2 workers, beside 5 of Gymnasium in this process."""
    ours, random = shoal.make(f"gymnasium/{name}", workers=2, max_steps=15).open_many(5), np.random.default_rng(0)
    theirs = [gymnasium.make(name, max_episode_steps=15) for _ in range(5)]
    space, actions = theirs[0].observation_space, theirs[0].action_space
    actions.seed(0)
    ends = 0
    try:
        obs, _ = ours.reset(np.arange(5), [3, 4, 5, 6, 7])
        for e, env in enumerate(theirs):
            np.testing.assert_array_equal(obs[e], element_of(space, env.reset(seed=3 + e)[0]))
        for t in range(40):
            which = np.sort(random.choice(5, random.integers(1, 6), replace=False))
            action = np.stack([element_of(actions, actions.sample()) for _ in which])
            obs, mask, reward, terminated, truncated = ours.step(which, action)
            for n, e in enumerate(which.tolist()):
                seen, *outcome, info = theirs[e].step(action_for(actions, action[n]))
                np.testing.assert_array_equal(obs[n], element_of(space, seen))
                assert [reward[n], terminated[n], truncated[n]] == outcome
                assert (mask is None) == ("action_mask" not in info)
                assert mask is None or mask[n].tolist() == info["action_mask"].astype(bool).tolist()
            for e in which[terminated | truncated].tolist():
                ends += 1
                obs, _ = ours.reset(np.array([e]), [100 * t + e])
                np.testing.assert_array_equal(obs[0], element_of(space, theirs[e].reset(seed=100 * t + e)[0]))
    finally:
        ours.close()
    assert ends > 4 and reward.dtype == np.float64 and terminated.dtype == truncated.dtype == bool


def test_a_rollout_is_that_of_gymnasiums_asynchronous_vector_environment():
    """Acrobot has no end in so few steps, so that Gymnasium's automatic resets do not come in."""
    envs = HostEnvs(shoal.make("gymnasium/Acrobot-v1", workers=3), 4, (1, 2, 3))
    theirs = gymnasium.make_vec(
        "Acrobot-v1", num_envs=4, vectorization_mode="async", vector_kwargs={"context": "spawn"}
    )
    action = np.random.default_rng(0).integers(3, size=(20, 4)).astype(np.int32)
    try:
        envs.begin()
        expected = [theirs.reset(seed=[envs.episodes.seed(e) for e in range(4)])[0]]
        found = envs.collect(lambda obs, mask, t: (action[t], {}), 20, 1, lambda ended: None)
        rewards = []
        for row in action:
            obs, reward, *_ = theirs.step(row)
            expected.append(obs)
            rewards.append(reward)
    finally:
        envs.close()
        theirs.close()
    np.testing.assert_array_equal(found.obs, np.stack(expected[:-1]))
    np.testing.assert_array_equal(found.last_obs, expected[-1])
    np.testing.assert_array_equal(found.reward, np.stack(rewards))


def test_a_run_with_workers_ends_with_the_bits_of_one_without_and_leaves_no_process(tmp_path, monkeypatch):
    pids = []
    opened = HostEnvs.__init__

    def noted(envs, *arguments):
        opened(envs, *arguments)
        pids.extend(pids_of(envs) if hasattr(envs.simulators, "workers") else [])

    monkeypatch.setattr(HostEnvs, "__init__", noted)
    options = {"steps": 96, "seeds": 2, "records": 2, "evaluations": 1, **SMALL, **SILENT}
    for workers in (0, 2):
        env = shoal.make("gymnasium/CartPole-v1", workers=workers)
        shoal.train("ppo", env, folder=tmp_path / str(workers), **options)
        assert_ended(pids)
    assert len(pids) == 2 * 2 + 2 * 2  # of two members, and of their evaluations
    shoal.train(resume=tmp_path / "2", steps=144, **SILENT)
    shoal.train(resume=tmp_path / "0", steps=144, **SILENT)
    assert_ended(pids)
    without, with_workers = (arrays_of(tmp_path / name) for name in ("0", "2"))
    assert without.keys() == with_workers.keys()
    for name, array in without.items():
        np.testing.assert_array_equal(with_workers[name], array, err_msg=name)
    assert json.loads((tmp_path / "2" / "spec.json").read_text())["env_fields"]["workers"] == 2


def arrays_of(run):
    with np.load(checkpoint.newest(run / "checkpoints") / "learners.npz") as file:
        return dict(file)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (
            "raise",
            r"odd_envs:Odd-v0: an environment failed in a worker process: odd_envs.py:\d+: Unpicklable: 3 is odd",
        ),
        ("exit", r"a worker process of gymnasium/odd_envs:Odd-v0 has ended by itself"),
    ],
)
def test_an_error_in_a_worker_arrives_in_words_and_ends_all_of_them(mode, message, odd):
    env = shoal.make(odd).replace(options=(("mode", mode),), workers=2)
    envs = HostEnvs(env, 3, (0, 0, 0))
    pids = pids_of(envs)
    envs.begin()
    with pytest.raises(RuntimeError, match=message) as raised:
        envs.collect(lambda obs, mask, t: (np.zeros(3, np.int32), {}), 5, 1, lambda ended: None)
    assert mode == "exit" or "raise Unpicklable" in raised.value.__notes__[0]
    assert_ended(pids)
    envs.close()


STEPPING = """
import numpy as np
import shoal
from shoal.training.host_envs import HostEnvs

if __name__ == "__main__":
    envs = HostEnvs(shoal.make("gymnasium/odd_envs:Odd-v0", workers=2), 3, (0, 0, 0))
    envs.begin()
    print(*[process.pid for process in envs.simulators._envs.processes], flush=True)
    while True:
        envs.collect(lambda obs, mask, t: (np.zeros(3, np.int32), {}), 50, 10, lambda ended: None)
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_workers_end_when_the_process_that_started_them_ends(name, odd):
    process = subprocess.Popen([sys.executable, "-c", STEPPING], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert len(alive(pids)) == 2
    process.send_signal(getattr(signal, name))
    process.wait(timeout=30)
    said = process.stderr.read().decode()
    for stream in (process.stdout, process.stderr):
        stream.close()
    assert_ended(pids)
    assert ("KeyboardInterrupt" in said) == (name == "SIGINT") and "BrokenPipe" not in said and "EOF" not in said


def test_ctrl_c_for_all_processes_stops_a_run_with_a_checkpoint(odd, tmp_path):
    """As a terminal sends it: to the group of processes, in which the workers are."""
    flags = ["--num-envs", "3", "--env.workers", "2", "--name", "run", "--evaluations", "0", "--preset", "none"]
    command = [sys.executable, "-m", "shoal", "train", "ppo", odd, "--steps", "10_000_000", "--trust-source", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    while not (tmp_path / "runs" / "run" / "spec.json").exists():
        assert process.poll() is None, process.stdout and process.stdout.read().decode()
        time.sleep(0.1)
    assert len(in_group(process.pid)) >= 3  # with the workers
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[0].decode()
    assert "stopped. Continue with:" in said and "Traceback" not in said
    assert checkpoint.newest(tmp_path / "runs" / "run" / "checkpoints") is not None
    assert_ended(in_group(process.pid))


def test_wrong_numbers_of_workers_are_refused_before_the_run(tmp_path):
    with pytest.raises(ValueError, match="workers=-1 must be at least 1, or 0: this process steps"):
        shoal.make("gymnasium/CartPole-v1", workers=-1)
    env = shoal.make("gymnasium/CartPole-v1", workers=4)
    with pytest.raises(ValueError, match=r"workers=4 is more than the num_envs=3 .*give at most 3 workers"):
        shoal.train("ppo", env, steps=96, folder=tmp_path / "run", **SMALL, **SILENT)
    assert not (tmp_path / "run").exists()
    few = env.open_many(2)  # an evaluation of two episodes
    assert len(few._envs.processes) == 2
    few.close()
    few.close()


def test_an_environment_that_cannot_be_sent_is_refused_in_words():
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"gymnasium/Locked-v0 cannot be sent to worker processes: .*lock.*MODULE:ID"):
        gymnasium.register("Locked-v0", lambda: (lock, CartPoleEnv())[1], max_episode_steps=20)
        GymnasiumEnv(id="Locked-v0", workers=1).open_many(1)
    del gymnasium.registry["Locked-v0"]


def test_an_environment_that_this_session_registered_is_known_to_the_workers():
    gymnasium.register("Session-v0", lambda: CartPoleEnv(sutton_barto_reward=True), max_episode_steps=20)
    try:
        envs = GymnasiumEnv(id="Session-v0", workers=1).open_many(1)
        envs.reset(np.arange(1), [0])
        assert envs.step(np.arange(1), np.zeros(1, np.int32))[2] == [0.0]
        envs.close()
    finally:
        del gymnasium.registry["Session-v0"]


def test_a_missing_guard_of_a_script_is_named(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import shoal\nshoal.make('gymnasium/CartPole-v1', workers=1).open_many(1)\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode and "A script that trains needs `if __name__ ==" in done.stderr
