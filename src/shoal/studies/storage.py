"""Where the trials of a study are kept: open an Optuna storage from a URL, and the study in it.

    journal:PATH                           a log file, the default: for workers of one machine or one shared disk
    sqlite:PATH  sqlite:///PATH            a SQLite database; every suggestion takes about 0.1 s
    postgresql://user:password@host/base   a PostgreSQL server, for workers on several machines
    memory                                 this process; nothing is kept
    $NAME                                  the URL is in the environment variable NAME

A password is never written: `redacted` (`shoal.core.secrets`) is for messages, `without_password` for files.
Resuming from such a file needs the password again: in PGPASSWORD or ~/.pgpass, both of which PostgreSQL's library
reads, or in the variable of `$NAME`.
"""

import difflib
import json
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import optuna
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import TrialState

from shoal.core.errors import need
from shoal.core.secrets import password_of, redacted, scrubbed
from shoal.studies.errors import OtherStudyError, StorageError
from shoal.studies.journal import JournalFile, open_file
from shoal.studies.patience import PATIENCE, PatientStorage

Direction = Literal["maximize", "minimize"]
SCHEMES = ("journal", "sqlite", "postgresql", "memory")
POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")
DESCRIPTION = "shoal"  # the study's user attribute that says what it searches
FORMS = "journal:PATH, sqlite:PATH, postgresql://user@host/database, memory, or $NAME for a URL in a variable"
CONNECT_SECONDS = 10
MOST_ATTEMPTS = 5  # to make the tables of a database
LOST = (
    "Its folder says that it has begun, so its trials were lost: restore them from a copy, or begin a new study with "
    "another --name. A study in memory ends with its process."
)
SQLITE = b"SQLite format 3\0"  # the first bytes of a file
LOCKED_SECONDS = 60  # how long SQLite waits for another process that writes


def open_storage(
    url: str, say: Callable[[str], object] = lambda text: None, patience: float = PATIENCE, is_new: bool = True
) -> BaseStorage:
    """Return the storage at a URL. A journal or SQLite file is made if it does not exist, with its folder, if `is_new`.

    A database that goes away later is waited for, `patience` seconds at most; messages about it go to `say`.
    Raises ValueError for a URL of no known form, ImportError where psycopg is missing, StorageError if the file or
    the server cannot be used.
    """
    url = resolved(url)
    scheme, rest = _parts(url)
    if scheme == "memory":
        return InMemoryStorage()
    path = _path_of(rest)
    if scheme in ("journal", "sqlite") and not is_new:
        _refuse_lost(path)
    if scheme == "journal":
        return JournalFile(path)
    if scheme == "sqlite":
        _make_writable(path)
        database, name = _open_database(f"sqlite:///{path}", url, {"timeout": LOCKED_SECONDS}), f"the database {path}"
    else:
        need("psycopg", "postgres", "a storage in PostgreSQL")
        database = _open_database(f"postgresql+psycopg:{rest}", url, {"connect_timeout": CONNECT_SECONDS})
        name = f"the server of {redacted(url)}"
    cached = optuna.storages.get_storage(database)
    opened = PatientStorage(cached, name, say, lambda text: scrubbed(text, url), patience)
    weakref.finalize(opened, database.engine.dispose)  # closes the connections
    return opened


def open_study(
    storage: str | BaseStorage,
    name: str,
    description: Mapping[str, Any],
    directions: Sequence[Direction],
    sampler: optuna.samplers.BaseSampler | None = None,
    pruner: optuna.pruners.BasePruner | None = None,
    say: Callable[[str], object] = lambda text: None,
    is_new: bool = True,
) -> optuna.Study:
    """Return the study `name` of a storage (or URL); it is made if there is none and `is_new`.

    description: what the study searches, as JSON data: agent, env, search space, steps, records, seeds, objectives. It
        is kept in the study. directions: one for each objective. sampler, pruner: of this process; not kept.
    Raises OtherStudyError if the study exists and its description or its directions differ, StorageError if a study
    that is not new is not there, and what `open_storage` raises.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    opened = open_storage(storage, say, is_new=is_new) if isinstance(storage, str) else storage
    if not is_new and name not in optuna.get_all_study_names(opened):
        raise StorageError(f"the storage of the study {name!r} has no study of this name. {LOST}")
    wanted = {**json.loads(json.dumps(description)), "directions": list(directions)}
    study = optuna.create_study(
        storage=opened,
        study_name=name,
        directions=list(directions),
        sampler=sampler,
        pruner=pruner,
        load_if_exists=True,
    )
    found = study.user_attrs.get(DESCRIPTION)
    if found is None and not study.get_trials(deepcopy=False):  # new, or its maker was killed before this
        study.set_user_attr(DESCRIPTION, wanted)
        return study
    _refuse_another(name, found, wanted)
    return study


def refuse_trials_of_another_folder(study: optuna.Study) -> None:
    """Raise OtherStudyError if a new study, which has no folder yet, has trials that were trained already.

    Their runs are in another folder, so the best of them could not be trained again.
    """
    begun = [trial for trial in study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]
    if begun:
        raise OtherStudyError(
            f"this storage already has {len(begun)} trial{'s' * (len(begun) > 1)} of a study {study.study_name!r}, "
            f"which has another folder. Continue that one with `shoal tune --resume FOLDER`, or choose another --name."
        )


def resolved(url: str) -> str:
    """Return the URL itself, or for `$NAME` the one in the environment variable NAME. Raises ValueError if unset."""
    if not url.startswith("$"):
        return url
    name = url[1:].strip("{}")
    if not os.environ.get(name):
        raise ValueError(f"--storage {url}: the environment variable {name} is not set. Set it to {FORMS}.")
    return os.environ[name]


def password_variables(url: str) -> dict[str, str]:
    """Return the variables with which other processes, also on other machines, open a URL without its password.

    Those of `$NAME` are NAME itself, and PGPASSWORD if its URL has a password.
    """
    password = password_of(resolved(url))
    named = {url[1:].strip("{}"): resolved(url)} if url.startswith("$") else {}
    return {**named, **({"PGPASSWORD": password} if password else {})}


def _parts(url: str) -> tuple[str, str]:
    """(the scheme, what follows its colon). Raises ValueError for another form, with the nearest scheme."""
    scheme, _, rest = url.partition(":")
    if url == "memory" or (scheme in ("journal", "sqlite") and rest.strip("/")):
        return scheme, rest
    if scheme in POSTGRES and rest.startswith("//"):
        _refuse_raw_password(url)
        return "postgresql", rest
    near = difflib.get_close_matches(scheme.lower(), SCHEMES, n=1, cutoff=0.7)
    form = {"postgresql": "postgresql://user@host/database", "memory": "memory"}
    meant = f" Did you mean {form.get(near[0], f'{near[0]}:PATH')}?" if near else ""
    raise ValueError(f"--storage {redacted(url)}: a storage is not written like this.{meant} Give {FORMS}.")


def _refuse_raw_password(url: str) -> None:
    """Refuse `@`, `/` and other signs in a password, which would end it: libraries then print its second part."""
    head, at, host = url.partition("?")[0].rpartition("@")
    password = head.partition("//")[2].partition(":")[2]
    if (at and any(sign in password for sign in "@/#[] ")) or "@" in host:
        raise ValueError(
            f"--storage {redacted(url)}: write @ / # [ ] and spaces in a password as %40 %2F %23 %5B %5D %20, or leave "
            f"the password out and set PGPASSWORD."
        )


def _path_of(rest: str) -> Path:
    """The path of a file: `runs/study.log`, or after `///` as SQLAlchemy writes it."""
    return Path(rest[3:] if rest.startswith("///") else rest).expanduser()


def _refuse_lost(path: Path) -> None:
    """Raise StorageError if the file of a study that has begun is not there, or is empty."""
    if not path.exists() or path.is_file() and not path.stat().st_size:
        raise StorageError(f"{path} with the trials of the study {'is empty' if path.exists() else 'is gone'}. {LOST}")


def _make_writable(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(open_file(path, SQLITE, "a database of SQLite"))
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path} cannot be opened: {error.strerror}. Choose another --storage.") from error


def _open_database(url: str, given: str, connect: Mapping[str, Any]) -> RDBStorage:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        return _made_together(
            lambda: RDBStorage(url, engine_kwargs={"connect_args": dict(connect), "pool_pre_ping": True})
        )
    except (SQLAlchemyError, ValueError, RuntimeError) as error:  # the last two: of another version of Optuna
        reason = " ".join(scrubbed(str(getattr(error, "orig", None) or error), given).split())
        if "no password" in reason:
            reason += ". Set PGPASSWORD, write ~/.pgpass, or give the URL with its password again"
        raise StorageError(f"--storage {redacted(given)} cannot be used: {reason}.") from None


def _made_together(make: Callable[[], RDBStorage]) -> RDBStorage:
    """Make a database again where another worker made its tables at the same time."""
    from sqlalchemy.exc import DBAPIError

    for attempt in range(MOST_ATTEMPTS):
        try:
            return make()
        except DBAPIError as error:
            if attempt == MOST_ATTEMPTS - 1 or not any(word in str(error) for word in ("already exists", "UNIQUE")):
                raise
            time.sleep(0.5)
    raise AssertionError("not reached")


def _refuse_another(name: str, found: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> None:
    if found is None:
        raise OtherStudyError(f"the study {name!r} in this storage was not made by shoal. Choose another --name.")
    if different := list(_differences(found, wanted)):
        raise OtherStudyError(
            f"the study {name!r} in this storage searches something else: {'; '.join(different)}. Ask for the same to "
            f"go on with it, or choose another --name."
        )


def _differences(found: Any, wanted: Any, where: str = "") -> Iterator[str]:
    """The differences of two descriptions, as `steps: 100 there, 200 here`; within mappings each key by itself."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for key in dict.fromkeys([*found, *wanted]):
            yield from _differences(found.get(key), wanted.get(key), f"{where}.{key}" if where else str(key))
    elif found != wanted:
        yield f"{where}: {_shown(found)} there, {_shown(wanted)} here"


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
