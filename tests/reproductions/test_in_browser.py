"""The pages of the kept results in a real browser, at two widths: nothing is too wide, nothing is complained about."""

import json
from pathlib import Path

import pytest

import browser
from reproductions.page import reproduction_page
from reproductions.reproduction import find

RESULTS = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("reproduce-*.json"))

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        browser.program() is None, reason=f"needs one of {', '.join(browser.NAMES)} (apt-get install chromium)"
    ),
]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    opened = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
@pytest.mark.parametrize("width", (1280, 390))
def test_a_page_of_kept_results_fits(file, width, chromium, tmp_path):
    kept = json.loads(file.read_text())
    page = tmp_path / "page.html"
    made = reproduction_page(find(kept["reproduction"]), False, kept["parts"], kept["not_measured"], tmp_path)
    page.write_text(made)
    chromium.open(page, width)
    seen = chromium.run(browser.LOOK)
    assert chromium.complaints() == []
    assert (seen["overflow"], seen["outside"], seen["lost"], seen["flat"]) == (0, [], [], 0), seen
    assert seen["styled"] != "none"  # the policy allows the style


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_kept_results_have_the_parts_of_today(file):
    kept = json.loads(file.read_text())
    found = find(kept["reproduction"])
    for name, result in kept["parts"].items():
        assert set(result["sizes"]) == set(found.part(name).here), f"{name}: measure it again"
