"""Learning curves of a run, against episodes counted by hand."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.agent import Metrics
from shoal.core.errors import DamagedError
from shoal.rollouts.episodes import EpisodeStats
from shoal.rollouts.evaluate import Evaluation
from shoal.tracking.events import Recorded
from shoal.tracking.jsonl import JsonLines
from shoal.training import curve_files
from shoal.training.folder import RunFolder
from shoal.training.records import Records, member_scores


def members(*episodes):
    """Statistics [M] of each member's (returns, lengths), among a step that ends nothing."""
    rows = [
        EpisodeStats.of(jnp.array([*(True for _ in r), False]), jnp.array([*r, 7.0]), jnp.array([*n, 5]))
        for r, n in episodes
    ]
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *rows)


def test_means_give_all_episodes_the_same_weight_and_are_nan_without_episodes():
    records = Records(2)
    once = members(([1.0, 2.0, 9.0], [1, 2, 3]), ([], []))
    twice = jax.tree.map(np.asarray, jax.vmap(EpisodeStats.merge)(once, members(([0.0], [10]), ([], []))))
    lines = [
        records.append(100 * (i + 1), 1.0, Metrics(stats, {}), np.array([True, True]), None)
        for i, stats in enumerate((once, twice, members(([], []), ([], []))))
    ]
    curves = records.arrays()
    np.testing.assert_array_equal(curves["train_return"], [[4.0, np.nan], [3.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_allclose(
        curves["train_return_std"], [[np.sqrt(38 / 3), np.nan], [np.sqrt(12.5), np.nan], [np.nan, np.nan]]
    )
    np.testing.assert_array_equal(curves["train_return_min"], [[1.0, np.nan], [0.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(curves["train_return_max"], [[9.0, np.nan], [9.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(curves["train_length"], [[2.0, np.nan], [4.0, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(curves["episodes"], [[3, 0], [4, 0], [0, 0]])
    assert [line.get("train_return", {}).get("mean") for line in lines] == [4.0, 3.0, None]


def write_records(folder, count):
    """Records of two members, the first of which never ends an episode; returns their fingerprint after each."""
    records, alive, fingerprints = Records(2), np.array([True, True]), []
    sink = JsonLines(folder.path / "metrics.jsonl")
    for i in range(count):
        metrics = Metrics(members(([], []), ([float(i), 7.0], [1, 2])), {})
        line = records.append(100 * (i + 1), 0.5 * i, metrics, alive, None)
        records.save(folder)
        sink.receive(Recorded(i + 1, line, 1.0, None))
        fingerprints.append(records.fingerprint())
    return fingerprints


def test_log_lines_are_rewritten_from_the_curves(tmp_path):
    folder, lines = RunFolder(tmp_path), tmp_path / "metrics.jsonl"
    fingerprints = write_records(folder, 3)
    before = lines.read_text().splitlines()
    records = Records.load(folder, 2, 2, fingerprints[1])
    assert records.lines().splitlines() == before[:2] and len(records) == 2


def test_records_of_some_members_are_those_that_these_members_alone_would_have(tmp_path):
    folder = RunFolder(tmp_path)
    records = Records.load(folder, 2, 3, write_records(folder, 3)[-1])
    chosen = records.of(np.array([1, 1, 0]))
    for name, column in records.arrays().items():
        expected = column if column.ndim == 1 else column[:, [1, 1, 0]]
        np.testing.assert_array_equal(chosen.arrays()[name], expected, err_msg=name)
    assert records.of(np.arange(2)).fingerprint() == records.fingerprint() != chosen.fingerprint()


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04", b"half of something"])
def test_unreadable_curves_are_reported(content, tmp_path):
    curves = tmp_path / "curves.npz"
    if content is not None:
        curves.write_bytes(content)
    with pytest.raises(DamagedError, match=r"curves.npz is (damaged or was not written by shoal|missing)"):
        Records.load(RunFolder(tmp_path), 2, 1, {})


def test_fewer_records_than_the_checkpoint_are_refused(tmp_path):
    fingerprints = write_records(RunFolder(tmp_path), 2)
    with pytest.raises(DamagedError, match=r"curves.npz has 2 records, but the checkpoint of its run was made after 3"):
        Records.load(RunFolder(tmp_path), 2, 3, fingerprints[-1])


def test_the_score_of_a_member_is_its_last_or_best_finite_evaluation():
    nan = np.nan
    returns = np.array([[1.0, 5.0, nan], [nan, nan, nan], [2.0, nan, nan], [nan, nan, nan]])
    np.testing.assert_array_equal(member_scores({"eval_return": returns}), [2.0, nan, nan])  # not the last record
    np.testing.assert_array_equal(member_scores({"eval_return": returns}, "best"), [2.0, 5.0, nan])
    np.testing.assert_array_equal(member_scores({"eval_return": returns[1:2]}, "best"), [nan, nan, nan])


def test_evaluations_of_idle_slots_do_not_count():
    curves = {"eval_return": np.array([[1.0, 9.0], [2.0, 3.0]]), "occupant": np.array([[0, -1], [0, 2]])}
    np.testing.assert_array_equal(member_scores(curves), [2.0, 3.0])
    np.testing.assert_array_equal(member_scores(curves, "best"), [2.0, 3.0])  # not the 9 of the idle slot
    curves["occupant"][1, 1] = -1
    np.testing.assert_array_equal(member_scores(curves), [2.0, np.nan])


def test_a_later_record_that_widens_a_column_is_no_damage(tmp_path):
    folder, records, alive = RunFolder(tmp_path), Records(2), np.array([True, True])
    stats = Metrics(members(([1.0], [1]), ([2.0], [1])), {})
    one = Evaluation(jnp.ones(3), jnp.ones(3, jnp.int32), jnp.ones(3, bool))
    played = jax.tree.map(lambda x: jnp.stack([x, x]), one)
    for evaluation in (played, None):
        records.append(1, 1.0, stats, alive, evaluation)
        records.save(folder)
    first = Records(2)
    first.append(1, 1.0, stats, alive, played)
    assert first.arrays()["eval_return"].dtype == np.float32 and records.arrays()["eval_return"].dtype == np.float64
    again = Records.load(folder, 2, 1, first.fingerprint())
    np.testing.assert_array_equal(again.arrays()["eval_return"], [[1.0, 1.0]])


@pytest.fixture
def long_run(tmp_path, monkeypatch):
    """50 records of a run whose files count as long: (folder, records, what was read after each, whole writes)."""
    monkeypatch.setattr(curve_files, "SHORT", 0)
    written, write = [], curve_files.write_whole
    monkeypatch.setattr(curve_files, "write_whole", lambda *a: (written.append(len(a[1]["episodes"])), write(*a)))
    folder, records, found, alive = RunFolder(tmp_path), Records(2), [], np.array([True, True])
    stats = members(([3.0], [1]), ([4.0, 7.0], [1, 2]))
    one = Evaluation(jnp.ones(3), jnp.ones(3, jnp.int32), jnp.ones(3, bool))
    played = jax.tree.map(lambda x: np.stack([x, x]), one)
    for i in range(50):
        metrics = Metrics(jax.tree.map(lambda x, i=i: x + np.asarray(i, x.dtype), stats), {})
        records.append(100 * (i + 1), 0.5 * i, metrics, alive, played if i < 9 else None)  # the tenth widens a column
        records.save(folder)
        found.append((folder.read_curves(2), records.fingerprint()))
    return folder, records, found, written


def assert_curves(found, records, count):
    assert list(found) == list(records.columns)
    for name, rows in records.columns.items():
        np.testing.assert_array_equal(found[name], np.stack(rows[:count]), err_msg=name)
        assert found[name].dtype == np.stack(rows[:count]).dtype


def test_a_long_file_is_seldom_written_whole_and_always_read_whole(long_run):
    folder, records, found, written = long_run
    for count, (curves, _) in enumerate(found, 1):
        assert_curves(curves, records, count)
    # Where more than 1/8 of all records are new: at n if n - before > n / 8; at 10 because a dtype changed.
    assert written == [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 14, 17, 20, 23, 27, 31, 36, 42, 49]
    assert (folder.path / "curves.tail").exists()
    records.save_whole(folder)
    assert written[-1] == 50 and not (folder.path / "curves.tail").exists()
    assert_curves(folder.read_curves(2), records, 50)


def test_a_long_run_goes_on_from_any_record(long_run):
    folder, records, found, written = long_run
    for count in (1, 9, 47, 49, 50):
        again = Records.load(folder, 2, count, found[count - 1][1])
        assert_curves(again.arrays(), records, count)
        assert again.fingerprint() == found[count - 1][1]
    again = Records.load(folder, 2, 46, found[45][1])
    again.append(1, 1.0, Metrics(members(([1.0], [1]), ([2.0], [1])), {}), np.array([True, True]), None)
    again.save(folder)  # the records of the former process after record 46 are gone
    assert len(folder.read_curves(2)["env_steps"]) == 47 and written[-1] == 47


def test_a_tail_that_was_cut_off_or_is_out_of_date_is_no_damage(long_run):
    folder, records, *_ = long_run
    tail = folder.path / "curves.tail"
    stored = tail.read_bytes()
    tail.write_bytes(stored[:-3])  # a record that was not written to its end
    assert_curves(folder.read_curves(2), records, 49)
    records.save_whole(folder)
    tail.write_bytes(stored)  # a process that was killed before it removed the tail
    assert_curves(folder.read_curves(2), records, 50)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tail: b"{" + tail, "first line does not describe its records"),
        (lambda tail: tail.replace(b"<f8", b"|O8"), "first line does not describe its records"),
        (lambda tail: tail.replace(b'"first": 49', b'"first": 51'), "do not continue those of curves.npz"),
        (lambda tail: tail.replace(b'"alive"', b'"olive"'), "do not continue those of curves.npz"),
    ],
)
def test_a_damaged_tail_is_reported(change, message, long_run):
    folder = long_run[0]
    tail = folder.path / "curves.tail"
    tail.write_bytes(change(tail.read_bytes()))
    with pytest.raises(DamagedError, match=f"curves.tail is damaged .*{message}"):
        folder.read_curves(2)


def test_curves_are_recognized_by_the_hash_of_older_checkpoints_too(tmp_path):
    folder = RunFolder(tmp_path)
    write_records(folder, 3)
    digest, columns = hashlib.sha256(), folder.read_curves(2)
    for name in sorted(columns):
        digest.update(f"{name} {columns[name][:2].shape}".encode() + columns[name][:2].tobytes())
    older = {"dtypes": {name: columns[name].dtype.str for name in sorted(columns)}, "sha256": digest.hexdigest()}
    assert len(Records.load(folder, 2, 2, older)) == 2
    with pytest.raises(DamagedError, match="its first 2 records differ"):
        Records.load(folder, 2, 2, {**older, "sha256": "0"})
