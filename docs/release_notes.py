"""Print the notes of a release: the section of CHANGELOG.md about the version in pyproject.toml.

    python docs/release_notes.py [TAG]

With a tag, as in v0.1.0, it first checks that the tag is that of the version and that the section has a date. Relative
links become links into the repository, as on the page of the package: see hatch_build.py, which needs hatchling.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTION = r"^## What {version} has \((?P<when>.*?)\)\n+(?P<text>.*?)(?=^## |\Z)"


def notes(changelog: str, version: str, tag: str = "") -> str:
    """Return the section about a version. Raises ValueError, also where the tag is not that of a finished release."""
    found = re.search(SECTION.format(version=re.escape(version)), changelog, re.MULTILINE | re.DOTALL)
    if not found:
        raise ValueError(f"CHANGELOG.md has no section about {version}, the version in pyproject.toml.")
    if tag and tag != f"v{version}":
        raise ValueError(f"the tag {tag} is not v{version}, the version in pyproject.toml.")
    if tag and not re.fullmatch(r"\d{4}-\d\d-\d\d", found["when"]):
        raise ValueError(f"CHANGELOG.md says {found['when']!r} about {version}: write the date of the release there.")
    return found["text"].strip() + "\n"


def main(tag: str = "") -> None:
    sys.path.insert(0, str(ROOT))
    from hatch_build import page, repository_of

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    text = notes((ROOT / "CHANGELOG.md").read_text(), version, tag)
    print(page(text, repository_of((ROOT / "CITATION.cff").read_text()), f"v{version}"), end="")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except ValueError as error:
        sys.exit(f"release_notes: {error}")
