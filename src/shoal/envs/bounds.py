"""Bounds that follow from an environment's fields: of its spaces, and of the states it starts from."""

import math

import numpy as np

from shoal.core.struct import Number, is_concrete


def lowest(constant: Number) -> float:
    """The smallest value of a constant (of a population's, if it has one); `-inf` while JAX is tracing it."""
    return float(np.min(np.asarray(constant))) if is_concrete(constant) else -math.inf


def highest(constant: Number) -> float:
    """The largest value of a constant (of a population's, if it has one); `inf` while JAX is tracing it."""
    return float(np.max(np.asarray(constant))) if is_concrete(constant) else math.inf


def check_reset_bounds(low: Number, high: Number) -> None:
    """Raise ValueError when the bounds of the starting state are known and the wrong way round."""
    if is_concrete(low) and is_concrete(high) and np.any(np.asarray(low) > np.asarray(high)):
        raise ValueError(
            f"reset_low={low} is above reset_high={high}. Swap them, or make them equal for a fixed start."
        )
