"""The videos of a run inside the page, as long as they are small enough."""

from collections.abc import Sequence
from pathlib import Path

from shoal.core.errors import DamagedError
from shoal.reports.facts import Facts
from shoal.reports.markup import Html, code, joined, soft, tag
from shoal.reports.page import Section, data_address
from shoal.reports.words import size_in_words
from shoal.training.reading import opened, size_of

LARGEST = 2_000_000  # bytes of a video in the page
MOST_BYTES = 8_000_000  # of all of them together
FIRST = ("best.gif", "median.gif", "worst.gif")
KINDS = {"gif": (b"GIF87a", b"GIF89a"), "png": b"\x89PNG\r\n\x1a\n"}  # what such a file begins with
WORDS = {
    "best.gif": "the best member",
    "median.gif": "the member in the middle of the ranking",
    "worst.gif": "the worst member",
    "members.gif": "several members side by side",
}


def videos_section(runs: Sequence[Facts], names: Sequence[str] = ()) -> Section | None:
    """Return the section with the videos of a run; of several runs, with that of the best member of each."""
    shown: list[Html] = []
    notes: list[Html] = []
    room = MOST_BYTES
    for index, facts in enumerate(runs):
        for path in _files(facts, only_best=len(runs) > 1):
            content = read_picture(path)
            words = WORDS.get(path.name, path.stem.replace("-", " "))
            caption = f"{names[index]}: {words}" if names else f"{words[:1].upper()}{words[1:]}"
            if isinstance(content, bytes) and len(content) > room:
                content = _too_large(len(content))
            if isinstance(content, bytes):
                room -= len(content)
                picture = tag("img", src=data_address("image/gif", content), alt=f"video: {caption}", decoding="async")
                shown.append(tag("figure", picture, tag("figcaption", caption)))
            else:
                name = f"{path.parent.name}/{path.name}"
                notes.append(joined([code(name), f" in the run folder is not shown here: {content}."]))
    if not shown and not notes:
        return None
    about = "Each shows one episode with greedy actions and the last weights, if it was made at the end of the run."
    parts = [soft(about), tag("div", *shown, class_="videos")] if shown else []
    return Section("videos", "Videos", [*parts, tag("ul", *(tag("li", note) for note in notes), class_="soft")])


def _files(facts: Facts, only_best: bool) -> list[Path]:
    folder = facts.folder / "videos"
    if only_best:
        return [folder / "best.gif"] if (folder / "best.gif").exists() else []
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in found if path.suffix.lower() in (".gif", ".mp4")]
    return sorted(found, key=lambda path: (FIRST.index(path.name) if path.name in FIRST else len(FIRST), path.name))


def read_picture(path: Path) -> bytes | str:
    """Return the content of a GIF or PNG; if it cannot be in a page, the reason."""
    kind = path.suffix[1:].lower()
    if kind not in KINDS:
        return "a page holds GIFs only"
    try:
        with opened(path) as file:
            size = size_of(file)
            content = file.read() if size <= LARGEST else b""
    except (OSError, DamagedError) as error:
        return str(error)
    if size > LARGEST:
        return _too_large(size)
    return content if content.startswith(KINDS[kind]) else f"it is no {kind.upper()}"


def _too_large(size: int) -> str:
    has, of_file, whole = (size_in_words(count) for count in (size, LARGEST, MOST_BYTES))
    return f"it has {has}; a file may have {of_file}, all together {whole}"
