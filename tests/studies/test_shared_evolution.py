"""Evolution over several environments: one fitness by hand, the same search everywhere, resumed bits, and transfer."""

import os
import shutil
import signal

import jax
import numpy as np
import pytest

import shoal
from shoal.core.registry import AGENTS, make
from shoal.specs.describe import describe
from shoal.studies import shared_evolution
from shoal.studies.runs import run_job
from shoal.tracking.events import Message, Recorded, Sink
from shoal.training.folder import RunFolder
from shoal.training.generations import fitness_of_generations
from shoal.training.jobs import job_from_spec
from shoal.training.references import known_references
from shoal.training.result import Result
from shoal.training.stopping import Stopped
from shoal.training.transfer import cells_of, references_of

ENVS = ["Blackjack-v1", "Taxi-v4"]  # returns of about -0.3 and -200
HOW = {"preset": None, "figures": False, "progress": False, "check": False}
SIZES = {"generations": 3, "candidates": 4, "seeds": 2, "steps": 1000, "records": 2}
RATE = {"learning_rate": (1e-3, 0.9, "log")}


def evolve(folder, **changes):
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        return shoal.evolve("q-learning", **{"vary": RATE, "envs": ENVS, **SIZES, **HOW, **changes}, folder=folder)


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    return evolve(tmp_path_factory.mktemp("shared") / "run", held_out=["FrozenLake-v1"], test_seeds=6)


def runs_of(folder):
    return [Result(folder), Result(folder / "envs" / "Taxi-v4")]


def check_same(folder, expected):
    """Check that two evolutions have the same bits: curves, what was found, and the comparison at the end."""
    for one, other in zip(runs_of(folder), runs_of(expected.folder), strict=True):
        assert one.curves.keys() == other.curves.keys()
        for name in {*one.curves} - {"wall_seconds"}:
            np.testing.assert_array_equal(one.curves[name], other.curves[name], err_msg=name)
        jax.tree.map(np.testing.assert_array_equal, one.found, other.found)
        assert one.is_finished
    assert Result(folder).summary["transfer"] == expected.summary["transfer"]


def test_the_runs_have_the_same_candidates_seeds_and_result(evolved):
    first, second = runs_of(evolved.folder)
    for name in ("learning_rate", "occupant"):
        np.testing.assert_array_equal(first.curves[name], second.curves[name])
    assert len(np.unique(first.curves["learning_rate"])) == 3 * 4
    assert first.found["learning_rate"] == second.found["learning_rate"] == evolved.found["learning_rate"]


def test_the_fitness_is_the_mean_of_the_normalized_returns(evolved):
    ends = {"Blackjack-v1": (-0.4027, -0.0431), "Taxi-v4": (-771.001, 8)}  # envs/references.toml
    expected = 0
    for run, (name, (low, high)) in zip(runs_of(evolved.folder), ends.items(), strict=True):
        assert known_references()[name]["random"] == low
        returns = run.curves["train_return"].reshape(3, 2, 4, 2)  # generation, record, candidate, seed
        expected = expected + (np.nanmean(returns, axis=1).mean(axis=-1) - low) / (high - low) / 2
    np.testing.assert_allclose(fitness_of_generations(evolved), expected, rtol=1e-5)
    assert fitness_of_generations(runs_of(evolved.folder)[1]).max() < -20  # of the other run alone: its returns


def test_the_test_has_seeds_that_the_search_did_not_use(evolved):
    names = sorted(path.name for path in (evolved.folder / "transfer").iterdir())
    assert names == [f"{env}-{values}" for env in sorted([*ENVS, "FrozenLake-v1"]) for values in ("found", "start")]
    for name in names:
        run = Result(evolved.folder / "transfer" / name)
        assert [member["seed"] for member in run.members] == [*range(6, 12)]  # 3 generations had the seeds 0 to 5
        rate = evolved.found["learning_rate"] if name.endswith("found") else AGENTS["q-learning"].build().learning_rate
        assert run.spec.fields["learning_rate"] == pytest.approx(float(rate)) and run.spec.selector is None


def test_the_summary_compares_both_in_every_environment(evolved):
    rows = evolved.summary["transfer"]
    assert [(row["env"], row["held_out"]) for row in rows] == [
        ("Blackjack-v1", False),
        ("Taxi-v4", False),
        ("FrozenLake-v1", True),
        ("", False),
    ]
    normalized = {}
    for row, (low, high) in zip(rows, [(-0.4027, -0.0431), (-771.001, 8), (0.0155, 0.7)], strict=False):
        for values in ("start", "found"):
            returns = Result(evolved.folder / "transfer" / f"{row['env']}-{values}").curves["train_return"]
            normalized[row["env"], values] = own = (np.nanmean(returns, axis=0) - low) / (high - low)
            np.testing.assert_allclose(row[values]["value"], own.mean(), rtol=1e-5)
        paired = normalized[row["env"], "found"] - normalized[row["env"], "start"]
        np.testing.assert_allclose(row["difference"]["value"], paired.mean(), rtol=1e-4, atol=1e-7)
        assert row["seeds"] == 6 and row["difference"]["low"] <= paired.mean() + 1e-7
    mean = np.mean([row["found"]["value"] for row in rows[:2]])
    np.testing.assert_allclose(rows[3]["found"]["value"], mean, rtol=1e-6)
    assert [cells[:3] for cells in cells_of(rows)][2:] == [["FrozenLake-v1", "held out", 6], ["mean", "trained", 6]]
    assert references_of(rows)[0] == "Blackjack-v1: 0 and 1 are random play -0.4027, the largest return -0.0431"


LOST = {
    "the first run in its last record": {"": 1},
    "the other run in its last record": {"envs/Taxi-v4": 1},
    "both after the last generation": {"": 1, "envs/Taxi-v4": 1},
    "the other run before it was saved": {"envs/Taxi-v4": 2},
}


@pytest.mark.parametrize("what", LOST)
def test_a_killed_evolution_has_the_same_bits(what, evolved, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(evolved.folder, copy)
    shutil.rmtree(copy / "transfer" / "Taxi-v4-found")
    for name, count in LOST[what].items():
        (copy / name / "summary.json").unlink()
        saved = sorted((copy / name / "checkpoints").glob("step-*"))
        for path in saved[-count:]:
            shutil.rmtree(path)
    (copy / "summary.json").unlink(missing_ok=True)
    with jax.numpy_dtype_promotion("standard"):
        shoal.evolve(resume=copy, figures=False, progress=False)
    check_same(copy, evolved)


class Interrupt(Sink):
    """Asks the run to stop, as Ctrl-C does, after so many records of the first run."""

    def __init__(self, records):
        self.left = records

    def receive(self, event):
        self.left -= isinstance(event, Recorded)
        if self.left == 0 and isinstance(event, Recorded):
            os.kill(os.getpid(), signal.SIGINT)


class Messages(Sink):
    """Keeps the messages."""

    def __init__(self):
        self.texts = []

    def receive(self, event):
        self.texts += [event.text] if isinstance(event, Message) else []


@pytest.mark.parametrize("where", ["the first run", "the other run"])
def test_a_stopped_evolution_has_the_same_bits(where, evolved, tmp_path, monkeypatch):
    sinks = [Interrupt(3)] if where == "the first run" else []
    if not sinks:
        make_run = shared_evolution.make_run

        def interrupted(job, plan, folder, **how):
            more = [Interrupt(3)] if folder.path.name == "Taxi-v4" else []
            return make_run(job, plan, folder, **{**how, "sinks": [*how["sinks"], *more]})

        monkeypatch.setattr(shared_evolution, "make_run", interrupted)
    with pytest.raises(Stopped, match=r"stopped. Continue with: shoal evolve --resume .*run"):
        evolve(tmp_path / "run", held_out=["FrozenLake-v1"], test_seeds=6, sinks=sinks)
    monkeypatch.undo()
    assert not (tmp_path / "run" / "summary.json").exists()
    with jax.numpy_dtype_promotion("standard"):
        shoal.evolve(resume=tmp_path / "run", figures=False, progress=False)
    check_same(tmp_path / "run", evolved)


def test_one_environment_has_the_bits_of_an_ordinary_evolution(tmp_path):
    alone = evolve(tmp_path / "alone", envs=None, env="Taxi-v4")
    listed = evolve(tmp_path / "listed", envs=["Taxi-v4"], test_seeds=0)
    for name in {*alone.curves} - {"wall_seconds"}:
        np.testing.assert_array_equal(listed.curves[name], alone.curves[name], err_msg=name)
    assert listed.found == alone.found and "transfer" not in listed.summary
    assert (listed.folder / "spec.json").read_bytes() == (alone.folder / "spec.json").read_bytes()


def test_a_part_of_an_evolution_does_not_go_on_alone(evolved, tmp_path):
    for folder in (evolved.folder, evolved.folder / "envs" / "Taxi-v4"):
        with pytest.raises(ValueError, match="evolution over Blackjack-v1, Taxi-v4, in which no run goes on alone"):
            shoal.train(resume=folder)
        with pytest.raises(ValueError, match="in which no run goes on alone"):
            run_job(job := job_from_spec(folder), job.plan(), RunFolder(tmp_path / "again"))
        assert len(Result(folder).policies) == 8  # but its policies can be used


BAD = {
    "an unknown environment": ({"envs": ["Blackjack-v1", "Taxi-v44"]}, "Did you mean Taxi-v4"),
    "one twice": ({"envs": [*ENVS, "Taxi-v4"]}, "Taxi-v4 is given twice: name each environment once"),
    "one that is held out": ({"held_out": ["Taxi-v4"]}, "Taxi-v4 is given twice: name each environment once"),
    "one that does not fit": (
        {"envs": ["Taxi-v4", "Pendulum-v1"]},
        "q-learning cannot play Pendulum-v1: a table needs actions",
    ),
    "one held out that does not fit": (
        {"held_out": ["CartPole-v1"]},
        "q-learning cannot play CartPole-v1: a table needs",
    ),
    "env too": ({"env": "Taxi-v4"}, "env and envs both name environments: give one of them"),
    "a name in the place of a list": ({"envs": "Taxi-v4"}, "envs='Taxi-v4' is of type str: it must be a list"),
    "none": ({"envs": []}, "envs is empty: name at least one environment"),
    "env fields that evolve": ({"vary": {"env.max_steps": (10, 20)}}, "fields of the environment cannot be set or"),
    "env fields": ({"env_fields": {"max_steps": 10}}, "fields of the environment cannot be set or evolve"),
    "no seeds": ({"held_out": ["FrozenLake-v1"], "test_seeds": 0}, "test_seeds=0 trains nothing"),
    "negative seeds": ({"test_seeds": -1}, "test_seeds=-1 must be 0 or more"),
    "an unknown argument": ({"figure": False}, "evolve has no argument figure. Did you mean figures"),
    "a selector": ({"selector": "pbt"}, "multiple values for keyword argument 'selector'"),
    "resume": ({"resume": "runs/x"}, "agent='q-learning' is for a new run; resume continues runs/x as it is"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_refused_before_anything_compiles(name, tmp_path):
    changes, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message):
        evolve(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_values_must_begin_alike_in_all_environments(tmp_path):
    with pytest.raises(
        ValueError, match="learning_rate begins with .* in CartPole-v1 and with .* in .*, because their"
    ):
        shoal.evolve(
            "ppo", vary=["learning_rate"], envs=["CartPole-v1", "Breakout-MinAtar"], folder=tmp_path / "run", steps=1000
        )


def test_environments_may_be_values(tmp_path):
    envs = [make("FrozenLake-v1", max_steps=20), make("Blackjack-v1")]
    said = Messages()
    run = evolve(tmp_path / "run", envs=envs, test_seeds=0, generations=1, records=1, sinks=[said])
    assert said.texts[:2] == [
        "fitness in FrozenLake-v1: 0 and 1 are the lowest and the highest candidate of each generation, because no "
        "target is known",
        "fitness in Blackjack-v1: 0 and 1 are the returns -0.4027 (random play) and -0.0431 (the target)",
    ]
    assert run.spec.selector.fields["envs"] == (("FrozenLake-v1",), ("Blackjack-v1", -0.4027, -0.0431))


def test_a_loss_evolves_over_environments(tmp_path):
    tiny = {"num_envs": 2, "num_steps": 16, "num_epochs": 1, "num_minibatches": 1, "hidden": (4,), "learning_rate": 0.1}
    sizes = {**SIZES, "generations": 2, "seeds": 1, "steps": 640, "records": 1}
    vary = {"value_loss": "residual", "value_coef": None}
    envs = ["CartPole-v1", "bsuite/catch/0"]
    with jax.numpy_dtype_promotion("standard"):
        run = shoal.evolve(
            "ppo", envs=envs, vary=vary, fields=tiny, test_seeds=0, folder=tmp_path / "run", **sizes, **HOW
        )
    other = Result(run.folder / "envs" / "bsuite-catch-0")
    jax.tree.map(np.testing.assert_array_equal, run.found, other.found)
    start = run.spec.fields["value_loss"], other.spec.fields["value_loss"]
    assert start[0] == start[1] != describe(run.found["value_loss"])
