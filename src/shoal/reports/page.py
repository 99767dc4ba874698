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
from shoal.reports.markup import Html, tag
from shoal.reports.words import size_in_words

HERE = Path(__file__).parent


class Section(NamedTuple):
    """A part of a report with a heading of its own; `name` is its address in the page."""

    name: str
    title: str
    parts: Sequence[Any]


def page(
    title: str,
    kind: str,
    under: Any,
    summary: Sequence[Any],
    sections: Sequence[Section | None],
) -> Html:
    """Return a whole page. `kind` says what is reported, `under` stands below the title, `summary` above the sections.

    Sections that are None or without parts are left out.
    """
    kept = [section for section in sections if section and any(section.parts)]
    body = tag(
        "main",
        tag(
            "header",
            tag("p", f"shoal report · {kind}", class_="eyebrow"),
            tag("h1", title),
            tag("p", under, class_="under"),
        ),
        *summary,
        tag("nav", *(tag("a", each.title, href=f"#{each.name}") for each in kept), aria_label="sections"),
        *(tag("section", tag("h2", each.title), *each.parts, id=each.name) for each in kept),
    )
    size = size_in_words(len(body.encode()) + len(_asset("style.css")) + len(_asset("page.js")))
    footer = tag(
        "footer",
        f"Written by shoal {shoal.__version__}. This page is one file of {size}; it loads nothing from a network.",
    )
    head = (
        Html('<meta charset="utf-8">'),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · shoal report"),
        tag("style", Html(_asset("style.css"))),
    )
    script = tag("script", Html(_asset("page.js")))
    return Html(f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', body, footer, script), lang='en')}\n")


def key_figures(figures: Sequence[tuple[Any, Any, Any]]) -> Html:
    """Return a row of (name, large number, small words below it)."""
    cells = (
        tag("div", tag("dt", name), tag("dd", value, tag("small", words) if words else None))
        for name, value, words in figures
    )
    return tag("dl", *cells, class_="figures")


def warning_box(warnings: Sequence[Any]) -> Html | None:
    """Return a box with what a reader must know before trusting the numbers; None without a warning."""
    if not warnings:
        return None
    words = "Read this first" if len(warnings) == 1 else f"Read these {len(warnings)} notes first"
    return tag("aside", tag("h2", words), tag("ul", *(tag("li", each) for each in warnings)), class_="warning")


def folded(summary: Any, *parts: Any, open_: bool = False) -> Html:
    """Return parts that are shown when the reader opens them."""
    return tag("details", tag("summary", summary), *parts, open=open_)


def data_address(kind: str, content: bytes) -> str:
    """Return a `data:` address that holds the content itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _policy() -> str:
    style, script = (_hash(_asset(name)) for name in ("style.css", "page.js"))
    allowed = f"style-src {style}; script-src {script}; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
