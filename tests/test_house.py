"""The package structure: allowed imports, packages that may read and write files, and the cost of `import shoal`."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "shoal"

# A package imports only packages of lower levels; packages of one level never import each other.
LEVELS = (
    ("core",),
    ("ops", "nn", "canvas", "tracking", "portable"),
    ("rollouts", "grid"),
    ("envs", "agents", "interop"),
    ("specs",),
    ("training",),
    ("population", "viz"),
    ("studies", "reports"),
    ("cli",),
)
LEVEL = {package: level for level, packages in enumerate(LEVELS) for package in packages}

ENTRY_POINTS = {"__init__", "__main__", "gym"}  # `import shoal`, `python -m shoal`, `import shoal.gym`

BESIDE = {"benchmarks", "reproductions"}  # they use the library, which does not know them

# Only these packages may read and write files, start processes and print.
WITH_EFFECTS = {"specs", "training", "tracking", "population", "viz", "studies", "reports", "interop", "cli"}
READS_PACKAGE_DATA = {"agents/presets/__init__.py"}  # TOML files that are part of the package
EFFECT_CALLS = {"open", "print", "input", "breakpoint"}
EFFECT_MODULES = {"subprocess", "socket", "shutil", "tempfile", "logging", "urllib", "http", "multiprocessing"}


def package_of(file: Path, source: Path) -> str:
    """The package of a file: its top folder, or for a file of the top level its name without suffix."""
    return file.relative_to(source).with_suffix("").parts[0]


def imports(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """(line, module, whether it is a star import) for every import at any depth, `from shoal import x` as `shoal.x`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name, False) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            if module == "shoal":
                yield from ((node.lineno, f"shoal.{name.name}", name.name == "*") for name in node.names)
            else:
                yield node.lineno, module, any(name.name == "*" for name in node.names)


def violations(source: Path) -> list[str]:
    """All violations of the rules in a source folder, as `file:line what`."""
    found = []
    for file in sorted(source.rglob("*.py")):
        package, tree = package_of(file, source), ast.parse(file.read_text())
        broken = [*_import_violations(package, tree)]
        if str(file.relative_to(source)) not in READS_PACKAGE_DATA:
            broken += _effect_violations(package, tree)
        found += [f"{file.relative_to(source)}:{line} {what}" for line, what in broken]
    return found


def _import_violations(package: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    for line, module, is_star in imports(tree):
        if is_star:
            yield line, f"{package} imports everything from {module}"
        if module.startswith("."):
            yield line, f"{package} imports by a relative path"
        if module.split(".")[0] in BESIDE:
            yield line, f"{package} imports {module}, which is beside the library"
        if not module.startswith("shoal.") or package in ENTRY_POINTS:
            continue
        other = module.split(".")[1]
        if other != package and LEVEL.get(other, 99) >= LEVEL[package]:
            yield line, f"{package} imports {other}, which is not below it"


def _effect_violations(package: str, tree: ast.AST) -> Iterator[tuple[int, str]]:
    if package in WITH_EFFECTS or package in ENTRY_POINTS:
        return
    for line, module, _ in imports(tree):
        if module.split(".")[0] in EFFECT_MODULES and module != "urllib.parse":  # which only takes texts apart
            yield line, f"{package} imports {module}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EFFECT_CALLS:
            yield node.lineno, f"{package} calls {node.func.id}"


def circles(source: Path) -> list[set[str]]:
    """All circles of modules that import each other, at any depth of a file, as sets of names without `shoal.`.

    The lazy face `shoal/__init__.py` imports everything when it is asked to, so it is left out.
    """
    files = {".".join(file.relative_to(source).with_suffix("").parts): file for file in source.rglob("*.py")}
    files = {name.removesuffix(".__init__"): file for name, file in files.items() if name != "__init__"}
    below = {name: _imported(file, files) - {name} for name, file in files.items()}
    while ends := [name for name, others in below.items() if not others & below.keys()]:  # what imports no circle
        for name in ends:
            del below[name]
    found: list[set[str]] = []
    for name in below:
        if not any(name in circle for circle in found):
            circle = {other for other in _reached(name, below) if name in _reached(other, below)}
            found += [circle] if circle else []
    return found


def _imported(file: Path, files: Mapping[str, Path]) -> set[str]:
    """The modules of the library that a file imports: `from shoal.core import env` is `core.env`, not `core`."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name.removeprefix("shoal.") for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = node.module.partition("shoal")[2].lstrip(".")
            inside = {f"{module}.{name.name}".lstrip(".") for name in node.names}
            found |= inside & files.keys() or {module}
    return found & files.keys()


def _reached(name: str, below: Mapping[str, set[str]]) -> set[str]:
    """All modules that a module imports, and that these import."""
    reached, waiting = set(), [name]
    while waiting:
        new = (below.get(waiting.pop(), set()) & below.keys()) - reached
        reached |= new
        waiting += new
    return reached


def test_no_modules_import_each_other():
    assert circles(SOURCE) == []


def test_a_circle_is_found_at_any_depth_and_under_type_checking(tmp_path):
    for name, text in {
        "core/a": "from shoal.core import b\nfrom shoal import core",
        "core/b": "def f():\n    from shoal.core.c import x",
        "core/c": "if TYPE_CHECKING:\n    import shoal.core.a",
        "core/d": "from shoal.core.a import x",
        "core/__init__": "",
    }.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert circles(tmp_path) == [{"core.a", "core.b", "core.c"}]


def test_every_folder_is_a_known_package():
    packages = {package_of(file, SOURCE) for file in SOURCE.rglob("*.py")} - ENTRY_POINTS
    assert packages <= set(LEVEL), f"no level for {packages - set(LEVEL)}"


def test_no_package_breaks_the_rules():
    assert violations(SOURCE) == []


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        (
            "ops/returns.py",
            "from shoal.agents.ppo import PPO",
            "ops/returns.py:1 ops imports agents, which is not below it",
        ),
        (
            "envs/maze.py",
            "def f():\n    import shoal.agents",
            "envs/maze.py:2 envs imports agents, which is not below it",
        ),
        ("core/env.py", "from shoal import training", "core/env.py:1 core imports training, which is not below it"),
        ("nn/mlp.py", "from jax.numpy import *", "nn/mlp.py:1 nn imports everything from jax.numpy"),
        ("grid/tiles.py", "from . import maps", "grid/tiles.py:1 grid imports by a relative path"),
        (
            "cli/main.py",
            "import benchmarks.run",
            "cli/main.py:1 cli imports benchmarks.run, which is beside the library",
        ),
        ("envs/maze.py", "x = open('maze.txt')", "envs/maze.py:1 envs calls open"),
        ("agents/ppo.py", "def f():\n    print('hi')", "agents/ppo.py:2 agents calls print"),
        ("rollouts/rollout.py", "import subprocess", "rollouts/rollout.py:1 rollouts imports subprocess"),
    ],
)
def test_each_kind_of_violation_is_found(tmp_path, file, text, found):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text + "\n")
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "loop.py").write_text("from shoal.core import env\nprint(open('log'))\n")  # all allowed
    assert violations(tmp_path) == [found]


PROBE = """
import json, sys, time
import jax, jax.numpy
before = time.perf_counter()
import shoal
took = time.perf_counter() - before
from jax._src import xla_bridge
print(json.dumps({"took": took, "backends": len(xla_bridge._backends)}))
"""


def test_no_test_file_is_longer_than_700_lines():
    files = Path(__file__).parent.rglob("*.py")
    assert not [f"{file}: split it by behaviour" for file in files if len(file.read_text().splitlines()) > 700]


def test_importing_shoal_is_quick_and_starts_no_backend():
    runs = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    assert [run["backends"] for run in runs] == [0, 0, 0]
    assert min(run["took"] for run in runs) < 0.5


def test_other_libraries_are_not_imported_before_they_are_used():
    text = (
        "import sys, shoal; shoal.make('CartPole-v1'); from shoal.core.registry import ENVS; len(ENVS); "
        "print([n for n in sys.modules if n.startswith(('shoal.interop.', 'gymnasium', 'gymnax', 'brax', 'ale_py'))])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_listing_environments_and_agents_starts_no_backend():
    text = (
        "from shoal.core.registry import AGENTS, ENVS; from jax._src import xla_bridge; "
        "assert len(ENVS) and list(AGENTS) is not None; print(len(xla_bridge._backends))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
