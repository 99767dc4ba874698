"""The page of a reproduction: its pictures, its numbers and its sizes."""

from PIL import Image

from pages import Page
from reproductions.page import reproduction_page
from reproductions.reproduction import Part, Reproduction, Row, Source

FOUND = {
    "numbers": {},
    "lines": {},
    "notes": [],
    "commands": {},
    "sizes": {},
    "command": "python -m reproductions album",
    "machine": {"cpu": "x", "cores": 2, "memory_gib": 1.0, "devices": [], "platform": "p", "python": "3.11"}
    | {"packages": {}, "commit": "", "load_average": 0.5},
    "time": "2026-01-02T03:04:05Z",
    "seconds": 1.0,
}


def page_of(tmp_path, rows, **found):
    """The page of one part with these rows; `found` replaces what its file has."""
    part = Part("show", "Pictures", "About them.", lambda work: None, rows=rows)
    book = Reproduction("album", "An album", Source("A", "B, 2020", "https://example.org"), "About.", (part,))
    file = tmp_path / "page.html"
    file.write_text(reproduction_page(book, False, {"show": {**FOUND, "pictures": {}, **found}}, {}, tmp_path))
    return Page(file)


def page_with(tmp_path, *names):
    folder = tmp_path / "files" / "show"
    folder.mkdir(parents=True)
    for name in names:
        Image.new("RGB", (4, 4)).save(folder / name)
    return page_of(tmp_path, (), pictures={name: f"The picture `{name}`." for name in names})


def test_several_pictures_stand_side_by_side(tmp_path):
    page = page_with(tmp_path, "a.png", "b.gif")
    assert [each.get("class") for each in page.named("div") if each.get("class") == "videos"] == ["videos"]
    assert len(page.named("img")) == 2 and "The picture a.png." in page.text


def test_one_picture_has_the_width_of_the_page(tmp_path):
    page = page_with(tmp_path, "a.png")
    assert not [each for each in page.named("div") if each.get("class") == "videos"]
    assert [each["class"] for each in page.named("img")] == ["picture"]


def test_a_row_without_any_number_is_left_out_with_its_group(tmp_path):
    rows = (
        Row("a", "published", 1.0, "s", "first"),
        Row("b", "measured", None, "s", "first"),
        Row("c", "neither", None, "s", "first"),
        Row("d", "neither", None, "s", "second", main=True),
    )
    page = page_of(tmp_path, rows, numbers={"b": 2.0})
    (table,) = page.tables
    assert [row[0] for row in table[1:]] == ["first", "published", "measured"]


def test_sizes_are_told_apart_from_the_items_of_a_list(tmp_path):
    page = page_of(tmp_path, (), sizes={"envs": [1, 2048], "names": ["a", "b"], "steps": 512})
    assert "sizes: envs 1, 2,048; names a, b; steps 512." in page.text
