"""Samplers and pruners as texts: options, functions of the user's own, and what cannot be made again."""

import subprocess
import sys

import optuna
import pytest
from optuna.pruners import NopPruner, ThresholdPruner
from optuna.samplers import RandomSampler, TPESampler

from shoal.core.errors import UntrustedError
from shoal.studies.makers import own_functions, written
from shoal.studies.samplers import make_pruner, make_sampler
from shoal.studies.study import StudyFolder
from shoal.studies.tune import tune

MINE = """
import optuna

def sampler(seed, spread=1):
    return optuna.samplers.RandomSampler(seed=seed // spread)

def without_seed():
    return optuna.samplers.QMCSampler(seed=3)

def pruner(records, share=0.5):
    return optuna.pruners.PercentilePruner(100 * share, n_startup_trials=1, n_warmup_steps=records - 2)

def broken(seed):
    return 1 / 0

def other():
    return 3

not_a_function = 3
"""
OPTIONS = {"parallel": 1, "seeds": 1, "steps": 3 * 32, "records": 3, "fields": {"num_steps": 32}, "fresh_seeds": 0}
OPTIONS |= {"progress": False, "figures": False, "search": ["learning_rate"]}


@pytest.fixture
def mine(tmp_path):
    """A file of the user's own, with another name in each test, because a module that is loaded is trusted."""
    path = tmp_path / f"mine_{tmp_path.name}.py"
    path.write_text(MINE)
    return path


def tuned(folder, trials=4, **changes):
    return tune("q-learning", "Blackjack-v1", trials=trials, root=folder, name="s", **{**OPTIONS, **changes})


def suggestions(result):
    return [trial.params["learning_rate"] for trial in result.study.get_trials()]


def ends(pruner, scores, records):
    """The record after which a pruner ends each trial, which has the same score in all records; None: it does not."""
    study, found = optuna.create_study(direction="maximize", pruner=pruner), []
    for score in scores:
        trial, ended = study.ask(), None
        for record in range(1, records + 1):
            trial.report(score, record)
            if record < records and ended is None and trial.should_prune():
                ended = record
                break
        found.append(ended)
        study.tell(trial, None if ended else score, optuna.trial.TrialState.PRUNED if ended else None)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A trial goes on at a rung if it is among the best n // eta of the n that were there, or the best.
        ("halving(eta=2)", [None, 1, 1, 2]),  # the fourth, 7, is among the best 2 of 8, 1, 1, 7, and not of 8, 7
        ("halving( eta = 4 )", [None, 1, 1, 1]),  # it is not the best of four
        ("halving(min_resource=2, eta=2)", [None, 2, 2, 4]),
        ("halving(eta=2,min_resource=3)", [None, 3, 3, 6]),
        ("none", [None] * 4),
        ("none()", [None] * 4),
    ],
)
def test_options_of_halving_say_where_rungs_are_and_how_many_go_on(text, expected):
    assert ends(make_pruner(text, 8), [8, 1, 1, 7], 8) == expected


def test_hyperband_has_one_bracket_for_each_power_of_eta_in_its_records():
    # floor(log(records / min_resource) / log(eta)) + 1 brackets: those of 16 records and eta 2 are 1, 2, 4, 8, 16.
    for text, count in (("hyperband(eta=2)", 5), ("hyperband(min_resource=2, eta=2)", 4), ("hyperband(eta=4)", 3)):
        pruner = make_pruner(text, 16)
        study = optuna.create_study(direction="maximize", study_name="s", pruner=pruner)
        trial = study.ask()
        trial.report(1.0, 1)
        trial.should_prune()
        assert len(pruner._pruners) == count


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("hyperband(min_resource=0)", ValueError, "min_resource=0 of the pruner hyperband must be at least 1"),
        ("halving(eta=1)", ValueError, "eta=1 of the pruner halving must be at least 2"),
        ("halving(eta=2.5)", ValueError, "eta=2.5 must be a whole number"),
        ("halving(eta=nan)", TypeError, "eta='nan' is of type str: it must be a whole number"),
        ("halving(eta=NaN)", ValueError, "eta=nan must be a whole number"),
        ("halving(eta=true)", TypeError, "eta=True is of type bool"),
        ("halving(eta=)", TypeError, "eta='' is of type str"),
        ("halving(eta=3, eta=4)", ValueError, "has 'eta' twice"),
        ("halving(3)", ValueError, "has '3' without the name of an option: write NAME"),
        ("halving(et=3)", TypeError, "the pruner halving has no option 'et'. Did you mean eta"),
        ("halving(records=3)", TypeError, "has no option 'records'. Its options are: min_resource, eta"),
        ("median(eta=3)", TypeError, "the pruner median has no option 'eta'. Its options are: none"),
        ("hyperband(min_resource=4)", ValueError, "hyperband needs at least 12 records of each trial, and there are 9"),
        ("halving(eta=10)", ValueError, "halving needs at least 10 records"),
        ("haling", ValueError, "pruner 'haling' is not registered. Did you mean halving"),
        ("halving(eta=3", ValueError, "is not registered. Did you mean halving"),
        ("", ValueError, "or one of your own as FILE.py:FUNCTION"),
    ],
)
def test_wrong_texts_are_refused_in_words(text, error, words):
    with pytest.raises(error, match=words.replace("(", r"\(")):
        make_pruner(text, 9)


def test_functions_of_other_packages_get_options_and_what_they_take():
    found = make_sampler("optuna.samplers:TPESampler(n_startup_trials=2, multivariate=false)", 5)
    assert isinstance(found._sampler, TPESampler) and found._sampler._n_startup_trials == 2
    assert isinstance(make_pruner("optuna.pruners:ThresholdPruner(upper=3)", 9), ThresholdPruner)
    with pytest.raises(TypeError, match="has no option 'seed'"):
        make_sampler("optuna.samplers:RandomSampler(seed=3)", 5)


def test_a_function_of_a_file_is_named_by_text_or_passed_itself(mine):
    text = f"{mine}:sampler(spread=2)"
    assert written("sampler", f"{mine.parent}/./{mine.name}:sampler(spread=2)") == text
    assert own_functions("tpe", text, "halving(eta=2)") == {text: own_functions(text)[text]}
    assert own_functions(text)[text].name == f"{mine}:sampler"
    assert written("sampler", make_sampler) == "shoal.studies.samplers:make_sampler"
    assert written("pruner", "none()") == "none" and written("pruner", " halving( eta=2) ") == "halving( eta=2)"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (RandomSampler(), "is made already, and a resumed study or another worker could not make it again"),
        (lambda seed: RandomSampler(seed), "cannot be imported by another process"),
        (3, "sampler=3 is neither a text nor a function"),
    ],
)
def test_what_cannot_be_made_again_is_refused_with_what_to_write(value, words, tmp_path):
    with pytest.raises(TypeError, match=words + r".*sampler=\"my_file.py:make\""):
        tuned(tmp_path, sampler=value)
    with pytest.raises(TypeError, match="made already.*returns the pruner"):
        tuned(tmp_path, pruner=NopPruner())
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        ("samplr", ValueError, "name 'samplr' is not registered. Did you mean sampler"),
        ("not_a_function", ValueError, "is no function: name one that returns a sampler of Optuna"),
        ("broken", ValueError, "mine_.*py:14: ZeroDivisionError: division by zero"),
        ("other", TypeError, "returned 3, which is no sampler of Optuna: return a BaseSampler"),
        ("pruner", ValueError, "TypeError: pruner() missing 1 required positional argument: 'records'"),
    ],
)
def test_a_function_that_makes_no_sampler_is_refused_before_the_study(function, error, words, mine):
    with pytest.raises(error, match=words.replace("()", r"\(\)")):
        tuned(mine.parent / "runs", sampler=f"{mine}:{function}")
    assert not (mine.parent / "runs").exists()


def test_a_study_with_functions_of_a_file_goes_on_as_if_it_had_not_stopped(mine):
    chosen = {"sampler": f"{mine}:sampler(spread=3)", "pruner": f"{mine}:pruner(share=0.25)"}
    whole = tuned(mine.parent / "whole", **chosen)
    assert len(set(suggestions(whole))) == 4
    part = tuned(mine.parent / "part", trials=2, **chosen)
    spec = part.spec
    assert (spec.sampler, spec.pruner) == (chosen["sampler"], chosen["pruner"]) and [*spec.sources] == [str(mine)]
    more = tune(resume=part.folder, trials=4, progress=False, figures=False)
    assert suggestions(more) == suggestions(whole)
    assert (more.folder / "source" / mine.name).read_text() == MINE


def test_a_function_without_a_seed_makes_one_sampler_for_all_trials(mine):
    made = (
        make_sampler(f"{mine}:without_seed", 0) if tuned(mine.parent, trials=1, sampler=f"{mine}:without_seed") else 0
    )
    assert isinstance(made, optuna.samplers.QMCSampler)


RESUME = """
import sys
from shoal.core.errors import UntrustedError
from shoal.studies.tune import tune
try:
    tune(resume=sys.argv[1], trials=3, progress=False, figures=False, trust_source=sys.argv[2] == "trust")
except UntrustedError as error:
    sys.exit(f"untrusted: {error}")
"""


def test_another_process_needs_consent_for_a_file_that_has_changed(mine):
    result = tuned(mine.parent, trials=2, sampler=f"{mine}:sampler")
    before = StudyFolder(result.folder).read_spec()
    mine.write_text(MINE.replace("seed // spread", "7"))  # a changed file is not run
    refused = subprocess.run(
        [sys.executable, "-c", RESUME, str(result.folder), "no"], capture_output=True, text=True, check=False
    )
    assert "untrusted" in refused.stderr and "has changed since. To run the copy in" in refused.stderr, refused.stderr
    with pytest.raises(UntrustedError, match="has changed since"):
        tune(resume=result.folder, trials=3, progress=False, figures=False)
    done = subprocess.run(
        [sys.executable, "-c", RESUME, str(result.folder), "trust"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    after = StudyFolder(result.folder).read_spec()
    assert after.trials == 3 and (after.sampler, after.sources) == (before.sampler, before.sources)
    whole = tuned(mine.parent / "whole", trials=3, sampler=f"{result.folder}/source/{mine.name}:sampler")
    assert suggestions(result) == suggestions(whole)


@pytest.mark.slow
def test_workers_make_the_functions_of_a_file_themselves(mine):
    result = tuned(mine.parent, trials=4, workers=2, sampler=f"{mine}:sampler", pruner=f"{mine}:pruner")
    assert sum(result.summary["trials"].values()) == 4 and len(set(suggestions(result))) == 4
