"""Whatever trained can be read: every selector x every way to start a run x every way to read, resume and export it."""

import json
import shutil

import jax
import numpy as np
import pytest

import shoal
from shoal.core.registry import SELECTORS
from shoal.population.evolve import Evolve
from shoal.population.slots import Slots
from shoal.training import checkpoint
from shoal.training.export import export
from shoal.training.export_config import export_config
from shoal.training.folder import RunFolder

STEPS, RECORDS, MEMBERS = 32, 4, 8
OPTIONS = {"fields": {"num_steps": STEPS, "snapshots": 2}, "steps": RECORDS * STEPS, "records": RECORDS}
OPTIONS |= {"evaluations": RECORDS, "eval_episodes": 2, "env_fields": {"max_steps": 8.0}, "preset": None}
QUIET = {"progress": False, "figures": False, "cache": False}
VARY = {"learning_rate": (0.01, 1.0, "log"), "env.step_reward": (-2.0, -0.5)}
# Two values of a field that `VARY` has and of one that it has not.
STARTS = {
    "plain": {"seeds": MEMBERS},
    "sweep": {"seeds": 2, "sweep": {"learning_rate": [0.1, 0.5], "discount": [0.9, 0.99]}},
    "env_sweep": {"seeds": 4, "env_sweep": {"step_reward": [-1.0, -0.6]}},
    "random": {"seeds": 2, "random": 4, "search": ["learning_rate"]},
    "settings": {"seeds": 4, "settings": [{"learning_rate": 0.1}, {"learning_rate": 0.3}]},
    "init": {"seeds": MEMBERS, "init": "other"},
}
EVERY = {"halving": {"eta": 2}, "pbt": {}, "random": {"every": 2}}
SELECTED = {
    "none": None,
    **{name: SELECTORS[name].build(vary=VARY, **EVERY.get(name, {})) for name in SELECTORS},
    "slots": Slots(settings=[{"learning_rate": rate} for rate in (0.1, 0.2, 0.3)], seeds=4, records=RECORDS),
    "evolve": Evolve(vary=(("learning_rate", 0.01, 1.0, "log"),), generations=2, seeds=2, every=RECORDS),
}
ENDS_RUN = ("slots", "evolve")
CASES = [pytest.param(selector, start, id=f"{selector}-{start}") for selector in SELECTED for start in STARTS]


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A run whose policies others begin with."""
    root = tmp_path_factory.mktemp("other")
    return shoal.train("q-learning", "CliffWalking-v1", seeds=2, seed=5, folder=root / "run", **OPTIONS, **QUIET)


def started(selector, start, other, folder):
    how = {**STARTS[start]}
    if how.get("init"):
        how["init"] = {"run": other.folder, "member": 1}
    arguments = {**OPTIONS, **how, "folder": folder}
    return shoal.train("q-learning", "CliffWalking-v1", selector=SELECTED[selector], **arguments, **QUIET)


def metrics_of(folder):
    """The lines of metrics.jsonl without the times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return json.dumps([{name: value for name, value in line.items() if name != "wall_seconds"} for line in lines])


def assert_acts_as(path, there):
    """An exported policy chooses the actions of the one that it came from, and has a summary."""
    here = shoal.load(path)
    assert [int(here(state)) for state in range(48)] == [int(there(state)) for state in range(48)]
    made = shoal.load_result(path)
    assert made.summary["members"] == 1 and len(made.members) == 1 and made.folder.name in repr(made)
    assert shoal.evaluate(here, episodes=2, max_steps=5).episode_return.shape == (2,)


@pytest.mark.parametrize(("selector", "start"), CASES)
@pytest.mark.sampled(2)
def test_a_run_that_trained_is_read_resumed_and_exported(selector, start, other, tmp_path):
    if selector in ENDS_RUN and start not in ("plain", "init"):
        with pytest.raises(ValueError, match="differs between members"):
            started(selector, start, other, tmp_path / "run")
        assert not (tmp_path / "run").exists()  # refused before training
        return
    run = started(selector, start, other, tmp_path / "run")
    folder = run.folder
    # Read.
    assert run.summary["members"] == len(run.members) == run.spec.members == MEMBERS
    assert len(run.summary["settings"]) == len(run.settings)
    assert f"{MEMBERS} members" in repr(run) and "<table>" in run._repr_html_()
    assert [policy.name for policy in run.policies] == [m["name"] for m in run.summary["per_member"]]
    evaluated = np.isfinite(run.curves["eval_return"]).any()
    member = "best" if evaluated and selector != "evolve" else 0
    shoal.load(folder, member), shoal.load(folder, MEMBERS - 1), shoal.load(folder, 1, which="best")
    twin = shutil.copytree(folder, tmp_path / "twin")
    if selector == "evolve":
        with pytest.raises(ValueError, match="is an evolution"):
            shoal.compare(folder, twin)
    else:
        assert shoal.compare(folder, twin).against(1, 0).difference.value == 0
    assert "<html" in shoal.report(folder, out=tmp_path / "page.html").read_text()
    assert "learning_rate" in export_config(folder, member=0)
    # Export.
    assert_acts_as(export(folder, tmp_path / "last", MEMBERS - 1), run.policy(MEMBERS - 1))
    assert_acts_as(export(folder, tmp_path / "best", 1, "best"), run.policy(1, "best"))
    # Resume, from the checkpoint before the last one.
    stopped = shutil.copytree(folder, tmp_path / "stopped")
    (stopped / "summary.json").unlink()
    if len(saved := checkpoint.saved(stopped / "checkpoints")) > 1:
        shutil.rmtree(saved[0])
    assert_acts_as(export(stopped, tmp_path / "of_stopped", 0), shoal.load(stopped, 0))
    resumed = shoal.train(resume=stopped, **QUIET)
    assert metrics_of(resumed.folder) == metrics_of(folder)
    assert resumed.summary["per_member"] == run.summary["per_member"]
    # Extend, and begin other runs with the policies.
    if selector in ENDS_RUN:
        with pytest.raises(ValueError, match="ends when its selector says so, so more steps cannot extend it"):
            shoal.train(resume=stopped, steps=2 * OPTIONS["steps"], **QUIET)
    else:
        longer = shoal.train(resume=stopped, steps=2 * OPTIONS["steps"], **QUIET)
        assert len(longer.curves["env_steps"]) == 2 * RECORDS
        assert_acts_as(export(stopped, tmp_path / "longer", 2), longer.policy(2))
        again = {**OPTIONS, "seeds": 1, "init": tmp_path / "longer", "folder": tmp_path / "again"}
        assert shoal.train("q-learning", "CliffWalking-v1", **again, **QUIET).summary["members"] == 1
    assert RunFolder(tmp_path / "last").read_spec().fields["num_steps"] == STEPS
