"""`make` with the calls of gymnax 0.0.x, in the place of `import gymnax` in programs such as PureJaxRL's."""

from functools import partial

from shoal.core.env import State as EnvState
from shoal.interop.gymnax import environments, experimental, visualize, wrappers
from shoal.interop.gymnax.face import Params as EnvParams
from shoal.interop.gymnax.face import make as make_of_either
from shoal.interop.gymnax.face import registered_envs

make = partial(make_of_either, legacy=True)

__all__ = [
    "EnvParams",
    "EnvState",
    "environments",
    "experimental",
    "make",
    "registered_envs",
    "visualize",
    "wrappers",
]
