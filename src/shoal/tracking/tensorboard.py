"""TensorBoard: event files in the folder of the run, `RUN/tensorboard`, and in a folder inside it for each child.

`tensorboard --logdir runs` shows them. They are written from the records of the run, so a run that is continued writes
them anew: nothing is there twice. Only the package `tensorboard` is needed, neither TensorFlow nor torch.
"""

import importlib
import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.registry import tracker
from shoal.tracking.tracker import Entry, Known, Point, Target, Tracker

IMAGES = (".png", ".gif")
LARGEST_IMAGE = 5_000_000  # bytes; TensorBoard sends whole images to the browser
PARTIAL = ".partial"  # the end of the name of a file whose run comes at once and is not complete yet


@tracker("tensorboard")
class TensorBoard(Tracker):
    """Writes event files."""

    title, package, install = "TensorBoard", "tensorboard", "shoal[tensorboard]"

    def __init__(self, target: Target) -> None:
        """The event files are in the folder of the run."""
        self.folder = target.folder / "tensorboard"
        self._main = ""
        self._axes: dict[str, str] = {}
        self._files: dict[str, Path] = {}

    def connect(self) -> None:
        """Import the parts of TensorBoard that write event files."""
        importlib.import_module("tensorboard.summary.writer.record_writer")

    def open(self, entry: Entry) -> Known:
        """Begin an event file with the parameters; remove those of an earlier process."""
        if not entry.parent:
            self._main = entry.key
        folder = self._folder(entry.key)
        folder.mkdir(parents=True, exist_ok=True)
        own = f".{entry.worker}" if entry.worker else ""
        for old in folder.glob(f"events.out.tfevents.*.shoal{own}*"):
            if old.name.removesuffix(PARTIAL).endswith(f".shoal{own}"):
                old.unlink()
        name = f"events.out.tfevents.{round(entry.started):010d}.{socket.gethostname()}.shoal{own}"
        self._files[entry.key] = folder / (name if entry.live else name + PARTIAL)
        self._files[entry.key].touch()
        self._axes[entry.key] = entry.axis
        rows = "".join(f"|{path}|{text}|\n" for path, text in {**entry.tags, **entry.parameters}.items())
        table = f"|name|value|\n|---|---|\n{rows}"
        values = [_text("parameters", table), *_hyperparameters(entry)]
        self._append(entry.key, [_event(entry.started, file_version="brain.Event:2"), _event(entry.started, 0, values)])
        return Known()

    def write(self, key: str, points: Sequence[Point]) -> None:
        value = _protocol("summary").Summary.Value
        rows = [(p, [value(tag=name, simple_value=x) for name, x in p.metrics.items()]) for p in points]
        self._append(key, [_event(point.time, point.step, values) for point, values in rows])

    def attach(self, key: str, files: Mapping[str, Path]) -> None:
        """Append pictures, and JSON files as texts; leave other files out: they are in the run folder beside."""
        values = []
        for name, path in files.items():
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
            for file in inside:
                label = f"{name}/{file.relative_to(path)}" if path.is_dir() else name
                if file.suffix in IMAGES and file.stat().st_size <= LARGEST_IMAGE:
                    values.append(_image(label, file.read_bytes()))
                elif file.name in ("spec.json", "summary.json"):
                    values.append(_text(label, f"```\n{json.dumps(json.loads(file.read_text()), indent=1)}\n```"))
        now = time.time()
        self._append(key, [_event(now, 0, [value]) for value in values])

    def end(self, key: str, status: str) -> None:
        """Give a file that came at once its final name."""
        del status
        path = self._files[key]
        if path.name.endswith(PARTIAL):
            os.replace(path, path.with_name(path.name.removesuffix(PARTIAL)))
        del self._files[key], self._axes[key]

    @property
    def where(self) -> str:
        """The folder, and the command that shows it."""
        return f"{self.folder} (tensorboard --logdir {self.folder.parent.parent})"

    def _folder(self, key: str) -> Path:
        label = key.removeprefix(self._main).strip("/").replace("/", "-")
        return self.folder / label

    def _append(self, key: str, events: Sequence[Any]) -> None:
        """Append events to the file of a run. An error, such as a full disk, leaves it as it was before.

        Raises FileNotFoundError if it was removed: with only the newest events it would look complete.
        """
        from tensorboard.summary.writer.record_writer import RecordWriter

        path = self._files[key]
        size = path.stat().st_size
        try:
            with open(path, "ab") as file:
                writer: Any = RecordWriter(file)
                for event in events:
                    writer.write(event.SerializeToString())
        except OSError:
            os.truncate(path, size)
            raise


def _protocol(name: str) -> Any:
    """A module of TensorBoard's messages: their classes are made when it is imported, so type checkers know none."""
    return importlib.import_module(f"tensorboard.compat.proto.{name}_pb2")


def _event(seconds: float, step: int = 0, values: Sequence[Any] = (), file_version: str = "") -> Any:
    event = _protocol("event").Event
    if file_version:
        return event(wall_time=seconds, file_version=file_version)
    return event(wall_time=seconds, step=step, summary=_protocol("summary").Summary(value=list(values)))


def _text(name: str, text: str) -> Any:
    """A text in Markdown, for TensorBoard's page of texts."""
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    about = create_summary_metadata(display_name="", description="")
    return _protocol("summary").Summary.Value(tag=name, metadata=about, tensor=make_tensor_proto(text.encode()))


def _image(name: str, content: bytes) -> Any:
    summary, (width, height) = _protocol("summary").Summary, size_of(content)
    image = summary.Image(width=width, height=height, colorspace=4, encoded_image_string=content)
    return summary.Value(tag=name, image=image)


def _hyperparameters(entry: Entry) -> list[Any]:
    """The parameters of a child, for TensorBoard's page of hyperparameters: numbers as numbers."""
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    if not entry.parent or not entry.parameters:
        return []
    values = {path: _number(text) for path, text in entry.parameters.items()}
    return list(hparams_pb(values, trial_id=entry.key, start_time_secs=entry.started).value)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def size_of(content: bytes) -> tuple[int, int]:
    """Return (width, height) in pixels of a PNG or a GIF."""
    if content.startswith(b"\x89PNG"):
        return struct.unpack(">II", content[16:24])
    return struct.unpack("<HH", content[6:10])
