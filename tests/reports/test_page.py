"""The page around the sections: what users name is escaped, and nothing is loaded or run."""

import base64
import hashlib

import pytest

import shoal
from folders import PROVENANCE, gif, write_run
from pages import Page
from shoal.reports.markup import tag
from shoal.reports.page import Section, page, warning_box

SCORES = [100.0, 200.0, 300.0, 1000.0]  # of four: the interquartile mean is that of the middle two, 250


def page_of(*folders, out=None):
    return Page(shoal.report(*folders, out=out))


@pytest.mark.parametrize("kind", ["run", "comparison"])
def test_names_from_users_are_escaped(kind, tmp_path):
    evil = "<script>alert(1)</script>"
    folder = tmp_path / evil.replace("/", "")
    provenance = {**PROVENANCE, "argv": ["shoal", "train", f"'\"><img src=x onerror=alert(2)>{evil}"], "cpu": evil}
    fields = {"optimizer": evil, "activation": "</style></title>"}
    write_run(folder, [1, 2], provenance=provenance, env=f"file.py:{evil}", fields=fields, sweep={evil: [1]})
    others = [write_run(tmp_path / "other", [1, 2])] if kind == "comparison" else []
    page = page_of(folder, *others, out=tmp_path / "page.html")  # its elements are closed in order
    assert len(page.named("script")) == len(page.named("style")) == 1
    assert not page.named("img") and "alert(" not in page.raw["script"]
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert "<script>alert(1)" in page.text  # as text


def test_a_page_loads_nothing_and_its_policy_allows_only_its_own_style_and_script(tmp_path):
    folder = write_run(tmp_path / "run", SCORES)
    (folder / "videos").mkdir()
    (folder / "videos" / "best.gif").write_bytes(gif())
    page = page_of(folder)
    addresses = [each[key] for _, each in page.elements for key in ("src", "href", "data", "action") if key in each]
    assert addresses and all(address.startswith(("data:", "#")) for address in addresses)
    assert "url(" not in page.raw["style"] and "@import" not in page.raw["style"]
    assert not any("style" in attributes for _, attributes in page.elements)  # the policy forbids them
    policy = next(each["content"] for each in page.named("meta") if "http-equiv" in each)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    for name in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.raw[name].encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
    names = {each["id"] for each in page.named("section")}
    assert {each["href"][1:] for each in page.named("a") if each["href"].startswith("#")} == names


def test_sections_without_parts_are_left_out_and_texts_are_escaped():
    sections = [None, Section("empty", "Empty", [None, ""]), Section("a", "A <b>", ["<i>", tag("b", "&")])]
    text = page("<t>", "<k>", "<u>", ["<s>"], sections)
    assert "Empty" not in text and '<section id="a">' in text and "<b>&amp;</b>" in text
    for escaped in ("&lt;t&gt;", "&lt;k&gt;", "&lt;u&gt;", "&lt;s&gt;", "A &lt;b&gt;", "&lt;i&gt;"):
        assert escaped in text


def test_one_note_and_several_are_announced():
    assert warning_box([]) is None and "Read this first" in str(warning_box(["a"]))
    assert "Read these 2 notes first" in str(warning_box(["a", "b"]))
