"""The registries of environments, agents, selectors and experiment trackers by name. There is no list.

A decorator on a class registers it. All modules of the packages of a registry, such as `shoal.envs`, are imported when
a name is first looked up. Other packages add names through the entry-point groups `shoal.envs`, `shoal.agents`,
`shoal.selectors` and `shoal.trackers`: each entry point is a module that registers on import.

`PREFIX/NAME` is an environment of another library, such as `brax/ant`: the module `PREFIX` of `shoal.interop.sources`
has a function `class_of(NAME)` that returns its class, or `entry(NAME)` that returns its `Entry`. It is imported when
such a name is first looked up.
"""

import ast
import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from shoal.core.aliases import instead_of
from shoal.core.env import Env
from shoal.core.errors import UnknownNameError, did_you_mean, unknown_fields, unknown_name
from shoal.core.foreign import gymnasium_name
from shoal.core.kinds import check_path
from shoal.core.struct import Struct
from shoal.core.user_code import in_short, line_of, line_raised, short_path

Cls = TypeVar("Cls", bound=type)


USER_MODULE = "shoal_user_"  # prefix of the module name under which a user's own file is imported
# By kind; a class without the method is not of that kind.
REQUIRED_METHODS = {"selector": "select", "agent": "bind", "env": "transition", "tracker": "attach"}
IN_WORDS = {"agent": "agent", "env": "environment", "selector": "selector", "tracker": "tracker"}


class Entry(NamedTuple):
    """A registered name: the class to build, and the values of fields that this name presets."""

    name: str
    cls: type
    preset: dict[str, Any]
    about: str = ""  # what the preset makes of the class, in one line; empty: the class's docstring says it

    @property
    def summary(self) -> str:
        """One line that describes what is registered."""
        return self.about or (inspect.getdoc(self.cls) or "").partition("\n")[0]

    def build(self, **fields: Any) -> Any:
        """Build a value of the class. Raises TypeError, with the nearest names, for a field that does not exist."""
        known = [field.name for field in dataclasses.fields(self.cls)]
        if unknown := [field for field in fields if field not in known]:
            raise unknown_fields(self.name, unknown, known)
        try:
            return self.cls(**{**self.preset, **fields})
        except (TypeError, ValueError) as error:
            at = line_raised(error) or line_of(self.cls)
            if not at:
                raise
            raise type(error)(f"{at}: {error}") from error


class Registry(Mapping[str, Entry]):
    """The registered names of one kind (such as "env"), a mapping from name to entry."""

    def __init__(
        self, kind: str, package: str, *more_packages: str, sources: str = "", has_structs: bool = True
    ) -> None:
        """Set up an empty registry. The packages are imported, with all modules, when a name is first looked up.

        `sources` is a package with a module for each other library whose names are `MODULE/NAME`. `has_structs`:
        whether the classes are structs, which a command lists and builds from fields.
        """
        self.kind = kind
        self.sources, self.has_structs = sources, has_structs
        self.packages = (package, *more_packages)
        self.group = f"shoal.{kind}s"  # of entry points
        self._entries: dict[str, Entry] = {}
        self._aliases: dict[str, str] = {}
        self._discovered = False

    def register(
        self, name: str, /, *, aliases: Sequence[str] = (), about: str = "", **preset: Any
    ) -> Callable[[Cls], Cls]:
        """Return a decorator that registers a class under a name with preset fields. Stack it for variants of a class.

        `aliases` are the names that other libraries use. They can be looked up, but are not listed. `about` describes
        a variant in one line, where the docstring of the class does not. The decorator raises ValueError when another
        class already has the name.
        """

        def decorate(cls: Cls) -> Cls:
            for new in (name, *aliases):
                other = self._entries.get(self._aliases.get(new, new))
                if other and (other.cls.__module__, other.cls.__qualname__) != (cls.__module__, cls.__qualname__):
                    raise ValueError(
                        f"{self.kind} {new!r} is already registered, by "
                        f"{other.cls.__module__}.{other.cls.__qualname__}. "
                        f"Choose another name for {cls.__module__}.{cls.__qualname__}."
                    )
            self._entries[name] = Entry(name, cls, preset, about)
            self._aliases.update(dict.fromkeys(aliases, name))
            return cls

        return decorate

    @property
    def aliases(self) -> Mapping[str, str]:
        """The registered name of each alias."""
        self._discover()
        return dict(sorted(self._aliases.items()))

    def __getitem__(self, name: str) -> Entry:
        """Return the entry of a name, an alias, `module:Class` or `file.py:Class`.

        Raises UnknownNameError (a ValueError) for an unknown name, and ValueError for a class of another kind.
        """
        check_path(name, f"{self.kind}=")
        if source := self._source(name):
            in_library = name.partition("/")[2]
            has_entries = hasattr(source, "entry")
            return source.entry(in_library) if has_entries else Entry(name, source.class_of(in_library), {})
        if ":" in name:
            return self._from_path(name)
        self._discover()
        registered = self._aliases.get(name, name)
        if registered not in self._entries:
            if name.endswith(".py"):
                raise ValueError(f"{name} is a file: {_classes_hint(Path(name), self.has_structs)}")
            if (file := Path(f"{name.partition('.')[0]}.py")).is_file():  # my_env or my_env.MyEnv
                raise UnknownNameError(f"{name} is written as in Python: {_classes_hint(file, self.has_structs)}")
            if other := next((found for found in REGISTRIES if found is not self and name in found), None):
                raise UnknownNameError(f"{name} is {_a(other.kind)}, not {_a(self.kind)}.")
            if Path(name).exists():
                what = "file" if Path(name).is_file() else "folder"
                raise UnknownNameError(
                    f"{name} is a {what}, and no {IN_WORDS[self.kind]} has this name. Name one of your own as "
                    f"my_file.py:MyClass."
                )
            if found := _defined_beside(name):
                raise unknown_name(self.kind, name, (), f"Write {found}: the class is defined in that file.")
            names = f"`shoal {self.kind}s` lists every name." if self.has_structs else f"Choose {', '.join(self)}."
            every = instead_of(self.kind, name) or names
            raise unknown_name(self.kind, name, (*self._entries, *self._aliases), every, self._aliases)
        return self._entries[registered]

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
        for name in self.packages:
            for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
                importlib.import_module(module.name)
        for point in entry_points(group=self.group):
            try:
                point.load()
            except Exception as error:
                raise ImportError(
                    f"The installed plug-in {point.name} = {point.value} ({self.group}) cannot be imported: "
                    f"{error!r}. Repair or uninstall it."
                ) from error
        self._discovered = True

    def _source(self, name: str) -> Any:
        """Return the module of the other library that a name such as `brax/ant` belongs to; None if there is none."""
        prefix, slash, rest = name.partition("/")
        if not (self.sources and slash and rest and prefix.isidentifier()):
            return None
        module = f"{self.sources}.{prefix}"
        return importlib.import_module(module) if importlib.util.find_spec(module) else None

    def _from_path(self, path: str) -> Entry:
        source, _, attribute = path.rpartition(":")
        if "-" in source and source in self:  # no module has a name with "-"
            raise UnknownNameError(
                f"{path} is no {self.kind}: the name is {source}. If {attribute} is a preset, train with "
                f"--preset {attribute}, or in Python with preset={attribute!r}."
            )
        where = short_path(Path(source)) if source.endswith(".py") else source
        module = import_file(Path(source)) if source.endswith(".py") else import_module(source)
        if not hasattr(module, attribute):
            classes = [k for k, v in vars(module).items() if isinstance(v, type) and v.__module__ == module.__name__]
            near = did_you_mean(attribute, classes)
            has = "" if near else f" It has {', '.join(classes) or 'no class'}."
            raise UnknownNameError(f"{where} has no class {attribute!r}.{near}{has}")
        found, is_none = getattr(module, attribute), f"{where}:{attribute} is no {IN_WORDS[self.kind]}"
        if not isinstance(found, type) or self.has_structs and not dataclasses.is_dataclass(found):
            if isinstance(found, type) and issubclass(found, Struct):
                raise ValueError(f"{line_of(found) or path}: write @struct above `class {attribute}`.")
            of_shoal = f"name a class{' that has @struct above it' * self.has_structs}"
            raise ValueError(f"{is_none}: {gymnasium_name(found) or of_shoal}.")
        required = REQUIRED_METHODS.get(self.kind)
        if required and not hasattr(found, required):
            others = (_a(kind) for kind, method in REQUIRED_METHODS.items() if hasattr(found, method))
            raise ValueError(f"{is_none}{''.join(f' but {other}' for other in others)}: it has no `{required}`.")
        file = f"{Path(source).resolve()}:{attribute}"  # with which a run can be opened from any folder
        return Entry(file if source.endswith(".py") else path, found, {})


def _a(kind: str) -> str:
    return f"{'an' if kind in ('agent', 'env') else 'a'} {IN_WORDS[kind]}"


def _classes_hint(path: Path, has_structs: bool = True) -> str:
    """Which class of a file may be meant, found without running it. Raises FileNotFoundError if there is none."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: write the path of a Python file, as in my_env.py:MyEnv.")
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        return f"name a class in it, as in {path}:MyEnv. As it is now, Python cannot read it: {error}."
    found = [part.name for part in tree.body if isinstance(part, ast.ClassDef)]
    classes = [f"{path}:{name}" for name in (_decorated_classes(tree) if has_structs else found)]
    if not has_structs:
        return f"name the class in it, {' or '.join(classes) or f'as in {path}:MyClass'}."
    return f"name the class in it, {' or '.join(classes) or f'as in {path}:MyEnv; now it has no class with @struct'}."


def _decorated_classes(tree: ast.Module) -> list[str]:
    """Return the names of the classes of a file that have a decorator, as @struct; not of those of states."""
    classes = [part for part in tree.body if isinstance(part, ast.ClassDef) and part.decorator_list]
    states = {"State"}  # and the classes of the file that derive from one of them
    for part in classes:
        if states & {getattr(base, "id", getattr(base, "attr", "")) for base in part.bases}:
            states.add(part.name)
    return [part.name for part in classes if part.name not in states]


def _defined_beside(name: str) -> str:
    """Return `tank.py:Tank` if a Python file in the working folder defines a class of this name; empty otherwise.

    No file is run.
    """
    for path in sorted(Path().glob("*.py")) if name.isidentifier() else ():
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            if name in _decorated_classes(ast.parse(path.read_bytes())):
                return f"{path}:{name}"
    return ""


def import_module(name: str) -> Any:
    """Import a module of an installed package. Raises ValueError if there is none of that name."""
    if not name or name.startswith("."):
        raise ValueError(f"{name!r} is no module: write package.module:Class, or the path of a file.")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0] and error.name != name:
            raise  # this module exists; a module that it imports is missing
        if (file := Path(f"{name}.py")).is_file():
            raise ValueError(f"{name} is the file {file}: {_classes_hint(file)}") from error
        raise ValueError(
            f"module {name!r} cannot be found: write package.module:Class of an installed package, or the path of a "
            "file, as in my_env.py:MyEnv."
        ) from error


def import_file(path: Path) -> Any:
    """Import a Python file as a module; a second call returns the same module.

    It may import the files beside it, as a started script does. Installed packages come first, so none is replaced.
    Raises FileNotFoundError where there is none, and ImportError, with the line, where the file raises an error.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{short_path(path)} does not exist: write the path of a Python file, as in my_env.py:MyEnv."
        )
    if (loaded := loaded_file(path)) is not None:
        return loaded  # running the file again would make a second class of the same name
    name = f"{USER_MODULE}{path.stem}"
    if name in sys.modules:
        name = f"{name}_{zlib.crc32(str(path.resolve()).encode())}"  # another file of the same name was imported
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be imported as a Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before the file runs, as `import` does: dataclasses look up their module
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # for good: a function may import when it is called
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except BaseException as error:  # also `sys.exit()`, which would end this command without a word
        del sys.modules[name]
        raise ImportError(f"{line_raised(error) or path}: {in_short(error)}") from error
    return module


def loaded_file(path: Path) -> Any:
    """Return the loaded module of a Python file; None where it is not loaded."""
    for module in [sys.modules.get(f"{USER_MODULE}{path.stem}"), *sys.modules.values()]:
        attributes = getattr(module, "__dict__", {})
        if attributes.get("__file__") == str(path.resolve()) and attributes["__name__"] != "__main__":
            return module
    return None


ENVS = Registry("env", "shoal.envs", "shoal.population.meta_envs", sources="shoal.interop.sources")
AGENTS = Registry("agent", "shoal.agents")
SELECTORS = Registry("selector", "shoal.population")
TRACKERS = Registry("tracker", "shoal.tracking", has_structs=False)
REGISTRIES = (ENVS, AGENTS, SELECTORS, TRACKERS)

env = ENVS.register
agent = AGENTS.register
selector = SELECTORS.register
tracker = TRACKERS.register


def make(name: str, **fields: Any) -> Env:
    """Build the environment of a name: `make("CartPole-v1", gravity=5.0)`.

    It also accepts `package.module:Class` and `path/to/file.py:Class`. Raises UnknownNameError, with the nearest names,
    for an unknown name, and TypeError for a field that the environment does not have.
    """
    if not isinstance(name, str):
        raise TypeError(f"make needs the name of an environment, not {name!r:.60}. Call a class itself: CartPole(...).")
    return ENVS[name].build(**fields)


class register:  # noqa: N801  # used as a namespace: @shoal.register.env("Drift-v0")
    """Decorators that register a class under a name: `@shoal.register.env("Drift-v0", wind=2.0)`."""

    env = staticmethod(ENVS.register)
    agent = staticmethod(AGENTS.register)
    selector = staticmethod(SELECTORS.register)
    tracker = staticmethod(TRACKERS.register)


def agent_class(name: str) -> type:
    """Return the class of a registered agent by its Python name, e.g. `PPO`. Raises AttributeError if there is none."""
    for entry in AGENTS.values():
        if entry.cls.__name__ == name:
            return entry.cls
    if name.lower() in AGENTS and (entry := AGENTS[name.lower()]).preset:
        raise AttributeError(
            f"shoal has no class {name!r}: {entry.name} is {entry.cls.__name__} with other hyperparameters, so give "
            f'its name, as in shoal.train("{entry.name}", ...).'
        )
    near = did_you_mean(name, {entry.cls.__name__ for entry in AGENTS.values()})
    raise AttributeError(f"module 'shoal' has no attribute {name!r}.{near}")
