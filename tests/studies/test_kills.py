"""Studies whose workers are killed with SIGKILL at any moment: no trial is lost or told twice, and scores agree."""

import random
import subprocess
import sys
import time

import pytest

from postgres_server import PASSWORD
from shoal.studies.study import StudyResult
from shoal.studies.trial_states import trials_of

GRID = {"learning_rate": [0.02 * k for k in range(1, 16)], "discount": [0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 0.6, 0.99]}
SEARCH = [word for path, values in GRID.items() for word in ("--search", f"{path}={'|'.join(map(str, values))}")]
TUNE = ["tune", "q-learning", "Blackjack-v1", *SEARCH, "--sampler", "grid", "--pruner", "none", "--parallel", "4"]
TUNE += ["--seeds", "2", "--steps", str(9 * 64), "--num-steps", "32"]
LAST = ["--fresh-seeds", "0", "--no-figures"]
PATIENCE = 300  # seconds until a test gives up


def start(*words, log):
    with open(log, "a") as output:
        return subprocess.Popen([sys.executable, "-m", "shoal.cli.main", *words], stdout=output, stderr=output)


def work(folder, name):
    """Start or resume a worker of the study."""
    words = ["tune", "--resume", str(folder), "--worker", name, "--grace", "4", *LAST]
    return start(*words, log=folder.parent / f"{name}.txt")


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def wait_for_chunk(worker, rows):
    """Wait until a worker has trained a chunk from now on, or has ended. `rows` is its file with a row for each."""
    now = time.time()
    wait_for(lambda: worker.poll() is not None or rows.exists() and rows.stat().st_mtime > now)


def scores(result):
    """The value and the score after each record, by parameters, of the complete trials: each setting once."""
    trials = trials_of(result.study)
    complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
    found = {tuple(t.params[path] for path in GRID): (t.value, t.intermediate_values) for t in complete}
    assert len(found) == len(complete), "a setting was counted twice"
    again = [t.user_attrs["retry_of"] for t in trials if "retry_of" in t.user_attrs]
    lost = {t.number for t in trials if t.state.name == "FAIL"}
    assert lost == set(again) and len(again) == len(lost), "an interrupted trial was not tried again exactly once"
    assert len(complete) + len(lost) == len(trials), "a trial was left running"
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The scores of the study of one worker that nobody kills."""
    root = tmp_path_factory.mktemp("whole")
    assert start(*TUNE, *LAST, "--root", str(root), "--name", "s", log=root / "log.txt").wait(PATIENCE) == 0
    return scores(StudyResult(root / "s"))


@pytest.fixture(params=["journal", pytest.param("postgres", marks=pytest.mark.postgres)])
def storage(request, monkeypatch):
    """The options that choose the storage, and its server."""
    if request.param == "journal":
        return [], None
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return ["--storage", request.getfixturevalue("url")], request.getfixturevalue("server")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_kill_loses_a_trial_or_changes_a_score(whole, tmp_path, storage):
    """20 kills of one of two workers, while it compiles or trains; every third returns under another name.

    Every fifth time both workers are killed at once. The PostgreSQL server is also stopped for 10 seconds.
    """
    options, server = storage
    rng, folder, names, kills = random.Random(1), tmp_path / "s", ["w0", "w1"], 0
    workers = [start(*TUNE, *LAST, *options, "--root", str(tmp_path), "--name", "s", log=tmp_path / "w0.txt")]
    wait_for((folder / "study.json").exists)
    workers.append(work(folder, "w1"))
    try:
        while kills < 20 and any(worker.poll() is None for worker in workers):
            which = kills % 2
            if rng.random() < 0.7:
                wait_for_chunk(workers[which], folder / "workers" / names[which] / "slots.csv")
                time.sleep(rng.uniform(0, 0.3))
            else:
                time.sleep(rng.uniform(0.5, 6))
            if server is not None and kills == 10:
                server.stop()
                time.sleep(10)
                server.start()
            for each in (0, 1) if kills % 5 == 4 else (which,):
                kills += workers[each].poll() is None
                workers[each].kill()
                workers[each].wait()
                if kills % 3 == 2:
                    names[each] = f"w{kills}-new"
                workers[each] = work(folder, names[each])
        assert kills >= 20, "the study was over too early"
        logs = [tmp_path / f"{name}.txt" for name in names]
        assert [worker.wait(PATIENCE) for worker in workers] == [0, 0], [log.read_text() for log in logs]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert scores(StudyResult(folder)) == whole
