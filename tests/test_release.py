"""Files of a release: notes, the archives as a package index reads them, and the settings of hosted services."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="an extra of ./setup dev needs it")
ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
CHANGELOG = "# Changelog\n\n## What 0.2.0 has ({when})\n\n### A\n\n- b\n\n## What 0.1.0 has (2026-01-02)\n\n- c\n"

hosted = pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="a source distribution has no files of the host")


@pytest.fixture(scope="module")
def notes():
    """The function `notes` of docs/release_notes.py."""
    spec = importlib.util.spec_from_file_location("release_notes", ROOT / "docs" / "release_notes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.notes


def test_the_notes_are_the_section_of_the_version(notes):
    assert notes(CHANGELOG.format(when="unreleased"), "0.2.0") == "### A\n\n- b\n"
    assert notes(CHANGELOG.format(when="2026-03-04"), "0.2.0", "v0.2.0") == "### A\n\n- b\n"
    assert notes(CHANGELOG, "0.1.0") == "- c\n"


@pytest.mark.parametrize(
    ("when", "version", "tag", "said"),
    [
        ("2026-03-04", "0.3.0", "", "no section about 0.3.0"),
        ("2026-03-04", "0.2", "", "no section about 0.2,"),
        ("2026-03-04", "0.2.0", "v0.2.1", "the tag v0.2.1 is not v0.2.0"),
        ("2026-03-04", "0.2.0", "0.2.0", "the tag 0.2.0 is not v0.2.0"),
        ("unreleased", "0.2.0", "v0.2.0", "'unreleased' about 0.2.0: write the date"),
    ],
)
def test_a_release_that_is_not_ready_has_no_notes(when, version, tag, said, notes):
    with pytest.raises(ValueError, match=re.escape(said)):
        notes(CHANGELOG.format(when=when), version, tag)


def test_the_notes_of_this_version_have_no_relative_links():
    pytest.importorskip("hatchling")
    program = [sys.executable, ROOT / "docs" / "release_notes.py"]
    text = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert text.startswith("### ") and "](docs/" not in text and len(text.splitlines()) > 20
    done = subprocess.run([*program, "v9.9.9"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("release_notes: the tag v9.9.9 is not v")
    assert not done.stdout


def test_a_package_index_takes_both_archives(tmp_path):
    pytest.importorskip("twine", reason="`make dist` installs it")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", tmp_path], cwd=ROOT, check=True)
    files = sorted(tmp_path.iterdir())
    assert [file.suffix for file in files] == [".whl", ".gz"]
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("PASSED") == 2, done.stdout + done.stderr


def check_targets(commands):
    """Raise AssertionError where a command is `make` of a target that the Makefile has not, or a file that is gone."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(commands)
    assert {*re.findall(r"\bmake ([a-z-]+)", text)} <= targets
    named = re.findall(r"(?:^|\s)((?:docs|tests|benchmarks)/[\w/]+\.py)", text)
    assert all((ROOT / name).is_file() for name in named)
    return text


def steps_of(job):
    return [step["run"] for step in job["steps"] if "run" in step]


@hosted
@pytest.mark.parametrize("name", ["release", "tests"])
def test_a_workflow_runs_what_is_there(name):
    workflow = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())
    for job in workflow["jobs"].values():
        check_targets(steps_of(job))


@hosted
def test_only_a_tag_publishes_and_no_password_is_needed():
    text = (WORKFLOWS / "release.yml").read_text()
    workflow = yaml.safe_load(text)
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert workflow[True] == {"push": {"tags": ["v*"]}, "workflow_dispatch": None}  # YAML reads `on` as true
    assert publish["if"] == "github.event_name == 'push' && github.ref_type == 'tag'" and publish["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"} and publish["environment"] == "release"
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in build
    assert "secrets" not in text and "password:" not in text
    run = "\n".join(steps_of(build))
    assert run.index("make dist") < run.index("tests/test_package.py") < run.index("docs/release_notes.py")


@hosted
def test_the_hosted_documentation_is_that_of_make_docs():
    settings = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert settings["version"] == 2 and settings["build"]["tools"] == {"python": "3.12"}
    commands = settings["build"]["commands"]
    assert "make docs" in check_targets(commands)
    site = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)["site_dir"]
    assert commands[-1] == f'cp -r {site} "$READTHEDOCS_OUTPUT/html"'


@hosted
def test_the_development_container_sets_up_what_tests_need():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert "-3.12-" in container["image"] and container["postCreateCommand"] == "./setup dev"
    assert container["remoteEnv"]["PATH"].startswith("${containerWorkspaceFolder}/.venv/bin:")
