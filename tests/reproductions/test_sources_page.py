"""docs/sources.md, the claims, figures, notebooks and snippets of the sources: no empty cell, no dead command."""

import json
import re
import shlex
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from reproductions.__main__ import command_parser, main
from reproductions.reproduction import reproductions
from reproductions.sources.gymnax import WORLDS
from shoal.cli.main import COMMANDS
from shoal.core.registry import AGENTS, ENVS
from shoal.reports.words import number

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SECTIONS = ("PureJaxRL", "NAVIX", "gymnax", "Doors", "Q-learning in a grid world")


@pytest.fixture(scope="module")
def page():
    return (ROOT / "docs" / "sources.md").read_text()


def rows_of(text):
    """The rows of all tables below their heads, each as a list of cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rules = {at for at, line in enumerate(lines) if set(line) <= set("|-")}
    return [line.strip("|").split("|") for at, line in enumerate(lines) if not {at, at + 1} & rules]


def commands_of(text):
    """What stands between backticks in the tables, as words."""
    return [shlex.split(code) for row in rows_of(text) for code in re.findall(r"`([^`]+)`", "|".join(row))]


def steps_per_second(kept) -> Iterator[float]:
    """All rates of a kept file: those it names, medians of contests, and steps by the median time of a worker."""
    if isinstance(kept, list):
        for value in kept:
            yield from steps_per_second(value)
    elif isinstance(kept, dict):
        if kept.get("wall_s"):
            yield kept["steps"] / statistics.median(kept["wall_s"])
        scale = {"M": 1e6, "k": 1e3}.get(kept.get("unit", "")[:1], 1)
        yield from (scale * median for median in kept.get("median", {}).values())
        for name, value in kept.items():
            if name == "steps_per_second":
                yield from value.values() if isinstance(value, dict) else [value]
            elif name == "numbers":
                yield from (number for number in value.values() if isinstance(number, (int, float)))
            else:
                yield from steps_per_second(value)


def test_rows_are_found_below_the_head_of_each_table():
    text = "| a | b |\n|---|---|\n| 1 | |\n\nx\n\n| c |\n|---|\n| 2 |\n| 3 |\n"
    assert rows_of(text) == [[" 1 ", " "], [" 2 "], [" 3 "]]


@pytest.mark.parametrize("section", SECTIONS)
def test_no_cell_is_empty(page, section):
    rows = rows_of(page.partition(f"\n## {section}\n")[2].partition("\n## ")[0])
    assert len(rows) > 10 and {len(row) for row in rows} <= {4, 6}
    assert all(cell.strip() for row in rows for cell in row)


def test_what_is_not_measured_has_a_reason(page):
    tables = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    reasons = re.findall(r"not measured here(.{0,3})", tables, re.IGNORECASE)
    assert len(reasons) > 30 and all(re.match(r": [\w`]", reason) for reason in reasons)


def test_every_part_is_in_a_row_and_every_part_of_a_row_exists(page):
    named = set()
    for words in commands_of(page):
        if words[:3] == ["python", "-m", "reproductions"] and len(words) > 3:
            options = command_parser().start(words[3:]).options
            known = [part.name for part in reproductions()[options.what].parts]
            parts = options.only.split(",") if options.only else known
            assert set(parts) <= set(known), words
            named |= {(options.what, part) for part in parts}
    assert named == {(name, part.name) for name, found in reproductions().items() for part in found.parts}


def test_commands_files_and_results_exist(page):
    trained = 0
    for words in commands_of(page):
        if words[0] == "shoal" and len(words) > 1:
            assert words[1] in COMMANDS, words
        if words[:2] == ["shoal", "train"] and words[3] != "--suite":
            assert words[2] in AGENTS and (words[3] in ENVS or words[3].startswith("brax/")), words
            trained += 1
    assert trained > 15
    for file in re.findall(r"(?:benchmarks|tests)/[\w/]+\.py", page):
        assert (ROOT / file).is_file(), file
    for kept in re.findall(r"\(((?:`[\w-]+`(?:, )?)+)\)", page):
        for name in re.findall(r"`([\w-]+)`", kept):
            assert (RESULTS / f"{name}.json").is_file(), name


def test_the_table_of_gymnax_has_the_kept_numbers(page):
    parts = json.loads((RESULTS / "reproduce-gymnax.json").read_text())["parts"]
    seconds, returns = parts["speeds"]["numbers"], parts["returns"]["numbers"]
    table = page.partition("\n### gymnax's environments\n")[2].partition("\n## ")[0]
    rows = {cells[0]: cells[1:] for cells in ([cell.strip(" `") for cell in row] for row in rows_of(table))}
    assert set(rows) == {*WORLDS, "MNISTBandit-bsuite"}
    for name, world in WORLDS.items():
        published, theirs, ours, readme, reached = rows[name]
        assert published == (f"{world.seconds} s" if world.seconds else "none")
        assert [theirs, ours] == [f"{number(seconds[f'{name}.{side}'])} s" for side in ("gymnax", "shoal")]
        assert readme == ("none" if world.score is None else number(world.score))
        assert name not in returns or reached == number(returns[name])


def test_returns_in_minatar_are_those_of_the_evidence(page):
    evidence = json.loads((RESULTS / "evidence.json").read_text())
    kept = {row["preset"]: row for row in evidence if row["agent"] == "ppo"}
    reached = {row[0].strip(" `"): row[-1].strip() for row in rows_of(page)}
    games = [name for name in WORLDS if name.endswith("-MinAtar")]
    assert len(games) == 5
    for name in games:
        row = kept[WORLDS[name].shoal]
        assert reached[name] == f"{row['greedy']['iqm']:.1f}, {row['steps'] // 1_000_000}M steps", name


def test_millions_of_steps_per_second_are_in_the_file_that_the_row_names(page):
    found = 0
    for row in rows_of(page):
        if "not begun" in row[-1]:  # its numbers are still to come
            continue
        for text, names in re.findall(r"([^()]*)\(((?:`[\w-]+`(?:, )?)+)", row[-1]):
            kept = [json.loads((RESULTS / f"{name}.json").read_text()) for name in re.findall(r"`([\w-]+)`", names)]
            for written in re.findall(r"([\d.,]*\d) M\b", text):
                digits = len(written.partition(".")[2])
                rates = {f"{float(f'{rate / 1e6:.3g}'):,.{digits}f}" for rate in steps_per_second(kept)}
                assert written in rates, (written, names)
                found += 1
    assert found > 20


def test_the_listing_has_a_line_for_each_source_and_names_the_page(capsys):
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, found in reproductions().items():
        (line,) = (line for line in lines if line.startswith(f"{name} "))
        assert found.source.title in line and all(part.name in line for part in found.parts)
    (named,) = re.findall(r"docs/\w+\.md", "\n".join(lines))
    assert (ROOT / named).is_file() and named == "docs/sources.md"
