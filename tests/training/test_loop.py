"""Whole runs: stopped, damaged, or with NaN, and resumed to the same bits."""

import json
import os
import shutil
import signal
import threading
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from environments import Poisoned
from listeners import Interrupt, Listener
from shoal import PPO
from shoal.core.errors import CheckpointError
from shoal.core.struct import Number, struct
from shoal.training import checkpoint
from shoal.training.placement import make_placement
from shoal.training.stopping import Stopped
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


@struct
class Late(Poisoned):
    """Rewards that are NaN from the tenth step on, which evaluations reach and short trainings do not."""

    max_steps: Number | None = 50

    def transition(self, state, action, noise):
        reward = jnp.where(state.time >= 10, jnp.nan, 1.0).astype(jnp.float32)
        return state, reward, jnp.bool_(False), {}


def weights_of(folder):
    """Everything in the last checkpoint of a run."""
    with np.load(checkpoint.newest(folder / "checkpoints") / "learners.npz") as file:
        return {name: file[name] for name in file.files}


def assert_same_bits(left, right):
    left, right = weights_of(left), weights_of(right)
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def flip_a_bit(folder):
    file = checkpoint.newest(folder / "checkpoints") / "learners.npz"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def drop_a_record(folder, kept=3):
    with np.load(folder / "curves.npz") as file:
        curves = {name: file[name][:kept] for name in file.files}
    np.savez(folder / "curves.npz", **curves)


def spoil(directory):
    (directory / "policies.npz").write_bytes(b"no arrays")


def test_a_stopped_run_resumes_bit_for_bit(result, tmp_path):
    again = {"seeds": 2, "sweep": {"learning_rate": [1e-3, 1e-2]}, "fields": FIELDS, "preset": None, **OPTIONS}
    user = Interrupt(after=2)
    with pytest.raises(Stopped, match="--resume"):
        shoal.train("ppo", "CartPole-v1", folder=tmp_path / "r", progress=False, sinks=[user], figures=False, **again)
    assert user.heard == ["stopping when the training so far is saved; Ctrl-C again stops at once"]
    assert not (tmp_path / "r" / "summary.json").exists()
    assert len(shoal.load_result(tmp_path / "r").curves["env_steps"]) == 2
    before = checkpoint.read_about(checkpoint.newest(tmp_path / "r" / "checkpoints"))
    resumed = shoal.train(resume=tmp_path / "r", **SILENT)
    assert_same_bits(resumed.folder, result.folder)
    summary, parts = resumed.summary, ("compile_seconds", "train_seconds", "eval_seconds", "other_seconds")
    for name in parts[:3]:  # of both processes
        assert summary[name] > before[name] > 0
    assert summary["other_seconds"] > 0 and summary["total_seconds"] > resumed.curves["wall_seconds"][-1]
    assert sum(summary[name] for name in parts) == pytest.approx(summary["total_seconds"])
    for name, curve in result.curves.items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(resumed.curves[name], curve, err_msg=name)
    assert len((resumed.folder / "metrics.jsonl").read_text().splitlines()) == 4


@pytest.mark.parametrize("on_mesh", [False, True])
def test_a_member_that_turns_nan_stops_alone(on_mesh, tmp_path, monkeypatch):
    monkeypatch.setattr("shoal.training.plan.make_placement", partial(make_placement, on_mesh=on_mesh))
    listener = Listener()
    options = {**OPTIONS, "seeds": 1, "figures": False, "devices": int(on_mesh)}  # both members on one device
    both = shoal.train(
        PPO(**FIELDS),
        Poisoned(),
        env_sweep={"poison": [0.0, 1.0]},
        folder=tmp_path / "both",
        progress=False,
        sinks=[listener],
        **options,
    )
    alone = shoal.train(
        PPO(**FIELDS), Poisoned(), env_sweep={"poison": [0.0]}, folder=tmp_path / "a", progress=False, **options
    )
    assert both.curves["alive"].tolist() == [[True, False]] * 4
    assert [m["alive"] for m in both.summary["per_member"]] == [True, False]
    assert [text for text in listener.heard if "member 1 (env.poison=1.0 seed=0) stopped" in text]
    nan = "returns of 1 of 2 members are NaN, those of member 1 (env.poison=1.0 seed=0) for example: a reward, or a"
    assert len([text for text in listener.heard if nan in text]) == 1
    for name, array in weights_of(both.folder).items():
        assert array.dtype.kind != "f" or "worlds" in name or np.isfinite(array).all(), name  # the last good weights
        if array.dtype.kind != "f" or not on_mesh:
            np.testing.assert_array_equal(array[0], weights_of(alone.folder)[name][0], err_msg=name)
        else:
            np.testing.assert_allclose(array[0], weights_of(alone.folder)[name][0], atol=1e-6, err_msg=name)


def test_a_resumed_run_keeps_the_same_policy_of_a_member_that_never_scored(tmp_path):
    agent, options = PPO(**{**FIELDS, "num_steps": 2}), {**OPTIONS, "steps": 32, "figures": False, "check": False}
    straight = shoal.train(agent, Late(), folder=tmp_path / "straight", progress=False, **options)
    assert straight.summary["per_member"][0] == {
        "member": 0,
        "name": "seed=0",
        "last": None,
        "best": None,
        "alive": True,
    }
    with pytest.raises(Stopped):
        shoal.train(agent, Late(), folder=tmp_path / "r", progress=False, sinks=[Interrupt(after=2)], **options)
    about = checkpoint.read_about(checkpoint.newest(tmp_path / "r" / "checkpoints"))
    assert about["best_return"] == [None]  # JSON has no infinities
    resumed = shoal.train(env=Late(), resume=tmp_path / "r", **SILENT)
    for left, right in zip(
        *(jax.tree.leaves(run.policy(0, "best").weights) for run in (straight, resumed)), strict=True
    ):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flip_a_bit, "does not match the hash in its manifest"),
        (drop_a_record, "curves.npz has 3 records, but the checkpoint of its run"),
    ],
)
def test_a_damaged_run_resumes_from_the_previous_checkpoint_and_says_so(damage, said, result, tmp_path):
    copy, listener = tmp_path / "copy", Listener()
    shutil.copytree(result.folder, copy)
    damage(copy)
    shoal.train(resume=copy, progress=False, sinks=[listener], figures=False)
    assert [text for text in listener.heard if said in text and text.endswith("Going on from the checkpoint before it")]
    assert_same_bits(copy, result.folder)
    for name, curve in shoal.load_result(copy).curves.items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(curve, result.curves[name], err_msg=name)


@pytest.mark.parametrize("damage", [shutil.rmtree, spoil])
def test_best_policies_that_are_lost_do_not_end_a_run(damage, result, tmp_path):
    copy, listener = tmp_path / "copy", Listener()
    shutil.copytree(result.folder, copy)
    newest = checkpoint.newest(copy / "checkpoints")
    shutil.rmtree(newest)  # one chunk is to be done again
    damage(copy / "checkpoints" / "best")
    shoal.train(resume=copy, progress=False, sinks=[listener], figures=False)
    assert [text for text in listener.heard if "best policies so far are lost" in text]
    last = checkpoint.newest(copy / "checkpoints")
    for part in ("learners.npz", "policies.npz"):
        assert (last / part).read_bytes() == (result.folder / "checkpoints" / last.name / part).read_bytes()
    assert shoal.load(copy, which="best") is not None


def test_a_run_without_an_undamaged_checkpoint_is_refused(result, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(result.folder, copy)
    drop_a_record(copy, kept=2)
    with pytest.raises(CheckpointError, match="has 2 records, but the checkpoint of its run was made after 3"):
        shoal.train(resume=copy, **SILENT)


def test_a_run_resumed_with_a_changed_environment_says_so(tmp_path, monkeypatch):
    made = shoal.train(PPO(**FIELDS), Poisoned(), folder=tmp_path / "r", **OPTIONS, **SILENT)
    assert json.loads((made.folder / "provenance.json").read_text())["env_revision"] == 1
    assert checkpoint.read_about(checkpoint.newest(made.folder / "checkpoints"))["env_revision"] == 1
    monkeypatch.setattr(Poisoned, "revision", 2)
    listener = Listener()
    shoal.train(env=Poisoned(), resume=made.folder, progress=False, sinks=[listener], figures=False)
    assert [text for text in listener.heard if "is in revision 2 and was in revision 1 when this run began" in text]


def test_ctrl_c_does_not_wait_for_the_compiler(tmp_path, monkeypatch):
    released, compiling, interrupted = threading.Event(), [], []

    def interrupt():
        for _ in range(3):  # one that arrives while Python collects garbage is lost
            interrupted.append(time.perf_counter())
            os.kill(os.getpid(), signal.SIGINT)
            if released.wait(9):
                return

    def compile_for_a_minute(*arguments):
        compiling.append(arguments)
        if len(compiling) == 3:  # nothing is traced any more: Ctrl-C finds the main thread waiting
            threading.Timer(1.0, interrupt).start()
        released.wait(60)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_for_a_minute)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            shoal.train("ppo", "CartPole-v1", folder=tmp_path / "r", fields=FIELDS, progress=False, figures=False)
        assert time.perf_counter() - interrupted[0] < 30
    finally:
        released.set()
        signal.signal(signal.SIGINT, before)
