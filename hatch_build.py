"""What the build adds to the metadata of the package: its page on a package index, and its links.

The page is README.md. A package index shows no files of the repository, so relative links become links into it. The
address of the repository is `repository-code` in CITATION.cff. As long as it is missing, the page has no pictures, the
text of relative links without the links, and the package has no project URLs.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:)([^)\s]+)\)")
PICTURES = re.compile(rf"(?:{PICTURE.pattern}\n)+(?:\n\*[^*]+\*\n)?\n?")  # lines of pictures, with the caption below
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")


class PackagePage(MetadataHookInterface):
    """Sets `readme` and `urls`, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict) -> None:
        """Add the page and the links to the metadata of the package."""
        root = Path(self.root)
        repository = repository_of((root / "CITATION.cff").read_text())
        text = page((root / "README.md").read_text(), repository, f"v{metadata['version']}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(repository)


def repository_of(citation: str) -> str:
    """Return the address of the repository from the text of CITATION.cff, without a final slash; empty if missing."""
    found = re.search(r"^repository-code:\s*[\"']?([^\"'\s]+)", citation, flags=re.MULTILINE)
    return found[1].rstrip("/") if found else ""


def urls(repository: str) -> dict[str, str]:
    """Return the links that a package index shows beside the page."""
    if not repository:
        return {}
    files = f"{repository}/blob/main"
    return {
        "Repository": repository,
        "Documentation": f"{files}/docs/index.md",
        "Changelog": f"{files}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


def page(readme: str, repository: str, version: str) -> str:
    """Return the README with relative links and pictures that point to the files of a version in the repository."""
    if not repository:
        return LINK.sub(r"\1", PICTURES.sub("", readme))
    text = PICTURE.sub(lambda m: m[0].replace(m[2], f"{repository}/raw/{version}/{m[2]}"), readme)
    return LINK.sub(lambda m: f"[{m[1]}]({repository}/blob/{version}/{m[2]})", text)
