"""Commands of shoal, run where only the packages can be imported that `pip install shoal` installs.

    python tests/without_optional_packages.py "agents" "train ppo CartPole-v1 --steps 1000"

Packages of extras and of the tests are hidden.
"""

import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def main() -> None:
    """Run each command, until one fails."""
    installed = needed("shoal", set())
    modules = {module: set(map(canonicalize_name, owners)) for module, owners in packages_distributions().items()}
    optional = {module for module, owners in modules.items() if not installed & owners}
    assert {"gymnasium", "minigrid", "pytest"} <= optional and not {"jax", "shoal", "scipy"} & optional
    sys.meta_path.insert(0, Hidden(optional))
    from shoal.cli.main import main

    for words in sys.argv[1:]:
        assert main(words.split()) == 0, words


def needed(name: str, found: set[str]) -> set[str]:
    """The distributions that one needs without extras, itself included, added to those that were found."""
    if name not in found:
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:  # of another system, or Python
            return found
        found.add(name)
        for requirement in map(Requirement, lines):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed(canonicalize_name(requirement.name), found)
    return found


class Hidden(MetaPathFinder):
    """Finds no module of these names, and none of their packages."""

    def __init__(self, names: set[str]) -> None:
        """Hide these modules."""
        self._names = names

    def find_spec(self, name, path=None, target=None):
        """Raise the error of a module that is not installed, for hidden ones."""
        if name.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if __name__ == "__main__":
    main()
