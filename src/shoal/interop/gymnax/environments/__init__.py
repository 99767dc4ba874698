"""gymnax's names of environment classes: `environments.CartPole()` is the environment that `make` returns."""

from collections.abc import Callable
from typing import Any

from shoal.interop.gymnax.environments import environment, spaces
from shoal.interop.gymnax.environments.environment import EnvParams, EnvState
from shoal.interop.gymnax.face import GymnaxEnv, make

NAMES = {  # classes of gymnax, and the names under which `make` finds them
    **{"Acrobot": "Acrobot-v1", "CartPole": "CartPole-v1", "ContinuousMountainCar": "MountainCarContinuous-v0"},
    **{"MountainCar": "MountainCar-v0", "Pendulum": "Pendulum-v1", "MNISTBandit": "MNISTBandit-bsuite"},
    **{f"Min{name}": f"{name}-MinAtar" for name in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")},
    **{name: f"{name}-bsuite" for name in ("Catch", "DeepSea", "DiscountingChain", "MemoryChain", "UmbrellaChain")},
    **{name: f"{name}-misc" for name in ("BernoulliBandit", "FourRooms", "FrozenLake", "GaussianBandit", "MetaMaze")},
    **{name: f"{name}-misc" for name in ("PointRobot", "Pong", "Reacher", "Swimmer")},
    "SimpleBandit": "SimpleBandit-bsuite",
}


def __getattr__(name: str) -> Callable[..., GymnaxEnv]:
    if name not in NAMES:
        raise AttributeError(f"gymnax has no environment {name!r}: {', '.join(sorted(NAMES))}.")

    def made(**fields: Any) -> GymnaxEnv:
        return make(NAMES[name], **fields)[0]

    made.__name__, made.__doc__ = name, f"The environment {NAMES[name]}, with other fields if given."
    return made


__all__ = ["EnvParams", "EnvState", "environment", "spaces"]
