"""Every registered reproduction: its values fit together, and the documentation has a section on it."""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest

from reproductions import reproduction
from reproductions.__main__ import main
from reproductions.beside import Peer
from reproductions.reproduction import GPU, PEERS, Need, find, reproductions
from shoal.reports.words import number

ROOT = Path(__file__).parents[2]
RESULTS = sorted((ROOT / "benchmarks" / "results").glob("reproduce-*.json"))
ALL = sorted(reproductions())


def needs_of(name):
    """The needs of the parts of a reproduction, and of the peers and the needs that its file names."""
    named = list(vars(importlib.import_module(f"reproductions.sources.{name}")).values())
    of_parts = [need for part in reproductions()[name].parts for need in part.needs]
    of_peers = [need for peer in named if isinstance(peer, Peer) for need in peer.needs]
    return [need for need in (*of_parts, *of_peers, *named) if isinstance(need, Need) and need.what != GPU]


def test_every_file_registers_the_reproduction_of_its_name():
    files = {path.stem for path in Path(reproduction.__file__).with_name("sources").glob("*.py")} - {"__init__"}
    assert files == set(ALL)


def test_make_peers_installs_the_packages_that_parts_need():
    folder = ROOT / "benchmarks" / "peers"
    lines = (folder / "requirements.txt").read_text().lower().splitlines()
    installed = {re.split(r"[^a-z0-9-]", line)[0].removesuffix("-skinny") for line in lines if line[0] != "#"}
    assert "pip install --quiet torch" in (folder / "setup.sh").read_text()
    needs = [need for name in ALL for need in needs_of(name)]
    assert len({need.what for need in needs}) > 8 and {need.remedy for need in needs} == {PEERS}
    assert {need.what for need in needs} <= installed | {"torch"}


@pytest.mark.parametrize("name", ALL)
def test_parts_fit_together(name):
    found = reproductions()[name]
    assert found.source.link.startswith("https://") and found.source.author[-4:].isdigit()
    assert len({part.name for part in found.parts}) == len(found.parts)
    keys = [row.key for part in found.parts for row in part.rows]
    assert len(set(keys)) == len(keys)
    for part in found.parts:
        arguments = list(inspect.signature(part.measure).parameters)[1:]
        assert set(part.full) <= set(part.here) == set(arguments), part.name
        assert all(value != part.here[size] for size, value in part.full.items()), part.name
        charts = [chart.key for chart in part.charts]
        assert len(set(charts)) == len(charts), part.name
        if any(row.group for row in part.rows):
            assert all(row.group for row in part.rows), part.name
        assert part.about.endswith(".") and not part.title.endswith(".") and inspect.getdoc(part.measure)


@pytest.mark.parametrize(
    ("word", "where"),
    [
        ("lpo", "It is measured by `python benchmarks/evolved_losses.py`."),
        ("cheap-talk", "It is measured by `python benchmarks/cheap_talk.py`."),
        ("Pegoud", "It is measured by `python -m reproductions gridworld`."),
        ("CleanRL", "It is measured by `python -m reproductions purejaxrl`."),
        ("evolved-loss", "It is the name of a part: `python -m reproductions purejaxrl --only evolved-loss`."),
        ("gymnaz", "Did you mean gymnax?"),
        ("the", ""),
    ],
)
def test_what_is_measured_under_another_name_is_named(word, where):
    with pytest.raises(ValueError, match="is not registered") as caught:
        find(word)
    start = f"reproduction {word!r} is not registered. {where}".strip()
    assert str(caught.value) == f"{start} There are: {', '.join(ALL)}."


@pytest.mark.parametrize("name", ALL)
def test_a_dry_run_fits_a_terminal(name, capsys):
    assert main([name, "--dry-run"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


@pytest.mark.parametrize("name", ALL)
def test_the_documentation_has_a_section(name):
    assert f"\n## {name}\n" in (ROOT / "docs" / "reproduce.md").read_text()


def test_two_reproductions_of_one_name_are_refused(registry):
    module = importlib.import_module("reproductions.sources.gridworld")
    source = reproduction.Source("A", "B, 2020", "https://example.org")
    reproduction.register(reproduction.Reproduction("x", "X", source, "About.", ()))
    with pytest.raises(ValueError, match="reproduction 'x' is already registered"):
        reproduction.register(reproduction.Reproduction("x", "Y", source, "About.", ()))
    assert module.ENV == "GridWorld-v0"


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_the_documentation_states_the_main_numbers_of_the_kept_results(file):
    kept = json.loads(file.read_text())
    found, page = find(kept["reproduction"]), (ROOT / "docs" / "reproduce.md").read_text()
    section = page.partition(f"\n## {found.name}\n")[2].partition("\n## ")[0]
    if "| what | published | measured |" not in section:
        pytest.skip("its section has no table of numbers")
    for part in found.parts:
        if part.name in kept["parts"]:
            for row in (row for row in part.rows if row.main):
                assert line_of(row, kept["parts"][part.name]["numbers"][row.key]) in section


def line_of(row, value):
    """The row of a table in the documentation."""

    def shown(each):
        return "" if each is None else f"{each if isinstance(each, str) else number(each)} {row.unit}".strip()

    what = f"{row.group}: {row.what}" if row.group else row.what
    return f"| {what} | {shown(row.published)} | {shown(value)} |"
