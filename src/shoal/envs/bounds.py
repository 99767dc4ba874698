"""Bounds of spaces, computed from fields of an environment, and a check of the bounds of first states."""

import math

import numpy as np

from shoal.core.struct import Number, is_concrete


def lowest(constant: Number) -> float:
    """The smallest value of a constant, over all members of a population; `-inf` while JAX is tracing it."""
    return float(np.min(np.asarray(constant))) if is_concrete(constant) else -math.inf


def highest(constant: Number) -> float:
    """The largest value of a constant, over all members of a population; `inf` while JAX is tracing it."""
    return float(np.max(np.asarray(constant))) if is_concrete(constant) else math.inf


def check_reset_bounds(low: Number, high: Number) -> None:
    """Raise ValueError when `low` > `high`, for the bounds of a random first state. Traced values are not checked."""
    if is_concrete(low) and is_concrete(high) and np.any(np.asarray(low) > np.asarray(high)):
        raise ValueError(
            f"reset_low={low} is above reset_high={high}. Swap them, or make them equal for a fixed start."
        )
