"""Read a page of HTML in tests: its elements, its text, its tables."""

from html.parser import HTMLParser
from pathlib import Path

VOID = {"br", "img", "meta"}


class Page(HTMLParser):
    """The elements of a page as (name, attributes), its visible text, and its tables as lists of rows of texts."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.source = file.read_text()
        self.elements: list[tuple[str, dict]] = []
        self.tables: list[list[list[str]]] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self.raw: dict[str, str] = {"style": "", "script": ""}
        self.feed(self.source)
        assert not self._open, f"{self._open} are not closed"
        self.text = " ".join("".join(self._text).split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open and self._open[-1] == tag, f"</{tag}> closes {self._open[-3:]}"
        self._open.pop()
        self._text.append(
            " " if tag in ("p", "li", "dd", "dt", "td", "th", "h1", "h2", "h3", "h4", "div", "text") else ""
        )

    def handle_data(self, data):
        if self._open and self._open[-1] in self.raw:
            self.raw[self._open[-1]] += data
            return
        self._text.append(data)
        if "td" in self._open or "th" in self._open:
            self.tables[-1][-1][-1] += data

    def named(self, name: str) -> list[dict]:
        """The attributes of all elements of a name."""
        return [attributes for tag, attributes in self.elements if tag == name]

    def table(self, head: str) -> list[list[str]]:
        """The rows of the first table whose first head begins with a word."""
        return next(rows[1:] for rows in self.tables if rows[0][0].startswith(head))
