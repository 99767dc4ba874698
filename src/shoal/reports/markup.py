"""HTML as text, made by nested calls. A text that is not `Html` already is escaped, so a name cannot become a tag."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

VOID = {"br", "img", "meta"}  # elements without an end tag


class Html(str):
    """A text that is HTML already."""


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Return an element. Children that are not `Html` are escaped; None and empty texts are left out.

    A trailing underscore of an attribute's name is dropped (`class_`), other underscores become hyphens (`data_value`).
    True makes an attribute without a value; None and False leave it out.
    """
    inside = "".join(map(escaped, children))
    start = f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>"
    return Html(start if name in VOID else f"{start}{inside}</{name}>")


def joined(parts: Iterable[Any], between: str = "") -> Html:
    """Return parts one after the other, those that are not `Html` escaped."""
    return Html(escaped(between).join(escaped(part) for part in parts))


def with_code(words: str) -> Html:
    """Return a sentence in which the parts between backticks are shown as code."""
    return joined(tag("code", part) if i % 2 else part for i, part in enumerate(words.split("`")))


def escaped(part: Any) -> str:
    """Return a part as HTML: `Html` as it is, None as nothing, anything else as escaped text."""
    if part is None:
        return ""
    return part if isinstance(part, Html) else html.escape(str(part), quote=True)


class Cell:
    """A cell of a table: what it shows, and the value by which the column is sorted (default: the shown text)."""

    def __init__(self, content: Any, value: float | str | None = None, class_: str | None = None) -> None:
        self.content, self.value, self.class_ = content, value, class_

    def html(self) -> Html:
        """Return the element; a number is to the right, and one that is not known is last when sorted."""
        is_number = isinstance(self.value, (int, float)) and not isinstance(self.value, bool)
        classes = " ".join(filter(None, ("n" if is_number else "", self.class_))) or None
        return tag("td", self.content, class_=classes, data_value=None if self.value is None else f"{self.value}")


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]], *, sortable: bool = False, caption: Any = None) -> Html:
    """Return a table in a box of its own, in which it scrolls if it is wider than the page.

    Cells are `Cell`s, or what they show. A column whose first cell is a number has its head to the right.
    """
    cells = [[each if isinstance(each, Cell) else Cell(each) for each in row] for row in rows]
    numeric = [isinstance(cell.value, (int, float)) for cell in cells[0]] if cells else [False] * len(head)
    heads = (
        tag("th", words, scope="col", class_="n" if is_number else None)
        for words, is_number in zip(head, numeric, strict=True)
    )
    body = joined(tag("tr", *(cell.html() for cell in row)) for row in cells)
    made = tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", tag("tr", *heads)),
        tag("tbody", body),
        class_="sortable" if sortable and len(cells) > 1 else None,
    )
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label="table")


def pairs(rows: Iterable[tuple[Any, Any]]) -> Html:
    """Return a list of names with what they are; pairs without content are left out."""
    kept = [(name, content) for name, content in rows if content not in (None, "")]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", content)) for name, content in kept))


def code_block(text: str, label: str = "") -> Html:
    """Return lines of code."""
    return tag("pre", tag("code", text), tabindex="0", aria_label=label or None)


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(value)}"'
