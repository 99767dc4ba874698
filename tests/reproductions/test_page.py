"""The page of a reproduction: its pictures."""

from PIL import Image

from pages import Page
from reproductions.page import reproduction_page
from reproductions.reproduction import Part, Reproduction, Source

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


def page_with(tmp_path, *names):
    folder = tmp_path / "files" / "show"
    folder.mkdir(parents=True)
    for name in names:
        Image.new("RGB", (4, 4)).save(folder / name)
    part = Part("show", "Pictures", "About them.", lambda work: None)
    book = Reproduction("album", "An album", Source("A", "B, 2020", "https://example.org"), "About.", (part,))
    found = {"show": {**FOUND, "pictures": {name: f"The picture `{name}`." for name in names}}}
    file = tmp_path / "page.html"
    file.write_text(reproduction_page(book, False, found, {}, tmp_path))
    return Page(file)


def test_several_pictures_stand_side_by_side(tmp_path):
    page = page_with(tmp_path, "a.png", "b.gif")
    assert [each.get("class") for each in page.named("div") if each.get("class") == "videos"] == ["videos"]
    assert len(page.named("img")) == 2 and "The picture a.png." in page.text


def test_one_picture_has_the_width_of_the_page(tmp_path):
    page = page_with(tmp_path, "a.png")
    assert not [each for each in page.named("div") if each.get("class") == "videos"]
    assert [each["class"] for each in page.named("img")] == ["picture"]
