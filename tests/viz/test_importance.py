"""Importances of hyperparameters by name."""

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial

from shoal.viz import study as module
from shoal.viz.importance import IMPORTANCES, check_importance

RANGE = FloatDistribution(0.0, 1.0)


def test_fanova_gives_the_share_of_the_variance():
    """Of 3a + b, with a and b uniform and independent, a explains 9/12 and b 1/12 of 10/12: 0.9 and 0.1."""
    pytest.importorskip("sklearn")
    check_importance("fanova")
    study = optuna.create_study(direction="maximize")
    for i in range(300):
        params = {"a": (0.618034 * i) % 1, "b": (0.754878 * i) % 1}
        score = 3 * params["a"] + params["b"]
        study.add_trial(create_trial(params=params, distributions=dict.fromkeys(params, RANGE), value=score))

    class Probe:
        """In the place of `optuna.visualization`."""

        @staticmethod
        def plot_param_importances(study, *, evaluator, **_):
            return optuna.importance.get_param_importances(study, evaluator=evaluator)

    figures = module._figures(study, (), IMPORTANCES["fanova"])
    (figure,) = [figure for figure in figures if figure.name == "importances"]
    found = figure.draw(Probe)
    assert found == figure.draw(Probe) and found["a"] == pytest.approx(0.9, abs=0.03)
    assert found["a"] + found["b"] == pytest.approx(1) and "(fANOVA), by score." in figure.about


def test_a_name_that_is_unknown_or_needs_a_package_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="importance 'fanov' is not registered. Did you mean fanova"):
        check_importance("fanov")
    monkeypatch.setitem(__import__("sys").modules, "sklearn", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"the importance fanova needs .*'sklearn'.*pip install 'shoal\[fanova\]'"):
        check_importance("fanova")
    check_importance("ped-anova")
