"""The best policies of a run: that of each occupant at its best evaluation, in memory and in `checkpoints/best`."""

from typing import Any

import jax
import numpy as np

from shoal.training import checkpoint
from shoal.training.folder import RunFolder, json_ready
from shoal.training.run_state import RunState


class BestPolicies:
    """The policy of each occupant at its best evaluation; none before the first one."""

    def __init__(self, folder: RunFolder, agent_revision: int) -> None:
        """Begin without policies. The folder gets them with the revision of their agent."""
        self.policies: Any = None  # [M]
        self._folder, self._agent_revision = folder, agent_revision

    def keep(self, policies: Any, is_better: np.ndarray) -> None:
        """Keep the policies [M] where `is_better` [M], and the earlier ones elsewhere; the first ones are all kept."""
        self.policies = policies if self.policies is None else _rows_where(is_better, policies, self.policies)

    def save(self, state: RunState) -> None:
        """Write the policies, if there are any: at its beginning only a branch has some, those of its run."""
        if self.policies is None:
            return
        about = {
            "returns": json_ready(state.best_return),
            "updates": state.updates,
            "agent_revision": self._agent_revision,
        }
        checkpoint.save(self._folder.best, {checkpoint.POLICIES: self.policies}, self._folder.spec_hash, about)

    def restore(self, like: Any) -> None:
        """Read the policies, with the shapes of `like`. Raises CheckpointError if they cannot be read."""
        self.policies = checkpoint.restore(self._folder.best, checkpoint.POLICIES, like, self._folder.spec_hash)

    def are_of(self, best_return: np.ndarray) -> np.ndarray:
        """Bool [M]: whether the folder has the policy of this best return, and not one of a later evaluation."""
        if self.policies is None:
            return np.zeros(len(best_return), bool)
        returns = checkpoint.about_of(self._folder.best)["returns"]
        return np.asarray([-np.inf if best is None else best for best in returns]) == best_return

    def take_over(self, other: "BestPolicies", is_known: np.ndarray, present: Any, rows: np.ndarray) -> None:
        """Take those of the members `rows` [N] of another run.

        Where not `is_known` [M], because the folder has a later one, take the member's `present` policy [M].
        """
        best = _rows_where(is_known, other.policies, present)
        self.policies = jax.tree.map(lambda x: x[rows], best)


def _rows_where(flag: np.ndarray, new: Any, old: Any) -> Any:
    """Return a tree with the rows of `new` where `flag` [M], and of `old` elsewhere."""

    def leaf(new: Any, old: Any) -> Any:
        return np.where(flag.reshape(flag.shape + (1,) * (np.ndim(new) - 1)), new, old)

    return jax.tree.map(leaf, new, old)
