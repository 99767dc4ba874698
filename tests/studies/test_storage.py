"""Open storages from URLs; refuse other studies; hide passwords; survive torn lines and full disks."""

import gc
import json
import os
import sys
from pathlib import Path

import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.exc import OperationalError

from fake_worker import SPACE
from shoal.core.secrets import redacted, scrubbed, without_password
from shoal.studies import patience
from shoal.studies.errors import OtherStudyError, StorageError
from shoal.studies.journal import JournalFile
from shoal.studies.patience import PatientStorage
from shoal.studies.storage import open_storage, open_study, password_variables
from shoal.studies.trials import TrialStore

SERVER = "postgresql://me:s%40cret@127.0.0.1:1/base"  # nothing listens at port 1
DESCRIPTION = {"agent": "ppo", "steps": 100, "search": {"learning_rate": "log(1e-4,1e-1)", "env.gravity": [9, 10]}}


def read_by_optuna(path):
    """The trials of a journal, read by Optuna's own class."""
    return optuna.load_study(study_name="study", storage=JournalStorage(JournalFileBackend(str(path)))).trials


@pytest.mark.parametrize("form", ["journal:{}/a/study.log", "journal:///{}/a/study.log", "sqlite:{}/a/s.db"])
def test_a_study_is_made_and_found_again(tmp_path, form):
    url = form.format(tmp_path)
    with TrialStore(open_study(url, "study", DESCRIPTION, ["maximize"]), SPACE, trials=2) as store:
        number = store.ask(1)[0].number
        assert store.report(number, 1, 0.5) and store.tell(number, 2.0) and not store.tell(number, 3.0)
    again = open_study(url, "study", DESCRIPTION, ["maximize"])
    assert [(t.value, t.intermediate_values) for t in again.trials] == [(2.0, {1: 0.5})]
    assert [path.name for path in (tmp_path / "a").iterdir()] in (["study.log"], ["s.db"])


def test_memory_and_variables(monkeypatch, tmp_path):
    assert isinstance(open_storage("memory"), InMemoryStorage)
    monkeypatch.setenv("HERE", f"journal:{tmp_path}/x.log")
    assert isinstance(open_storage("$HERE"), JournalFile) and isinstance(open_storage("${HERE}"), JournalFile)
    with pytest.raises(ValueError, match=r"--storage \$NOWHERE: the environment variable NOWHERE is not set. Set it"):
        open_storage("$NOWHERE")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("jornal:study.log", "--storage jornal:study.log: .* Did you mean journal:PATH?"),
        (
            "postgre://me:secret@host/base",
            r"postgre://me:\*\*\*@host/base: .* Did you mean postgresql://user@host/data",
        ),
        ("memroy", "Did you mean memory?"),
        ("runs/study.log", "Give journal:PATH, sqlite:PATH"),
        ("journal:", "Give journal:PATH"),
        ("postgresql:base", "Give journal:PATH"),
        ("postgresql://me:p@rt2@host/base", r"postgresql://me:\*\*\*@host/base: write @ / .* as %40"),
        ("postgresql://me:p/rt2@host/base", r"postgresql://me:\*\*\*@host/base: write @ /"),
    ],
)
def test_another_form_is_refused(url, says):
    with pytest.raises(ValueError, match=says) as raised:
        open_storage(url)
    assert "secret" not in str(raised.value) and "rt2" not in str(raised.value)


def test_an_unreachable_server_is_named_without_its_password():
    pytest.importorskip("psycopg")
    with pytest.raises(
        StorageError, match=r"postgresql://me:\*\*\*@127.0.0.1:1/base cannot be used: .*refused"
    ) as raised:
        open_storage(SERVER)
    assert "cret" not in str(raised.value) and raised.value.__suppress_context__


def test_a_missing_driver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"a storage in PostgreSQL needs the package 'psycopg'.*'shoal\[postgres\]'"):
        open_storage(SERVER)


@pytest.mark.parametrize("scheme", ["journal", "sqlite"])
def test_a_file_that_cannot_be_used_is_named(tmp_path, scheme):
    with pytest.raises(StorageError, match=f"{tmp_path} cannot be opened: Is a directory"):
        open_storage(f"{scheme}:{tmp_path}")
    file = tmp_path / "notes.txt"
    file.write_text("my notes, without a newline at the end")
    with pytest.raises(StorageError, match="notes.txt is not a (journal of Optuna|database of SQLite)"):
        open_storage(f"{scheme}:{file}")
    assert file.read_text() == "my notes, without a newline at the end"


def test_passwords_are_hidden():
    assert redacted(SERVER) == "postgresql://me:***@127.0.0.1:1/base"
    assert redacted("postgresql://host/b?user=me&password=a%20b&x=1") == "postgresql://host/b?user=me&password=***&x=1"
    assert redacted("journal:runs/a@b:c.log") == "journal:runs/a@b:c.log"
    assert redacted("see http://a:b@c/d and http://e/f") == "see http://a:***@c/d and http://e/f"
    assert without_password(SERVER) == "postgresql://me@127.0.0.1:1/base"
    assert without_password("postgresql://h/b?password=x&user=me") == "postgresql://h/b?user=me"
    assert without_password("postgresql://h/b?user=me&password=x") == "postgresql://h/b?user=me"
    assert scrubbed("no entry for me with s@cret or s%40cret", SERVER) == "no entry for me with *** or ***"


def test_other_processes_get_the_password_in_a_variable(monkeypatch):
    monkeypatch.setenv("HERE", SERVER)
    assert password_variables(SERVER) == {"PGPASSWORD": "s@cret"}
    assert password_variables("$HERE") == {"PGPASSWORD": "s@cret", "HERE": SERVER}  # other machines do not have it
    assert password_variables("postgresql://me@h/b?password=a%20b") == {"PGPASSWORD": "a b"}
    assert password_variables("postgresql://me@h/b") == password_variables("journal:a:b@c") == {}


def test_the_storage_of_another_study_is_refused(tmp_path):
    url = f"journal:{tmp_path}/study.log"
    open_study(url, "study", DESCRIPTION, ["maximize"])
    other = {**DESCRIPTION, "steps": 200, "search": {"learning_rate": "log(1e-4,1e-1)", "discount": [0.9, 0.99]}}
    with pytest.raises(OtherStudyError) as raised:
        open_study(url, "study", other, ["minimize"])
    assert str(raised.value) == (
        "the study 'study' in this storage searches something else: steps: 100 there, 200 here; "
        "search.env.gravity: [9, 10] there, none here; search.discount: none there, [0.9, 0.99] here; "
        "directions: ['maximize'] there, ['minimize'] here. Ask for the same to go on with it, "
        "or choose another --name."
    )
    open_study(url, "another", other, ["minimize"])


def test_a_study_of_another_program_is_refused(tmp_path):
    url = f"sqlite:{tmp_path}/s.db"
    optuna.create_study(study_name="study", storage=open_storage(url)).ask()
    with pytest.raises(OtherStudyError, match="'study' in this storage was not made by shoal"):
        open_study(url, "study", DESCRIPTION, ["minimize"])


def test_optuna_reads_a_journal(tmp_path):
    with TrialStore(open_study(f"journal:{tmp_path}/s.log", "study", {}, ["maximize"]), SPACE, trials=3) as store:
        for trial in store.ask(3):
            store.tell(trial.number, trial.params["width"])
    assert [t.value for t in read_by_optuna(tmp_path / "s.log")] == [t.value for t in store.study.trials]


@pytest.mark.parametrize("torn", ['{"op_code":7,"worker_id":"x","trial', '{"op_code":7}' + " " * 70_000])
def test_a_line_that_a_kill_has_torn_is_removed(tmp_path, torn):
    """Optuna's own class appends to the torn line, after which nobody can read the file."""
    path = tmp_path / "s.log"
    study = open_study(f"journal:{path}", "study", {}, ["maximize"])
    with TrialStore(study, SPACE, trials=3) as store:
        store.ask(1)
        whole = path.read_text()
        path.write_text(whole + torn)
        store.tell(0, 1.0)
        assert path.read_text().startswith(whole + '{"op_code":6')
        path.write_text(path.read_text() + torn)
    assert [t.value for t in open_study(f"journal:{path}", "study", {}, ["maximize"]).trials] == [1.0]
    assert path.read_text().endswith("}\n") and len(read_by_optuna(path)) == 1


def test_a_file_of_one_torn_line_is_an_empty_journal(tmp_path):
    (tmp_path / "s.log").write_text('{"op_c')
    assert open_study(f"journal:{tmp_path}/s.log", "study", {}, ["maximize"]).trials == []


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "s.log"
    open_study(f"journal:{path}", "study", {}, ["maximize"])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[1][: len(lines[1]) // 2] + "\n", *lines[1:]]))
    with pytest.raises(StorageError, match=r"line 2 of the journal .*s.log is damaged.*head -n 1"):
        open_storage(f"journal:{path}")


@pytest.mark.parametrize("kind", ["shoal", "optuna"])
def test_no_changed_bit_of_a_journal_is_read_in_silence(tmp_path, kind):
    """Shoal's lines have a checksum. In Optuna's own a changed digit is another number; none ends in a traceback."""
    path = tmp_path / "s.log"
    if kind == "shoal":
        storage = open_storage(f"journal:{path}")
    else:
        storage = JournalStorage(JournalFileBackend(str(path)))
    study = optuna.create_study(storage=storage, study_name="study", sampler=optuna.samplers.RandomSampler(0))
    for width in (3, 4):
        trial = study.ask({"width": SPACE["width"]})
        trial.report(0.25, 1)
        study.tell(trial, width)
    good, states = path.read_bytes(), [trial.values for trial in study.trials]
    for at in range(0, len(good) - 1, 7 if kind == "shoal" else 11):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :])
        try:
            found = optuna.load_study(study_name="study", storage=open_storage(f"journal:{path}")).trials
        except (StorageError, KeyError) as error:
            assert isinstance(error, StorageError) or kind == "optuna"  # another name of the study is not damage
            assert "\n" not in str(error)
        else:
            assert kind == "optuna" or [trial.values for trial in found] == states, good[at - 20 : at + 20]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "damage", [(b'"IntDistribution"', b'"IntDistribution\x07'), (b"CREATE TABLE trials", b"CREATE TABLE trialz")]
)
def test_a_damaged_database_is_one_line_of_error(tmp_path, damage):
    path = tmp_path / "s.db"
    study = open_study(f"sqlite:{path}", "study", DESCRIPTION, ["maximize"])
    study.ask({"width": SPACE["width"]})
    before = path.read_bytes()
    assert damage[0] in before
    path.write_bytes(before.replace(*damage))
    with pytest.raises(StorageError, match=r"s.db (holds what cannot be read|cannot be used)") as raised:
        open_study(f"sqlite:{path}", "study", DESCRIPTION, ["maximize"], is_new=False).get_trials()
    assert "\n" not in str(raised.value)
    del raised
    gc.collect()  # SQLAlchemy does not close a connection of a storage that could not be opened


@pytest.mark.parametrize("scheme", ["journal", "sqlite"])
def test_a_pipe_or_a_device_is_no_storage(tmp_path, scheme):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null"):
        with pytest.raises(StorageError, match=f"{path} is a pipe or a device, not a file"):
            open_storage(f"{scheme}:{path}")


@pytest.mark.parametrize("form", ["journal:{}/s.log", "sqlite:{}/s.db", "memory"])
def test_a_study_that_has_begun_does_not_begin_again(tmp_path, form):
    url = form.format(tmp_path)
    for _ in range(2):  # without the file, and with an empty one
        with pytest.raises(StorageError, match="Its folder says that it has begun, so its trials were lost: restore"):
            open_study(url, "study", DESCRIPTION, ["maximize"], is_new=False)
        assert all(path.stat().st_size == 0 for path in tmp_path.iterdir())
        if form != "memory":
            Path(url.partition(":")[2]).touch()
    study = open_study(url, "study", DESCRIPTION, ["maximize"])
    if form != "memory":
        again = open_study(url, "study", DESCRIPTION, ["maximize"], is_new=False)
        assert again.trials == study.trials == []


def test_a_lock_that_a_killed_process_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("shoal.studies.journal.LOCK_SECONDS", 3)
    (tmp_path / "s.log.lock").symlink_to(tmp_path / "s.log")
    assert open_study(f"journal:{tmp_path}/s.log", "study", {}, ["maximize"]).trials == []
    assert [path.name for path in tmp_path.iterdir()] == ["s.log"]


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    """The disk takes half of a line and then no more. What was written before stays, and work goes on later."""
    path = tmp_path / "s.log"
    write = os.write

    def full(file, text):
        if len(text) < 40:
            raise OSError(28, "No space left on device")
        return write(file, text[: len(text) // 2])

    with TrialStore(open_study(f"journal:{path}", "study", {}, ["maximize"]), SPACE, trials=2) as store:
        trial = store.ask(1)[0]
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            for call in (lambda: store.report(0, 1, 0.5), lambda: store.tell(0, 1.0), lambda: store.ask(1)):
                with pytest.raises(StorageError, match="s.log cannot be written: No space left.*resume the study"):
                    call()
        assert path.read_bytes() == before
        assert store.own_running() == {0: trial.params}
        assert store.report(0, 1, 0.5) and store.tell(0, 1.0)
    assert [t.value for t in read_by_optuna(path)] == [1.0]


def test_a_deleted_journal_is_not_made_anew_in_silence(tmp_path):
    with TrialStore(open_study(f"journal:{tmp_path}/s.log", "study", {}, ["maximize"]), SPACE, trials=2) as store:
        store.ask(1)
        saved = (tmp_path / "s.log").rename(tmp_path / "saved")
        with pytest.raises(StorageError, match="s.log cannot be written: No such file"):
            store.report(0, 1, 0.5)
        assert not (tmp_path / "s.log").exists()
        saved.rename(tmp_path / "s.log")


class Failing(InMemoryStorage):
    """Fails like a database whose server is away. `after`: the call was made, but its answer is lost."""

    def __init__(self):
        super().__init__()
        self.before, self.after = {}, {}

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name not in patience.METHODS:
            return value

        def call(*args, **keywords):
            fail(self.before, name)
            result = value(*args, **keywords)
            fail(self.after, name)
            return result

        return call


def fail(times, name):
    if times.get(name, 0) > 0:
        times[name] -= 1
        gone = OperationalError("SELECT 1", None, Exception("server closed the connection, password s@cret\nmore"))
        raise StorageInternalError("An exception is raised during the commit.") from gone


@pytest.fixture
def failing(monkeypatch):
    monkeypatch.setattr(patience, "PAUSE", 0.001)
    said = []
    storage = Failing()
    patient = PatientStorage(storage, "the server", said.append, lambda text: scrubbed(text, SERVER), patience=0.2)
    with TrialStore(open_study(patient, "study", {}, ["maximize"]), SPACE, trials=4) as store:
        yield storage, store, said


def test_a_database_that_comes_back_is_waited_for(failing):
    storage, store, said = failing
    storage.before.update(create_new_trial=2, set_trial_intermediate_value=1)
    assert store.report(store.ask(1)[0].number, 1, 0.5)
    away = "the server does not answer, trying again for 0 s: server closed the connection, password ***"
    assert said == [away, "the server answers again"] * 2
    assert store.study.trials[0].intermediate_values == {1: 0.5}


def test_a_database_that_stays_away_is_an_error(failing):
    storage, store, said = failing
    storage.before["create_new_trial"] = 10_000
    with pytest.raises(
        StorageError, match=r"the server did not answer for \d s: .* \*\*\*.*resume the study"
    ) as raised:
        store.ask(1)
    assert "cret" not in str(raised.value)
    storage.before.clear()


def test_a_mistake_in_a_call_is_not_made_again(failing):
    storage, store, said = failing
    with pytest.raises(KeyError):
        store.study._storage.get_trial(99)
    assert said == []


def test_a_trial_whose_creation_was_not_answered_is_not_lost(failing):
    """The first call made trial 0, the second made trial 1. Trial 0 is handed out by the next `ask`."""
    storage, store, said = failing
    storage.after["create_new_trial"] = 1
    assert [t.number for t in store.ask(1)] == [1]
    assert [t.number for t in store.ask(2)] == [0, 2]


def test_what_was_told_when_the_answer_was_lost_counts_as_told(failing):
    storage, store, said = failing
    number = store.ask(1)[0].number
    storage.after["set_trial_state_values"] = 1
    assert store.tell(number, 1.0) and not store.tell(number, 1.0)


def test_a_study_file_holds_no_password(tmp_path):
    """What a study keeps in its storage is the description, and the places of its workers."""
    path = Path(tmp_path / "s.log")
    with TrialStore(open_study(f"journal:{path}", "study", {"agent": "ppo"}, ["maximize"]), SPACE, trials=1):
        pass
    kept = [json.loads(line).get("user_attr", {}) for line in path.read_text().splitlines()]
    names = {"host", "machine", "process", "began", "token", "count", "interval", "left"}
    assert [list(each) for each in kept if each] == [["shoal"], ["worker:w0"], ["worker:w0"]]
    assert kept[1] == {"shoal": {"agent": "ppo", "directions": ["maximize"]}} and set(kept[2]["worker:w0"]) == names
