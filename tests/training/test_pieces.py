"""Chunks that are trained in pieces, so that a request to stop ends them early."""

import jax
import pytest

import shoal
from shoal.training import checkpoint, pieces
from shoal.training.pieces import Pieces
from shoal.training.population import Population
from shoal.training.stopping import Stopped
from stops import Request, assert_same_run, assert_stopped_within_a_record
from tiny import FIELDS, OPTIONS, SILENT

DQN = {"num_envs": 2, "num_steps": 8, "learning_starts": 32, "buffer_size": 128, "batch_size": 8, "hidden": (8,)}
TABLE = {"agent": "q-learning", "env": "CliffWalking-v1", "fields": {"num_steps": 8}, "seeds": 4, "steps": 16 * 8}
# All have four records of four updates.
CASES = {
    "blocks": {**TABLE, "seeds": 3, "block": 2},
    "pbt": {**TABLE, "selector": "pbt", "evaluations": 4},
    "random": {**TABLE, "selector": "random"},
    "ppo": {"agent": "ppo", "env": "CartPole-v1", "fields": FIELDS, "seeds": 3, "steps": 16 * 64},
    "dqn": {"agent": "dqn", "env": "CartPole-v1", "fields": DQN, "seeds": 3, "steps": 16 * 16},
}
SLOW = ("ppo", "dqn")


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def train(case, folder):
    return shoal.train(folder=folder, preset=None, **SILENT, **{**OPTIONS, **CASES[case]})


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.slow] * (case in SLOW)) for case in CASES])
def test_a_run_that_is_stopped_within_records_ends_with_the_same_bits(case, tmp_path, monkeypatch):
    whole, cut = train(case, tmp_path / "whole").folder, tmp_path / "cut"
    request = Request(monkeypatch)
    request.at = 2
    with pytest.raises(Stopped, match="Continue with"):
        train(case, cut)
    assert_stopped_within_a_record(cut, 2, records=0)
    request.at = 11
    with pytest.raises(Stopped, match="Continue with"):
        shoal.train(resume=cut, **SILENT)
    assert_stopped_within_a_record(cut, 11, records=2)
    resumed = shoal.train(resume=cut, **SILENT)
    assert_same_run(cut, whole)
    summary, parts = resumed.summary, ("compile_seconds", "train_seconds", "eval_seconds", "other_seconds")
    assert all(summary[name] > 0 for name in parts), [summary[name] for name in parts]
    assert summary["total_seconds"] > resumed.curves["wall_seconds"][-1] > summary["train_seconds"]


def test_a_run_that_is_stopped_within_a_record_can_be_used_or_says_so(tmp_path, monkeypatch):
    request, cut, out = Request(monkeypatch), tmp_path / "cut", tmp_path / "out"
    request.at = 2
    with pytest.raises(Stopped):
        train("blocks", cut)
    assert shoal.evaluate(cut, episodes=1, max_steps=5).episode_return.shape == (3, 1)
    with pytest.raises(FileNotFoundError, match="its first chunk was never finished. To go on: shoal train --resume"):
        shoal.export(cut, out, member=0)
    assert not out.exists()
    request.at = 6
    with pytest.raises(Stopped):
        shoal.train(resume=cut, **SILENT)
    shoal.export(cut, out, member=0)
    assert shoal.load_result(out).summary["steps_per_member"] == 6 * TABLE["fields"]["num_steps"]


def test_a_short_chunk_is_one_call(tmp_path, monkeypatch):
    calls, advance = [], Population.advance
    monkeypatch.setattr(Population, "advance", lambda self, *args: (calls.append(args), advance(self, *args))[1])
    folder = train("blocks", tmp_path / "run").folder
    assert calls == [(0, 1), (1, 3), (4, 4), (8, 4), (12, 4)]  # the first update shows how long one takes
    assert not checkpoint.file_of(checkpoint.newest(folder / "checkpoints"), checkpoint.TOTALS).exists()


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves: `clock[0]`."""
    now = [100.0]
    monkeypatch.setattr(pieces.time, "perf_counter", lambda: now[0])
    return now


def test_pieces_grow_until_they_take_ten_seconds(clock):
    made, lengths = Pieces(), []
    left = 10_000
    while left:
        lengths.append(made.next(left))
        left -= lengths[-1]
        with made.timed(lengths[-1]):
            clock[0] += 0.01 * lengths[-1]
    assert lengths[:2] == [1, 32]
    assert all(900 < length <= 1000 for length in lengths[2:])  # 10 s, and no short one at the end
    assert made.next(900) == 900 and made.next(1100) == 550


def test_pieces_stay_short_where_an_agent_begins_to_learn(clock):
    made, pieces_of_run = Pieces(changes={1250}), []
    done, last = 0, 6250
    while done < last:
        began, length = clock[0], made.next(last - done, done)
        with made.timed(length):
            clock[0] += sum(1e-5 if update < 1250 else 0.05 for update in range(done, done + length))
        done += length
        pieces_of_run.append((length, clock[0] - began))
    assert [length for length, _ in pieces_of_run[:5]] == [1, 32, 1024, 193, 1]
    assert max(seconds for _, seconds in pieces_of_run) < 11


def test_a_run_has_a_piece_of_one_update_where_its_members_begin_to_learn(tmp_path, monkeypatch):
    calls, advance = [], Population.advance
    monkeypatch.setattr(Population, "advance", lambda self, *args: (calls.append(args), advance(self, *args))[1])
    fields = {name: value for name, value in DQN.items() if name != "learning_starts"} | {"num_steps": 4}
    sweep = {"learning_starts": [20.0, 44.0]}  # 8 steps an update: learning begins within updates 2 and 5
    case = {**CASES["dqn"], "fields": fields, "sweep": sweep, "seeds": 1, "steps": 8 * 8, "records": 1}
    shoal.train(folder=tmp_path / "run", preset=None, **SILENT, **{**OPTIONS, **case})
    assert calls[:3] == [(0, 1), (1, 1), (2, 1)] and (5, 1) in calls, calls


def test_a_request_to_stop_says_how_long_the_piece_will_take(clock):
    made = Pieces()
    assert made.until_saved() == ""  # nothing has begun
    with made.timed(2):
        clock[0] += 3
        assert made.until_saved() == " (3 s so far)"  # the first piece
        clock[0] += 37  # 20 s each
    with made.timed(4, to_save=2.0):
        clock[0] += 3
        assert made.until_saved() == ", in about 1:19"
        clock[0] += 90
        assert made.until_saved() == ""
