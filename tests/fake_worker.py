"""A worker process of a study without training: it asks, waits, reports, prunes and tells. Tests kill it.

    python fake_worker.py URL WORKER TRIALS GRACE SECONDS TOLD

Every told trial is a line in the file TOLD. Messages go to standard output. Below are the functions with which tests
start workers, kill them, and count what is in the storage afterwards.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import optuna
from optuna.distributions import FloatDistribution, IntDistribution

from shoal.studies.storage import open_study
from shoal.studies.trial_states import PRUNED
from shoal.studies.trials import TrialStore

SPACE = {"rate": FloatDistribution(1e-4, 1e-1, log=True), "width": IntDistribution(1, 5)}
STEPS = 3
PARALLEL = 4
GRACE = 2.0
PATIENCE = 120  # seconds until a test gives up


def score(params, step):
    """The score of a trial at a step; its value is that of the last step."""
    return params["width"] * step + params["rate"]


def open_fake(url, say=lambda text: None):
    """The study of all fake workers."""
    return open_study(
        url,
        "study",
        {"agent": "fake"},
        ["maximize"],
        optuna.samplers.RandomSampler(seed=0),
        optuna.pruners.PercentilePruner(40.0, n_startup_trials=4, n_warmup_steps=1),
        say,
    )


def train(store, trial_number, params, seconds):
    """Train one trial. Returns whether this worker told it."""
    for step in range(1, STEPS + 1):
        time.sleep(seconds)
        if not store.report(trial_number, step, score(params, step)):
            return False
        if step < STEPS and store.should_prune(trial_number):
            return store.tell(trial_number, None, PRUNED)
    return store.tell(trial_number, score(params, STEPS))


def main(url, worker, trials, grace, seconds, told):
    """Work until the study is over."""

    def say(text):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    with TrialStore(open_fake(url, say), SPACE, trials, worker, grace, say) as store:
        todo = list(store.own_running().items())
        say(f"adopted {len(todo)}")
        while not store.is_over():
            todo = todo or store.ask(PARALLEL)
            for number, params in todo:
                if train(store, number, params, seconds):
                    with told.open("a") as file:
                        file.write(f"{number}\n")
            if not todo:
                time.sleep(0.1)
                store.heartbeat()
            todo = []
    say("over")


def start(url, worker, trials, told, seconds=0.02, grace=GRACE):
    """Start a worker. Its messages go to the file `WORKER.txt` beside TOLD."""
    command = [sys.executable, __file__, url, worker, str(trials), str(grace), str(seconds), str(told)]
    with open(told.parent / f"{worker}.txt", "a") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONWARNINGS": ""})


def kill_at_random(url, folder, trials, kills, seed):
    """Run two workers until the study is over, and kill one of them `kills` times.

    A killed worker is started again under its name, or, every third time, under a new one: then the other workers
    take over its trials.
    """
    rng, told, names = random.Random(seed), folder / "told", ["w0", "w1"]
    workers = [start(url, name, trials, told) for name in names]
    try:
        for kill in range(kills):
            which = kill % 2
            wait_for(lambda text=folder / f"{names[which]}.txt": "adopted" in text.read_text())
            time.sleep(rng.uniform(0, 1))
            workers[which].kill()
            workers[which].wait()
            if kill % 3 == 2:
                names[which] = f"w{kill}-new"
            (folder / f"{names[which]}.txt").unlink(missing_ok=True)
            workers[which] = start(url, names[which], trials, told)
        for worker, name in zip(workers, names, strict=True):
            assert worker.wait(PATIENCE) == 0, (folder / f"{name}.txt").read_text()
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def check_all_counted(url, told, trials):
    """Count from the storage: the trials that were asked for are finished, each once, and none was lost."""
    found = open_fake(url).get_trials(deepcopy=False)
    by_state = {state: [t for t in found if t.state.name == state] for state in ("COMPLETE", "PRUNED", "FAIL")}
    story = "\n".join(
        f"{t.number} {t.state.name} {t.user_attrs} {t.datetime_start} {t.datetime_complete}" for t in found
    )
    assert sum(map(len, by_state.values())) == len(found), f"a trial is left running or waiting:\n{story}"
    assert len(by_state["COMPLETE"]) + len(by_state["PRUNED"]) == trials, f"not {trials} are finished:\n{story}"
    for trial in by_state["COMPLETE"]:
        assert trial.intermediate_values == {step: score(trial.params, step) for step in range(1, STEPS + 1)}
        assert trial.value == score(trial.params, STEPS)
    copies = Counter(t.user_attrs["retry_of"] for t in found if "retry_of" in t.user_attrs and not _withdrawn(t))
    interrupted = [t.number for t in by_state["FAIL"] if not _withdrawn(t)]
    assert copies == Counter(interrupted), "every interrupted trial was tried again once"
    for trial in found:
        if "retry_of" in trial.user_attrs:
            original = found[trial.user_attrs["retry_of"]]
            assert original.params.items() <= trial.params.items()
    finished = {t.number for t in by_state["COMPLETE"] + by_state["PRUNED"]}
    lines = [int(line) for line in told.read_text().split()]
    assert len(lines) == len(set(lines)), "no trial was told twice"
    assert set(lines) <= finished


def _withdrawn(trial):
    return "failed" in trial.user_attrs


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]), Path(sys.argv[6]))
