"""Measure how the library is built: files, code lines, circles of imports, and what a run touches before it compiles.

    python benchmarks/structure.py [--source OTHER/src] [--out benchmarks/results/structure.json]

A code line is neither empty nor a comment, nor inside a docstring. A circle is a group of modules that import each
other, directly or through others, at any depth in their functions. `train` counts, with `sys.setprofile`, what
`shoal.train(PPO(), "CartPole-v1")` does until it has a plan: how often the agent is made (by its class, or by JAX from
leaves), and in which packages a function receives it.
"""

import argparse
import ast
import json
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Print the measures as JSON, and write them to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=HERE.parent / "src", help="the folder that has shoal/")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    if options.traced:
        print(json.dumps(traced(options.source)))
        return
    command = [sys.executable, __file__, "--traced", "--source", options.source]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = {**rooms(options.source / "shoal"), "circles": circles(options.source), **json.loads(ran.stdout)}
    text = json.dumps(found, indent=1)
    print(text)
    if options.out:
        options.out.write_text(f"{text}\n")


def rooms(package: Path) -> dict[str, Any]:
    """Files and code lines of every top folder of a package, and of all together."""
    found: dict[str, dict[str, int]] = {}
    for file in sorted(package.rglob("*.py")):
        room = found.setdefault(file.relative_to(package).parts[0].removesuffix(".py"), {"files": 0, "lines": 0})
        room["files"] += 1
        room["lines"] += code_lines(file)
    return {
        "rooms": found,
        "files": sum(room["files"] for room in found.values()),
        "lines": sum(room["lines"] for room in found.values()),
    }


def code_lines(file: Path) -> int:
    """The number of lines of a file that hold code."""
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    with file.open("rb") as stream:
        tokens = [token for token in tokenize.tokenize(stream.readline) if token.type != tokenize.ENCODING]
    lines = {n for token in tokens if token.type not in ignored for n in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return len(lines)


def circles(source: Path) -> list[list[str]]:
    """Groups of modules that import each other; the package's own face, which everything may import, is left out."""
    files = {name_of(file, source): file for file in (source / "shoal").rglob("*.py")}
    graph = {
        name: {x for x in imports(file) if x in files and x not in (name, "shoal")} for name, file in files.items()
    }
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:  # Tarjan 1972
        index[name] = lowest[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            found.extend([sorted(group)] * (len(group) > 1))

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return found


def name_of(file: Path, source: Path) -> str:
    """The name of the module in a file."""
    return ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def imports(file: Path) -> Iterator[str]:
    """The modules, and the names in them, that a file imports at any depth."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


class _PlanIsMade(BaseException):
    """Raised instead of compiling."""


def traced(source: Path) -> dict[str, Any]:
    """How often the agent is made on the way of `shoal.train` to a program, and the packages whose functions get it."""
    package = source.resolve() / "shoal"
    sys.path.insert(0, str(source.resolve()))
    import shoal
    from shoal.training.loop import Run

    def stop(*_: Any, **__: Any) -> None:
        raise _PlanIsMade

    def count(folder: str, **options: Any) -> dict[str, Any]:
        agent, made, packages = shoal.PPO(), {"by its class": 0, "from leaves": 0}, set()

        def profile(frame: Any, event: str, _: Any) -> None:
            code = frame.f_code
            if event != "call" or "shoal/" not in code.co_filename and code.co_name != "__init__":
                return
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if code.co_name == "__init__" and isinstance(frame.f_locals.get("self"), shoal.PPO):
                made["by its class"] += 1
            elif code.co_name == "unflatten" and frame.f_locals.get("made") is shoal.PPO:
                made["from leaves"] += 1
            elif "/shoal/" in code.co_filename and any(holds(frame.f_locals.get(name)) for name in names):
                packages.add(Path(code.co_filename).relative_to(package).parts[0])

        def holds(value: Any) -> bool:
            return (
                isinstance(value, shoal.PPO)
                or isinstance(value, tuple)
                and any(isinstance(x, shoal.PPO) for x in value)
            )

        Run.__init__ = stop  # type: ignore[method-assign]
        sys.setprofile(profile)
        try:
            shoal.train(agent, "CartPole-v1", progress=False, root=folder, **options)
        except _PlanIsMade:
            pass
        finally:
            sys.setprofile(None)
        return {"made": made, "packages": sorted(packages)}

    with tempfile.TemporaryDirectory() as folder:
        return {"train": count(folder), "train with pbt": count(folder, seeds=4, selector="pbt")}


if __name__ == "__main__":
    main()
