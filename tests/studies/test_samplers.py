"""Samplers and pruners by name, and the queue of a grid."""

import itertools
import warnings

import optuna
import pytest

from shoal.core.registry import AGENTS, make
from shoal.specs.settings import AgentEnv
from shoal.studies.samplers import PRUNERS, SAMPLERS, check_names, enqueue_grid, grid_size, make_pruner, make_sampler
from shoal.studies.search import read_space


@pytest.fixture(scope="module")
def dqn():
    return AgentEnv(AGENTS["dqn"].build(), make("CartPole-v1"))


@pytest.fixture(scope="module")
def space(dqn):
    return read_space(dqn, {"learning_rate": (1e-4, 1e-1, "log"), "epsilon_end": (0.01, 0.2), "batch_size": [16, 32]})


def suggested(study, sampler, space, count=6):
    study.sampler = sampler
    trials = [study.ask(space.distributions) for _ in range(count)]
    return [tuple(trial.params.values()) for trial in trials]


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in ("gp", "bohb")])
def test_samplers_suggest_batches_without_warnings_and_never_the_same_again(name, space):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study = optuna.create_study(direction="maximize")
        # A worker, the same one started again, and another one.
        found = [values for _ in range(3) for values in suggested(study, make_sampler(name, 0), space)]
    assert len(set(found)) == 18


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name not in ("gp", "bohb", "grid")])
def test_an_extended_study_suggests_what_a_longer_one_does(name, space):
    def values(*parts):
        study = optuna.create_study(direction="maximize")
        for count in parts:
            study.sampler = make_sampler(name, 0)
            for _ in range(count):
                trial = study.ask(space.distributions)
                study.tell(trial, trial.params["learning_rate"])
        return [trial.params for trial in study.trials]

    assert values(60) == values(3, 3, 54)  # TPE uses scores from trial 10 on, NSGA-II from 50 on


def test_every_point_of_a_grid_is_in_the_queue_once(dqn):
    search = {"learning_rate": [1e-3, 0.25], "hidden": [(4,), (8, 8), (2,)], "exploration": (0.1, 0.5)}
    space, order = read_space(dqn, search), {}
    expected = [*itertools.product([1e-3, 0.25], [(4,), (8, 8), (2,)], [0.1, 0.2, 0.3, 0.4, 0.5])]
    for seed in (0, 0, 1):
        study = optuna.create_study()
        for _ in range(2):  # the second time adds nothing
            enqueue_grid(study, space, seed)
        trials = study.get_trials()
        assert {trial.state.name for trial in trials} == {"WAITING"}
        values = [[each.value(trial.params[each.path]) for each in space.dimensions] for trial in trials]
        found = [(rate, hidden, round(share, 6)) for rate, hidden, share in values]
        assert len(found) == 30 and sorted(found) == sorted(expected) and found != expected
        assert order.setdefault(seed, found) == found
    assert order[0] != order[1] and grid_size(space) == 30
    study = optuna.create_study()
    study.add_trial(trials[7])
    enqueue_grid(study, space, 1)  # whose first process was killed in the middle
    assert len(study.get_trials()) == 30


def test_names_stand_for_pairs_of_sampler_and_pruner(space):
    assert check_names("bohb", "", 9, space) == ("tpe", "hyperband") == check_names("tpe", "", 9, space)
    assert check_names("qmc", "none", 1, space) == ("qmc", "none")
    with pytest.raises(ValueError, match="halving needs at least 3 records of each trial, and there are 2"):
        check_names("tpe", "halving", 2, space)


@pytest.mark.parametrize("name", [name for name in PRUNERS if name != "none"])
def test_pruners_end_trials_that_are_worse_than_earlier_ones(name, space):
    study = optuna.create_study(direction="maximize", study_name="study", pruner=make_pruner(name, 9))
    pruned = []
    for number in range(24):  # the later, the worse
        trial = study.ask()
        for record in range(1, 10):
            trial.report(100.0 - number, record)
            if record < 9 and trial.should_prune():
                pruned.append(number)
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, 100.0 - number)
    assert pruned and 0 not in pruned and len(pruned) < 24
