"""A run folder with one damaged file is refused in one line, or read as far as possible.

There is never a traceback, an endless loop, or unbounded memory.
"""

import io
import itertools
import json
import os
import shutil
import sys
import traceback
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest

import shoal
from listeners import Listener
from shoal.core.errors import DamagedError
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.population import Population, Programs
from shoal.viz.curves import plot_run
from tiny import SILENT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no pipes among its files")
HOME = str(Path(shoal.__file__).parent)
NEWEST, BEST = "checkpoints/newest", "checkpoints/best"


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of two members, with two checkpoints."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = {
        "fields": {"num_steps": 8},
        "steps": 64,
        "records": 3,
        "evaluations": 3,
        "eval_episodes": 2,
        "eval_max_steps": 5,
        "seeds": 2,
    }
    shoal.train("q-learning", "CliffWalking-v1", folder=folder, preset=None, **options, **SILENT)
    with np.load(folder / BEST / "policies.npz") as policies:
        POLICY.update(policies)
    return folder


@pytest.fixture(autouse=True)
def _no_compiling(monkeypatch):
    """Resuming compiles nothing, and stops where it would train."""

    def train(*_):
        raise Trained

    def compile_nothing(self):
        self.programs = Programs(train, train, train, None, 0.0)
        return 0.0

    monkeypatch.setattr(Population, "compile", compile_nothing)


class Trained(Exception):
    """Raised where a resumed run would train."""


def resume(folder):
    listener = Listener()
    try:
        shoal.train(resume=folder, progress=False, sinks=[listener], figures=False, cache=False)
    except Trained:
        assert listener.heard, "went on from another place, and did not say so"


def restore(place):
    """The policies of a checkpoint, without a plan made and traced for each of them."""

    def read(folder):
        folder = RunFolder(folder)
        found = folder.best if place == BEST else checkpoint.newest(folder.checkpoints)
        return checkpoint.restore(found, checkpoint.POLICIES, POLICY, folder.spec_hash)

    return read


POLICY = {}  # filled by `run`
READERS = {
    "load": lambda folder: shoal.load(folder, 0),
    "restore": restore(NEWEST),
    "restore the best": restore(BEST),
    "provenance": lambda folder: RunFolder(folder).provenance_changes(PROVENANCE),
    "result": lambda folder: (shoal.load_result(folder)._repr_html_(), shoal.load_result(folder).ranking()),
    "plot": plot_run,
    "resume": resume,
}
PROVENANCE = {"packages": {"jax": "0"}, "cpu": "", "devices": [], "xla_flags": ""}
READ_BY = {
    "spec.json": ("result", "plot"),
    "provenance.json": ("provenance",),
    "summary.json": ("result",),
    "curves.npz": ("result", "plot"),
    f"{NEWEST}/manifest.json": ("restore",),
    f"{NEWEST}/policies.npz": ("restore",),
    f"{BEST}/manifest.json": ("restore the best",),
    f"{BEST}/policies.npz": ("restore the best",),
}
REPLACED = ("metrics.jsonl", ".lock")  # by a run that goes on
REPORTED = (f"{NEWEST}/manifest.json", f"{NEWEST}/learners.npz", f"{BEST}/policies.npz", "curves.npz")


def copy_of(run, where):
    """A copy of a run, and the names of its parts there."""
    copy = Path(shutil.copytree(run, where))
    newest = checkpoint.newest(copy / "checkpoints").relative_to(copy)
    return copy, lambda name: copy / name.replace(NEWEST, str(newest))


def refusal(reader, folder):
    """The error that a reader ends with, which must be one line of shoal's own; None where it ends well."""
    try:
        (READERS[reader] if isinstance(reader, str) else reader)(folder)
    except (ValueError, TypeError, OSError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        assert last.filename.startswith(HOME), "".join(traceback.format_exception(error))
        assert "\n" not in str(error) and len(str(error)) < 1000
        return error
    return None


# Damage to any file.


def link_to(target):
    def link(path):
        path.unlink()
        path.symlink_to(target)

    return link


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def folder_in_place(path):
    path.unlink()
    path.mkdir()


ACCIDENTS = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(np.random.default_rng(0).bytes(500)),
    "a pipe": fifo,
    "a folder": folder_in_place,
    "an endless device": link_to("/dev/zero"),
    "a link to nothing": link_to("nowhere"),
    "a link to itself": lambda path: link_to(path.name)(path),
    "2 GB of nothing": lambda path: os.truncate(path, 2 * 10**9),
}


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_damage_to_any_file_gives_one_line(accident, run, tmp_path):
    for number, name in enumerate(READ_BY):
        folder, at = copy_of(run, tmp_path / str(number))
        ACCIDENTS[accident](at(name))
        for reader in READ_BY[name]:
            error = refusal(reader, folder)
            assert error or (accident, name) == ("missing", "summary.json"), f"{reader} took {name} as it was"


@pytest.mark.sampled(6)  # two files for each kind of damage
@pytest.mark.parametrize("name", [*REPLACED, *REPORTED, f"{NEWEST}/policies.npz"])
@pytest.mark.parametrize("accident", ["half", "a pipe", "a folder"])
def test_a_run_that_resumes_after_damage_says_so(accident, name, run, tmp_path):
    folder, at = copy_of(run, tmp_path / "run")
    ACCIDENTS[accident](at(name))
    refusal("resume", folder)  # which asserts that a run says why it goes on from elsewhere


# Damage to JSON files.

VALUES = (None, True, -1, 1.5, "text", [], [[]], {}, {"a": [{}]})


def other_values(data):
    """The data of a file with one name missing, or one value of another type, in turn."""
    for name, value in data.items():
        yield {k: v for k, v in data.items() if k != name}
        yield from ({**data, name: other} for other in VALUES if type(other) is not type(value))
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from ({**data, name: [item, *value[1:]]} for item in other_values(value[0]))


TEXTS = ("null", "[]", "7", "{}", '{"agent": NaN}', "[" * 100_000, '{"a": 1' + "0" * 5000 + "}", "\ufeff{}", "\0")


JSON_READERS = {
    "spec.json": lambda folder: shoal.load_result(folder).members,
    "provenance.json": READERS["provenance"],
    "summary.json": READERS["result"],
    f"{NEWEST}/manifest.json": READERS["restore"],
}


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", JSON_READERS)
def test_json_of_another_structure_gives_one_line(name, every, run, tmp_path):
    """`every`: one in so many of the values is tried, of changing names and types."""
    folder, at = copy_of(run, tmp_path / "run")
    whole = at(name).read_text()
    for text in TEXTS:
        at(name).write_text(text)
        assert isinstance(refusal(JSON_READERS[name], folder), DamagedError), text[:20]
    for data in itertools.islice(other_values(json.loads(whole)), 0, None, every):
        at(name).write_text(json.dumps(data))
        error = refusal(JSON_READERS[name], folder)
        assert error or "manifest" not in name, data
    at(name).write_text(whole)
    assert refusal(JSON_READERS[name], folder) is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "change",
    [
        {"agent": "q-lerning"},
        {"agent": "os:path"},
        {"env": "shoal.nowhere:Env"},
        {"env": ""},
        {"seeds": 3},
        {"fields": {"nowhere": 1}},
        {"sweep": {"learning_rate": 1}},
        {"sweep": {"learning_rate": []}},
        {"env_sweep": {"nowhere": [1]}},
        {"env_fields": {"nowhere": {}}},
        {"prng": "dice"},
        {"nowhere": 1},
    ],
    ids=str,
)
def test_another_spec_gives_one_line(change, run, tmp_path):
    folder, at = copy_of(run, tmp_path / "run")
    at("spec.json").write_text(json.dumps({**json.loads(at("spec.json").read_text()), **change}))
    assert refusal("load", folder)
    refusal("plot", folder)


def test_a_value_of_another_type_is_named(run, tmp_path):
    folder, at = copy_of(run, tmp_path / "run")
    summary = json.loads(at("summary.json").read_text())
    summary["per_member"][1]["last"] = "high"
    at("summary.json").write_text(json.dumps(summary))
    said = (
        r"summary.json is damaged .*: per_member\[1\].last is a string, not an integer or a number or null. `shoal tr"
    )
    with pytest.raises(DamagedError, match=said):
        shoal.load_result(folder).summary  # noqa: B018
    summary["per_member"] = summary["per_member"][:1]
    at("summary.json").write_text(json.dumps({**summary}))
    with pytest.raises(DamagedError, match="it does not have the 1 settings and 2 members of spec.json"):
        shoal.load_result(folder).summary  # noqa: B018


# Damage to arrays.


def rewritten(change):
    def rewrite(path):
        with np.load(path) as file:
            arrays = change(dict(file))
        np.savez(path, **arrays)

    return rewrite


def with_member(name, content, declared=None):
    """Put a file into an archive, which may declare another size for it."""

    def put(path):
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)
        if declared:
            data = bytearray(path.read_bytes())
            there = data.rindex(b"PK\x01\x02")  # the last entry of the directory: its size lies 24 bytes on
            data[there + 24 : there + 28] = declared.to_bytes(4, "little")
            path.write_bytes(data)

    return put


def npy(array, **header):
    """An array as in an .npz, whose header may say something else."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {**np.lib.format.header_data_from_array_1_0(array), **header})
    return file.getvalue() + array.tobytes()


def nan(array):
    return np.full_like(array, np.nan)


OF_ARRAYS = {
    "an archive bomb": with_member("bomb.npy", npy(np.zeros(80 * 2**20, np.uint8))),
    "a size that is a lie": with_member("a.npy", npy(np.zeros(3)), 2**31),
    "a shape that is a lie": with_member("a.npy", npy(np.zeros(3), shape=(10**14,))),
    "a shape below zero": with_member("a.npy", npy(np.zeros(3), shape=(-1, -3))),
    "a pickle": with_member("a.npy", npy(np.zeros(1), descr="|O")),
    "text": with_member("read me.txt", b"words"),
    "a header of words": with_member("a.npy", b"\x93NUMPY\x01\x00\x06\x00words\n"),
    "a column more": rewritten(lambda arrays: {**arrays, "more": np.zeros(3)}),
    "a column less": rewritten(lambda arrays: {k: v for k, v in arrays.items() if k != "eval_return"}),
    "a record less": rewritten(lambda arrays: {k: v[:-1] for k, v in arrays.items()}),
    "a record less in one": rewritten(lambda arrays: {**arrays, "eval_return": arrays["eval_return"][:-1]}),
    "a member less": rewritten(lambda arrays: {k: v[:, :1] if v.ndim == 2 else v for k, v in arrays.items()}),
    "words": rewritten(lambda arrays: {**arrays, "eval_return": arrays["eval_return"].astype("U5")}),
    "complex": rewritten(lambda arrays: {**arrays, "episodes": arrays["episodes"] + 0j}),
    "scalars": rewritten(lambda arrays: {k: np.float64(0) for k in arrays}),
}
FOR_RUNS_THAT_GO_ON = {
    "other numbers": rewritten(lambda arrays: {**arrays, "eval_return": arrays["eval_return"] + 1}),
    "no numbers": rewritten(lambda arrays: {**arrays, "eval_return": nan(arrays["eval_return"])}),
    "another precision": rewritten(lambda arrays: {**arrays, "wall_seconds": arrays["wall_seconds"].astype("f2")}),
    "another type": rewritten(lambda arrays: {**arrays, "alive": arrays["alive"].astype(np.int8)}),
    "swapped columns": rewritten(
        lambda arrays: {**arrays, "eval_return": arrays["eval_length"], "eval_length": arrays["eval_return"]}
    ),
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("damage", OF_ARRAYS)
def test_damaged_curves_are_refused(damage, run, tmp_path):
    folder, at = copy_of(run, tmp_path / "run")
    OF_ARRAYS[damage](at("curves.npz"))
    if damage != "a record less":  # which a run that was stopped has, too
        assert isinstance(refusal("result", folder), DamagedError)
        assert isinstance(refusal("plot", folder), DamagedError)
    assert refusal("resume", folder) or damage == "a record less"  # goes on from the checkpoint before


@pytest.mark.sampled(2)
@pytest.mark.parametrize("damage", FOR_RUNS_THAT_GO_ON)
def test_a_run_does_not_resume_from_other_curves(damage, run, tmp_path):
    folder, at = copy_of(run, tmp_path / "run")
    FOR_RUNS_THAT_GO_ON[damage](at("curves.npz"))
    with pytest.raises(DamagedError, match="curves.npz .*records differ from those at the time of the checkpoint"):
        resume(folder)


def test_a_run_stopped_between_writing_curves_and_checkpoint_resumes(run, tmp_path):
    folder, at = copy_of(run, tmp_path / "run")
    shutil.rmtree(checkpoint.newest(folder / "checkpoints"))
    with pytest.raises(Trained):
        shoal.train(resume=folder, **SILENT)
    with np.load(at("curves.npz")) as curves:
        assert len(curves["env_steps"]) == 3
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("damage", OF_ARRAYS)
def test_arrays_of_a_checkpoint_are_checked_even_where_the_hash_is_right(damage, tmp_path):
    like = {"eval_return": np.zeros((4, 2), np.float32), "episodes": np.zeros(3, np.int32)}
    checkpoint.save(tmp_path / "step-1", {"policies": like}, "", {})
    file = checkpoint.file_of(tmp_path / "step-1", "policies")
    OF_ARRAYS[damage](file)
    manifest = json.loads((tmp_path / "step-1" / "manifest.json").read_text())
    manifest["parts"]["policies"] |= {"bytes": file.stat().st_size, "sha256": checkpoint.hash_of_file(file)}
    manifest["sha256"] = checkpoint.hash_of_manifest(manifest)
    (tmp_path / "step-1" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DamagedError):
        checkpoint.restore(tmp_path / "step-1", "policies", like, "")


# Damage to checkpoints.


def test_a_run_does_not_resume_from_a_symlinked_manifest(run, tmp_path):
    folder, at = copy_of(run, tmp_path / "run")
    for manifest in (folder / "checkpoints").glob("step-*/manifest.json"):
        shutil.move(manifest, manifest.with_name("there.json"))
        manifest.symlink_to("there.json")
    with pytest.raises(DamagedError, match="manifest.json .* it is a link, and a run goes on from its own files only"):
        resume(folder)
    assert shoal.load(folder, 0) is not None  # a policy may lie in a store of linked files


@pytest.mark.parametrize("newest_is_lost", [False, True])
def test_incomplete_checkpoints_of_a_stopped_run_are_removed(newest_is_lost, run, tmp_path):
    folder, _ = copy_of(run, tmp_path / "run")
    there = folder / "checkpoints"
    before = sorted(path.name for path in there.iterdir())
    newest = checkpoint.newest(there)
    for left in ("step-000000000000", "step-000000000000.retired", "step-9.partial", "best.retired", "best.partial"):
        shutil.copytree(newest, there / left)
    (there / "step-8.partial").write_text("a file")
    if newest_is_lost:
        (newest / "manifest.json").unlink()
    resume(folder)
    assert sorted(path.name for path in there.iterdir()) == before


def test_retired_best_policies_of_a_stopped_run_are_restored(run, tmp_path):
    folder, _ = copy_of(run, tmp_path / "run")
    best = folder / "checkpoints" / "best"
    best.rename(best.with_name("best.retired"))
    assert shoal.load(folder, 0, which="best") is not None
    shoal.train(resume=folder, **SILENT)
    assert best.is_dir() and not best.with_name("best.retired").exists()


def test_the_next_save_removes_incomplete_checkpoints(tmp_path):
    for n in range(4):
        checkpoint.save(tmp_path / f"step-{n}", {"policies": {"x": np.zeros(2)}}, "", {})
    for left in ("step-0.retired", "step-9.partial"):
        (tmp_path / left).mkdir()
    checkpoint.keep_newest(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-2", "step-3"]
