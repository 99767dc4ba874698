"""CartPole and Pendulum with a channel for messages, under names of their own: `CheapTalk` around them.

Source: Lu, Willi, Letcher and Foerster 2023, "Adversarial Cheap Talk" (ICML); the authors' repository
luchris429/adversarial-cheap-talk, `act/main_train_time.py`.
"""

from shoal.core.registry import env
from shoal.core.struct import struct
from shoal.core.wrappers.cheap_talk import CheapTalk
from shoal.envs.classic.cartpole import CartPole
from shoal.envs.classic.pendulum import Pendulum


@env("CheapTalk-CartPole-v0")
@struct
class CheapTalkCartPole(CheapTalk):
    """CartPole whose observation ends with a message of two numbers, which an evolution of `env.message` can find.

    Action: Discrete(2), as in CartPole.

    Observation: Box(6), float32

    | i    | quantity                                                           |
    |------|--------------------------------------------------------------------|
    | 0-3  | the observation of CartPole                                        |
    | 4, 5 | the message, in +-`scale` (2 pi); 0 unless `message` has weights   |

    Reward: as in CartPole.
    Start: as in CartPole.
    End: as in CartPole, with a time limit of 200 steps. `env.env` is the inner CartPole, whose fields set all this.
    Differences from the source: the time limit truncates and does not terminate.
    """

    env: CartPole = CartPole(max_steps=200)


@env("CheapTalk-Pendulum-v0")
@struct
class CheapTalkPendulum(CheapTalk):
    """Pendulum whose observation ends with a message of two numbers, which an evolution of `env.message` can find.

    Action: Box(1), as in Pendulum.

    Observation: Box(5), float32

    | i    | quantity                                                           |
    |------|--------------------------------------------------------------------|
    | 0-2  | the observation of Pendulum                                        |
    | 3, 4 | the message, in +-`scale` (2 pi); 0 unless `message` has weights   |

    Reward: as in Pendulum.
    Start: as in Pendulum.
    End: as in Pendulum (200 steps). `env.env` is the inner Pendulum.
    Differences from the source: rewards and dynamics are those of Gymnasium's Pendulum.
    """

    env: Pendulum = Pendulum()
