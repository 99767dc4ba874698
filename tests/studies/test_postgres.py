"""Studies in a real PostgreSQL server."""

import threading
import time
from collections import Counter

import pytest

import fake_worker
from fake_worker import SPACE
from postgres_server import IN_URL, PASSWORD
from shoal.studies.errors import OtherStudyError, StorageError
from shoal.studies.storage import open_storage, open_study
from shoal.studies.trial_states import FAIL
from shoal.studies.trials import TrialStore

pytestmark = pytest.mark.postgres


def test_a_study_is_kept_and_refused_to_others(url):
    with TrialStore(open_study(url, "study", {"steps": 1}, ["maximize"]), SPACE, trials=2) as store:
        first, second = store.ask(5)
        assert store.report(first.number, 1, 0.5) and store.report(first.number, 1, 0.75)
        assert store.tell(first.number, 2.0) and not store.tell(first.number, 3.0)
        assert not store.report(first.number, 2, 1.0) and store.ask(1) == []
    again = open_study(url, "study", {"steps": 1}, ["maximize"])
    with TrialStore(again, SPACE, trials=2) as store:
        assert store.own_running() == {second.number: second.params}
    assert again.trials[0].value == 2.0 and again.trials[0].intermediate_values == {1: 0.5}
    with pytest.raises(OtherStudyError, match="steps: 1 there, 2 here"):
        open_study(url, "study", {"steps": 2}, ["maximize"])


def test_the_password_may_come_from_the_environment(server, url, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    open_study(f"postgresql://me@{server.host}/postgres", "study", {}, ["maximize"])
    monkeypatch.setenv("PGPASSWORD", "wrong")
    with pytest.raises(StorageError, match="password authentication failed"):
        open_storage(f"postgresql://me@{server.host}/postgres")
    monkeypatch.delenv("PGPASSWORD")
    with pytest.raises(StorageError, match="no password supplied. Set PGPASSWORD, write ~/.pgpass, or give the URL"):
        open_storage(f"postgresql://me@{server.host}/postgres")


@pytest.mark.parametrize(("change", "says"), [(IN_URL, "authentication failed"), ("/postgres", "nowhere.* not exist")])
def test_what_the_server_refuses_is_said_without_the_password(url, change, says):
    other = url.replace(change, {IN_URL: "other%2Fsecret", "/postgres": "/nowhere"}[change])
    with pytest.raises(StorageError, match=rf"postgresql://me:\*\*\*@127.*{says}") as raised:
        open_storage(other)
    assert "secret" not in str(raised.value) and PASSWORD not in str(raised.value)


def test_workers_that_ask_at_once_start_exactly_as_many_as_asked_for(url):
    """Four workers in threads, each with connections of its own, ask one by one; two of the first trials fail."""
    trials, asked = 8, []

    def work(name):
        with TrialStore(open_study(url, "study", {}, ["maximize"]), SPACE, trials, name) as store:
            while mine := store.ask(1):
                asked.append(mine[0].number)
                if mine[0].number in (1, 3):
                    store.tell(mine[0].number, None, FAIL)

    open_study(url, "study", {}, ["maximize"])
    threads = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Counter(t.state.name for t in open_study(url, "study", {}, ["maximize"]).trials)
    assert found["RUNNING"] == trials and len(asked) == len(set(asked)) == trials + 2


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.timeout(900)
def test_no_kill_loses_a_trial_or_tells_it_twice(tmp_path, url, kills):
    fake_worker.kill_at_random(url, tmp_path, 6 * kills, kills, seed=kills)
    fake_worker.check_all_counted(url, tmp_path / "told", 6 * kills)


@pytest.mark.parametrize("seconds", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_a_study_waits_for_a_server_that_is_stopped(tmp_path, server, url, seconds):
    """Every 1.5 s without a heartbeat would be a death, but nobody dies while nobody can look."""
    told = tmp_path / "told"
    workers = [fake_worker.start(url, f"w{i}", 24, told, grace=1.5) for i in range(2)]
    try:
        fake_worker.wait_for(lambda: told.exists() and len(told.read_text().split()) >= 2)
        server.stop()
        time.sleep(seconds)
        server.start()
        assert [worker.wait(fake_worker.PATIENCE) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    fake_worker.check_all_counted(url, told, 24)
    texts = [(tmp_path / f"w{i}.txt").read_text() for i in range(2)]
    for text in texts:
        assert "does not answer, trying again for 300 s" in text and "answers again" in text
        assert "Traceback" not in text and IN_URL not in text and PASSWORD not in text
