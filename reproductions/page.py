"""The page of a reproduction: published and measured numbers side by side, how each was measured, and where."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reproductions.reproduction import Chart, Part, Reproduction, Row
from shoal.reports.chart import COLORS, Dots, Line, Mark, chart
from shoal.reports.markup import Cell, Html, code_block, joined, pairs, table, tag, with_code
from shoal.reports.page import Section, data_address, folded, page, warning_box
from shoal.reports.words import NONE, number, seconds_in_words

KINDS = {".gif": "image/gif", ".png": "image/png"}
FEW_POINTS = 12  # of a line on which each is marked
Found = Mapping[str, Any]  # the file of a part


def reproduction_page(
    reproduction: Reproduction, full: bool, parts: Mapping[str, Found], not_measured: Mapping[str, str], folder: Path
) -> Html:
    """Return the page. `parts` and `not_measured` are by name of a part; a part in neither was not asked for."""
    source = reproduction.source
    under = joined(["after ", tag("a", source.title, href=source.link), f" ({source.author})"])
    summary = [
        tag("p", with_code(reproduction.about), class_="lead"),
        _in_short(reproduction, parts, not_measured),
        warning_box(_warnings(full, parts, not_measured)),
    ]
    sections = [
        _section(part, parts.get(part.name), not_measured.get(part.name), folder)
        for part in reproduction.parts
        if part.name in parts or part.name in not_measured
    ]
    return page(reproduction.title, "a reproduction", under, summary, [*sections, _machine_section(parts)])


def _warnings(full: bool, parts: Mapping[str, Found], not_measured: Mapping[str, str]) -> list[Any]:
    notes: list[Any] = []
    if parts and not full:
        notes.append(with_code("The sizes are those for a small machine; `--full` takes those of the source."))
    if busy := [name for name, found in parts.items() if found["machine"]["load_average"] > found["machine"]["cores"]]:
        notes.append(
            f"The machine was busy with other work while these parts were measured: {', '.join(busy)}. Their times are "
            "longer, and their rates smaller, than on an idle machine; processor times are about the same."
        )
    for name, reason in not_measured.items():
        notes.append(joined([tag("a", name, href=f"#{name}"), " was not measured here: ", with_code(reason), "."]))
    return notes


def _in_short(reproduction: Reproduction, parts: Mapping[str, Found], not_measured: Mapping[str, str]) -> Html | None:
    """The table of the main numbers of all parts that were asked for; None if there are none."""
    asked = [part for part in reproduction.parts if part.name in parts or part.name in not_measured]
    measured = {key: value for part in asked for key, value in parts.get(part.name, {}).get("numbers", {}).items()}
    return _numbers([row for part in asked for row in part.rows if row.main], measured)


def _section(part: Part, found: Found | None, reason: str | None, folder: Path) -> Section:
    parts: list[Any] = [tag("p", with_code(part.about))]
    if reason:
        parts.append(tag("p", tag("strong", "Not measured here: "), with_code(reason), "."))
    parts.append(_numbers(part.rows, (found or {}).get("numbers", {})))
    parts += [_chart(chart, (found or {}).get("lines", {}).get(chart.key, {})) for chart in part.charts]
    if found:
        pictures = [_picture(folder / "files" / part.name / name, words) for name, words in found["pictures"].items()]
        parts += [tag("div", *pictures, class_="videos")] if len(pictures) > 1 else pictures
        parts.append(tag("ul", *(tag("li", with_code(note)) for note in found["notes"])) if found["notes"] else None)
        parts += _how(found)
    return Section(part.name, part.title, parts)


def _numbers(rows: Sequence[Row], measured: Mapping[str, Any]) -> Html | None:
    """The table of published and measured numbers, with a line above each group. Rows with neither are left out."""
    cells, last = [], ""
    for row in rows:
        if row.published is None and measured.get(row.key) is None:
            continue
        if row.group != last:
            cells.append([Cell(row.group, class_="group"), Cell("", math.nan), Cell("", math.nan)])
            last = row.group
        where = joined([tag("br"), tag("span", row.where, class_="soft")]) if row.where else None
        published = joined([_shown(row.published, row.unit), where])
        here = tag("strong", _shown(measured.get(row.key), row.unit))
        cells.append([row.what, Cell(published, math.nan, "side"), Cell(here, math.nan, "side")])  # NaN: a number
    return table(["", "published", "measured"], cells) if cells else None


def _shown(value: Any, unit: str) -> str:
    if value is None:
        return NONE
    return f"{value if isinstance(value, str) else number(value)} {unit}".strip()


def _chart(wanted: Chart, measured: Mapping[str, Any]) -> Html | None:
    names = list(dict.fromkeys([*measured, *wanted.published]))
    if not names:
        return None
    colors = {name: f"c{i % COLORS}" for i, name in enumerate(names)}
    marks: list[Mark] = []
    legend: list[tuple[str, str]] = []
    for lines, more, words in ((measured, "", "measured here"), (wanted.published, " dashed", "published")):
        for name, (x, y) in lines.items():
            marks.append(Line(x, y, f"{colors[name]}{more}", f"{name}, {words}"))
            if len(x) <= FEW_POINTS:
                marks.append(Dots(x, y, f"{colors[name]} slim", f"{name}, {words}"))
            legend.append((f"{colors[name]}{more}", f"{name}{', published' if more else ''}"))
    about = f"{wanted.title}: {wanted.y_label} by {wanted.x_label}, for {', '.join(names)}"
    return chart(
        marks,
        wanted.x_label,
        wanted.y_label,
        about=about,
        legend=legend,
        title=wanted.title,
        log_x=wanted.log_x,
        log_y=wanted.log_y,
    )


def _picture(path: Path, words: str) -> Html:
    try:
        content = path.read_bytes()
    except OSError as error:
        return tag("p", f"{path.name} cannot be shown: {error.strerror}.", class_="soft")
    picture = tag("img", src=data_address(KINDS[path.suffix], content), alt=words, class_="picture")
    return tag("figure", picture, tag("figcaption", with_code(words), class_="soft"))


def _how(found: Found) -> list[Any]:
    """The commands that measure a part again, and its sizes."""
    sizes = "; ".join(f"{name} {_size(value)}" for name, value in found["sizes"].items())
    day = found["time"].replace("T", " ").removesuffix("Z")
    words = f"Measured in {seconds_in_words(found['seconds'])}, {day} UTC{f'; sizes: {sizes}' if sizes else ''}."
    commands = [
        element
        for what, command in found["commands"].items()
        for element in (tag("p", f"{what}:", class_="soft"), code_block(command))
    ]
    return [
        tag("p", words, " All numbers of this part come from this command:", class_="soft"),
        code_block(found["command"]),
        folded("What it runs", *commands) if commands else None,
    ]


def _size(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_size(x) for x in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _machine_section(parts: Mapping[str, Found]) -> Section | None:
    """The machines on which the parts were measured: usually one."""
    machines: dict[tuple, list[str]] = {}
    rows: dict[tuple, list] = {}
    for name, found in parts.items():
        made = found["machine"]
        packages = ", ".join(f"{package} {version}" for package, version in made["packages"].items())
        row = [
            ("processor", f"{made['cpu']}, {made['cores']} cores, {made['memory_gib']:g} GiB of memory"),
            ("devices", ", ".join(made["devices"])),
            ("system", f"{made['platform']}, Python {made['python']}"),
            ("packages", packages),
            ("commit", tag("code", made["commit"][:12]) if made["commit"] else None),
        ]
        key = tuple(map(str, row))
        machines.setdefault(key, []).append(name)
        rows[key] = row
    if not rows:
        return None
    loads = ", ".join(f"{name} {found['machine']['load_average']:.1f}" for name, found in parts.items())
    made_parts: list[Any] = []
    for key, names in machines.items():
        made_parts += [tag("p", f"Measured here: {', '.join(names)}.")] if len(machines) > 1 else []
        made_parts.append(pairs(rows[key]))
    other = "Processes that waited for a core when each part began (the load average): "
    return Section("machine", "The machine", [*made_parts, tag("p", f"{other}{loads}.", class_="soft")])
