"""The package: what is in the wheel, what a package index shows of it, and that it works in a fresh environment."""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import nbformat
import pytest

from commands import seconds_of_children

pytest.importorskip("hatchling", reason="an environment made before hatchling was needed: run ./setup")

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://example.org/a/shoal"
# Of files in the package: code, pages of reports, tables, the completion script, and policies of the zoo.
KINDS = {".py", ".pyi", ".typed", ".html", ".css", ".js", ".json", ".toml", ".bash", ".npz"}


def build(folder: Path, target: str, root: Path = ROOT) -> Path:
    """Build a wheel or an sdist from the source tree `root`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    return next(folder.glob("*.whl" if target == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build(tmp_path_factory.mktemp("dist"), "wheel")


@pytest.fixture(scope="module")
def hook():
    """The module hatch_build.py."""
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def contents(wheel: Path) -> tuple[dict[str, int], Message]:
    """(size in bytes by path, metadata) of a wheel."""
    with zipfile.ZipFile(wheel) as file:
        sizes = {info.filename: info.file_size for info in file.infolist()}
        metadata = next(name for name in sizes if name.endswith(".dist-info/METADATA"))
        return sizes, message_from_bytes(file.read(metadata))


def test_every_extra_that_an_error_message_names_exists():
    calls = (
        node
        for file in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "need"
    )
    named = {call.args[1].value for call in calls if isinstance(call.args[1], ast.Constant)}
    assert {"gymnasium", "ray"} <= named
    assert named <= set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def test_a_wheel_has_the_package_and_nothing_else(wheel):
    sizes, metadata = contents(wheel)
    info = f"shoal-{metadata['Version']}.dist-info"
    assert {name.split("/")[0] for name in sizes} == {"shoal", info}
    files = {
        path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "shoal").rglob("*") if path.is_file()
    }
    kept = {name for name in sizes if name.startswith("shoal/")}
    assert kept == {name for name in files if "__pycache__" not in name}
    assert {"shoal/py.typed", "shoal/cli/index.json", "shoal/studies/suites.toml", f"{info}/licenses/LICENSE"} <= set(
        sizes
    )
    assert "shoal/zoo/ppo/CartPole-v1/policy/policies.npz" in sizes
    assert {Path(name).suffix for name in kept} == KINDS
    assert max(sizes.values()) < 200_000 and sum(sizes.values()) < 5_000_000


def test_the_version_is_the_same_everywhere(wheel):
    version = contents(wheel)[1]["Version"]
    assert wheel.name == f"shoal-{version}-py3-none-any.whl"
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## What {version} has (" in (ROOT / "CHANGELOG.md").read_text()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    named = [found for page in pages for found in re.findall(r"\bshoal-(\d[\w.]*)-py3|`v(\d[\w.]*)`", page.read_text())]
    assert len(named) > 1 and {a or b for a, b in named} == {version}


def test_the_readme_on_a_package_index_has_no_broken_links(wheel, hook):
    metadata = contents(wheel)[1]
    text = metadata.get_payload()
    assert text.startswith("# shoal\n") and "shoal.train(" in text
    assert "](docs/" not in text
    known = hook.urls(hook.repository_of((ROOT / "CITATION.cff").read_text()))
    assert metadata.get_all("Project-URL", []) == [f"{name}, {url}" for name, url in known.items()]


def test_links_and_pictures_point_into_the_repository(hook):
    text = "![A](docs/a.png)\n![B](docs/b.gif)\n\n*Two\npictures.*\n\n[c](docs/c.md#d) [e](#e) [f](https://f.org)\n"
    assert hook.repository_of(f'version: 1\nrepository-code: "{REPOSITORY}/"\n') == REPOSITORY
    assert hook.repository_of("version: 1\n") == ""
    assert hook.page(text, REPOSITORY, "v1") == (
        f"![A]({REPOSITORY}/raw/v1/docs/a.png)\n![B]({REPOSITORY}/raw/v1/docs/b.gif)\n\n*Two\npictures.*\n\n"
        f"[c]({REPOSITORY}/blob/v1/docs/c.md#d) [e](#e) [f](https://f.org)\n"
    )
    assert hook.page(text, "", "v1") == "c [e](#e) [f](https://f.org)\n"
    assert hook.urls(REPOSITORY)["Issues"] == f"{REPOSITORY}/issues" and hook.urls("") == {}


def test_the_files_that_a_container_image_gets_are_enough_to_build_the_package(wheel, tmp_path):
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    for name in (line[1:] for line in lines if line.startswith("!")):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    assert build(tmp_path / "dist", "wheel", tmp_path).read_bytes() == wheel.read_bytes()
    assert (tmp_path / "constraints.txt").is_file()  # the Dockerfile reads it


WHEEL = "shoal-0.1.0-py3-none-any.whl"
MOST_SECONDS = 60  # for an environment with the package, once the wheels are on the disk


@pytest.mark.parametrize(
    ("installed", "gpu", "files", "source", "package"),
    [
        (False, True, [WHEEL], "", f"shoal[cuda12] @ FOLDER/{WHEEL}"),
        (False, False, ["src/shoal/__init__.py"], "", "shoal @ FOLDER"),
        (False, False, [WHEEL, "src/shoal/__init__.py"], "", f"shoal @ FOLDER/{WHEEL}"),
        (False, False, [WHEEL], f"https://example.org/{WHEEL}", f"shoal @ https://example.org/{WHEEL}"),
        (True, False, [], "", None),
    ],
)
def test_the_notebook_installs_what_is_missing(installed, gpu, files, source, package, tmp_path, monkeypatch):
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    asked = asked_by_notebook(installed, gpu, source, tmp_path, monkeypatch)
    assert asked == ([package.replace("FOLDER", tmp_path.as_uri())] if package else [])


def test_the_notebook_asks_no_index_for_the_name_shoal(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="upload one, or set SOURCE"):
        asked_by_notebook(False, False, "", tmp_path, monkeypatch)


def asked_by_notebook(installed, gpu, source, folder, monkeypatch):
    """What the install cell of the notebook gives to pip, in this folder."""
    notebook = nbformat.read(ROOT / "docs" / "quickstart.ipynb", as_version=4)
    first = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
    program = first.replace('%pip install --quiet "{package}"', "asked.append(package)")
    assert program != first and 'SOURCE = ""' in program
    monkeypatch.chdir(folder)
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/nvidia-smi" if gpu else None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True if installed else None)
    asked = []
    exec(program.replace('SOURCE = ""', f"SOURCE = {source!r}"), {"asked": asked})
    return asked


def test_commands_need_no_optional_package(tmp_path):
    commands = (
        "train q-learning CliffWalking-v1 --steps 1000 --seeds 2 --name run --no-progress",
        "eval runs/run",
        "describe ppo CartPole-v1",
        "bench CliffWalking-v1 --sizes 2 --seconds 0.1",
        "render runs/run",
        "report runs/run",
        "envs minigrid",
        "agents",
        "suites",
        "zoo",
    )
    ran = subprocess.run(
        [sys.executable, ROOT / "tests" / "without_optional_packages.py", *commands],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_package_works_in_a_fresh_environment(wheel, tmp_path):
    programs = tmp_path / "venv" / "bin"
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_FIND_LINKS")}

    def run(*words: object) -> str:
        done = subprocess.run(
            [programs / str(words[0]), *map(str, words[1:])], cwd=tmp_path, env=clean, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    venv.create(tmp_path / "venv", with_pip=True)
    pip = ("python", "-m", "pip")
    run(*pip, "download", "--quiet", "--dest", "wheels", "-c", ROOT / "constraints.txt", wheel)
    before = seconds_of_children()  # without the time that the network and other programs take
    venv.create(tmp_path / "venv", with_pip=True, clear=True)
    run(*pip, "install", "--quiet", "--no-compile", "--no-index", "--find-links", "wheels", "shoal")
    assert 5 < seconds_of_children() - before < MOST_SECONDS

    version = contents(wheel)[1]["Version"]
    assert run("python", "-c", "import shoal; print(shoal.__version__, shoal.__file__)").startswith(
        f"{version} {tmp_path.resolve()}"
    )
    said = run("shoal", "demo", "--steps", "20_000", "--seeds", "4", "--no-progress")
    (curves,) = re.findall(r"^learning curves +(.*)$", said, re.MULTILINE)
    assert (tmp_path / curves).read_bytes().startswith(b"\x89PNG")
    assert "nothing needs attention" in run("shoal", "doctor")
    assert "MiniGrid" in run("shoal", "envs", "minigrid")
    assert "zoo:ppo/CartPole-v1" in run("shoal", "zoo")


@pytest.mark.slow
def test_a_source_distribution_builds_the_same_wheel(wheel, tmp_path):
    with tarfile.open(build(tmp_path, "sdist")) as file:
        file.extractall(tmp_path, filter="data")
    root = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert not {".ci", ".github", "runs"} & {path.name for path in root.iterdir()}
    assert build(tmp_path / "again", "wheel", root).read_bytes() == wheel.read_bytes()
