"""Demonstrations: recorded observations and the actions taken in them, from which behaviour cloning learns."""

from typing import Any

import jax

from shoal.core.struct import Struct, struct


@struct
class Demonstrations(Struct):
    """N recorded steps of a policy. All leaves have a leading axis [N]."""

    obs: Any
    action: Any
    mask: Any = None  # bool [N, A], which actions were allowed; None if all actions always are

    def __len__(self) -> int:
        """N, the number of recorded steps."""
        return jax.tree.leaves(self.action)[0].shape[0]

    def __repr__(self) -> str:
        return f"<{len(self)} demonstrations>"
