"""Reports in a real browser: nothing is requested or complained about, nothing is wider than the page, tables sort."""

import shutil

import numpy as np
import pytest

import browser
import shoal
from folders import TRIALS, gif, write_evolution, write_population, write_run, write_study

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        browser.program() is None, reason=f"needs one of {', '.join(browser.NAMES)} (apt-get install chromium)"
    ),
]

WIDTHS = (1280, 390)
KINDS = ("run", "grid", "population", "evolution", "comparison", "study", "unfinished")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    opened = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of every kind, by name, with names that are long or hold tags."""
    root = tmp_path_factory.mktemp("reports")
    rng = np.random.default_rng(0)
    run = write_run(
        root / "a-run-with-a-very-long-name-that-does-not-fit-into-a-narrow-page-at-all", rng.uniform(0, 500, 16)
    )
    (run / "videos").mkdir()
    for name in ("best.gif", "median.gif", "worst.gif"):
        (run / "videos" / name).write_bytes(gif(size=300))
    sweep = {"learning_rate": [1e-4, 1e-3, 1e-2], "clip": [0.1, 0.2, 0.3, 0.4]}
    grid = write_run(root / "<b>grid", rng.uniform(0, 500, (12, 3)), sweep=sweep)
    half = write_run(root / "half", [1.0, 2.0], steps=60_000, summary=False)
    folders = {
        "run": [run],
        "grid": [grid],
        "population": [write_population(root / "pbt")],
        "evolution": [write_evolution(root / "evolution")],
        "comparison": [run, grid, half],
        "study": [write_study(root / "study", TRIALS * 5, fresh=rng.uniform(300, 500, 8))],
        "unfinished": [half],
    }
    return {kind: shoal.report(*each, out=root / f"{kind}.html") for kind, each in folders.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(4)
def test_no_table_is_cut_on_a_desktop_screen(kind, pages, chromium):
    chromium.open(pages[kind], WIDTHS[0])
    chromium.run('document.querySelectorAll("details").forEach((each) => { each.open = true; })')
    cut = '[...document.querySelectorAll(".scroll")].filter((e) => e.scrollWidth > e.clientWidth + 1)'
    assert chromium.run(f"{cut}.map((e) => e.textContent.slice(0, 60))") == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_fits_and_loads_nothing(kind, width, pages, chromium):
    chromium.open(pages[kind], width)
    seen = chromium.run(browser.LOOK)
    assert chromium.complaints() == []
    assert (seen["overflow"], seen["outside"], seen["failed"], seen["lost"], seen["flat"]) == (0, [], [], [], 0), seen
    assert seen["styled"] != "none" and seen["charts"] > 0  # the policy allows the style
    assert seen["pictures"] == {"run": 3, "comparison": 1}.get(kind, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_cut_on_paper(kind, pages, chromium):
    chromium.open(pages[kind], 720, dark=True)  # A4 between its margins
    chromium.call("Emulation.setEmulatedMedia", media="print")
    assert chromium.run(browser.LOOK)["overflow"] == 0
    chromium.call("Emulation.setEmulatedMedia", media="")


def test_a_browser_reports_requests_and_what_the_policy_forbids(tmp_path, pages, chromium):
    bad = tmp_path / "bad.html"
    text = pages["unfinished"].read_text()
    evil = '<img src="http://127.0.0.1:9/x.png"><script>console.log("ran")</script><p style="color: red">'
    bad.write_text(text.replace("</main>", f"{evil}</main>"))
    chromium.open(bad, 800)
    found = " ".join(chromium.complaints())
    assert "http://127.0.0.1:9/x.png" in found and "inline script" in found and "inline style" in found
    assert '"ran"' not in found


def test_a_click_on_the_head_of_a_column_sorts_a_table(pages, chromium):
    chromium.open(pages["grid"], 1280)
    column = "[...document.querySelector('#settings table').tBodies[0].rows].map((row) => row.cells[1].textContent)"
    click = "document.querySelectorAll('#settings th button')[1].click()"
    assert chromium.run(f"{click}; {column}") == sorted(chromium.run(column), reverse=True)
    assert chromium.run(f"{click}; {column}") == ["0.1"] * 3 + ["0.2"] * 3 + ["0.3"] * 3 + ["0.4"] * 3


def test_a_page_is_dark_where_the_reader_prefers_it_and_white_on_paper(pages, chromium):
    paper = "getComputedStyle(document.body).backgroundColor"
    chromium.open(pages["run"], 800, dark=True)
    dark = chromium.run(paper)
    chromium.open(pages["run"], 800)
    assert (dark, chromium.run(paper)) == ("rgb(22, 24, 27)", "rgb(253, 253, 251)")
    chromium.call("Emulation.setEmulatedMedia", media="print")
    assert chromium.run(paper) == "rgb(255, 255, 255)"
    chromium.call("Emulation.setEmulatedMedia", media="")


def test_the_report_of_a_trained_run_fits_too(result, tmp_path, chromium):
    folder = shutil.copytree(result.folder, tmp_path / "run")
    chromium.open(shoal.report(folder), 390)
    seen = chromium.run(browser.LOOK)
    assert chromium.complaints() == [] and seen["overflow"] == 0 and seen["outside"] == [] and seen["charts"] > 8
