"""The built site in a real browser: no column of a table is cut off, on a phone and on a desktop screen."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import browser

ROOT = Path(__file__).parents[1]
PHONE, DESKTOP = 500, 1280  # pixels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(browser.program() is None, reason="no Chromium is installed"),
    pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="`make docs` installs zensical"),
]

# Tables that would have to be scrolled, other elements that reach out of the window, and pictures that do not decode.
LOOK = """(async () => {
  const pictures = [...document.querySelectorAll(".md-content img")];
  pictures.forEach((each) => { each.loading = "eager"; });
  const failed = await Promise.all(pictures.map((each) => each.decode().then(() => [], () => [each.src])));
  const tables = [...document.querySelectorAll(".md-typeset__scrollwrap")];
  const free = (each) => !each.closest(".md-typeset__scrollwrap, pre");
  const outside = [...document.querySelectorAll(".md-content *")].filter(
    (each) => each.getBoundingClientRect().right > innerWidth + 1 && free(each));
  return {
    cut: tables.filter((each) => each.scrollWidth > each.clientWidth + 2).map((each) => each.innerText.slice(0, 60)),
    outside: outside.map((each) => `${each.tagName} ${each.textContent.slice(0, 40)}`),
    failed: failed.flat(),
  };
})()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built from a copy of its pages."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (folder / "src").symlink_to(ROOT / "src")
    programs = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # of ruff, which formats signatures
    command = [sys.executable, "-m", "zensical", "build", "--clean"]
    subprocess.run(command, cwd=folder, env={**os.environ, **programs}, check=True, timeout=280)
    return folder / "site"


@pytest.mark.timeout(900)
def test_no_column_is_cut_off(site, tmp_path):
    pages = sorted(site.rglob("index.html"))
    assert len(pages) > 60
    window = browser.Browser(tmp_path)
    wrong = []
    for page in pages:
        for width in (PHONE, DESKTOP):
            window.open(page, width)
            found = {what: names for what, names in window.run(LOOK).items() if names}
            wrong += [(page.parent.name, width, found)] * bool(found)
    window.close()
    assert wrong == []
