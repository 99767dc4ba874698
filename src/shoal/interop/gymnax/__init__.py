"""gymnax 1.x and gymnax 0.0.x for shoal's environments: the same calls, with another import.

gymnax 1.x: `import shoal.interop.gymnax as gymnax`. `step` resets by itself, returns six values, and has the
observation before the reset in `info["final_observation"]`. gymnax 0.0.x, for programs such as PureJaxRL:
`import shoal.interop.gymnax.legacy as gymnax`. `step` returns five values. In both, `env, params = make("CartPole-v1")`
makes an environment, and `wrappers`, `visualize`, `experimental` and `environments` are modules. gymnax need not be
installed.
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
