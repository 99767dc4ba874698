"""The trials of a study for one worker: ask, report, tell, limits, and taking over from dead workers."""

import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import TrialState

from shoal.studies.storage import open_study
from shoal.studies.trials import PRUNED, TrialStore

SPACE = {"rate": FloatDistribution(1e-4, 1e-1, log=True), "width": IntDistribution(1, 5)}


def new_study(url="memory", pruner=None):
    sampler = optuna.samplers.RandomSampler(seed=0)
    return open_study(url, "study", {"agent": "ppo"}, ["maximize"], sampler, pruner or optuna.pruners.NopPruner())


@pytest.fixture
def study():
    return new_study()


def test_a_study_finishes_exactly_the_trials_that_were_asked_for(study):
    with TrialStore(study, SPACE, trials=5) as store:
        first = store.ask(3)
        assert store.remaining() == 2
        second = store.ask(10)
        assert [t.number for t in first + second] == [0, 1, 2, 3, 4]
        assert store.remaining() == 0 and not store.is_over()
        for trial in first + second:
            assert store.tell(trial.number, trial.params["width"])
        assert store.is_over() and store.ask(1) == []
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 5
    assert [t.values for t in study.trials] == [[t.params["width"]] for t in study.trials]


def test_what_was_reported_or_told_before_is_skipped(study):
    with TrialStore(study, SPACE, trials=2) as store:
        number = store.ask(1)[0].number
        assert store.report(number, 1, 0.5) and store.report(number, 1, 0.75)
        assert study.trials[number].intermediate_values == {1: 0.5}
        assert store.tell(number, None, PRUNED)
        assert not store.tell(number, 1.0) and not store.report(number, 2, 1.0)
    assert study.trials[number].state is TrialState.PRUNED and study.trials[number].value == 0.5
