"""How important hyperparameters are for the scores of a study: Optuna's evaluators by name."""

from collections.abc import Callable
from typing import NamedTuple

from optuna.importance import BaseImportanceEvaluator, FanovaImportanceEvaluator, PedAnovaImportanceEvaluator

from shoal.core.errors import need, unknown_name


class Importance(NamedTuple):
    """One measure: a sentence about it, as the start of one that names the score, and Optuna's evaluator."""

    about: str
    make: Callable[[], BaseImportanceEvaluator]


# Watanabe, Bansal and Hutter 2023.
PED_ANOVA = Importance(
    "How much each hyperparameter separates the best trials from all (PED-ANOVA)", PedAnovaImportanceEvaluator
)
# Hutter, Hoos and Leyton-Brown 2014. The trees of its random forest have random numbers of their own.
FANOVA = Importance(
    "The share of the variance over all trials that each hyperparameter explains by itself (fANOVA)",
    lambda: FanovaImportanceEvaluator(seed=0),
)
IMPORTANCES = {"ped-anova": PED_ANOVA, "fanova": FANOVA}


def check_importance(name: str) -> None:
    """Raise ValueError for an unknown name, with the nearest, and ImportError for a missing package."""
    if name not in IMPORTANCES:
        raise unknown_name("importance", name, IMPORTANCES, f"Choose one of: {', '.join(IMPORTANCES)}.")
    if name == "fanova":
        need("sklearn", "fanova", "the importance fanova")
