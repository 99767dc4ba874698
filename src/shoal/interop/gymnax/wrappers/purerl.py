"""The wrappers for training programs, under the name of their module in gymnax."""

from shoal.interop.gymnax.wrappers import (
    FlattenObservationWrapper,
    GymnaxWrapper,
    LogEnvState,
    LogWrapper,
    StickyActionWrapper,
)

__all__ = ["FlattenObservationWrapper", "GymnaxWrapper", "LogEnvState", "LogWrapper", "StickyActionWrapper"]
