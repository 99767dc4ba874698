"""Shoal's environments with gymnax's calls: `env, params = shoal.interop.gymnax.make("CartPole-v1")`.

`import shoal.interop.gymnax as gymnax` runs programs for gymnax 1.x: `step` resets by itself, returns six values, and
has the observation before the reset in `info["final_observation"]`. `import shoal.interop.gymnax.legacy as gymnax` runs
programs for gymnax 0.0.x, such as PureJaxRL: `step` returns five values. `wrappers`, `visualize`, `experimental` and
`environments` are modules in both. gymnax need not be installed.
"""

from shoal.core.env import State as EnvState
from shoal.interop.gymnax import environments, experimental, visualize, wrappers
from shoal.interop.gymnax.face import GymnaxEnv, LegacyGymnaxEnv, make, register, registered_envs
from shoal.interop.gymnax.face import Params as EnvParams

__all__ = [
    "EnvParams",
    "EnvState",
    "GymnaxEnv",
    "LegacyGymnaxEnv",
    "environments",
    "experimental",
    "make",
    "register",
    "registered_envs",
    "visualize",
    "wrappers",
]
