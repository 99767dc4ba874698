"""HTML: every text is escaped, and cells of tables sort by their values."""

from pathlib import Path

import numpy as np

from shoal.reports import markup
from shoal.reports.markup import Cell, Html, cell, joined, pairs, render, table, tag, with_code

EVIL = "<b>\"'&"
ESCAPED = "&lt;b&gt;&#34;&#39;&amp;"


def test_texts_are_escaped_and_html_is_not():
    assert tag("p", EVIL, None, Html("<i>")) == f"<p>{ESCAPED}<i></p>"
    assert tag("img", class_=EVIL, data_value=0, alt=None) == f'<img class="{ESCAPED}" data-value="0">'
    assert joined([EVIL, Html("<i>"), None], EVIL) == f"{ESCAPED}{ESCAPED}<i>"
    assert with_code(f"a `{EVIL}` c") == f"a <code>{ESCAPED}</code> c"


def test_templates_escape_and_none_switches_it_off():
    assert ESCAPED in render("pairs", rows=[(EVIL, Html("<i>"))]) and "<i>" in pairs([("a", Html("<i>"))])
    templates = sorted((Path(markup.__file__).parent / "templates").glob("*.html"))
    assert len(templates) > 10
    for template in templates:
        assert not {"safe", "autoescape"} & set(template.read_text().replace("|", " ").split()), template.name


def test_pairs_without_content_are_left_out():
    assert pairs([("a", None), ("b", ""), ("c", 0)]).count("<dt>") == 1


def test_numbers_are_to_the_right_and_sort_by_their_values():
    text = table(["a", "b"], [[cell(12345.6), EVIL], [cell(np.nan), "x"]], sortable=True)
    assert '<table class="sortable">' in text and '<th scope="col" class="n">a</th>' in text
    assert '<td class="n" data-value="12345.6">12,346</td>' in text and '<td class="n" data-value="nan">–</td>' in text
    assert f"<td>{ESCAPED}</td>" in text and "sortable" not in table(["a"], [[1]], sortable=True)


def test_cells_show_values_of_every_kind():
    values = [0.00025, 3, np.float32(0.5), float("nan"), True, "<b>", None, (1, 2)]
    assert [cell(value).content for value in values] == ["0.00025", "3", "0.5", "–", "true", "<b>", "none", "1,2"]
    assert [cell(value).value for value in (3, True, "<b>")] == [3, None, None]
    assert cell(7.5, "7.5 s") == Cell("7.5 s", 7.5) and cell(None, "–").is_number
