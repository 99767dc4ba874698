"""Wrappers: environments that are made from another environment. Each has a file of its own."""

from shoal.core.wrappers.cheap_talk import CheapTalk as CheapTalk
from shoal.core.wrappers.flatten_observation import FlattenObservation as FlattenObservation
from shoal.core.wrappers.frame_stack import FrameStack as FrameStack
from shoal.core.wrappers.hide_observation import HideObservation as HideObservation
from shoal.core.wrappers.observe_goal import ObserveGoal as ObserveGoal
from shoal.core.wrappers.puppet import Puppet as Puppet
from shoal.core.wrappers.randomize import Randomize as Randomize
from shoal.core.wrappers.rescale_action import RescaleAction as RescaleAction
from shoal.core.wrappers.sticky_actions import StickyActions as StickyActions
from shoal.core.wrappers.time_limit import TimeLimit as TimeLimit
from shoal.core.wrappers.transform_observation import TransformObservation as TransformObservation
from shoal.core.wrappers.transform_reward import ClipReward as ClipReward
from shoal.core.wrappers.transform_reward import ScaleReward as ScaleReward
from shoal.core.wrappers.transform_reward import TransformReward as TransformReward
from shoal.core.wrappers.trials import Trials as Trials
