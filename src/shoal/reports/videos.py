"""The videos of a run inside the page, as long as they are small enough."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shoal.core.errors import DamagedError
from shoal.reports.facts import Facts
from shoal.reports.markup import Html, joined, tag
from shoal.reports.page import Section, data_address
from shoal.reports.words import size_in_words
from shoal.training.reading import opened, size_of

LARGEST = 2_000_000  # bytes of a video in the page
MOST_BYTES = 8_000_000  # of all of them together
FIRST = ("best.gif", "median.gif", "worst.gif")
KINDS = {b"GIF87a": "image/gif", b"GIF89a": "image/gif"}
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
            content = _read(path)
            words = WORDS.get(path.name, path.stem.replace("-", " "))
            caption = f"{names[index]}: {words}" if names else f"{words[:1].upper()}{words[1:]}"
            if isinstance(content, bytes) and len(content) <= min(LARGEST, room):
                room -= len(content)
                address = data_address("image/gif", content)
                picture = tag("img", src=address, alt=f"video: {caption}", decoding="async")
                shown.append(tag("figure", picture, tag("figcaption", caption)))
            else:
                notes.append(_left_out(path, content))
    if not shown and not notes:
        return None
    about = "Each shows one episode with greedy actions and the last weights, if it was made at the end of the run."
    parts = [tag("p", about, class_="soft") if shown else None, tag("div", *shown, class_="videos") if shown else None]
    return Section(
        "videos", "Videos", [*parts, tag("ul", *(tag("li", n) for n in notes), class_="soft") if notes else None]
    )


def _files(facts: Facts, only_best: bool) -> list[Path]:
    folder = facts.folder / "videos"
    if only_best:
        return [folder / "best.gif"] if (folder / "best.gif").exists() else []
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path for path in found if path.suffix.lower() in (".gif", ".mp4")]
    return sorted(found, key=lambda path: (FIRST.index(path.name) if path.name in FIRST else len(FIRST), path.name))


def _read(path: Path) -> bytes | int | str:
    """Return the content of a GIF; its size if it is too large; or the reason why it cannot be shown."""
    if path.suffix.lower() != ".gif":
        return "a page holds GIFs only"
    try:
        with opened(path) as file:
            size = size_of(file)
            if size > LARGEST:
                return size
            content = file.read()
    except (OSError, DamagedError) as error:
        return str(error)
    return content if content[:6] in KINDS else "it is no GIF"


def _left_out(path: Path, content: Any) -> Html:
    if isinstance(content, bytes):
        content = len(content)
    reason = content
    each, whole = size_in_words(LARGEST), size_in_words(MOST_BYTES)
    if isinstance(content, int):
        reason = f"it has {size_in_words(content)}; videos may have {each}, all together {whole}"
    return joined([tag("code", f"{path.parent.name}/{path.name}"), f" in the run folder is not shown here: {reason}."])
