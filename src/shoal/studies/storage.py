"""Where the trials of a study are kept: open an Optuna storage from a URL, and the study in it.

    journal:PATH                           a log file, the default; for the workers of one machine or one shared disk
    sqlite:PATH  sqlite:///PATH            a SQLite database; every suggestion takes about 0.1 s
    postgresql://user:password@host/base   a PostgreSQL server, for workers on several machines (psycopg 3)
    memory                                 this process; nothing is kept
    $NAME                                  the URL is in the environment variable NAME

A password is never written: `redacted` is for messages, `without_password` for files. Resuming from such a file needs
the password again: in PGPASSWORD, in ~/.pgpass (libpq reads both), or in the variable of `$NAME`.
"""

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote, urlsplit

import optuna
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage

from shoal.core.errors import need
from shoal.studies.journal import Journal

Direction = Literal["maximize", "minimize"]
SCHEMES = ("journal", "sqlite", "postgresql", "memory")
POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
DESCRIPTION = "shoal"  # the study's user attribute that says what it searches
FORMS = "journal:PATH, sqlite:PATH, postgresql://user@host/database, memory, or $NAME for a URL in a variable"


class StorageError(RuntimeError):
    """Raised for a storage that cannot be opened, read or written. The message has no password."""


class OtherStudyError(ValueError):
    """Raised for a study of this name that searches something else. The message says what differs."""


def open_storage(url: str) -> BaseStorage:
    """Return the storage at a URL. A journal or SQLite file is made if it does not exist, with its folder.

    Raises ValueError for a URL of no known form, ImportError where psycopg is missing, StorageError if the file or
    the server cannot be used.
    """
    url = resolved(url)
    scheme, rest = _parts(url)
    if scheme == "memory":
        return InMemoryStorage()
    if scheme == "journal":
        return _open_journal(_path_of(rest))
    if scheme == "sqlite":
        path = _path_of(rest)
        _make_folder(path)
        return _open_database(f"sqlite:///{path}", url, {"timeout": 60})
    need("psycopg", "postgres", "a storage in PostgreSQL")
    return _open_database(f"postgresql+psycopg://{rest}", url, {"connect_timeout": 10})


def open_study(
    url: str | BaseStorage,
    name: str,
    description: Mapping[str, Any],
    directions: Sequence[Direction],
    sampler: optuna.samplers.BaseSampler | None = None,
    pruner: optuna.pruners.BasePruner | None = None,
) -> optuna.Study:
    """Return the study `name` of a storage; it is made if there is none.

    description: what the study searches, as JSON data: agent, env, search space, steps, records, seeds, objectives. It
        is kept in the study. directions: "maximize" or "minimize" for each objective.
    Raises OtherStudyError if the study exists and its description or directions differ.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = open_storage(url) if isinstance(url, str) else url
    wanted = {**json.loads(json.dumps(description)), "directions": list(directions)}
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        directions=list(directions),
        sampler=sampler,
        pruner=pruner,
        load_if_exists=True,
    )
    found = study.user_attrs.get(DESCRIPTION)
    if found is None and not study.get_trials(deepcopy=False):
        study.set_user_attr(DESCRIPTION, wanted)
        found = wanted
    _refuse_another(name, found, wanted)
    return study


def redacted(url: str) -> str:
    """Return a URL with `***` in place of its password."""
    return re.sub(r"(://[^:/@\s]*):.*@(?=[^@]*$)", r"\1:***@", _hidden_in_query(url))


def without_password(url: str) -> str:
    """Return a URL without its password, for files: `postgresql://user@host/base`."""
    text = re.sub(r"[?&]$", "", re.sub(r"(?<=[?&])password=[^&]*&?", "", url))
    return re.sub(r"(://[^:/@\s]*):.*@(?=[^@]*$)", r"\1@", text)


def resolved(url: str) -> str:
    """Return the URL itself, or for `$NAME` the one in the environment variable NAME. Raises ValueError if unset."""
    if not url.startswith("$"):
        return url
    name = url[1:].strip("{}")
    if not os.environ.get(name):
        raise ValueError(f"--storage {url}: the environment variable {name} is not set. Set it to one of {FORMS}.")
    return os.environ[name]


def _hidden_in_query(url: str) -> str:
    return re.sub(r"(?<=[?&])password=[^&]*", "password=***", url)


def _parts(url: str) -> tuple[str, str]:
    """(the scheme, what follows it). Raises ValueError for an unknown scheme, with the nearest one."""
    if url == "memory":
        return "memory", ""
    scheme, colon, rest = url.partition(":")
    if colon and scheme in POSTGRES and rest.startswith("//"):
        return "postgresql", rest[2:]
    if colon and scheme in ("journal", "sqlite") and rest.strip("/"):
        return scheme, rest
    near = difflib.get_close_matches(scheme.lower(), SCHEMES, n=1, cutoff=0.5)
    meant = f" Did you mean {near[0]}:{'//' if near[0] == 'postgresql' else ''}...?" if near and colon else ""
    raise ValueError(f"--storage {redacted(url)}: no storage is written like this.{meant} Give {FORMS}.")


def _path_of(rest: str) -> Path:
    """The path of a file: `runs/study.log`, or after `///` as SQLAlchemy writes it."""
    return Path(rest[3:] if rest.startswith("///") else rest).expanduser()


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab"):
            pass
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}. Choose another --storage.") from error


def _open_journal(path: Path) -> BaseStorage:
    _make_folder(path)
    return JournalStorage(Journal(path))


def _open_database(url: str, given: str, connect: Mapping[str, Any]) -> BaseStorage:
    try:
        return optuna.storages.get_storage(
            RDBStorage(url, engine_kwargs={"connect_args": dict(connect), "pool_pre_ping": True})
        )
    except Exception as error:
        reason = scrubbed(str(error).split("\n(Background")[0], given)
        raise StorageError(f"--storage {redacted(given)} cannot be used: {reason}") from None


def scrubbed(text: str, url: str) -> str:
    """Return a text in which the password of a URL is `***`."""
    with suppress(ValueError):
        password = urlsplit(url).password
        for form in {password, unquote(password or ""), quote(unquote(password or ""))} - {None, ""}:
            text = text.replace(form, "***")
    return text


def _refuse_another(name: str, found: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> None:
    if found is None:
        raise OtherStudyError(f"the study {name!r} in this storage was not made by shoal. Choose another --name.")
    keys = dict.fromkeys([*found, *wanted])
    different = [k for k in keys if found.get(k) != wanted.get(k)]
    if different:
        parts = [f"{k}: {found.get(k)!r} there, {wanted.get(k)!r} here" for k in different]
        raise OtherStudyError(
            f"the study {name!r} in this storage is another one ({'; '.join(parts)}). Choose another --name."
        )
