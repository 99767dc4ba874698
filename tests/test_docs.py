"""The documentation: its examples and its notebook run, and its generated pages are up to date.

The Python blocks of a page run in order, in one namespace and one empty folder. A block that begins with the comment
`# name.py` is saved as that file instead. Every line of a `console` block runs at its position: `shoal ...` or
`python -m reproductions ...`.
"""

import ast
import contextlib
import fnmatch
import functools
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import jax
import nbformat
import pytest
from nbclient import NotebookClient

import shoal
from commands import seconds_of_children
from reproductions.__main__ import main as measure_again
from shoal.cli.main import COMMANDS, main
from shoal.core.agent import Agent
from shoal.core.registry import AGENTS, ENVS
from shoal.envs.classic.acrobot import Acrobot

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\w+\.py)\n")
# Pages whose examples compile much, or repeat other pages; the notebook is the quickstart.
SLOW = {"README", "command-line", "coming-from", "language", "memory", "meta-learning", "minigrid-levels"}
SLOW |= {"which-agent", "papers"}
SLOW |= {"gymnasium", "other-environments", "opponent-shaping", "populations", "studies", "write-your-own-environment"}
# Of these pages a quick test runs the examples that start no run, and a slow test runs all.
GUIDES = {"evolution", "losses", "networks", "selectors", "sinks", "wrappers"}
STARTS_A_RUN = re.compile(r"\bshoal[. ](train(_all)?|evolve|tune|eval(uate)?|check_env)\b")
NOT_INSTALLED = [name for name in ("equinox", "stable_baselines3") if importlib.util.find_spec(name) is None]
# Environments of other libraries, by the package that has them.
SOURCES = {each: each for each in ("gymnax", "craftax", "brax", "jumanji", "navix")} | {
    "playground": "mujoco_playground"
}
NOT_INSTALLED += [f"{name}/" for name, package in SOURCES.items() if importlib.util.find_spec(package) is None]
NEEDS_ATTENTION = {"doctor": (0, 1)}  # depends on the machine


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The blocks of a page that run."""
    text = page.read_text()
    found = [Block(m[1], m[2], text[: m.start()].count("\n") + 1) for m in FENCE.finditer(text)]
    return [block for block in found if block.language in ("python", "console")]


def tool(name: str) -> ModuleType:
    """A module in docs/ that makes pages or pictures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        return importlib.import_module(name)


@functools.cache
def generated() -> dict[str, str]:
    """What docs/generate.py would write."""
    return tool("generate").pages()


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """An empty working folder, and modules as in a fresh process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("shoal.training.host.prepare", lambda **options: None)  # JAX is running already
    entries = [(registry, {name: registry[name] for name in registry}) for registry in (ENVS, AGENTS)]
    modules = set(sys.modules)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # as users have it
        yield tmp_path
    for registry, known in entries:
        registry._entries = known
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def _in_its_tier(page: Path):
    return pytest.param(page, id=page.stem, marks=[pytest.mark.slow] if page.stem in SLOW | GUIDES else [])


def run_python(block: Block, page: Path, namespace: dict) -> None:
    if any(name in block.text for name in NOT_INSTALLED):
        return
    saved_as = FILE_NAME.match(block.text)
    if saved_as:
        Path(saved_as[1]).write_text(block.text)
        return
    code = "\n" * block.line + block.text  # so that a traceback shows the line of the page
    exec(compile(code, str(page), "exec"), namespace)


def run_console(block: Block, page: Path) -> None:
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if line.startswith("python -m reproductions"):
            assert measure_again(words[3:]) == 0, f"{page.name}: {line}"
            continue
        assert words[0] == "shoal", f"{page.name}: {line} is not a command of shoal's: mark its block sh"
        if any(name in line for name in NOT_INSTALLED):
            continue
        if words[-2:-1] == [">"]:
            with Path(words[-1]).open("w") as file, contextlib.redirect_stdout(file):
                code = main(words[1:-2])
        else:
            code = main(words[1:])
        assert code in NEEDS_ATTENTION.get(words[1], (0,)), f"{page.name}: {line}"


@pytest.mark.filterwarnings(  # of Brax, and of what it imports
    "ignore:Brax System:UserWarning", "ignore:JAXopt is no:DeprecationWarning", "ignore:Accessing:DeprecationWarning"
)
@pytest.mark.parametrize("page", [_in_its_tier(page) for page in PAGES if blocks(page)])
def test_every_example_of_a_page_runs(page, reader):
    namespace = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            run_python(block, page, namespace)
        else:
            run_console(block, page)
    if missing := [name for name in NOT_INSTALLED if any(name in block.text for block in blocks(page))]:
        pytest.skip(f"the examples with {', '.join(missing)} were left out: not installed")


@pytest.mark.parametrize("name", sorted(GUIDES))
def test_examples_of_a_guide_that_start_no_run_run(name, reader):
    page, namespace = DOCS / f"{name}.md", {"__name__": "__main__"}
    quick = [block for block in blocks(page) if block.language == "python" and not STARTS_A_RUN.search(block.text)]
    assert any("assert" in block.text for block in quick)
    for block in quick:
        run_python(block, page, namespace)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_every_name_that_an_example_takes_from_shoal_exists(page):
    """Also on pages whose examples are slow: what is imported from shoal, `shoal.name`, and commands."""
    for block in blocks(page):
        if block.language == "console":
            assert set(re.findall(r"^shoal (\S+)", block.text, re.MULTILINE)) <= set(COMMANDS)
            continue
        if any(name in block.text for name in NOT_INSTALLED):
            continue
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.Import):
                for each in node.names:
                    if each.name.startswith("shoal."):
                        importlib.import_module(each.name)
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "shoal":
                module = importlib.import_module(node.module)
                assert all(hasattr(module, name.name) for name in node.names), f"{page.name}: {ast.unparse(node)}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "shoal":
                assert hasattr(shoal, node.attr), f"{page.name}: shoal.{node.attr}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "\nshoal.prepare()" in page.read_text()], ids=lambda p: p.stem
)
def test_pages_prepare_before_anything_imports_jax(page):
    code = "".join(block.text for block in blocks(page) if block.language == "python")
    before, call, _ = re.split(r"^(shoal\.prepare\(\)).*$", code, maxsplit=1, flags=re.MULTILINE)
    subprocess.run([sys.executable, "-c", before + call], check=True, timeout=60)


@pytest.mark.slow
def test_the_notebook_runs_in_two_minutes(tmp_path):
    notebook = nbformat.read(DOCS / "quickstart.ipynb", as_version=4)
    before = seconds_of_children()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter's own parts
        NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert (tmp_path / "runs" / "ppo-CartPole-v1" / "summary.json").is_file()
    assert 5 < seconds_of_children() - before < 2 * 120  # of two cores, without those of other programs


def test_the_notebook_is_kept_without_outputs():
    notebook = nbformat.read(DOCS / "quickstart.ipynb", as_version=4)
    assert not [cell for cell in notebook.cells if cell.get("outputs") or cell.get("execution_count")]


def test_generated_pages_are_those_of_the_code():
    stale = [name for name, text in generated().items() if (DOCS / name).read_text() != text]
    assert stale == [], "run `python docs/generate.py`"
    assert {page.name for page in DOCS.glob("environments*.md")} <= set(generated())  # no page of a family that is gone


def test_every_environment_with_pictures_has_one():
    shown = json.loads((IMAGES / "environments" / "pictures.json").read_text())
    missing = {title for title, _ in tool("pictures").pictured()} - set(shown)
    assert missing == {"bsuite/MNISTBandit"}, "run `python docs/pictures.py`"  # whose data the user provides
    files = [*IMAGES.rglob("*.*")]
    assert {IMAGES / "environments" / each["file"] for each in shown.values()} <= set(files)
    assert sum(file.stat().st_size for file in files) < 4e6


def test_every_learning_curve_of_an_agent_is_drawn():
    rows = json.loads((ROOT / "benchmarks" / "results" / "agent-curves.json").read_text())
    assert {row["agent"] for row in rows} == {file.stem for file in (IMAGES / "agents").iterdir()}
    assert all(len(row["curves"]) == row["seeds"] and len(row["curves"][0]) == len(row["steps"]) for row in rows)


def test_the_picture_of_the_packages_is_that_of_the_table():
    diagrams, page = tool("diagrams"), (DOCS / "architecture.md").read_text()
    table = re.findall(r"^\| \d \| (.*?) \|", page, re.MULTILINE)
    assert [tuple(re.findall(r"`(\w+)`", row)) for row in table] == [names for names, _, _ in diagrams.LEVELS]
    assert (IMAGES / "packages.svg").read_text() == diagrams.packages()
    assert (IMAGES / "update.svg").read_text() == diagrams.update()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("page", [p for p in PAGES if "::test_" in p.read_text()], ids=lambda page: page.stem)
def test_every_test_that_a_page_names_exists(page):
    for path, name in re.findall(r"(tests/[\w/]+\.py)::(test_\w+)", page.read_text()):
        assert f"def {name}(" in (ROOT / path).read_text(), f"{page.name} names {path}::{name}, which is not there"


@functools.cache
def anchors(page: Path) -> list[str]:
    """The anchors of a page's headings below its title."""
    headings = re.findall(r"^##+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return [re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_anchors_lead_to_one_heading_each(page):
    for target, anchor in re.findall(r"\]\(([^)#:\s]*\.md)?#([^)]*)\)", page.read_text()):
        assert anchors(page.parent / target if target else page).count(anchor) == 1, f"{target}#{anchor}"


def test_ratios_of_the_readme_are_measured():
    contests = {
        "steps of MiniGrid's DoorKey-8x8, 2,048 environments": "MiniGrid-DoorKey-8x8-v0, 2048 envs",
        "PPO on CartPole, 1 seed": "PPO, 1 seed, 50k steps, running alone",
        "steps of CartPole, 2,048 environments": "CartPole-v1, 2048 envs, checksum",
        "steps of MinAtar's Breakout, 2,048 environments": "Breakout-MinAtar, 2048 envs",
        "PPO on CartPole, 128 seeds": "PPO, 128 seeds, running alone",
    }
    shown = re.findall(r"^\| (.*) \| (.*) \| ([\d.]+) \| `run.py (\w+)` \|$", (ROOT / "README.md").read_text(), re.M)
    assert [what for what, *_ in shown] == [*contests]
    for what, peer, ratio, suite in shown:
        measured = (ROOT / "benchmarks" / "results" / f"{suite}.md").read_text()
        rows = re.findall(r"^\| (.*) \| (.*) \| shoal .* \| ([\d.]+) \|$", measured, re.M)
        (found,) = (row for row in rows if row[0] == contests[what] and row[1].startswith(peer.partition(" (")[0]))
        assert ratio == f"{float(found[2]):.1f}", what


def test_the_first_screen_shows_one_picture_three_ratios_and_three_commands():
    for page, end in ((ROOT / "README.md", "## The idea\n"), (DOCS / "index.md", "## Find a page\n")):
        screen = page.read_text().split(end)[0]
        assert re.findall(r"!\[.*?\]\((\S+)\)", screen) == [f"{'docs/' * (page.parent == ROOT)}images/learning.gif"]
        assert len(re.findall(r"^\| .* \| [\d.]+ \|", screen, re.MULTILINE)) == 3
        (commands,) = (text for language, text in FENCE.findall(screen) if language == "sh")
        assert len(commands.splitlines()) == 3 and "shoal demo" in commands
        assert len(screen.splitlines()) < 40


def test_the_ratios_of_the_home_page_are_those_of_the_readme():
    rows = re.compile(r"^\| (.*?) \| (.*?) \| ([\d.]+) \|", re.MULTILINE)
    shown = rows.findall((DOCS / "index.md").read_text())
    assert shown == rows.findall((ROOT / "README.md").read_text())[:3]


def test_the_home_page_groups_its_links():
    groups = (DOCS / "index.md").read_text().split("## Find a page\n")[1].split("\n### ")[1:]
    counts = [len(re.findall(r"\]\([\w-]+\.md", group)) for group in groups]
    assert 5 <= len(groups) <= 8 and all(3 <= count <= 12 for count in counts), counts


def test_the_page_of_a_family_describes_its_fields():
    page = (DOCS / "environments-minigrid.md").read_text()
    empty = page.split("## Empty\n")[1].split("\n## ")[0]
    assert "| `size` | `8` | static | side of the grid in cells, walls included: at" in empty  # its `help`
    assert "| `max_steps` | `None` | constant | steps after which an episode is truncated; None:" in empty  # a comment
    assert "| 3      | pickup      | take the key" in page.split("## Level\n")[1].split("\n## ")[0]


def test_every_page_is_in_the_navigation_with_its_title():
    navigation = (ROOT / "mkdocs.yml").read_text()
    titles = {page.name: page.read_text().splitlines()[0].removeprefix("# ") for page in DOCS.glob("*.md")}
    titles |= {"index.md": "Home", "environments.md": "Overview"}  # as they are called below the tabs
    shown = {file: title.strip('"') for title, file in re.findall(r"- (.*): (\S+\.md)$", navigation, re.MULTILINE)}
    assert shown == titles


def test_the_readme_ends_with_ten_links_and_the_index_has_every_page():
    read_on = (ROOT / "README.md").read_text().split("## Read on\n")[1].split("\n\nApache")[0]
    assert len(re.findall(r"\]\((.*?)\)", read_on)) == len(read_on.strip().splitlines()) == 10
    listed = set(re.findall(r"\]\(([\w-]+\.md)", (DOCS / "index.md").read_text()))
    families = {page.name for page in DOCS.glob("environments-*.md")}  # which environments.md lists
    assert listed == {page.name for page in DOCS.glob("*.md")} - families - {"index.md"}


def test_guides_leave_measurements_to_their_page():
    guides = re.findall(r"^ {10}- .*: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert len(guides) > 20
    units = "µs|ms|minutes|hours|M steps|steps/s|steps per second"
    measured = re.compile(rf"[\d.,]+k? (?:{units})\b|\d \[-?[\d.]+, -?[\d.]+\]")  # or a number with its interval
    found = {name: measured.findall(FENCE.sub("", (DOCS / name).read_text())) for name in guides}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def revised() -> set[tuple[str, int]]:
    """Names of environments and of agents with each of their revisions above 1 (those of agents begin with a Box)."""
    agents = {(name, 2) for name in AGENTS if AGENTS[name].cls.revision is not Agent.revision}
    return agents | {(name, n) for name in ENVS for n in range(2, ENVS[name].build().revision + 1)}


def shown_revisions() -> set[tuple[str, int]]:
    """The same from the table of docs/revisions.md, where `MiniGrid-*` stands for all names that begin like this."""
    rows = re.findall(r"^\| (`.*?) \| (\d+) \|", (DOCS / "revisions.md").read_text(), re.MULTILINE)
    patterns = [(pattern, int(n)) for names, n in rows for pattern in re.findall(r"`(.*?)`", names)]
    found = {p: fnmatch.filter([*ENVS, *AGENTS], p) for p, _ in patterns}
    assert all(found.values()), "a row of docs/revisions.md names nothing that is registered"
    return {(name, n) for pattern, n in patterns for name in found[pattern]}


def test_the_table_of_revisions_has_every_revision(monkeypatch):
    assert shown_revisions() == revised()
    monkeypatch.setattr(Acrobot, "revision", 3)
    assert revised() - shown_revisions() == {("Acrobot-v1", 2), ("Acrobot-v1", 3)}


def test_a_page_is_split_into_its_executable_blocks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# T\n```python\nx = 1\n```\n```sh\nrm -rf /\n```\ntext\n```console\nshoal envs\n```\n")
    assert blocks(page) == [Block("python", "x = 1\n", 2), Block("console", "shoal envs\n", 9)]


def test_the_site_publishes_no_scripts_and_its_signatures_are_formatted():
    assert [*DOCS.glob("*.py")] and re.search(
        r'^exclude_docs: "\*\.py"$', (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    assert "ruff" in extra  # without it mkdocstrings leaves a signature on one line
