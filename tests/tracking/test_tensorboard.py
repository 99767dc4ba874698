"""Event files, read back with TensorBoard's own reader."""

import shutil
import struct

import pytest

from shoal.tracking.tensorboard import TensorBoard, size_of
from shoal.tracking.tracker import Target
from stores import entry, points

PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00"
    b"\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82"
)

pytestmark = pytest.mark.filterwarnings("ignore:::tensorboard", "ignore:::google")


@pytest.fixture
def board(tmp_path):
    pytest.importorskip("tensorboard")
    made = TensorBoard(Target(tmp_path / "run", tmp_path, ""))
    made.connect()
    return made


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return found


def scalars(folder, name):
    return [(event.step, event.value, event.wall_time) for event in read(folder).Scalars(name)]


def test_tensorboard_reads_the_points_with_their_times(board):
    board.open(entry())
    board.write(entry().key, points(2))
    board.write(entry().key, points(1, first=3))
    board.end(entry().key, "complete")
    expected = [(100 * i, float(i), point.time) for i, point in zip((1, 2, 3), points(3), strict=True)]
    assert scalars(board.folder, "score") == expected


def test_a_run_that_is_continued_is_written_anew(board):
    for count in (2, 3):
        board.open(entry())
        board.write(entry().key, points(count))
    assert [step for step, _, _ in scalars(board.folder, "score")] == [100, 200, 300]


def test_a_file_that_was_removed_is_not_begun_again_with_the_newest_points(board):
    board.open(entry())
    board.write(entry().key, points(2))
    shutil.rmtree(board.folder)
    board.folder.mkdir()
    with pytest.raises(FileNotFoundError):
        board.write(entry().key, points(1, first=3))
    assert not [*board.folder.iterdir()]
    board.open(entry())  # as `shoal track` does
    board.write(entry().key, points(3))
    assert [step for step, _, _ in scalars(board.folder, "score")] == [100, 200, 300]


def test_pictures_and_texts_are_readable(board, tmp_path):
    figures = tmp_path / "figures"
    figures.mkdir()
    (figures / "curve.png").write_bytes(PNG)
    (tmp_path / "spec.json").write_text('{"agent": "ppo"}')
    board.open(entry())
    board.attach(entry().key, {"figures": figures, "spec.json": tmp_path / "spec.json"})
    found = read(board.folder)
    (image,) = found.Images("figures/curve.png")
    assert (image.width, image.height, image.encoded_image_string) == (1, 1, PNG)
    (spec,) = found.Tensors("spec.json")
    assert b'"agent": "ppo"' in spec.tensor_proto.string_val[0]
    (table,) = found.Tensors("parameters")
    assert b"|learning_rate|0.001|" in table.tensor_proto.string_val[0]


def test_a_child_has_a_folder_and_hyperparameters(board):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    board.open(entry())
    child = entry(f"{entry().key}/setting/3", parent=entry().key)
    board.open(child)
    board.write(child.key, points(1))
    folder = board.folder / "setting-3"
    assert [step for step, _, _ in scalars(folder, "score")] == [100]
    content = read(folder).summary_metadata["_hparams_/session_start_info"].plugin_data.content
    values = HParamsPluginData.FromString(content).session_start_info.hparams
    assert values["learning_rate"].number_value == 0.001


def test_a_child_that_comes_at_once_appears_when_it_is_complete(board):
    board.open(entry())
    child = entry(f"{entry().key}/trial/0", parent=entry().key, live=False)
    folder = board.folder / "trial-0"
    for count in (1, 2):  # the first process was killed before the end
        board.open(child)
        board.write(child.key, points(count))
    assert [path.suffix for path in folder.iterdir()] == [".partial"]
    board.end(child.key, "complete")
    assert [step for step, _, _ in scalars(folder, "score")] == [100, 200]


def test_workers_write_files_of_their_own(board):
    other = TensorBoard(Target(board.folder.parent, board.folder.parent.parent, ""))
    board.open(entry(worker="a"))
    board.write(entry().key, points(1))
    other.open(entry(worker="b"))
    other.write(entry().key, points(1, first=2))
    assert [step for step, _, _ in scalars(board.folder, "score")] == [100, 200]


def test_a_full_disk_leaves_a_file_that_can_be_read(board, monkeypatch):
    from tensorboard.summary.writer.record_writer import RecordWriter

    board.open(entry())
    board.write(entry().key, points(1))

    def half(self, data):
        self._writer.write(b"half an event")
        raise OSError(28, "No space left on device")

    write = RecordWriter.write
    monkeypatch.setattr(RecordWriter, "write", half)
    with pytest.raises(OSError, match="No space left"):
        board.write(entry().key, points(1, first=2))
    monkeypatch.setattr(RecordWriter, "write", write)
    board.write(entry().key, points(1, first=2))
    assert [step for step, _, _ in scalars(board.folder, "score")] == [100, 200]


def test_sizes_of_pictures():
    assert size_of(PNG) == (1, 1)
    assert size_of(b"GIF89a" + struct.pack("<HH", 160, 120)) == (160, 120)
