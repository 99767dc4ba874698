"""Policies by name from a folder or a server: `hub:NAME`, with the environment variable SHOAL_HUB set to either.

A hub is a folder of exported policies (`shoal export`) with a file `index.json`, which `write_index` makes: the name of
each policy, and the SHA-256 hash of each of its files. A policy of a server is copied into a cache once. Every file is
compared with its hash before it is used. A hub has data only: a policy whose classes are in a user's file is asked for
consent as a run folder is.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen

from shoal.core.errors import DamagedError, did_you_mean
from shoal.specs.disk import replace
from shoal.training.host import cache_dir

VARIABLE = "SHOAL_HUB"
INDEX, VERSION = "index.json", 1
SECONDS = 20.0  # without an answer, after which a server counts as away
LARGEST = 2**30  # bytes of a file
FORBIDDEN = {"", ".", ".."}  # parts of a path that leave its folder, or that no file has


def write_index(folder: Path | str) -> Path:
    """Write the index of the exported policies below a folder, which makes it a hub. Returns the path of the index.

    Raises FileNotFoundError if there are none.
    """
    root = Path(folder)
    manifests = sorted(root.rglob("policy/manifest.json"))
    if not manifests:
        raise FileNotFoundError(
            f"{root} holds no exported policy: `shoal export RUN --out {root / 'NAME'}` writes one."
        )
    policies = {}
    for manifest in manifests:
        policy = manifest.parents[1]
        files = sorted(path for path in policy.rglob("*") if path.is_file())
        policies[policy.relative_to(root).as_posix()] = {
            path.relative_to(policy).as_posix(): _hash(path.read_bytes()) for path in files
        }
    text = json.dumps({"version": VERSION, "policies": policies}, indent=1) + "\n"
    replace(root / INDEX, lambda path: path.write_text(text))
    return root / INDEX


def hub_policies() -> list[str]:
    """Return the names of the policies of the hub; none if SHOAL_HUB is not set. Raises as `fetch`."""
    return sorted(_index(hub)) if (hub := os.environ.get(VARIABLE, "")) else []


def fetch(name: str) -> Path:
    """Return the folder of a policy of the hub, whose files have the hashes of the index.

    Raises ValueError if SHOAL_HUB is not set or the hub has no such policy, ConnectionError if it does not answer, and
    DamagedError if a file has another hash or the index is no index.
    """
    hub = os.environ.get(VARIABLE, "")
    if not hub:
        raise ValueError(f"hub:{name} needs {VARIABLE}: set it to a folder, or to the address of one on a server.")
    policies = _index(hub)
    if name not in policies:
        raise ValueError(f"{hub} has no policy {name!r}.{did_you_mean(name, policies)} `shoal zoo` lists them.")
    files = policies[name]
    if not _is_address(hub):
        folder = Path(hub) / name
        for file, wanted in files.items():
            _check(_read(hub, f"{name}/{file}"), wanted, f"{folder / file}")
        return folder
    kept = cache_dir().parent / "hub" / _hash(json.dumps([hub, name, files]).encode())[:32]
    if kept.is_dir() and all((kept / file).is_file() for file in files):
        for file, wanted in files.items():
            _check((kept / file).read_bytes(), wanted, f"{kept / file}")
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as beside:
        for file, wanted in files.items():
            content = _read(hub, f"{name}/{file}")
            _check(content, wanted, f"{hub}/{name}/{file}")
            path = Path(beside) / "policy" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if not kept.exists():
            (Path(beside) / "policy").rename(kept)
    return kept


def _index(hub: str) -> Mapping[str, Mapping[str, str]]:
    try:
        data = json.loads(_read(hub, INDEX))
    except ValueError as error:
        raise DamagedError(f"{hub}/{INDEX} is no JSON: {error}.") from error
    if not (isinstance(data, dict) and data.get("version") == VERSION and isinstance(data.get("policies"), dict)):
        raise DamagedError(f"{hub}/{INDEX} is no index of version {VERSION}: `shoal zoo --index FOLDER` writes one.")
    for name, files in data["policies"].items():
        hashes = files.values() if isinstance(files, dict) else [None]
        paths = [name, *(files if isinstance(files, dict) else [])]
        if not (all(map(_is_inside, paths)) and all(isinstance(found, str) for found in hashes)):
            raise DamagedError(f"{hub}/{INDEX} has an entry {name!r:.60} that is no policy.")
    return data["policies"]


def _read(hub: str, path: str) -> bytes:
    """The content of a file of the hub."""
    if not _is_address(hub):
        try:
            return (Path(hub) / path).read_bytes()
        except OSError as error:
            raise FileNotFoundError(f"{VARIABLE}: {Path(hub) / path} cannot be read: {error.strerror}.") from error
    address = f"{hub.rstrip('/')}/{quote(path)}"
    try:
        with urlopen(address, timeout=SECONDS) as answer:  # noqa: S310  the address is the user's, and is http or https
            content = answer.read(LARGEST + 1)
    except (OSError, URLError) as error:  # TimeoutError is one
        raise ConnectionError(f"{VARIABLE}: {address} does not answer: {getattr(error, 'reason', error)}.") from error
    if len(content) > LARGEST:
        raise DamagedError(f"{address} is larger than {LARGEST // 2**20:,} MiB: it is no policy.")
    return content


def _check(content: bytes, wanted: str, where: Any) -> None:
    if _hash(content) != wanted:
        raise DamagedError(f"{where} has another hash than the index of the hub says: it was changed or cut off.")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_address(hub: str) -> bool:
    return hub.startswith(("http://", "https://"))


def _is_inside(path: Any) -> bool:
    parts = path.split("/") if isinstance(path, str) else [""]
    return not FORBIDDEN & {*parts} and "\\" not in path and not PurePosixPath(path).is_absolute() and ":" not in path
