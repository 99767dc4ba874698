"""gymnax 0.0.x (five values from `step`): `import shoal.interop.gymnax.legacy as gymnax`.

Programs such as PureJaxRL's and purejaxql's import it in the place of gymnax. For gymnax 1.x see the folder's
`__init__.py`.
"""

from functools import partial

from shoal.core.env import State as EnvState
from shoal.interop.gymnax import environments, experimental, visualize, wrappers
from shoal.interop.gymnax.face import Params as EnvParams
from shoal.interop.gymnax.face import make as make_of_either
from shoal.interop.gymnax.face import register, registered_envs

make = partial(make_of_either, legacy=True)

__all__ = [
    "EnvParams",
    "EnvState",
    "environments",
    "experimental",
    "make",
    "register",
    "registered_envs",
    "visualize",
    "wrappers",
]
