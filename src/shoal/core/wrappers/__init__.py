"""Wrappers: environments that are made from another environment. Each has a file of its own."""

from shoal.core.wrappers.cheap_talk import CheapTalk
from shoal.core.wrappers.flatten_observation import FlattenObservation
from shoal.core.wrappers.frame_stack import FrameStack
from shoal.core.wrappers.puppet import Puppet
from shoal.core.wrappers.randomize import Randomize
from shoal.core.wrappers.rescale_action import RescaleAction
from shoal.core.wrappers.sticky_actions import StickyActions
from shoal.core.wrappers.time_limit import TimeLimit
from shoal.core.wrappers.transform_observation import TransformObservation
from shoal.core.wrappers.transform_reward import ClipReward, ScaleReward, TransformReward
from shoal.core.wrappers.trials import Trials

__all__ = [
    "CheapTalk",
    "ClipReward",
    "FlattenObservation",
    "FrameStack",
    "Puppet",
    "Randomize",
    "RescaleAction",
    "ScaleReward",
    "StickyActions",
    "TimeLimit",
    "TransformObservation",
    "TransformReward",
    "Trials",
]
