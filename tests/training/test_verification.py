"""`shoal.verify`: an honest run is verified, and any change of a file is found."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import shoal
from listeners import Interrupt
from shoal.core.errors import DamagedError
from shoal.training import checkpoint, execution
from shoal.training.records import Records, _fingerprint
from shoal.training.stopping import Stopped
from tiny import SILENT

RUN = {
    "agent": "q-learning",
    "env": "FrozenLake-v1",
    "fields": {"num_steps": 100},
    "steps": 400,
    "records": 4,
    "evaluations": 2,
    "eval_episodes": 5,
    **SILENT,
}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A finished run that no test changes."""
    folder = tmp_path_factory.mktemp("original") / "run"
    return shoal.train(**RUN, seeds=3, keep_checkpoints=2, folder=folder).folder


@pytest.fixture
def run(original, tmp_path):
    """A copy of the run."""
    return Path(shutil.copytree(original, tmp_path / "run"))


def newest(run):
    return checkpoint.saved(run / "checkpoints")[0]


def contents(run):
    """The bytes of every file of a run, by its path."""
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}


def edit(name, change):
    """Change the data of a JSON file of a run."""

    def apply(run):
        file = newest(run) / name if name == "manifest.json" else run / name
        data = json.loads(file.read_text())
        change(data)
        file.write_text(json.dumps(data))

    return apply


def put(name, value):
    """Change one entry of spec.json."""
    return edit("spec.json", lambda data: data.update({name: value}))


def field(name, value):
    """Change one hyperparameter in spec.json."""
    return edit("spec.json", lambda data: data["fields"].update({name: value}))


def in_summary(*path, value=0.125):
    """Change one number of summary.json."""

    def change(data):
        for name in path[:-1]:
            data = data[name]
        data[path[-1]] = value

    return edit("summary.json", change)


def curves(change):
    """Change the columns of curves.npz."""

    def apply(run):
        with np.load(run / "curves.npz") as file:
            columns = {name: file[name] for name in file.files}
        columns = change(columns) or columns
        np.savez(run / "curves.npz", **columns)

    return apply


def at(name, where, value):
    """Change one number of the curves."""
    return curves(lambda columns: columns[name].__setitem__(where, value))


def flip(part, which=0, where=0.5):
    """Flip a bit in the middle of a file of a checkpoint."""

    def apply(run):
        folder = run / "checkpoints" / which if isinstance(which, str) else checkpoint.saved(run / "checkpoints")[which]
        data = bytearray((folder / part).read_bytes())
        data[int(len(data) * where)] ^= 1
        (folder / part).write_bytes(data)

    return apply


def lines(change):
    """Change the lines of metrics.jsonl."""

    def apply(run):
        file = run / "metrics.jsonl"
        file.write_text("".join(change(file.read_text().splitlines(keepends=True))))

    return apply


def swapped(run):
    """Exchange two checkpoints."""
    one, other = checkpoint.saved(run / "checkpoints")[:2]
    one.rename(run / "aside")
    other.rename(one)
    (run / "aside").rename(other)


CHANGES = {
    "spec.json": [
        field("learning_rate", 0.2),
        field("num_steps", 50),
        field("discount", 0.9),
        edit("spec.json", lambda data: data["env_fields"].pop("is_slippery")),
        put("seed", 1),
        put("seeds", 2),
        put("steps", 800),
        put("records", 8),
        put("eval_episodes", 100),
        put("prng", "threefry2x32"),
        put("agent", "sarsa"),
        put("env", "FrozenLake8x8-v1"),
        edit("spec.json", lambda data: data.update(first_steps=400, steps=800)),
    ],
    "curves.npz": [
        at("train_return", (0, 0), 0.5),
        at("eval_return", (-1, 2), 1.0),
        at("episodes", (1, 1), 3),
        at("alive", (3, 0), False),
        at("env_steps", 2, 250),
        at("wall_seconds", 0, 0.0),
        at("train_length", (2, 0), np.nan),
        curves(lambda columns: {name: column[:-1] for name, column in columns.items()}),
        curves(lambda columns: {name: np.concatenate([column, column[-1:]]) for name, column in columns.items()}),
        curves(lambda columns: {name: c[:, ::-1] if c.ndim == 2 else c for name, c in columns.items()}),
        curves(lambda columns: {name: column for name, column in columns.items() if name != "resets_reused"}),
        curves(lambda columns: {**columns, "loss": columns["episodes"]}),
    ],
    "summary.json": [
        in_summary("last", "mean"),
        in_summary("last", "members", value=2),
        in_summary("best", "mean"),
        in_summary("best", "max", value=1.0),
        in_summary("settings", 0, "mean"),
        in_summary("per_member", 1, "last"),
        in_summary("per_member", 2, "best", value=1.0),
        in_summary("per_member", 0, "name", value="seed=7"),
        in_summary("steps_per_member", value=500),
        in_summary("steps_per_second", value=1e9),
        in_summary("train_seconds", value=0.0),
        in_summary("total_seconds", value=0.5),
        in_summary("headline", value="state of the art"),
        edit("summary.json", lambda data: data.pop("evaluation_episodes_cut_off")),
    ],
    "checkpoints": [
        flip("learners.npz"),
        flip("learners.npz", which=1),
        flip("policies.npz"),
        flip("policies.npz", which=2),
        flip("policies.npz", which="best"),
        flip("run.npz"),
        flip("manifest.json", where=0.99),
        edit("manifest.json", lambda data: data["about"].update(updates=3)),
        edit("manifest.json", lambda data: data["about"].update(env_revision=9)),
        lambda run: (newest(run) / "learners.npz").unlink(),
        flip("manifest.json", which="best"),
        swapped,
    ],
    "metrics.jsonl": [
        lines(lambda text: text[:-1]),
        lines(lambda text: [*text, text[-1]]),
        lines(lambda text: text[::-1]),
        lines(lambda text: []),
        lines(lambda text: [text[0].replace("0", "1", 1), *text[1:]]),
        lines(lambda text: [text[0], text[0], *text[2:]]),
        lines(lambda text: [*text[:-1], text[-1].rstrip()[:-1] + ', "loss": 0}\n']),
        lambda run: (run / "metrics.jsonl").unlink(),
    ],
    "provenance.json": [
        edit("provenance.json", lambda data, n=n: data.update(env_revision=n)) for n in (-1, 0, *range(2, 9), 99)
    ],
}


@pytest.mark.parametrize(
    "change", [pytest.param(c, id=f"{name}-{i}") for name, changes in CHANGES.items() for i, c in enumerate(changes)]
)
@pytest.mark.sampled(40)
def test_a_changed_file_is_found_without_training(change, run):
    before = contents(run)
    change(run)
    assert contents(run) != before, "the change changes a file"
    assert shoal.verify(run, at_most=0).outcome == "differs"


@pytest.mark.parametrize("name", ["spec.json", "curves.npz", "summary.json"])
def test_a_file_that_cannot_be_read_is_reported(name, run):
    (run / name).write_bytes(b"{")
    try:
        assert shoal.verify(run, at_most=0).outcome == "differs"
    except DamagedError as error:
        assert name == "spec.json" and "spec.json is damaged" in str(error)


def test_an_honest_run_is_verified_and_its_files_stay(run):
    before = contents(run)
    found = shoal.verify(run)
    assert (found.outcome, found.share) == ("verified", 1.0)
    assert {check.outcome for check in found.checks} == {"same"}
    trained = [check.what for check in found.checks if check.what.startswith("members")]
    assert trained == [
        "members 0, 1, 2: records 4 to 4, from step-000000000003",
        "members 0, 1, 2: records 1 to 2, from the spec",
        "members 0, 1, 2: records 3 to 3, from step-000000000002",
    ]
    assert {path: path.read_bytes() for path in before} == before
    stored = json.loads((run / "verified.json").read_text())
    assert stored["outcome"] == "verified" and stored["packages"]["jax"] and stored["hashes"]["curves.npz"]
    assert "100 % of all records" in found.headline and found.headline in str(found)


def test_random_members_of_a_large_population_are_executed_in_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "TOGETHER", 2)
    options = {**RUN, "steps": 200, "records": 2, "evaluations": 1}
    folder = shoal.train(**options, sweep={"learning_rate": [0.1, 0.2]}, seeds=2, folder=tmp_path / "run").folder
    found = shoal.verify(folder)
    groups = {check.what.partition(":")[0] for check in found.checks if check.what.startswith("members")}
    assert (found.outcome, found.share) == ("verified", 1.0) and len(groups) == 2


# Changes by somebody who makes the hashes agree again: only training finds them.


def sign(directory, part=None, change=None, **about):
    """Change arrays of a part of a checkpoint, or what it says about itself, and write its hashes again."""
    file = directory / "manifest.json"
    manifest = json.loads(file.read_text())
    if part:
        path = directory / f"{part}.npz"
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        change(arrays)
        np.savez(path, **arrays)
        manifest["parts"][part] |= {"sha256": checkpoint.hash_of_file(path), "bytes": path.stat().st_size}
    manifest["about"] |= about
    manifest["sha256"] = checkpoint.hash_of_manifest(manifest)
    file.write_text(json.dumps(manifest))


def nudge(amount):
    """Add a little to the first Q-value of the first member."""

    def change(arrays):
        (name,) = [name for name in arrays if name.split("/")[-1] == "q"]
        arrays[name].reshape(-1)[0] += amount

    return change


def forge_weights(run, amount=0.01):
    sign(newest(run), "learners", nudge(amount))
    sign(newest(run), "policies", nudge(amount))


def forge_best(run):
    sign(run / "checkpoints" / "best", "policies", nudge(0.01))


def forge_curves(run, amount=0.25):
    at("train_return", (1, 0), amount)(run)
    with np.load(run / "curves.npz") as file:
        columns = {name: file[name] for name in file.files}
    for path in checkpoint.saved(run / "checkpoints"):
        records = checkpoint.about_of(path)["records"]
        kinds = checkpoint.about_of(path)["curves"]["dtypes"]
        rows = {name: column[:records].astype(kinds[name]) for name, column in columns.items()}
        sign(path, curves=_fingerprint(rows, True))
    about = checkpoint.about_of(newest(run))
    folder = shoal.training.folder.RunFolder(run)
    (run / "metrics.jsonl").write_text(Records.load(folder, 3, about["records"], about["curves"]).lines())


@pytest.mark.parametrize("forge", [forge_weights, forge_best, forge_curves])
def test_training_finds_changes_whose_hashes_agree(forge, run):
    forge(run)
    assert shoal.verify(run, at_most=0).outcome == "not verified"  # the files agree with each other
    assert shoal.verify(run).outcome == "differs"


@pytest.mark.parametrize(
    ("forge", "outcome"),
    [(lambda run: None, "verified"), (lambda run: forge_weights(run, 1e-5), "agrees to tolerance")]
    + [(lambda run: forge_curves(run, 0.25), "not confirmed")],
)
def test_on_another_machine_results_agree_to_tolerance(forge, outcome, run):
    edit("provenance.json", lambda data: data.update(cpu="another one"))(run)
    forge(run)
    found = shoal.verify(run)
    assert found.outcome == outcome
    assert any("cpu 'another one', now" in check.note for check in found.checks)


def test_a_run_that_was_stopped_is_verified_to_its_newest_checkpoint(tmp_path):
    with pytest.raises(Stopped):
        shoal.train(**RUN, folder=tmp_path / "run", sinks=[Interrupt(after=3)])
    found = shoal.verify(tmp_path / "run")
    assert (found.outcome, found.share) == ("verified", 1.0)
    edit("provenance.json", lambda data: data.update(cpu="another one"))(tmp_path / "run")
    assert shoal.train(resume=tmp_path / "run", **SILENT).is_finished
    (resumed,) = json.loads((tmp_path / "run" / "provenance.json").read_text())["resumed"]
    assert resumed["updates"] == 3 and "cpu 'another one', now" in resumed["changes"][0]
    assert "resumed after 3 updates with cpu" in shoal.verify(tmp_path / "run").checks[-1].note


@pytest.mark.slow
def test_a_population_with_a_selector_is_executed_as_a_whole(tmp_path):
    options = {**RUN, "evaluations": 4, "selector": shoal.PBT(vary=("learning_rate",))}
    folder = shoal.train(**options, seeds=4, keep_checkpoints=1, folder=tmp_path / "run").folder
    found = shoal.verify(folder)
    assert (found.outcome, found.share) == ("verified", 1.0), str(found)


def test_code_of_ones_own_is_executed_only_with_trust(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(
        "from shoal import struct\nfrom shoal.envs.toy_text.frozen_lake import FrozenLake\n\n\n"
        "@struct\nclass Mine(FrozenLake):\n    pass\n"
    )
    options = {**RUN, "steps": 200, "records": 2, "env": f"{file}:Mine", "check": False}
    folder = shoal.train(**options, folder=tmp_path / "run").folder
    found = shoal.verify(folder)
    assert found.outcome == "not verified" and "mine.py" in found.checks[-1].note
    assert shoal.verify(folder, trust_source=True).outcome == "verified"


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"at_most": -1}, ValueError, "at_most=-1 must be a number of minutes, 0 or more"),
        ({"at_most": float("nan")}, ValueError, "must be a number of minutes"),
        ({"at_most": np.float32("nan")}, ValueError, "must be a number of minutes"),
        ({"at_most": float("inf")}, ValueError, "must be a number of minutes"),
        ({"at_most": 10**400}, ValueError, "at_most=a number of more than 40 digits must be a number of minutes"),
        ({"at_most": "x"}, TypeError, "at_most='x' is of type str: it must be a number"),
        ({"at_most": None}, TypeError, "at_most=None is of type NoneType: it must be a number"),
        ({"seed": -1}, ValueError, "seed=-1 must not be negative"),
        ({"seed": np.int64(-5)}, ValueError, "seed=-5 must not be negative"),
        ({"seed": 1.5}, TypeError, "a seed is an integer|Type-check error"),
        ({"seed": float("nan")}, TypeError, "a seed is an integer|Type-check error"),
        ({"seed": True}, TypeError, "seed=True is of type bool"),
        ({"seed": "x"}, TypeError, "seed='x' is of type str"),
        ({"seed": 10**30}, ValueError, "does not fit in 64 bits"),
    ],
)
def test_wrong_numbers_are_refused_before_a_file_is_read(arguments, error, words, tmp_path):
    with pytest.raises(error, match=words):
        shoal.verify(tmp_path / "no run", **arguments)
    assert not (tmp_path / "no run").exists()


def test_what_is_no_run_is_refused(run):
    with pytest.raises(ValueError, match="holds an exported policy"):
        shoal.verify("zoo:ppo/CartPole-v1")
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        shoal.verify(run / "figures")
