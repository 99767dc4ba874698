"""HTML of reports: templates of Jinja, which escape every text that is not `Html` already, and small elements.

The templates are in `templates/`. So that a name cannot become a tag, nothing but a template, `tag` and `joined` makes
`Html`.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup as Html
from markupsafe import escape

from shoal.reports import words
from shoal.viz.words import exact, number, setting_in_words

VOID = {"br", "img", "meta"}  # elements without an end tag


def render(template: str, /, **values: Any) -> Html:
    """Return a template of `templates/` as HTML, with these values."""
    return Html(_environment().get_template(f"{template}.html").render(values))


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Return an element. Children that are not `Html` are escaped; None is left out.

    A trailing underscore of an attribute's name is dropped (`class_`), other underscores become hyphens (`data_value`).
    None leaves an attribute out.
    """
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    start = Html("<{}{}>").format(name, joined(Html(' {}="{}"').format(*attribute) for attribute in named.items()))
    return start if name in VOID else Html("{}{}</{}>").format(start, joined(children), name)


def joined(parts: Iterable[Any], between: str = "") -> Html:
    """Return parts one after the other, those that are not `Html` escaped."""
    return escape(between).join(part for part in parts if part is not None)


def code(text: Any) -> Html:
    """Return a name, a path or a command within a sentence."""
    return tag("code", text)


def soft(*children: Any) -> Html:
    """Return a paragraph in a softer color."""
    return tag("p", *children, class_="soft")


def with_code(sentence: str) -> Html:
    """Return a sentence in which the parts between backticks are shown as code."""
    return joined(code(part) if i % 2 else part for i, part in enumerate(sentence.split("`")))


class Cell(NamedTuple):
    """A cell of a table: what it shows, and the value by which the column is sorted (default: the shown text).

    A number is to the right, and one that is not known (NaN) is last when sorted.
    """

    content: Any
    value: float | str | None = None
    class_: str | None = None

    @property
    def is_number(self) -> bool:
        """Whether the column is one of numbers."""
        return isinstance(self.value, (int, float)) and not isinstance(self.value, bool)


def cell(value: Any, text: str | None = None) -> Cell:
    """Return the cell of a number or a text; with `text`, of a number (None: not known) that is shown as this text."""
    if text is not None:
        return Cell(text, float("nan") if value is None else value)
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        return Cell(exact(value))
    return Cell(f"{value}", value) if isinstance(value, int) else Cell(number(value), float(value))


def table(head: Sequence[Any], rows: Iterable[Sequence[Any]], *, sortable: bool = False) -> Html:
    """Return a table in a box of its own, in which it scrolls if it is wider than the page.

    Cells are `Cell`s, or what they show. A column whose first cell is a number has its head to the right.
    """
    cells = [[content if isinstance(content, Cell) else Cell(content) for content in row] for row in rows]
    return render("table", head=head, rows=cells, sortable=sortable and len(cells) > 1)


def pairs(rows: Iterable[tuple[Any, Any]]) -> Html:
    """Return a list of names with what they are; pairs without content are left out."""
    return render("pairs", rows=[(name, content) for name, content in rows if content not in (None, "")])


def code_block(text: str) -> Html:
    """Return lines of code."""
    return tag("pre", code(text), tabindex="0")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("shoal.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    helpers = (words.counted, exact, words.few, words.interval, words.seconds_in_words, setting_in_words)
    made.globals |= {
        helper.__name__: helper for helper in (*helpers, words.score_in_words, code, code_block, table, pairs)
    }
    made.filters |= {"number": number, "code": code, "with_code": with_code}
    return made
