"""MP4 files (H.264), which are smaller than GIFs and have all colors. Needs the extra `video`, which holds ffmpeg."""

import itertools
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from shoal.core.errors import need
from shoal.specs.disk import replace
from shoal.viz.gif import checked_frames

# Browsers and slides play only yuv420p. faststart: a browser can begin before it has the whole file.
ENCODING = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-movflags", "+faststart", "-f", "mp4"]


def encoder() -> Any:
    """The package `imageio_ffmpeg`. Raises ImportError, naming the extra, if it is not installed."""
    return need("imageio_ffmpeg", "video", "writing an MP4 file")


def write_mp4(frames: Iterable[Any], path: str | Path, *, fps: int | float = 30) -> Path:
    """Write pictures, uint8 [H, W, 3], as an MP4 file. Returns its path.

    H.264 needs even sizes: of a picture with an odd width or height, the last column or row is shown twice. Missing
    folders are made. Raises ValueError for no frames and for frames that are not uint8 [H, W, 3] or differ in size,
    and ImportError without the extra `video`.
    """
    if not fps > 0:
        raise ValueError(f"fps={fps} cannot be shown. Try fps=30.")
    path, ffmpeg = Path(path), encoder().get_ffmpeg_exe()
    pictures = (np.pad(p, ((0, len(p) % 2), (0, p.shape[1] % 2), (0, 0)), "edge") for p in checked_frames(frames))
    first = next(pictures)
    size = f"{first.shape[1]}x{first.shape[0]}"
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(fps), "-i", "-"]
    command = [ffmpeg, "-v", "error", "-y", *source, *ENCODING]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, lambda beside: _encode([*command, str(beside)], itertools.chain([first], pictures)))
    return path


def _encode(command: list[str], pictures: Iterable[np.ndarray]) -> None:
    """Run ffmpeg with the pictures as its input. Raises RuntimeError, with ffmpeg's message, if it fails."""
    # Not with imageio_ffmpeg.write_frames: it forks this process, which has JAX's threads.
    with (
        tempfile.TemporaryFile() as messages,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=messages) as process,
    ):
        pipe = cast(IO[bytes], process.stdin)
        with suppress(BrokenPipeError):  # ffmpeg ended early; its message says why
            for picture in pictures:
                pipe.write(picture.tobytes())
            pipe.close()
        if process.wait():
            messages.seek(0)
            raise RuntimeError(f"ffmpeg could not write the video: {messages.read().decode(errors='replace').strip()}")
