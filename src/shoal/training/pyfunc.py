"""What MLflow imports to load a policy as a model: `mlflow.pyfunc.load_model("models:/ID")`."""

from pathlib import Path
from typing import Any

from shoal.training.policy import load_policies


class PolicyModel:
    """A policy with the method that MLflow calls."""

    def __init__(self, policy: Any) -> None:
        """`policy` is a `shoal` policy."""
        self.policy = policy

    def predict(self, observations: Any, params: Any = None) -> Any:
        """Return the greedy actions for a batch of observations, or for one.

        A recurrent policy begins anew with every call. A table of pandas is taken as an array, a row for each
        observation.
        """
        del params
        self.policy.reset()
        return self.policy(observations.to_numpy() if hasattr(observations, "to_numpy") else observations)


def _load_pyfunc(path: str) -> PolicyModel:
    """Return the policy of an exported folder. MLflow calls this function by its name."""
    return PolicyModel(load_policies(Path(path))[1][0])
