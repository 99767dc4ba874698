"""Videos inside a page."""

import base64
import os

import shoal
from folders import gif, write_run
from pages import Page
from shoal.reports import videos

SCORES = [100.0, 200.0, 300.0, 1000.0]  # of four: the interquartile mean is that of the middle two, 250


def page_of(*folders, out=None):
    return Page(shoal.report(*folders, out=out))


def test_videos_are_in_the_page_unless_they_are_too_large_or_no_gif(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", SCORES)
    (folder / "videos").mkdir()
    for name, content in {"best.gif": gif(), "worst.gif": b"GIF89a" + bytes(9000), "odd.gif": b"<svg>"}.items():
        (folder / "videos" / name).write_bytes(content)
    os.mkfifo(folder / "videos" / "pipe.gif")  # reading it would never end
    monkeypatch.setattr(videos, "LARGEST", 5000)
    page = page_of(folder)
    (picture,) = page.named("img")
    assert picture["src"] == "data:image/gif;base64," + base64.b64encode(gif()).decode()
    assert "videos/worst.gif in the run folder is not shown here: it has 9 kB; a file may have 5 kB" in page.text
    assert "videos/odd.gif in the run folder is not shown here: it is no GIF" in page.text
    assert "videos/pipe.gif in the run folder is not shown here" in page.text


def test_the_best_member_comes_first_and_several_runs_show_only_theirs(tmp_path):
    runs = [write_run(tmp_path / name, [1, 2]) for name in ("a", "b")]
    for run in runs:
        (run / "videos").mkdir()
        for name in ("a-member.gif", "worst.gif", "best.gif"):
            (run / "videos" / name).write_bytes(gif())
    captions = [each["alt"] for each in Page(shoal.report(runs[0])).named("img")]
    assert captions == ["video: The best member", "video: The worst member", "video: A member"]
    both = Page(shoal.report(*runs, out=tmp_path / "both.html"))
    assert [each["alt"] for each in both.named("img")] == ["video: a: the best member", "video: b: the best member"]
