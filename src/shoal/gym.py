"""Import this module to make shoal's environments with Gymnasium: `gymnasium.make("shoal/CartPole-v1")`.

`gymnasium.make("shoal.gym:shoal/CartPole-v1")` imports it by itself. Gymnasium no longer has entry points for plug-ins.
"""

from shoal.interop.gymnasium_env import ShoalEnv
from shoal.interop.gymnasium_ids import gymnasium_id, register_all
from shoal.interop.gymnasium_vector import ShoalVectorEnv

__all__ = ["ShoalEnv", "ShoalVectorEnv", "gymnasium_id"]

register_all()
