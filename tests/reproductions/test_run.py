"""Parts are kept as soon as they are measured, what is missing is said, and a folder goes on."""

import errno
import json
import os
import signal
import sys
from pathlib import Path

import pytest

import shoal
from pages import Page
from reproductions import run
from reproductions.__main__ import main
from reproductions.reproduction import (
    Chart,
    Measured,
    Need,
    NotMeasured,
    Part,
    Reproduction,
    Row,
    Source,
    register,
)
from reproductions.run import reproduce

CALLS: list = []


def first(work, *, steps=10):
    CALLS.append(("first", steps))
    (work.folder / "note.txt").write_text("made")
    return Measured({"rate": 2.5 * steps}, {"curve": {"ours": ([0, 1, 2], [0.0, 0.5, 0.75])}}, notes=["See `x`."])


def second(work):
    CALLS.append(("second", (work.folder / "left").exists()))
    (work.folder / "left").touch()
    return Measured({"score": 7})


def part(name, measure, **more):
    rows = {"first": (Row("rate", "the rate", 20.0, "steps/s", where="a GPU"),), "second": (Row("score", "the score"),)}
    charts = (Chart("curve", "A curve", "x", "y", published={"theirs": ([0, 2], [0.1, 0.9])}),)
    return Part(name, f"The {name} part", "About it.", measure, rows=rows[name], charts=charts, **more)


def book(*parts, name="book"):
    return Reproduction(name, "A book", Source("The book", "Ann, 2020", "https://example.org/book"), "About.", parts)


@pytest.fixture(autouse=True)
def _registered(registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CALLS.clear()
    register(book(part("first", first, here={"steps": 10}, full={"steps": 1000}), part("second", second)))


def test_every_part_is_measured_with_the_sizes_for_this_machine_and_kept(capsys):
    result = reproduce("book")
    assert CALLS == [("first", 10), ("second", False)] and result.not_measured == {}
    assert result.folder == Path("runs/reproduce-book")
    kept = json.loads((result.folder / "parts" / "first.json").read_text())
    assert kept == result.parts["first"] and kept["numbers"] == {"rate": 25.0} and kept["sizes"] == {"steps": 10}
    assert kept["command"] == "python -m reproductions book --only first" and kept["seconds"] > 0
    assert kept["machine"]["cores"] >= 1 and kept["machine"]["memory_gib"] > 0 and "argv" not in kept["machine"]
    assert (result.folder / "files" / "first" / "note.txt").read_text() == "made"
    whole = json.loads((result.folder / "results.json").read_text())
    assert whole == {"reproduction": "book", "parts": result.parts, "not_measured": {}}
    assert "[2/2] second: The second part" in capsys.readouterr().out


def test_a_page_says_that_the_machine_was_busy(monkeypatch):
    monkeypatch.setattr(run.os, "getloadavg", lambda: (1e4, 0.0, 0.0))
    busy = "The machine was busy with other work while these parts were measured: first."
    assert busy in Page(reproduce("book", only=["first"]).page).text
    monkeypatch.setattr(run.os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    assert "was busy" not in Page(reproduce("book", only=["first"]).page).text


def test_main_numbers_stand_on_top_of_the_page_too():
    row = Row("score", "the score", 6, main=True)
    register(
        book(
            Part("first", "First", "About.", first),
            Part("second", "Second", "About.", second, rows=(row,)),
            name="short",
        )
    )
    page = Page(reproduce("short").page)
    assert [table[1:] for table in page.tables] == [[["the score", "6", "7"]]] * 2
    assert page.source.index("<table") < page.source.index("<nav")


def test_full_takes_the_sizes_of_the_source_and_given_sizes_replace_either():
    assert reproduce("book", full=True, only=["first"]).parts["first"]["command"].endswith("--only first --full")
    found = reproduce("book", only=["first"], sizes={"first": {"steps": 3}}).parts["first"]
    assert CALLS == [("first", 1000), ("first", 3)]
    assert found["command"] == "python -m reproductions book --only first --size first.steps=3"


def test_sizes_of_the_command_line_are_those_of_python_and_are_written_down():
    def listed(work, *, names=("a", "b"), counts=(1, 2), seconds=0.5):
        CALLS.append((names, counts, seconds))
        return Measured()

    here = {"names": ("a", "b"), "counts": [1, 2], "seconds": 0.5}
    register(book(Part("first", "First", "About.", listed, here=here, full=here), name="lists"))
    words = "--size first.names=x,y --size first.counts=4,1_000 --size first.seconds=2"
    assert main(f"lists {words} --name x".split()) == 0
    assert CALLS == [(["x", "y"], [4, 1000], 2.0)]
    command = json.loads(Path("runs/x/parts/first.json").read_text())["command"]
    assert main([*command.split()[3:], "--name", "y"]) == 0
    assert CALLS[0] == CALLS[1]


def test_a_folder_goes_on_at_the_part_that_was_stopped(registry):
    def stopped(work):
        CALLS.append("stopped")
        (work.folder / "left").touch()
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal did not end the part")

    register(book(part("first", first), part("second", stopped), name="two"))
    with pytest.raises(
        shoal.Stopped, match=r"stopped in the part second. Continue with: python -m reproductions --resume runs/x"
    ):
        reproduce("two", name="x")
    assert (Path("runs/x/parts/first.json").exists(), Path("runs/x/parts/second.json").exists()) == (True, False)
    left = Path("runs/x/parts/.first.json.0123456789ab.partial")  # by a process that was killed
    left.touch()
    registry["two"] = book(part("first", first), part("second", second), name="two")
    result = reproduce(resume="runs/x")
    assert CALLS == [("first", 10), "stopped", ("second", False)]  # its folder was empty again
    assert result.parts["second"]["numbers"] == {"score": 7} and not left.exists()


def test_a_part_is_measured_again_when_its_sizes_have_changed(registry):
    reproduce("book", name="x", only=["first"])
    registry["book"] = book(part("first", first, here={"steps": 20}), part("second", second))
    assert reproduce(resume="runs/x").parts["first"]["sizes"] == {"steps": 20}


def test_what_a_part_needs_is_said_and_the_others_are_measured(capsys):
    def refused(work):
        raise NotMeasured("needs 3 TB of memory")

    needy = part("first", first, needs=(Need("json"), Need("no_such_package", "pip install it")))
    register(book(needy, part("second", refused), name="needy"))
    result = reproduce("needy")
    assert CALLS == [] and result.parts == {}
    assert result.not_measured == {
        "first": "needs the package no_such_package (pip install it)",
        "second": "needs 3 TB of memory",
    }
    assert "not measured here: needs 3 TB of memory" in capsys.readouterr().out
    page = Page(result.page)
    assert "Not measured here: needs the package no_such_package (pip install it)." in page.text
    assert page.table("") == [["the rate", "20 steps/sa GPU", "–"]]  # published numbers are shown all the same


def test_packages_are_looked_up_in_the_python_that_is_given(tmp_path):
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho '[\"json\"]'\n")
    other.chmod(0o755)
    register(book(part("first", first, needs=(Need("json"),)), name="needy"))
    assert run.plan_reproduction("needy").missing == {}
    assert run.plan_reproduction("needy", python=str(other)).missing == {"first": "needs the package json"}
    assert run.plan_reproduction("needy", python=sys.executable).missing == {}


def test_the_page_has_published_and_measured_numbers_side_by_side():
    result = reproduce("book", only=["first"])
    page = Page(result.page)
    assert page.tables[0] == [["", "published", "measured"], ["the rate", "20 steps/sa GPU", "25 steps/s"]]
    assert {a["href"] for a in page.named("a")} >= {"https://example.org/book", "#first", "#machine"}
    for words in (
        "after The book (Ann, 2020)",
        "python -m reproductions book --only first",
        "See x.",
        "sizes: steps 10",
        "--full",
    ):
        assert words in page.text, words
    assert result.parts["first"]["machine"]["cpu"] in page.text
    legend = [item["class"] for item in page.named("li") if "class" in item]
    assert legend == ["c0", "c1 dashed"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bok", "reproduction 'bok' is not registered. Did you mean book? There are: book."),
        ("book --only frist", "part of book 'frist' is not registered. Did you mean first?"),
        ("book --python gone/python", "--python gone/python: there is no such program."),
        ("--resume runs", "runs is not a folder of `python -m reproductions`: it has no reproduce.json."),
        ("--resume runs --full", "--resume goes on as the run was started"),
        ("book --ful", "unknown flag --ful. Did you mean --full?"),
        ("book --parts first", "unknown flag --parts. Did you mean --only?"),
        ("book --steps 3", "unknown flag --steps, but a size has this name: write --size first.steps=3."),
        ("book --size steps=3", "--size steps=3: write PART.NAME=VALUE"),
        ("book --size first.steps=many", "write it as the part's own, --size first.steps=10."),
        ("book --size first.step=3", "part first has no field 'step'. Did you mean steps?"),
        ("--only first", "--only is for a reproduction: name one first"),
        ("--resume runs --size first.steps=3", "--resume goes on as the run was started"),
        ("book --name taken", "already holds a reproduction. Continue it with `python -m reproductions --resume"),
    ],
)
def test_mistakes_are_one_line(words, said, capsys):
    folder = Path("runs/taken")
    folder.mkdir(parents=True)
    (folder / "reproduce.json").write_text("{}")
    assert main(words.split()) == 2
    err = capsys.readouterr().err
    assert said in err and err.startswith("reproductions: ") and err.count("\n") == 1 and CALLS == []


def test_a_folder_starts_no_program_that_it_names(tmp_path, capsys):
    program, folder = tmp_path / "program", tmp_path / "strange"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'was_run'}\n")
    program.chmod(0o755)
    folder.mkdir()
    request = {"reproduction": "book", "full": False, "only": [], "python": str(program), "sizes": {}}
    (folder / "reproduce.json").write_text(json.dumps(request))
    assert main(["--resume", "strange", "--dry-run"]) == 2
    assert f"name it again, as in --python {program}" in capsys.readouterr().err
    assert not (tmp_path / "was_run").exists()


def test_mistakes_in_python_are_said_before_anything_is_measured():
    with pytest.raises(TypeError, match=r"part first has no field 'step'. Did you mean steps\?"):
        reproduce("book", sizes={"first": {"step": 1}})
    with pytest.raises(ValueError, match="part of book 'third' is not registered"):
        reproduce("book", sizes={"third": {}})
    with pytest.raises(TypeError, match="needs the name of a reproduction"):
        reproduce()
    with pytest.raises(TypeError, match="what"):
        reproduce(3)  # type: ignore[arg-type]  # the mistake
    assert CALLS == [] and not Path("runs").exists()


def test_damaged_files_of_a_folder_are_named():
    reproduce("book", name="x")
    Path("runs/x/parts/first.json").write_text('{"sizes": 3}')
    with pytest.raises(ValueError, match=r"first.json is damaged.*Delete it, and the part is measured again"):
        reproduce(resume="runs/x")
    Path("runs/x/reproduce.json").write_text('{"name": "book"}')
    with pytest.raises(ValueError, match="reproduce.json is damaged, or was written by another version"):
        reproduce(resume="runs/x")


def test_a_full_disk_is_one_line_and_the_folder_goes_on(monkeypatch, capsys):
    def flush(path):
        if "first.json" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("shoal.specs.disk.flush", flush)
        assert main(["book", "--name", "x"]) == 2
    said = "reproductions: runs/x/parts/first.json: could not be written: No space left on device"
    assert said in capsys.readouterr().err
    assert list(Path("runs/x/parts").iterdir()) == []
    assert main(["--resume", "runs/x"]) == 0
    assert Path("runs/x/parts/first.json").exists() and "2 of 2 parts measured" in capsys.readouterr().out


def test_a_listing_and_a_dry_run_measure_nothing(capsys):
    assert main([]) == 0 and main(["book", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "book  The book (Ann, 2020)  first second" in out and "steps: 10" in out and "nothing was measured" in out
    assert CALLS == [] and not Path("runs").exists()


def test_a_process_that_fails_is_named_with_its_last_line(tmp_path):
    from reproductions.workspace import Workspace

    work = Workspace(tmp_path, sys.executable, print)
    with pytest.raises(NotMeasured, match=r"`the script no_such_script.py` failed: .*No such file"):
        work.peer("no_such_script")
    done = work.shoal("--version")
    assert done.output.startswith("shoal ") and done.seconds > 0 and done.cpu_seconds > 0
