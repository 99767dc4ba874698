"""User files: copied into the run folder, and executed only where they are unchanged or the user permits it."""

import json
import sys

import jax
import numpy as np
import pytest

import shoal
from shoal.cli.main import main
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, import_file
from shoal.specs.describe import describe, to_json
from shoal.specs.sources import keep
from shoal.specs.spec import template
from shoal.training import checkpoint
from shoal.training.fine_tuning import first_policies
from shoal.training.folder import RunFolder
from shoal.training.jobs import job_from_spec, job_to_resume, make_job
from shoal.training.result import Result

WORLD = """
from shoal.core.struct import struct
from shoal.envs.classic.cartpole import CartPole

@struct
class Mine(CartPole):
    wind: float = 0.5
"""


@pytest.fixture
def folder(tmp_path):
    """The folder of a run in an environment of a user file, before its first chunk."""
    (tmp_path / "mine.py").write_text(WORLD)
    spec = make_job("ppo", f"{tmp_path / 'mine.py'}:Mine").spec
    made = RunFolder(tmp_path / "run")
    made.create()
    keep(made.path, spec)
    made.write_json("spec.json", spec.to_json())
    return made


def test_an_unchanged_user_file_is_used_and_copied(folder):
    assert (folder.path / "source" / "mine.py").read_text() == WORLD
    job = job_to_resume(folder.path, None, None, {})
    assert job.spec.env == f"{folder.path.parent / 'mine.py'}:Mine" and job.spec.env_fields["wind"] == 0.5
    assert job.spec.default_name == "ppo-Mine"


@pytest.mark.parametrize("change", ["moved", "changed"])
def test_a_moved_or_changed_user_file_must_be_given_again(change, folder, capsys):
    file = folder.path.parent / "mine.py"
    if change == "moved":
        file.unlink()
    else:
        file.write_text("raise SystemExit('was run')")
    reason = {"moved": "is not there any more", "changed": "has changed since"}[change]
    with pytest.raises(ValueError, match=rf"mine.py, which {reason}. .*trust_source=True"):
        job_to_resume(folder.path, None, None, {})
    for words in (["eval", str(folder.path)], ["train", "--resume", str(folder.path)]):
        assert main(words) == 2
        assert reason in capsys.readouterr().err
    job = job_to_resume(folder.path, None, None, {}, trust_source=True)
    assert job.spec.env == f"{folder.path / 'source' / 'mine.py'}:Mine"
    assert job.plan().env.wind == 0.5


def test_starting_from_policies_does_not_run_the_code_of_their_run(folder):
    agent = AGENTS["ppo"].build().bind(shoal.make("CartPole-v1"))
    shapes = jax.eval_shape(lambda: agent.policy_state(agent.init(make_key(0), shoal.make("CartPole-v1"))))
    policies = jax.tree.map(lambda x: np.full((1, *x.shape), 0.5, x.dtype), shapes)
    checkpoint.save(folder.checkpoints / "step-000001", {checkpoint.POLICIES: policies}, folder.spec_hash, {})
    (folder.path.parent / "mine.py").write_text("raise SystemExit('was run')")
    init = {"run": folder.path, "member": 0}
    plan = make_job("ppo", "CartPole-v1", preset=None, init=init, seeds=2).plan()
    first = jax.tree.leaves(first_policies(plan))
    assert len(first) == len(jax.tree.leaves(shapes)) and all((leaf == 0.5).all() and len(leaf) == 2 for leaf in first)


def test_a_copy_that_was_changed_is_never_run(folder):
    (folder.path.parent / "mine.py").unlink()
    (folder.path / "source" / "mine.py").write_text("raise SystemExit('was run')")
    with pytest.raises(ValueError, match="holds no copy as it was then"):
        job_to_resume(folder.path, None, None, {}, trust_source=True)


@pytest.mark.parametrize("place", ["run/source/mine.py", "elsewhere.py"])
def test_code_named_by_a_foreign_folder_is_never_run(place, folder):
    """Someone else's folder may name any file and its hash."""
    spec = json.loads((folder.path / "spec.json").read_text())
    (old,) = spec["sources"]
    named = folder.path.parent / place
    if place == "elsewhere.py":
        named.write_text("raise SystemExit('was run')")
        spec["sources"] = {}
    else:
        spec["sources"] = {str(named): spec["sources"][old]}
    spec["env"] = f"{named}:Mine"
    folder.write_json("spec.json", spec)
    with pytest.raises(ValueError, match="which is (no file of your own|not in its list of sources)"):
        job_to_resume(folder.path, None, None, {})


def test_a_given_value_replaces_its_missing_file(folder):
    env = template(job_to_resume(folder.path, None, None, {}).spec).env
    (folder.path.parent / "mine.py").unlink()
    assert job_to_resume(folder.path, None, env, {}).env is env


def test_a_run_is_repeated_from_its_spec(folder, tmp_path):
    first = job_to_resume(folder.path, None, None, {}).spec
    assert job_from_spec(folder.path).spec == first
    (tmp_path / "other.json").write_text((folder.path / "spec.json").read_text())
    assert job_from_spec(tmp_path / "other.json", seed=3, steps=1000).spec.seed == 3
    with pytest.raises(FileNotFoundError, match="nothing.json does not exist"):
        job_from_spec(tmp_path / "nothing.json")


LOSS = """
from typing import Any
from shoal.core.struct import Struct, struct

@struct
class Loss(Struct):
    weights: Any

    def __call__(self, value, old_value, target, clip):
        return (self.weights * (value - target)) ** 2
"""


def test_the_file_of_a_loss_that_is_swept_or_found_needs_the_same_consent(tmp_path):
    (tmp_path / "losses.py").write_text(LOSS)
    losses = [import_file(tmp_path / "losses.py").Loss(np.asarray([scale])) for scale in (1.0, 2.0)]
    spec = make_job("ppo", "CartPole-v1", sweep={"value_loss": losses}).spec
    made = RunFolder(tmp_path / "run")
    made.create()
    keep(made.path, spec)
    made.write_json("spec.json", spec.to_json())
    made.write_json("found.json", {"value_loss": to_json(describe(losses[1]))})
    assert Result(made.path).found["value_loss"].weights.tolist() == [2.0]

    (tmp_path / "losses.py").write_text("raise SystemExit('was run')")
    sys.modules.pop(type(losses[0]).__module__)  # as in another process
    with pytest.raises(ValueError, match="losses.py, which has changed since"):
        job_to_resume(made.path, None, None, {})
    for read in (lambda: Result(made.path).found, lambda: make_job("ppo", "CartPole-v1", found=made.path)):
        with pytest.raises(ValueError, match="losses.py, which has changed since"):
            read()
    plan = job_to_resume(made.path, None, None, {}, trust_source=True).plan()
    assert plan.roster.hyperparameters["value_loss"].weights.tolist() == [[1.0], [2.0]]
    job = make_job("ppo", "CartPole-v1", found=made.path, trust_source=True)
    assert job.plan().agent.value_loss.weights.tolist() == [2.0]


SELECTOR = """
from shoal.core.struct import struct
from shoal.specs.selector import Selector, Turnover

@struct
class Nothing(Selector):
    def select(self, state, standing, key):
        return state, Turnover.none(standing)
"""


def test_the_copy_of_a_selectors_file_can_be_trusted(tmp_path):
    (tmp_path / "nothing.py").write_text(SELECTOR)
    selector = import_file(tmp_path / "nothing.py").Nothing()
    spec = make_job("ppo", "CartPole-v1", selector=selector).spec
    made = RunFolder(tmp_path / "run")
    made.create()
    keep(made.path, spec)
    made.write_json("spec.json", spec.to_json())
    (tmp_path / "nothing.py").unlink()
    with pytest.raises(ValueError, match="nothing.py, which is not there any more"):
        job_to_resume(made.path, shoal.PPO(), None, {})
    plan = job_to_resume(made.path, None, None, {}, trust_source=True).plan()
    assert type(plan.selector).__name__ == "Nothing"
