"""Names for environments and agents. A decorator registers; nothing is listed centrally.

Modules below `shoal.envs` and `shoal.agents` are imported when a name is first looked up; other packages add theirs
through the entry-point groups `shoal.envs` and `shoal.agents`, each naming a module that registers when imported.
"""

import ast
import dataclasses
import importlib
import importlib.util
import pkgutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from shoal.core.errors import unknown_field, unknown_name

Cls = TypeVar("Cls", bound=type)


USER_MODULE = "shoal_user_"  # a user's own file is a module of this name and its own
HALLMARKS = {"agent": "bind", "env": "transition"}  # what a class must have to be of a kind


class Entry(NamedTuple):
    """A registered name: what to build, and the fields it presets."""

    name: str
    cls: type
    preset: dict[str, Any]

    def build(self, **fields: Any) -> Any:
        """Build the value. Raises TypeError, naming the nearest fields, for a field that does not exist."""
        known = [field.name for field in dataclasses.fields(self.cls)]
        for field in fields:
            if field not in known:
                raise unknown_field(self.name, field, known)
        return self.cls(**{**self.preset, **fields})


class Registry(Mapping[str, Entry]):
    """Registered names of one kind ("env" or "agent"), discovered on first use."""

    def __init__(self, kind: str, package: str) -> None:
        """`package` is imported, with everything below it, when a name is first looked up."""
        self.kind = kind
        self.package = package
        self._entries: dict[str, Entry] = {}
        self._aliases: dict[str, str] = {}
        self._discovered = False

    def register(self, name: str, /, *, aliases: Sequence[str] = (), **preset: Any) -> Callable[[Cls], Cls]:
        """A decorator that registers a class under a name, with preset fields. Stack it for variants of one class.

        `aliases` are names by which others know the same thing. They are found, but not listed. Raises ValueError when
        a name is taken by another class.
        """

        def decorate(cls: Cls) -> Cls:
            for each in (name, *aliases):
                taken = self._entries.get(self._aliases.get(each, each))
                if taken and (taken.cls.__module__, taken.cls.__qualname__) != (cls.__module__, cls.__qualname__):
                    raise ValueError(
                        f"{self.kind} {each!r} is already registered, by "
                        f"{taken.cls.__module__}.{taken.cls.__qualname__}. "
                        f"Choose another name for {cls.__module__}.{cls.__qualname__}."
                    )
            self._entries[name] = Entry(name, cls, preset)
            self._aliases.update(dict.fromkeys(aliases, name))
            return cls

        return decorate

    @property
    def aliases(self) -> Mapping[str, str]:
        """The registered name behind each alias."""
        self._discover()
        return dict(sorted(self._aliases.items()))

    def __getitem__(self, name: str) -> Entry:
        """The entry of a name or an alias, of `module:Class` or of `file.py:Class`.

        Raises UnknownNameError (a ValueError), and ValueError for what is no class of values.
        """
        if ":" in name:
            return self._from_path(name)
        self._discover()
        known = self._aliases.get(name, name)
        if known not in self._entries:
            if name.endswith(".py"):
                raise ValueError(f"{name} is a file: {_classes_hint(Path(name))}")
            names = (*self._entries, *self._aliases)
            raise unknown_name(self.kind, name, names, f"`shoal {self.kind}s` lists every name.")
        return self._entries[known]

    def __contains__(self, name: object) -> bool:
        self._discover()
        return name in self._entries or name in self._aliases

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        self._discover()
        return len(self._entries)

    def _discover(self) -> None:
        if self._discovered:
            return
        package = importlib.import_module(self.package)
        for module in pkgutil.walk_packages(package.__path__, f"{self.package}."):
            importlib.import_module(module.name)
        for point in entry_points(group=self.package):
            try:
                point.load()
            except Exception as error:
                raise ImportError(
                    f"The installed plug-in {point.name} = {point.value} ({self.package}) cannot be imported: "
                    f"{error!r}. Repair or uninstall it."
                ) from error
        self._discovered = True

    def _from_path(self, path: str) -> Entry:
        place, _, attribute = path.rpartition(":")
        module = import_file(Path(place)) if place.endswith(".py") else import_module(place)
        if not hasattr(module, attribute):
            classes = [k for k, v in vars(module).items() if isinstance(v, type)]
            raise unknown_name("name", attribute, classes, f"It was looked for in {place}.")
        found = getattr(module, attribute)
        if not (isinstance(found, type) and dataclasses.is_dataclass(found)):
            raise ValueError(f"{path} is no {self.kind}: name a class that has @struct above it.")
        needed = HALLMARKS.get(self.kind)
        if needed and not hasattr(found, needed):
            others = [f" but an {kind}" for kind, mark in HALLMARKS.items() if hasattr(found, mark)]
            raise ValueError(f"{path} is no {self.kind}{''.join(others)}: it has no `{needed}`.")
        return Entry(path, found, {})


def _classes_hint(path: Path) -> str:
    """Which class of a file may be meant, found without running it. Raises FileNotFoundError where there is none."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: write the path of a Python file, as in my_env.py:MyEnv.")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        return f"name a class in it, as in {path}:MyEnv. As it is now, Python cannot read it: {error}."
    classes = [f"{path}:{part.name}" for part in tree.body if isinstance(part, ast.ClassDef) and part.decorator_list]
    return f"name the class in it, {' or '.join(classes) or f'as in {path}:MyEnv; now it has no class with @struct'}."


def import_module(place: str) -> Any:
    """A module of something installed. Raises ValueError where there is none of that name."""
    if not place or place.startswith("."):
        raise ValueError(f"{place!r} is no module: write package.module:Class, or the path of a file.")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name != place.split(".")[0] and error.name != place:
            raise  # the module is there; something that it imports is not
        raise ValueError(
            f"module {place!r} cannot be found: write package.module:Class of something installed, or the path of a "
            "file, as in my_env.py:MyEnv."
        ) from error


def import_file(path: Path) -> Any:
    """A Python file as a module, run once. Raises FileNotFoundError where there is none."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: write the path of a Python file, as in my_env.py:MyEnv.")
    name = f"{USER_MODULE}{path.stem}"
    for module in [sys.modules.get(name), *sys.modules.values()]:
        about = getattr(module, "__dict__", {})
        if about.get("__file__") == str(path.resolve()) and about["__name__"] != "__main__":
            return module  # a class made twice would be two kinds of value
    if name in sys.modules:
        name = f"{name}_{zlib.crc32(str(path.resolve()).encode())}"  # another file of this name
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be imported as a Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs, as `import` does: dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def ranges(names: Iterable[str]) -> dict[str, list[str]]:
    """Names gathered that differ only in a final `/<number>`: `{"bsuite/catch/0-19": ["bsuite/catch/0", ...]}`.

    Any other name stands for itself.
    """
    found: dict[str, list[str]] = {}
    for name in names:
        stem, _, index = name.rpartition("/")
        found.setdefault(f"{stem}/" if stem and index.isdecimal() else name, []).append(name)
    gathered: dict[str, list[str]] = {}
    for stem, members in found.items():
        members.sort(key=lambda name: (len(name), name))
        first, last = members[0].rpartition("/")[2], members[-1].rpartition("/")[2]
        gathered[members[0] if len(members) == 1 else f"{stem}{first}-{last}"] = members
    return gathered


ENVS = Registry("env", "shoal.envs")
AGENTS = Registry("agent", "shoal.agents")

env = ENVS.register
agent = AGENTS.register


def make(name: str, **fields: Any) -> Any:
    """The environment registered under a name: `make("CartPole-v1", gravity=5.0)`.

    Also takes `package.module:Class` and `path/to/file.py:Class`. Raises UnknownNameError with the nearest names for an
    unknown one, TypeError for a field that the environment does not have.
    """
    return ENVS[name].build(**fields)


class register:  # noqa: N801  # reads as a namespace: @shoal.register.env("Drift-v0")
    """Decorators that give an environment or an agent a name: `@shoal.register.env("Drift-v0", wind=2.0)`."""

    env = staticmethod(ENVS.register)
    agent = staticmethod(AGENTS.register)


def agent_class(name: str) -> type:
    """The class of a registered agent by its Python name, e.g. `PPO`. Raises AttributeError if there is none."""
    for entry in AGENTS.values():
        if entry.cls.__name__ == name:
            return entry.cls
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")
