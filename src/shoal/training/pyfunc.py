"""The module that MLflow imports to load a policy as a model: `mlflow.pyfunc.load_model("models:/ID")`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.training.policy import has_masks, load_policies

WITH_MASK = ("observation", "action_mask")  # the names in an input that has a mask


class PolicyModel:
    """A policy with the method that MLflow calls."""

    def __init__(self, policy: Any) -> None:
        """`policy` is a `shoal` policy."""
        self.policy = policy

    def predict(self, observations: Any, params: Any = None) -> Any:
        """Return the greedy actions for a batch of observations, or for one.

        A recurrent policy begins anew with every call. A table of pandas is taken as an array, a row for each
        observation. Where the environment has action masks, the input is a dict `{"observation": ..., "action_mask":
        ...}` of these.
        """
        del params
        self.policy.reset()
        given = [observations]
        if has_masks(self.policy.env) and isinstance(observations, Mapping) and {*observations} == {*WITH_MASK}:
            given = [observations[name] for name in WITH_MASK]
        return self.policy(*(part.to_numpy() if hasattr(part, "to_numpy") else part for part in given))


def _load_pyfunc(path: str) -> PolicyModel:
    """Return the policy of an exported folder. MLflow calls this function by its name."""
    return PolicyModel(load_policies(Path(path))[1][0])
