"""`shoal.track`: send a run or a study that was made before to experiment trackers."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from shoal.core.kinds import checked_kinds
from shoal.studies.study import SPEC, SUMMARY, StudyFolder, open_trials
from shoal.studies.tracked import FILE, RunSink, run_sinks, stored
from shoal.studies.tracked_study import study_sinks, study_tracking
from shoal.studies.trial_states import WORKER, trials_of
from shoal.tracking.events import Closed, Finished, Started
from shoal.tracking.request import Track, tracking_of
from shoal.tracking.tracker import AXIS
from shoal.training.claim import locked
from shoal.training.folder import RunFolder
from shoal.training.reading import read_json


class MessageLog:
    """Passes the messages of sinks on, and keeps their texts."""

    def __init__(self, say: Any) -> None:
        self.texts: list[str] = []
        self._say = say

    def take(self, messages: Any) -> None:
        for message in filter(None, messages or ()):
            self.texts.append(message.text)
            if self._say is not None:
                self._say(message.text)


@checked_kinds()
def track(run: Path | str, to: Track = None, *, say: Any = None) -> dict[str, dict[str, Any]]:
    """Send a run or study that was made before to experiment trackers; what they have already is not sent twice.

        shoal.track("runs/ppo-CartPole-v1", "mlflow")

    `to` is as `track` of `shoal.train`; by default, what the run was trained with. Returns what each tracker has: ids,
    the newest step, and whether it is complete. `say` is called with every message. Raises ValueError if the run was
    not tracked and `to` is missing, or if nothing of a study has ended; FileNotFoundError if there is no run,
    FileExistsError if a worker of the study is running, and ConnectionError if a tracker did not get everything.
    """
    folder, log = RunFolder(run), MessageLog(say)
    is_study = folder.has(SPEC)
    if not is_study:
        folder.read_spec()  # raises FileNotFoundError where no run is
        if folder.policy.is_dir():
            raise ValueError(f"{run} is an exported policy: track the run that it comes from.")
    if tracking_of(to) is None and (to is not None or not folder.has(FILE)):
        raise ValueError(f"{run} was not tracked so far: say where it is sent, as in `shoal track {run} --to mlflow`.")
    before = stored(folder)
    (_send_study if is_study else _send_run)(folder, to, log)
    notes = folder.read_json(FILE)
    also = before.trackers if before is not None else ()
    folder.write_json(FILE, {**notes, "to": list(dict.fromkeys([*also, *notes["to"]]))})
    return notes["sent"]


def _send_run(folder: RunFolder, to: Track, log: MessageLog) -> None:
    spec = folder.read_spec()
    steps = int(folder.read_curves(spec.members)[AXIS][-1])
    is_complete = folder.has("summary.json")
    for sink in run_sinks(to, folder, spec, resume=True):
        log.take(sink.receive(Started(steps, steps)))
        if is_complete:
            log.take(sink.receive(Finished(folder.read_json("summary.json"))))
        log.take(sink.receive(Closed("complete" if is_complete else "stopped")))
        if isinstance(sink, RunSink) and not sink.is_sent:
            raise ConnectionError(log.texts[-1])


def _send_study(folder: RunFolder, to: Track, log: MessageLog) -> None:
    path, spec = folder.path, StudyFolder(folder.path).read_spec()
    tracking = study_tracking(to, path, is_new=False)
    study = open_trials(path)
    workers = sorted(
        {t.user_attrs[WORKER] for t in trials_of(study) if t.state.is_finished() and WORKER in t.user_attrs}
    )
    if not workers:
        raise ValueError(f"no trial of the study {path} has ended: there is nothing to send.")
    summary = read_json(path / SUMMARY) if (path / SUMMARY).exists() else {}
    is_complete = "notes" in summary  # the results are written
    with ExitStack() as stack:
        for worker in workers:
            if (path / "workers" / worker).is_dir():  # otherwise it is on another machine
                stack.enter_context(locked(path / "workers" / worker))
        for worker in workers:
            for sink in study_sinks(tracking, path, spec, worker):
                sink.source = study
                log.take(sink.receive(next(sink.ended_trials())))
                if is_complete and worker == workers[-1]:
                    log.take(sink.receive(Finished(summary)))
                log.take(sink.close("complete" if is_complete else "stopped"))
                if not sink.is_sent:
                    raise ConnectionError(log.texts[-1])
                sink.keep_state()
