"""Measure the parts of a reproduction one after another, and write a page.

    reproduce.json      what was asked for          parts/NAME.json     what a part measured, written when it is done
    results.json        all parts together          files/NAME/         runs and pictures of a part
    report.html         the page

A run that was stopped goes on at the part that was not finished. Parts that could not be measured are tried again.
"""

import inspect
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reproductions import COMMAND
from reproductions.page import reproduction_page
from reproductions.reproduction import NotMeasured, Part, Reproduction, Sizes, find, unmet
from reproductions.sizes import size_words
from reproductions.workspace import Workspace
from shoal.core.errors import unknown_field
from shoal.core.kinds import checked_kinds
from shoal.specs.disk import tidy
from shoal.training.claim import locked
from shoal.training.folder import RunFolder, named, new_folder, provenance
from shoal.training.host import host_bytes
from shoal.training.reading import read_json
from shoal.training.stopping import Stopped, stopped_at_once

REQUEST, RESULTS, PAGE = "reproduce.json", "results.json", "report.html"
MACHINE = ("cpu", "cores", "devices", "platform", "python", "packages", "commit")  # of a provenance
SHAPE = {"numbers": dict, "lines": dict, "notes": list, "pictures": dict, "commands": dict} | {
    "sizes": dict,
    "command": str,
    "machine": dict,
    "time": str,
    "seconds": int | float,
}  # of the file of a part


class Reproduced(NamedTuple):
    """The results of a reproduction."""

    folder: Path
    page: Path
    parts: dict[str, dict[str, Any]]  # by name: what the part measured, its sizes, its command, the machine
    not_measured: dict[str, str]  # by name: what the part needs
    seconds: float


class Request(NamedTuple):
    """The arguments of `reproduce`, as they are stored in the folder."""

    reproduction: str
    full: bool
    only: list[str]
    python: str  # empty: the Python of this process
    sizes: dict[str, dict[str, Any]]  # by part: sizes that replace those of the part


class Planned(NamedTuple):
    """A request whose mistakes have been reported; nothing is measured or written yet."""

    request: Request
    reproduction: Reproduction
    parts: list[tuple[Part, Sizes]]
    missing: dict[str, str]  # by name of a part: what it needs that this machine does not have

    @property
    def python(self) -> str:
        """The Python that has the packages of others."""
        return self.request.python or sys.executable


@checked_kinds()
def reproduce(
    what: str | None = None,
    *,
    full: bool = False,
    only: Sequence[str] = (),
    python: str = "",
    sizes: Mapping[str, Sizes] | None = None,
    name: str = "",
    root: Path | str = "runs",
    resume: Path | str | None = None,
    progress: bool = True,
) -> Reproduced:
    """Measure the numbers of a published source again, and write a page with both side by side.

        from reproductions.run import reproduce

        result = reproduce("gridworld", only=["learning"], sizes={"learning": {"steps": 1_000}})
        result.parts["learning"]["numbers"]

    `what` is the name of a reproduction; `python -m reproductions` lists them. The sizes are those for two processor
    cores; with `full` those of the source, and `sizes` replaces some of them, part by part. `only` names the parts to
    measure. Parts that compare with other packages use those of the interpreter `python`, by default of this one; a
    part whose packages are missing is left out, and the page says what it needs.

    The folder is `root/name`, by default a new one. `resume` goes on with a folder at the first part that is not
    finished; of the other arguments only `python` may then be given. Raises `Stopped` after a signal such as Ctrl-C.
    """
    if resume is not None:
        planned = plan_resumed(resume, python)
    elif what is None:
        raise TypeError('reproduce needs the name of a reproduction, as in reproduce("doors").')
    else:
        planned = plan_reproduction(what, full=full, only=only, python=python, sizes=sizes)
    say = _say if progress else lambda text: None
    return run_reproduction(planned, name=name, root=root, resume=resume, say=say)


def plan_reproduction(
    what: str,
    *,
    full: bool = False,
    only: Sequence[str] = (),
    python: str = "",
    sizes: Mapping[str, Sizes] | None = None,
) -> Planned:
    """Plan the parts of `reproduce`. Raises ValueError or TypeError for arguments that cannot work."""
    reproduction = find(what)
    only, given = list(dict.fromkeys(only)), {part: dict(of_part) for part, of_part in (sizes or {}).items()}
    for part in (*only, *given):
        reproduction.part(part)  # raises for an unknown name
    if python and shutil.which(python) is None:
        raise ValueError(f"--python {python}: there is no such program. Give the path of a Python interpreter.")
    parts = [
        (part, _sizes(part, full, given.get(part.name, {})))
        for part in reproduction.parts
        if part.name in only or not only
    ]
    request = Request(what, full, only, python, given)
    planned = Planned(request, reproduction, parts, {})
    lacks = {part.name: unmet(part.needs, planned.python) for part, _ in parts}
    missing = {
        name: f"needs {' and '.join(need.in_words() for need in needs)}" for name, needs in lacks.items() if needs
    }
    return planned._replace(missing=missing)


def plan_resumed(folder: Path | str, python: str = "") -> Planned:
    """Plan the stored request of a folder, with another interpreter if one is given."""
    run_folder = RunFolder(folder)
    if not (run_folder.path / REQUEST).is_file():
        raise FileNotFoundError(f"{folder} is not a folder of `{COMMAND}`: it has no {REQUEST}.")
    data = run_folder.read_json(REQUEST)
    if not isinstance(data, dict) or set(data) != set(Request._fields):
        raise ValueError(f"{run_folder.path / REQUEST} is damaged, or was written by another version of shoal.")
    request = Request(**data)
    if request.python and not python:  # a folder that anybody may have written must not start a program
        again = f"name it again, as in --python {request.python}"
        raise ValueError(f"{folder} was measured with another Python, {request.python}: {again}.")
    return plan_reproduction(
        request.reproduction, full=request.full, only=request.only, python=python, sizes=request.sizes
    )


def run_reproduction(
    planned: Planned,
    *,
    name: str = "",
    root: Path | str = "runs",
    resume: Path | str | None = None,
    say: Callable[[str], None] = print,
) -> Reproduced:
    """Measure all parts, one after the other, and write the page. Raises Stopped with the command that continues it."""
    begun, root = time.perf_counter(), Path(root)
    given = resume or (named(root, name) if name else None)
    folder = RunFolder(given) if given else new_folder(root, f"reproduce-{planned.reproduction.name}")
    if resume is None:
        _begin(folder)
    with locked(folder.path):
        tidy(folder.path / "parts")
        return _measure_all(planned, folder, say, begun)


def _measure_all(planned: Planned, folder: RunFolder, say: Callable[[str], None], begun: float) -> Reproduced:
    folder.write_json(REQUEST, planned.request._asdict())
    not_measured = dict(planned.missing)
    for number, (part, sizes) in enumerate(planned.parts, 1):
        at = f"[{number}/{len(planned.parts)}] {part.name}"
        if part.name in planned.missing:
            say(f"{at}: not measured here: {planned.missing[part.name]}")
        elif _is_done(folder, part, sizes):
            say(f"{at}: measured before")
        else:
            say(f"{at}: {part.title}")
            try:
                _measure(planned, part, sizes, folder, say)
            except NotMeasured as error:
                not_measured[part.name] = str(error)
                say(f"{at}: not measured here: {error}")
    parts = {part.name: _read(folder, part) for part, sizes in planned.parts if _is_done(folder, part, sizes)}
    whole = {"reproduction": planned.reproduction.name, "parts": parts, "not_measured": not_measured}
    folder.write_json(RESULTS, whole)
    page = reproduction_page(planned.reproduction, planned.request.full, parts, not_measured, folder.path)
    folder.replace(PAGE, lambda path: path.write_text(page, encoding="utf-8"))
    return Reproduced(folder.path, folder.path / PAGE, parts, not_measured, time.perf_counter() - begun)


def files_of(folder: Path, part: str) -> Path:
    """Return the folder for the runs and pictures of a part."""
    return folder / "files" / part


def _begin(folder: RunFolder) -> None:
    if (folder.path / REQUEST).exists():
        raise FileExistsError(
            f"{folder.path} already holds a reproduction. Continue it with `{COMMAND} --resume {folder.path}`, "
            f"or choose another --name."
        )
    folder.create()


def _measure(planned: Planned, part: Part, sizes: Sizes, folder: RunFolder, say: Callable[[str], None]) -> None:
    """Measure one part and write its file."""
    place = files_of(folder.path, part.name)
    shutil.rmtree(place, ignore_errors=True)  # of a part that was stopped
    place.mkdir(parents=True)
    begin, at = time.perf_counter(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    load = os.getloadavg()[0]
    python = f" --python {planned.request.python}" if planned.request.python else ""
    command = f"{COMMAND} --resume {folder.path}{python}"
    stopped = f"stopped in the part {part.name}. Continue with: {command}"
    try:
        with stopped_at_once(stopped):
            measured = part.measure(Workspace(place.resolve(), planned.python, say), **sizes)
    except Stopped as error:  # also that of a training run in this process, whose message names another command
        raise Stopped(stopped, error.signal) from error
    found = {
        **measured.to_json(),
        "sizes": dict(sizes),
        "command": _command(planned.request, part),
        "machine": {**machine(), "load_average": load},
        "time": at,
        "seconds": time.perf_counter() - begin,
    }
    (folder.path / "parts").mkdir(exist_ok=True)
    folder.write_json(_file(part), found)


def machine() -> dict[str, Any]:
    """Return what this machine is: processor, cores, memory, devices, versions, commit."""
    import jax

    made = provenance(0, 0, list(jax.devices()))
    return {**{name: made[name] for name in MACHINE}, "memory_gib": round(host_bytes() / 2**30, 1)}


def _file(part: Part) -> str:
    return f"parts/{part.name}.json"


def _is_done(folder: RunFolder, part: Part, sizes: Sizes) -> bool:
    """Whether the part was measured, with these sizes: another version of shoal may have others."""
    return folder.has(_file(part)) and _read(folder, part)["sizes"] == _json_form(sizes)


def _read(folder: RunFolder, part: Part) -> dict[str, Any]:
    return read_json(folder.path / _file(part), SHAPE, "Delete it, and the part is measured again.")


def _json_form(sizes: Sizes) -> dict[str, Any]:
    """Return sizes as a JSON file has them, with lists for tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in sizes.items()}


def _sizes(part: Part, full: bool, given: Sizes) -> Sizes:
    known = list(inspect.signature(part.measure).parameters)[1:]
    for size in given:
        if size not in known:
            raise unknown_field(f"part {part.name}", size, known)
    return {**part.here, **(part.full if full else {}), **given}


def _command(request: Request, part: Part) -> str:
    """The command that measures a part."""
    sizes = " ".join(["", *size_words(part.name, request.sizes.get(part.name, {}))])
    python = " --python PATH" if request.python else ""  # the path on this machine says nothing to others
    return f"{COMMAND} {request.reproduction} --only {part.name}{sizes}{' --full' * request.full}{python}"


def _say(text: str) -> None:
    print(text, flush=True)
