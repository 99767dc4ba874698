"""`keep_checkpoints`: which checkpoints of a run stay."""

import pytest

import shoal
from listeners import Interrupt
from shoal.specs.options import OPTIONS
from shoal.training.checkpoint import saved
from shoal.training.stopping import Stopped
from tiny import SILENT

RUN = {
    "agent": "q-learning",
    "env": "FrozenLake-v1",
    "fields": {"num_steps": 100},
    "steps": 800,
    "records": 8,
    "evaluations": 0,
    **SILENT,
}


def kept(folder):
    """The environment steps of the checkpoints of a run, the oldest first; its records have 100 each."""
    return [int(path.name.removeprefix("step-")) * 100 for path in reversed(saved(folder / "checkpoints"))]


@pytest.mark.parametrize(
    ("every", "steps"),
    [(0, [700, 800]), (1, [*range(100, 900, 100)]), (3, [300, 600, 700, 800])],
)
def test_every_nth_checkpoint_stays_beside_the_two_newest(every, steps, tmp_path):
    result = shoal.train(**RUN, keep_checkpoints=every, folder=tmp_path / "run")
    assert kept(result.folder) == steps


def test_a_resumed_run_may_keep_others_and_deletes_none_that_stayed(tmp_path):
    folder = tmp_path / "run"
    with pytest.raises(Stopped):
        shoal.train(**RUN, keep_checkpoints=2, folder=folder, sinks=[Interrupt(after=5)])
    shoal.train(resume=folder, keep_checkpoints=3, **SILENT)
    assert kept(folder) == [200, 400, 600, 700, 800]
    shoal.train(resume=folder, **SILENT)  # without the option nothing changes
    assert kept(folder) == [200, 400, 600, 700, 800] and shoal.load_result(folder).spec.keep_checkpoints == 3


def test_a_run_without_it_does_not_name_it(tmp_path):
    assert OPTIONS["keep_checkpoints"].metadata["is_omitted"]
    folder = shoal.train(**RUN, folder=tmp_path / "run").folder
    assert "keep_checkpoints" not in (folder / "spec.json").read_text()
