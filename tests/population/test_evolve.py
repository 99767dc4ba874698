"""Evolve: fitness, common random numbers and the steps of a strategy by hand; runs that resume to the same bits."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.agents.learned_losses import LearnedValueLoss
from shoal.core.keys import make_key, stream
from shoal.core.registry import make
from shoal.population.evolve import Evolve
from shoal.specs.roster import first_roster
from shoal.specs.selector import FRESH, Schedule, Standing, UserChoices
from shoal.specs.settings import AgentEnv
from shoal.studies import evolution
from shoal.studies.evolution import evolve
from shoal.studies.evolution_request import _varied
from shoal.training.generations import fitness_of, fitness_of_generations, mean_normalized
from shoal.training.jobs import job_from_spec, job_to_resume

RATE = ("learning_rate", 1e-4, 1e-2, "log")
TINY = {"num_envs": 2, "num_steps": 16, "num_epochs": 1, "num_minibatches": 1, "hidden": (4,)}
QUIET = {"figures": False, "progress": False, "check": False}


def standing(returns, alive=None, rates=None):
    members = np.shape(returns)[1]
    rates = np.full(members, 1e-3, np.float32) if rates is None else rates
    roster = first_roster({"learning_rate": rates}, np.zeros(members, np.int32))
    alive = np.ones(members, bool) if alive is None else alive
    zeros = np.zeros(members)
    return Standing(2, 10, roster, zeros, zeros, alive, np.asarray(returns, float))


def test_fitness_is_the_mean_over_records_and_seeds():
    # Two seeds each: candidate 0 has 1, 3 and 5, 7: means 2 and 6, so 4. Candidate 1: 10 and nothing, then 20: 15.
    returns = np.asarray([[1.0, 5.0, 10.0, 20.0], [3.0, 7.0, np.nan, 20.0]])
    alive = np.ones(4, bool)
    np.testing.assert_array_equal(fitness_of(returns, alive, 2, "whole"), [4, 15])
    np.testing.assert_array_equal(fitness_of(returns, alive, 2, "final"), [5, 15])  # 10 and 20: the newest known
    np.testing.assert_array_equal(fitness_of(returns, np.arange(4) < 3, 2, "whole"), [4, np.nan])


@pytest.mark.parametrize("maximize", [True, False])
def test_the_mean_moves_as_the_strategy_says(maximize):
    # Open_ES without shaping, SGD: mean += rate / (P sigma) sum_p fitness_p z_p, here with z from the candidates.
    made = Evolve(vary=(RATE,), seeds=1, sigma=0.1, learning_rate=0.01, optimizer="sgd", shaping="none")
    made = made.replace(maximize=maximize)
    first = standing(np.zeros((1, 4)))
    state, changes = made.begin(first.roster, make_key(0))
    z = (state["population"][:, 0] - 0.5) / 0.1  # 1e-3 is the middle of its range
    np.testing.assert_allclose(z, -np.roll(z, 2), atol=1e-5)  # mirrored pairs
    rates = 10 ** (-4 + 2 * np.clip(state["population"][:, 0], 0, 1))
    np.testing.assert_allclose(changes["learning_rate"], rates, rtol=1e-5)
    fitness = np.asarray([3.0, 1.0, 0.0, 2.0])
    after, turnover = made.select(state, standing(fitness[None], rates=changes["learning_rate"]), make_key(1))
    sign = 1 if maximize else -1
    expected = 0.5 + sign * 0.01 * (fitness * z).sum() / (4 * 0.1)
    np.testing.assert_allclose(after["search"].mean, [expected], rtol=1e-5)
    assert turnover.source.tolist() == [FRESH] * 4 and not turnover.finished
    found = made.found(after, first.roster)["learning_rate"]
    np.testing.assert_allclose(found, 10 ** (-4 + 2 * expected), rtol=1e-4)


def test_a_failed_candidate_counts_as_the_worst():
    made = Evolve(vary=(RATE,), seeds=1, learning_rate=0.01, optimizer="sgd", shaping="ranks")
    state, _ = made.begin(standing(np.zeros((1, 4))).roster, make_key(0))
    means = []
    for worst in (np.nan, -50.0):
        after, _ = made.select(state, standing([[3.0, worst, 0.0, 2.0]]), make_key(1))
        means.append(after["search"].mean)
    np.testing.assert_array_equal(*means)


def test_all_candidates_have_the_same_seeds_and_each_generation_new_ones():
    made = Evolve(vary=(RATE,), seeds=3, generations=2)
    assert made.first_seeds(np.arange(6, dtype=np.int32)).tolist() == [0, 1, 2, 0, 1, 2]
    state, _ = made.begin(standing(np.zeros((1, 6))).roster, make_key(0))
    state, turnover = made.select(state, standing(np.ones((1, 6))), make_key(1))
    assert turnover.seed_index.tolist() == [3, 4, 5, 3, 4, 5]
    _, turnover = made.select(state, standing(np.ones((1, 6))), make_key(1))
    assert turnover.finished and turnover.source.tolist() == [*range(6)]


def test_members_go_on_from_one_segment_to_the_next():
    made = Evolve(vary=(RATE,), seeds=1, segments=3, strategy="PersistentES", sigma=0.1, learning_rate=0.01)
    made = made.replace(optimizer="sgd")
    first = standing(np.zeros((1, 4)))
    state, _ = made.begin(first.roster, make_key(0))
    begun, sources, perturbations = 0.5, [], []
    for generation in range(3):
        perturbations.append(state["population"][:, 0] - state["search"].mean)
        fitness = np.random.default_rng(generation).normal(size=4)
        before = float(state["search"].mean[0])
        state, turnover = made.select(state, standing(fitness[None]), make_key(generation))
        # Vicol et al. 2021: the gradient uses the sum of a member's perturbations since its run began.
        expected = before + 0.01 * (fitness * np.sum(perturbations, axis=0)).sum() / 0.1**2 / 4
        np.testing.assert_allclose(state["search"].mean, [expected], rtol=1e-4)
        sources.append(turnover.source.tolist())
    assert begun != expected
    assert sources == [[0, 1, 2, 3], [0, 1, 2, 3], [FRESH] * 4]


@pytest.mark.parametrize("shaping", ["default", "ranks", "z-score"])
@pytest.mark.parametrize("strategy", ["PersistentES", "NoiseReuseES"])
def test_a_final_fitness_counts_in_the_last_segment_only(strategy, shaping):
    options = {"optimizer": "sgd", "shaping": shaping, "sigma": 0.1, "segments": 3}
    whole = Evolve(vary=(RATE,), seeds=1, strategy=strategy, **options)
    final, means = whole.replace(fitness="final"), {}
    for made in (whole, final):
        state, _ = made.begin(standing(np.zeros((1, 4))).roster, make_key(0))
        means[made] = [float(state["search"].mean[0])]
        for generation, fitness in enumerate(([5.0, 1.0, 3.0, 2.0], [4.0, 0.0, 1.0, 8.0], [1.0, 2.0, 3.0, 5.0])):
            state, turnover = made.select(state, standing([fitness]), make_key(generation))
            means[made].append(float(state["search"].mean[0]))
    assert turnover.notes[0].startswith("generation 3 of 100: fitness 2.75")
    assert means[final][0] == means[final][1] == means[final][2] != means[final][3]
    assert len(set(means[whole])) == 4 and means[whole][3] != means[final][3]


def test_a_final_fitness_needs_a_whole_training_run():
    made = Evolve(vary=(RATE,), seeds=1, strategy="PersistentES", segments=3, every=1, generations=2, fitness="final")
    with pytest.raises(ValueError, match="use --generations 3 or more"):
        made.check(Schedule(4, (10, 20, 30), (False,) * 3, 0, 5))
    made.replace(fitness="whole").check(Schedule(4, (10, 20, 30), (False,) * 3, 0, 5))


@pytest.mark.parametrize("strategy", ["PersistentES", "NoiseReuseES"])
def test_sigma_changes_only_where_training_runs_begin(strategy):
    made = Evolve(vary=(RATE,), seeds=1, segments=2, strategy=strategy, sigma=0.1, sigma_decay=0.5, learning_rate=1e-3)
    made = made.replace(optimizer="sgd")
    state, _ = made.begin(standing(np.zeros((1, 4))).roster, make_key(0))
    total = np.zeros(4)
    for generation, sigma in enumerate((0.1, 0.1, 0.025, 0.025)):  # 0.1 * 0.5**2 in the second run
        perturbation = state["population"][:, 0] - state["search"].mean
        # NoiseReuseES uses the perturbations of a run in all of its segments; PersistentES adds new ones up.
        total = perturbation if strategy == "NoiseReuseES" else total * (generation % 2) + perturbation
        before, fitness = float(state["search"].mean[0]), np.random.default_rng(generation).normal(size=4)
        state, _ = made.select(state, standing(fitness[None]), make_key(generation))
        expected = before + 1e-3 * (fitness * total).sum() / sigma**2 / 4
        np.testing.assert_allclose(state["search"].mean, [expected], rtol=1e-4)


def test_whole_numbers_stay_whole():
    made = Evolve(vary=(("batch_size", 4, 64),), seeds=1)
    roster = first_roster({"batch_size": np.full(4, 20, np.int32)}, np.zeros(4, np.int32))
    _, changes = made.begin(roster, make_key(0))
    assert changes["batch_size"].dtype == np.int32 and len(set(changes["batch_size"].tolist())) > 1
    state, _ = made.begin(roster, make_key(0))
    assert made.found(state, roster)["batch_size"].dtype == np.int32


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evolve") / "run"
    loss = LearnedValueLoss.init(make_key(0), hidden=(3,))
    vary = {"value_loss": loss, "learning_rate": (1e-4, 1e-2, "log")}
    sizes = {"generations": 3, "candidates": 4, "seeds": 2, "steps": 96, "records": 3}
    with jax.numpy_dtype_promotion("standard"):  # optax relies on it
        return evolve("ppo", "CartPole-v1", vary, **sizes, fields=TINY, preset=None, folder=folder, **QUIET)


def test_an_evolution_trains_every_generation_from_the_beginning(evolved):
    curves = evolved.curves
    assert curves["train_return"].shape == (9, 8)
    assert (np.diff(curves["occupant"], axis=0) != 0).all(axis=1).tolist() == [False, False, True] * 2 + [False] * 2
    rates = curves["learning_rate"]
    assert (rates[:, ::2] == rates[:, 1::2]).all() and len(np.unique(rates[0])) == 4
    assert (rates[0] == rates[2]).all() and (rates[2] != rates[3]).all()
    fitness = fitness_of_generations(evolved)
    assert fitness.shape == (3, 4)
    mean = np.nanmean(curves["train_return"][3:6, 2:4], axis=0).mean()
    np.testing.assert_allclose(fitness[1, 1], mean, rtol=1e-6)


def test_what_was_found_trains_another_run(evolved, tmp_path):
    found = evolved.found
    assert {*found} == {"value_loss", "learning_rate"} and found["value_loss"].layers[0]["kernel"].shape == (1, 3)
    options = {"steps": 32, "records": 1, "evaluations": 0, "preset": None, **QUIET}
    run = shoal.train("ppo", "CartPole-v1", found=evolved.folder, fields=TINY, folder=tmp_path / "run", **options)
    agent = run.spec.fields
    assert agent["learning_rate"] == pytest.approx(float(found["learning_rate"]))
    assert agent["value_loss"].name.endswith(":LearnedValueLoss")
    with pytest.raises(ValueError, match="has found no hyperparameters"):
        shoal.train("ppo", "CartPole-v1", found=run.folder)


def test_an_evolution_starts_from_what_another_one_has_found(evolved, monkeypatch):
    asked = []
    monkeypatch.setattr(evolution, "train", lambda *pair, **options: asked.append((pair, options)) or evolved)
    evolve("ppo", "CartPole-v1", ["value_loss", "learning_rate"], found=evolved.folder, fields=TINY, preset=None)
    evolve("value-loss", found=evolved.folder, fields={"learning_rate": 1e-3})
    for (pair, options), rate in zip(asked, (evolved.found["learning_rate"], 1e-3), strict=True):
        assert pair == ("ppo", "CartPole-v1") and options["fields"]["learning_rate"] == rate
        assert ("value_loss",) in options["selector"].vary
        jax.tree.map(np.testing.assert_array_equal, options["fields"]["value_loss"], evolved.found["value_loss"])
    for start in ("residual", LearnedValueLoss.init(make_key(0))):
        with pytest.raises(
            ValueError, match=r"value_loss starts from what .*run has found: write vary=\['value_loss'\]"
        ):
            evolve("ppo", "CartPole-v1", {"value_loss": start}, found=evolved.folder)
    with pytest.raises(ValueError, match=r"learning_rate begins with 0.0.*, outside of its range from 0.1 to 0.2"):
        evolve("ppo", "CartPole-v1", {"learning_rate": (0.1, 0.2)}, found=evolved.folder)


def test_more_steps_cannot_extend_an_evolution(evolved):
    with pytest.raises(ValueError, match="ends when its selector says so, so more steps cannot extend it"):
        job_to_resume(evolved.folder, None, None, {"steps": 192})


def test_numbers_inside_of_a_loss_that_is_named_may_evolve():
    setting = AgentEnv(shoal.PPO(), make("CartPole-v1"))
    varied, first = _varied(setting, {"value_loss.scale": (1, 20), "value_loss": "residual"}, 0)
    assert varied == (("value_loss.scale", 1, 20), ("value_loss",)) and first["value_loss"].scale == 10.0


def test_a_resumed_evolution_has_the_same_bits(evolved, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(evolved.folder, copy)
    steps = sorted((copy / "checkpoints").glob("step-*"))
    shutil.rmtree(steps[-1])  # as if it had been killed during the last record, after the second generation
    (copy / "summary.json").unlink()
    again = shoal.train(resume=copy, figures=False, progress=False)
    for name, curve in evolved.curves.items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(again.curves[name], curve, err_msg=name)
    jax.tree.map(np.testing.assert_array_equal, again.found, evolved.found)


def test_a_candidate_of_the_population_equals_the_same_training_alone(evolved, tmp_path):
    # Member 0 of the first generation, trained alone: same seed, learning rate and loss.
    plan = job_from_spec(evolved.folder).plan()
    _, candidates = plan.selector.begin(plan.roster, stream(make_key(0), "selector"))
    first = jax.tree.map(lambda x: jnp.asarray(x[0]), candidates)
    agent = shoal.PPO(**TINY, value_loss=first["value_loss"], learning_rate=first["learning_rate"])
    options = {"steps": 96, "records": 3, "evaluations": 0, **QUIET}
    alone = shoal.train(agent, "CartPole-v1", folder=tmp_path / "alone", **options)
    for name in ("train_return", "value_loss", "policy_loss"):
        np.testing.assert_array_equal(alone.curves[name][:, 0], evolved.curves[name][:3, 0], err_msg=name)


BAD = {
    "a static field": ({"num_envs": None}, {}, "num_envs shapes the program, so it cannot vary"),
    "a wrong path": ({"learning_rat": None}, {}, "has no field 'learning_rat'. Did you mean learning_rate"),
    "no start": ({"value_loss": None}, {}, "needs a struct to start from: write value_loss=network or value_loss="),
    "a wrong start": ({"value_loss": "foo"}, {}, "cannot start from 'foo'. It can start from: network, residual"),
    "no range": ({"adam_eps": None}, {}, "adam_eps declares no search range: write one"),
    "an empty range": ({"clip": (2, 1)}, {}, r"clip cannot be sampled from \(2, 1"),
    "an invalid range": ({"clip": (-1.0, 1)}, {}, "clip cannot vary from -1 to 1: PPO.clip=-1.0 is out of range"),
    "a range without width": ({"clip": (0.2, 0.2)}, {}, "clip cannot evolve from 0.2 to 0.2: a range needs two"),
    "a start outside": (
        {"learning_rate": (1e-6, 1e-5, "log")},
        {},
        "learning_rate begins with 0.0.*, outside of its range from 1e-06 to 1e-05: widen",
    ),
    "a sweep": (
        {"clip": None},
        {"sweep": {"discount": [0.9, 0.99]}},
        "candidates must differ only in what evolves, but",
    ),
    "nothing": ({}, {}, "nothing varies: name what evolves"),
    "an odd population": ({"clip": None}, {"candidates": 3}, "Population size must be even"),
    "a strategy of segments": (
        {"clip": None},
        {"options": {"strategy": "PersistentES"}},
        "PersistentES evaluates parts of unfinished",
    ),
    "segments of whole runs": (
        {"clip": None},
        {"options": {"segments": 5}},
        "Open_ES evaluates whole episodes or runs: try PersistentES or NoiseReuseES",
    ),
    "segments and records": ({"clip": None}, {"options": {"segments": 2}}, "cannot be split into 2 segments"),
    "no generation": ({"clip": None}, {"generations": 0}, "generations=0 must be at least 1"),
    "an unknown fitness": ({"clip": None}, {"options": {"fitness": "best"}}, "fitness='best' is unknown"),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_refused_before_anything_compiles(name, tmp_path):
    vary, arguments, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message), jax.log_compiles(False):
        evolve("ppo", "CartPole-v1", vary, folder=tmp_path / "run", **arguments)
    assert not (tmp_path / "run").exists()


def test_an_unknown_experiment_is_refused():
    with pytest.raises(ValueError, match="experiment 'value-los' .*Did you mean value-loss"):
        evolve("value-los")
    with pytest.raises(TypeError, match="evolve needs an agent, an environment and what varies"):
        evolve("ppo")


def test_numbers_need_no_range_where_the_field_declares_one():
    bound = Evolve(vary=(("learning_rate",), ("clip", 0.1, 0.3))).bind(shoal.PPO(), make("CartPole-v1"), UserChoices())
    assert bound.vary == (("learning_rate", 1e-5, 1e-2, "log"), ("clip", 0.1, 0.3, "linear"))
    again = bound.bind(shoal.PPO(), make("CartPole-v1"), UserChoices())
    assert again.vary == bound.vary
    of_run = (False,) * 5
    for learns_from, scored_from, message in (
        (
            0,
            np.inf,
            "every training run has 50 steps, after which candidates have no fitness: training has no episodes",
        ),
        (0, 60, "after which candidates have no fitness: no episode may have ended by then. Choose more"),
        (50, 10, "every training run has 50 steps, but the first gradient step comes after 50 steps"),
    ):
        with pytest.raises(ValueError, match=message):
            bound.check(Schedule(64, (10, 20, 30, 40, 50), of_run, learns_from, scored_from))
    bound.check(Schedule(64, (10, 20, 30, 40, 50), of_run, 40, 50))
    with pytest.raises(ValueError, match=r"every training run needs 5 records \(1 x 5\), and one of 4 steps has 4"):
        bound.check(Schedule(64, (1, 2, 3, 4), (False,) * 4, 0, 0))


def test_environments_count_equally_whatever_their_scales():
    # Candidate 0 is best in the first environment, whose returns are a thousandth of those in the second one.
    fitness = np.asarray([[0.9, 0.1, 0.5], [500.0, 700.0, np.nan]])
    envs = (("small", 0.0, 1.0), ("large", 0.0, 1000.0))
    np.testing.assert_allclose(mean_normalized(fitness, envs), [(0.9 + 0.5) / 2, (0.1 + 0.7) / 2, np.nan])
    # Without references: 0.1 to 0.9 and 500 to 700 are normalized to 0 and 1, in each environment.
    np.testing.assert_allclose(mean_normalized(fitness, (("small",), ("large",))), [0.5, 0.5, np.nan])
    # An environment in which all candidates are equal, or all failed, changes no rank, or lets all fail.
    same = np.asarray([[0.9, 0.1, 0.5], [7.0, 7.0, 7.0]])
    np.testing.assert_allclose(mean_normalized(same, (("small",), ("large",))), [0.5, 0.0, 0.25])
    assert np.isnan(mean_normalized(np.asarray([[1.0, 2.0], [np.nan, np.nan]]), (("a",), ("b",)))).all()


def test_the_search_follows_the_fitness_in_all_environments():
    envs = (("small", 0.0, 1.0), ("large", 0.0, 1000.0))
    returns = np.asarray([[0.9, 0.1, 0.5, 0.3], [500.0, 700.0, 100.0, 600.0]])
    expected = returns[0] / 2 + returns[1] / 2000  # by hand: 0.7, 0.4, 0.3, 0.45
    made = Evolve(vary=(RATE,), seeds=1, learning_rate=0.01, optimizer="sgd", shaping="none")
    shared = made.replace(envs=envs).with_source(lambda generation: [(own[None], np.ones(4, bool)) for own in returns])
    state, _ = made.begin(standing(np.zeros((1, 4))).roster, make_key(0))
    alone, _ = made.select(state, standing([expected]), make_key(1))
    after, turnover = shared.select(state, standing([returns[1]]), make_key(1))
    np.testing.assert_allclose(after["search"].mean, alone["search"].mean, rtol=1e-6)
    assert turnover.notes[0].endswith("fitness 0.4625 (0.3 to 0.7); mean returns: small 0.45, large 475")
    assert not shared.is_repeatable and made.is_repeatable
    bound = shared.bind(shoal.PPO(), make("CartPole-v1"), UserChoices())
    assert bound.source is shared.source and bound.envs == envs


@pytest.mark.parametrize("segments", [1, 2])
def test_a_candidate_that_fails_in_one_environment_counts_as_the_worst(segments):
    alive = np.asarray([True, False, True, True])
    trained = [(np.ones((1, 4)), np.ones(4, bool)), (np.asarray([[5.0, np.nan, 7.0, 9.0]]), alive)]
    options = {"segments": segments, "fitness": "final", "shaping": "ranks", "optimizer": "sgd"}
    made = Evolve(vary=(RATE,), seeds=1, strategy="Open_ES" if segments == 1 else "PersistentES", **options)
    shared = made.replace(envs=(("a",), ("b",))).with_source(lambda generation: trained)
    state, _ = made.begin(standing(np.zeros((1, 4))).roster, make_key(0))
    if segments == 1:
        alone, _ = made.select(state, standing([[0.0, -1.0, 1.0, 2.0]]), make_key(1))  # the same ranks
    else:  # before the last segment, all that have not failed have a fitness of 0
        alone, _ = made.replace(fitness="whole").select(state, standing([[0.0, -1.0, 0.0, 0.0]]), make_key(1))
    after, turnover = shared.select(state, standing(np.ones((1, 4))), make_key(1))
    np.testing.assert_allclose(after["search"].mean, alone["search"].mean, rtol=1e-6)
    assert "1 failed" in turnover.notes[0]
