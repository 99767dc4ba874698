"""What someone did, to be imitated: observations and the actions that answered them."""

from typing import Any

import jax

from shoal.core.struct import Struct, struct


@struct
class Demonstrations(Struct):
    """N answers of someone who knows how. All leaves lead with [N]."""

    obs: Any
    action: Any
    mask: Any = None  # bool [N, A], which actions were allowed; None where all always are

    def __len__(self) -> int:
        """N; of a population's, those of each member."""
        return jax.tree.leaves(self.action)[0].shape[0]

    def __repr__(self) -> str:
        return f"<{len(self)} demonstrations>"
