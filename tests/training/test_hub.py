"""Policies of a hub: from a folder and from a server on this machine, with hashes that are compared."""

import functools
import http.server
import json
import shutil
import socket
import threading

import numpy as np
import pytest

import shoal
from commands import refused, say
from shoal.core.errors import DamagedError
from shoal.training.folder import ZOO, zoo
from shoal.training.hub import INDEX, fetch, hub_policies, write_index

NAME = "q-learning/CliffWalking-v1"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder with one policy of the zoo and its index, to which SHOAL_HUB is set."""
    shutil.copytree(ZOO / NAME, tmp_path / "hub" / NAME)
    write_index(tmp_path / "hub")
    monkeypatch.setenv("SHOAL_HUB", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "hub"


@pytest.fixture
def server(hub, monkeypatch):
    """The same folder behind a server on loopback: (the folder, the paths that were asked for)."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(hub)))
    threading.Thread(target=served.serve_forever, daemon=True).start()
    monkeypatch.setenv("SHOAL_HUB", f"http://127.0.0.1:{served.server_port}")
    yield hub, asked
    served.shutdown()
    served.server_close()


def test_a_policy_of_a_folder_is_that_of_the_zoo(hub, capsys):
    policy, known = shoal.load(f"hub:{NAME}"), shoal.load(f"zoo:{NAME}")
    assert [int(policy(np.int32(state))) for state in range(37)] == [int(known(np.int32(state))) for state in range(37)]
    assert f"hub:{NAME}" in say(capsys, "zoo")[1].splitlines()
    assert say(capsys, "zoo", "--index", str(hub))[1].strip() == str(hub / INDEX)
    assert say(capsys, "eval", f"hub:{NAME}", "--episodes", "2")[0] == 0


def test_the_zoo_is_a_hub(monkeypatch):
    monkeypatch.setenv("SHOAL_HUB", str(ZOO))
    assert hub_policies() == zoo()
    for name in zoo():
        assert fetch(name) == ZOO / name


def test_a_policy_of_a_server_is_copied_once(server):
    _, asked = server
    folder = fetch(NAME)
    first = len(asked)
    assert fetch(NAME) == folder and asked[first:] == [f"/{INDEX}"] and first > 4
    assert shoal.load(f"hub:{NAME}") and hub_policies() == [NAME]
    (folder / "spec.json").write_text("{}")
    with pytest.raises(DamagedError, match="another hash"):
        fetch(NAME)


@pytest.mark.parametrize("file", ["spec.json", "policy/policies.npz"])
def test_a_changed_file_is_refused(server, file, monkeypatch):
    hub, _ = server
    path = hub / NAME / file
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(DamagedError, match=f"{file} has another hash"):
        fetch(NAME)
    monkeypatch.setenv("SHOAL_HUB", str(hub))
    with pytest.raises(DamagedError, match=f"{file} has another hash"):
        shoal.load(f"hub:{NAME}")


@pytest.mark.parametrize(
    "index",
    [
        "not JSON",
        "[]",
        {"version": 2, "policies": {}},
        {"version": 1, "policies": []},
        {"version": 1, "policies": {"../secret": {"spec.json": "0"}}},
        {"version": 1, "policies": {"a": {"../../spec.json": "0"}}},
        {"version": 1, "policies": {"a": {"/etc/passwd": "0"}}},
        {"version": 1, "policies": {"a": {"C:\\x": "0"}}},
        {"version": 1, "policies": {"a": {"spec.json": 3}}},
        {"version": 1, "policies": {"a": ["spec.json"]}},
    ],
)
def test_an_index_that_is_none_is_refused(server, index):
    hub, _ = server
    (hub / INDEX).write_text(index if isinstance(index, str) else json.dumps(index))
    with pytest.raises(DamagedError, match=INDEX):
        fetch("a")


def test_mistakes_are_said_in_one_line(hub, capsys, monkeypatch, tmp_path):
    assert "Did you mean q-learning/CliffWalking-v1?" in refused(capsys, "eval", "hub:q-learning/CliffWalking")
    monkeypatch.setenv("SHOAL_HUB", str(tmp_path / "none"))
    assert "none/index.json cannot be read: No such file" in refused(capsys, "eval", f"hub:{NAME}")
    monkeypatch.delenv("SHOAL_HUB")
    assert f"hub:{NAME} needs SHOAL_HUB" in refused(capsys, "eval", f"hub:{NAME}")
    with pytest.raises(FileNotFoundError, match="holds no exported policy"):
        write_index(tmp_path / "cache")
    with socket.socket() as closed:  # a port on which nobody listens
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("SHOAL_HUB", f"http://127.0.0.1:{closed.getsockname()[1]}")
        assert "does not answer" in refused(capsys, "eval", f"hub:{NAME}")


def test_a_server_that_is_slow_counts_as_away(hub, monkeypatch):
    monkeypatch.setattr("shoal.training.hub.SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("SHOAL_HUB", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(ConnectionError, match="does not answer: .*timed out"):
            fetch(NAME)
