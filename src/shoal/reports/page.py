"""The page around the sections of a report: one file that loads nothing, with its style, its script and its pictures.

A Content-Security-Policy allows the style and the script of this package, by their hashes, and pictures that are in the
page itself. So even text that was not escaped could not run, and nothing is requested from a network.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import shoal
from shoal.reports.markup import Html, joined, render, tag
from shoal.reports.words import size_in_words

HERE = Path(__file__).parent


class Section(NamedTuple):
    """A part of a report with a heading of its own; `name` is its address in the page."""

    name: str
    title: str
    parts: Sequence[Any]


def page(title: str, kind: str, under: Any, summary: Sequence[Any], sections: Sequence[Section | None]) -> Html:
    """Return a whole page. `kind` says what is reported, `under` stands below the title, `summary` above the sections.

    Sections that are None or without parts are left out.
    """
    kept = [section for section in sections if section and any(section.parts)]
    top, style, script = joined(summary), _asset("style.css"), _asset("page.js")
    texts = (style, script, top, *(str(part) for section in kept for part in section.parts))
    return render(
        "page",
        title=title,
        kind=kind,
        under=under,
        summary=top,
        sections=kept,
        policy=_policy(style, script),
        style=style,
        script=script,
        version=shoal.__version__,
        size=size_in_words(sum(len(text.encode()) for text in texts)),
    )


def key_figures(figures: Sequence[tuple[Any, Any, Any]]) -> Html:
    """Return a row of (name, large number, small words below it)."""
    return render("key_figures", figures=figures)


def warning_box(warnings: Sequence[Any]) -> Html | None:
    """Return a box with what a reader must know before trusting the numbers; None without a warning."""
    return render("warnings", notes=warnings) if warnings else None


def folded(summary: Any, *parts: Any) -> Html:
    """Return parts that are shown when the reader opens them."""
    return tag("details", tag("summary", summary), *parts)


def data_address(kind: str, content: bytes) -> str:
    """Return a `data:` address that holds the content itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _policy(style: str, script: str) -> str:
    allowed = f"style-src {_hash(style)}; script-src {_hash(script)}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> Html:
    return Html((HERE / name).read_text(encoding="utf-8"))
