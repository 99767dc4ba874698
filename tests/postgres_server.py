"""Fixtures of a real PostgreSQL server, which is started from the programs of the system (Debian: postgresql)."""

import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from shoal.studies.storage import open_storage

PASSWORD = "s3cr%et/@"
IN_URL = "s3cr%25et%2F%40"


def program(name):
    """The path of a program of PostgreSQL, the newest on this system. Skips the test where there is none."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: int(path.split("/")[4]))
    path = found[-1] if found else shutil.which(name)
    if path is None:
        pytest.skip(f"PostgreSQL is not installed: no {name} in /usr/lib/postgresql/*/bin or PATH")
    return path


class Server:
    """A PostgreSQL server in a folder of its own. It refuses to run as root: then it runs as an unprivileged user."""

    def __init__(self, folder):
        self.folder, self.data = folder, folder / "data"
        self.user = next((name for name in ("postgres", "nobody") if _exists(name)), None) if os.getuid() == 0 else None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.url = f"postgresql://me:{IN_URL}@{self.host}/postgres"

    def make(self):
        (self.folder / "password").write_text(PASSWORD)
        if self.user is not None:
            for path in (self.folder, self.folder / "password"):
                shutil.chown(path, self.user)
        secret = ["--auth=scram-sha-256", f"--pwfile={self.folder}/password"]
        self._run(program("initdb"), "-D", self.data, "-U", "me", "--no-sync", *secret)

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        self._run(program("pg_ctl"), "-D", self.data, "-l", self.folder / "log", "-o", options, "-w", "start")

    def stop(self, how="immediate"):
        self._run(program("pg_ctl"), "-D", self.data, "-m", how, "-w", "stop")

    def _run(self, *command):
        words, log = [str(word) for word in command], self.folder / "output"
        with open(log, "w") as output:  # a pipe would stay open in the server
            done = subprocess.run(words, stdout=output, stderr=output, user=self.user, cwd="/", timeout=100)
        assert done.returncode == 0, log.read_text()


def _exists(user):
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


@pytest.fixture(scope="module")
def server():
    pytest.importorskip("psycopg", reason="the package psycopg is not installed")
    program("initdb")
    folder = Path(tempfile.mkdtemp(prefix="shoal-postgres-"))  # short: the path of a socket has at most 107 bytes
    server = Server(folder)
    try:
        server.make()
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear(server):
    """Forget the study of the test before."""
    import optuna

    storage = open_storage(server.url)
    for name in optuna.get_all_study_names(storage):
        optuna.delete_study(study_name=name, storage=storage)


@pytest.fixture
def url(server):
    clear(server)
    return server.url
