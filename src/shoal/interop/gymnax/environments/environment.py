"""The classes that programs for gymnax name in annotations."""

from shoal.core.env import State as EnvState
from shoal.interop.gymnax.face import GymnaxEnv as Environment
from shoal.interop.gymnax.face import Params as EnvParams

__all__ = ["EnvParams", "EnvState", "Environment"]
