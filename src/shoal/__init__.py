"""Train many reinforcement-learning agents at once: environments, agents and search in one compiled JAX program.

    import shoal
    from shoal import PPO

    result = shoal.train(PPO(learning_rate=1e-3), "CartPole-v1", steps=100_000, seeds=16)
    policy = result.policy("best")
    action = policy(observation)

Names are imported when they are first used, so `import shoal` neither imports JAX nor starts a device.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.agents.bc import BC as BC
    from shoal.agents.dqn import DQN as DQN
    from shoal.agents.es import ES as ES
    from shoal.agents.learned_losses import LearnedDrift as LearnedDrift
    from shoal.agents.learned_losses import LearnedValueLoss as LearnedValueLoss
    from shoal.agents.ppo import PPO as PPO
    from shoal.agents.pqn import PQN as PQN
    from shoal.agents.presets import preset as preset
    from shoal.agents.sac import SAC as SAC
    from shoal.agents.tabular import QTable as QTable
    from shoal.agents.td3 import TD3 as TD3
    from shoal.core.agent import Agent as Agent
    from shoal.core.agent import Metrics as Metrics
    from shoal.core.checks import check_env as check_env
    from shoal.core.env import Env as Env
    from shoal.core.env import State as State
    from shoal.core.keys import make_key as make_key
    from shoal.core.registry import make as make
    from shoal.core.registry import register as register
    from shoal.core.spaces import Box as Box
    from shoal.core.spaces import Dict as Dict
    from shoal.core.spaces import Discrete as Discrete
    from shoal.core.spaces import MultiDiscrete as MultiDiscrete
    from shoal.core.spaces import Tuple as Tuple
    from shoal.core.struct import Number as Number
    from shoal.core.struct import Struct as Struct
    from shoal.core.struct import filled_by_bind as filled_by_bind
    from shoal.core.struct import hyper as hyper
    from shoal.core.struct import part as part
    from shoal.core.struct import static as static
    from shoal.core.struct import struct as struct
    from shoal.core.wrappers import CheapTalk as CheapTalk
    from shoal.core.wrappers import ClipReward as ClipReward
    from shoal.core.wrappers import FlattenObservation as FlattenObservation
    from shoal.core.wrappers import FrameStack as FrameStack
    from shoal.core.wrappers import Puppet as Puppet
    from shoal.core.wrappers import Randomize as Randomize
    from shoal.core.wrappers import RescaleAction as RescaleAction
    from shoal.core.wrappers import ScaleReward as ScaleReward
    from shoal.core.wrappers import StickyActions as StickyActions
    from shoal.core.wrappers import TimeLimit as TimeLimit
    from shoal.core.wrappers import TransformObservation as TransformObservation
    from shoal.core.wrappers import TransformReward as TransformReward
    from shoal.core.wrappers import Trials as Trials
    from shoal.core.wrappers.base import StatefulWrapper as StatefulWrapper
    from shoal.core.wrappers.base import Wrapper as Wrapper
    from shoal.core.wrappers.base import WrapperState as WrapperState
    from shoal.core.wrappers.cheap_talk import MessageNetwork as MessageNetwork
    from shoal.envs.babyai.bot import record_bot as record_bot
    from shoal.grid.checks import check_level as check_level
    from shoal.grid.wrappers import ActionBonus as ActionBonus
    from shoal.grid.wrappers import DictObservationSpace as DictObservationSpace
    from shoal.grid.wrappers import DirectionObs as DirectionObs
    from shoal.grid.wrappers import FlatObs as FlatObs
    from shoal.grid.wrappers import FullyObs as FullyObs
    from shoal.grid.wrappers import ImgObs as ImgObs
    from shoal.grid.wrappers import NoDeath as NoDeath
    from shoal.grid.wrappers import OneHotPartialObs as OneHotPartialObs
    from shoal.grid.wrappers import PositionBonus as PositionBonus
    from shoal.grid.wrappers import Reseed as Reseed
    from shoal.grid.wrappers import RGBImgObs as RGBImgObs
    from shoal.grid.wrappers import RGBImgPartialObs as RGBImgPartialObs
    from shoal.grid.wrappers import StochasticAction as StochasticAction
    from shoal.grid.wrappers import SymbolicObs as SymbolicObs
    from shoal.grid.wrappers import ViewSize as ViewSize
    from shoal.population.evolve import Evolve as Evolve
    from shoal.population.experiments import experiments as experiments
    from shoal.population.halving import Halving as Halving
    from shoal.population.learner_env import LearnerEnv as LearnerEnv
    from shoal.population.pbt import PBT as PBT
    from shoal.population.random import RandomSearch as RandomSearch
    from shoal.population.slots import Slots as Slots
    from shoal.reports.report import report as report
    from shoal.reproductions.run import Reproduced as Reproduced
    from shoal.reproductions.run import reproduce as reproduce
    from shoal.rollouts.checks import check_agent as check_agent
    from shoal.specs.selector import FRESH as FRESH
    from shoal.specs.selector import REST as REST
    from shoal.specs.selector import Selector as Selector
    from shoal.specs.selector import Standing as Standing
    from shoal.specs.selector import Turnover as Turnover
    from shoal.studies.bsuite import BsuiteResult as BsuiteResult
    from shoal.studies.bsuite import bsuite as bsuite
    from shoal.studies.evolution import evolve as evolve
    from shoal.studies.runs import train as train
    from shoal.studies.study import StudyResult as StudyResult
    from shoal.studies.sweeps import suites as suites
    from shoal.studies.sweeps import train_all as train_all
    from shoal.studies.sweeps import train_suite as train_suite
    from shoal.studies.throughput import Throughput as Throughput
    from shoal.studies.throughput import throughput as throughput
    from shoal.studies.tracked import track as track
    from shoal.studies.tune import tune as tune
    from shoal.tracking.events import Sink as Sink
    from shoal.tracking.request import Tracking as Tracking
    from shoal.training.comparison import compare as compare
    from shoal.training.export import export as export
    from shoal.training.export_config import export_config as export_config
    from shoal.training.host import prepare as prepare
    from shoal.training.playing import evaluate as evaluate
    from shoal.training.playing import record as record
    from shoal.training.playing import rollout as rollout
    from shoal.training.policy import Policies as Policies
    from shoal.training.policy import Policy as Policy
    from shoal.training.recording import load_demonstrations as load_demonstrations
    from shoal.training.recording import save_demonstrations as save_demonstrations
    from shoal.training.result import Result as Result
    from shoal.training.result import load as load
    from shoal.training.result import load_result as load_result
    from shoal.training.stopping import Stopped as Stopped
    from shoal.viz.animation import animate as animate
    from shoal.viz.videos import render as render

_HOME = {
    "shoal.agents.bc": ("BC",),
    "shoal.agents.dqn": ("DQN",),
    "shoal.agents.es": ("ES",),
    "shoal.agents.ppo": ("PPO",),
    "shoal.agents.pqn": ("PQN",),
    "shoal.agents.learned_losses": (
        "LearnedDrift",
        "LearnedValueLoss",
    ),
    "shoal.agents.presets": ("preset",),
    "shoal.agents.sac": ("SAC",),
    "shoal.agents.tabular": ("QTable",),
    "shoal.agents.td3": ("TD3",),
    "shoal.core.agent": (
        "Agent",
        "Metrics",
    ),
    "shoal.core.checks": ("check_env",),
    "shoal.core.env": (
        "Env",
        "State",
    ),
    "shoal.core.keys": ("make_key",),
    "shoal.core.registry": (
        "make",
        "register",
    ),
    "shoal.core.spaces": (
        "Box",
        "Dict",
        "Discrete",
        "MultiDiscrete",
        "Tuple",
    ),
    "shoal.core.struct": (
        "Number",
        "Struct",
        "filled_by_bind",
        "hyper",
        "part",
        "static",
        "struct",
    ),
    "shoal.core.wrappers": (
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
    ),
    "shoal.core.wrappers.base": (
        "StatefulWrapper",
        "Wrapper",
        "WrapperState",
    ),
    "shoal.core.wrappers.cheap_talk": ("MessageNetwork",),
    "shoal.grid.checks": ("check_level",),
    "shoal.grid.wrappers": (
        "ActionBonus",
        "DictObservationSpace",
        "DirectionObs",
        "FlatObs",
        "FullyObs",
        "ImgObs",
        "NoDeath",
        "OneHotPartialObs",
        "PositionBonus",
        "RGBImgObs",
        "RGBImgPartialObs",
        "Reseed",
        "StochasticAction",
        "SymbolicObs",
        "ViewSize",
    ),
    "shoal.population.evolve": ("Evolve",),
    "shoal.population.experiments": ("experiments",),
    "shoal.population.halving": ("Halving",),
    "shoal.population.learner_env": ("LearnerEnv",),
    "shoal.population.pbt": ("PBT",),
    "shoal.population.random": ("RandomSearch",),
    "shoal.population.slots": ("Slots",),
    "shoal.reports.report": ("report",),
    "shoal.reproductions.run": (
        "Reproduced",
        "reproduce",
    ),
    "shoal.rollouts.checks": ("check_agent",),
    "shoal.studies.bsuite": (
        "BsuiteResult",
        "bsuite",
    ),
    "shoal.studies.evolution": ("evolve",),
    "shoal.studies.runs": ("train",),
    "shoal.studies.sweeps": (
        "suites",
        "train_all",
        "train_suite",
    ),
    "shoal.studies.tracked": ("track",),
    "shoal.studies.study": ("StudyResult",),
    "shoal.studies.tune": ("tune",),
    "shoal.tracking.events": ("Sink",),
    "shoal.tracking.request": ("Tracking",),
    "shoal.studies.throughput": (
        "Throughput",
        "throughput",
    ),
    "shoal.envs.babyai.bot": ("record_bot",),
    "shoal.training.comparison": ("compare",),
    "shoal.training.export": ("export",),
    "shoal.training.export_config": ("export_config",),
    "shoal.training.host": ("prepare",),
    "shoal.training.playing": (
        "evaluate",
        "record",
        "rollout",
    ),
    "shoal.training.policy": (
        "Policies",
        "Policy",
    ),
    "shoal.training.recording": (
        "load_demonstrations",
        "save_demonstrations",
    ),
    "shoal.training.result": (
        "Result",
        "load",
        "load_result",
    ),
    "shoal.specs.selector": (
        "FRESH",
        "REST",
        "Selector",
        "Standing",
        "Turnover",
    ),
    "shoal.training.stopping": ("Stopped",),
    "shoal.viz.animation": ("animate",),
    "shoal.viz.videos": ("render",),
}
_HOME_OF = {name: module for module, names in _HOME.items() for name in names}


__version__: str  # of the installed package; `__getattr__` looks it up

if not TYPE_CHECKING:  # a type checker would take every unknown name for Any

    def __getattr__(name: str) -> Any:
        """Import a public name: a function, a class, or the class of a registered agent, also one of a plug-in."""
        if name in _HOME_OF:
            return getattr(importlib.import_module(_HOME_OF[name]), name)
        if name == "__version__":
            from importlib.metadata import PackageNotFoundError, version

            try:
                return version("shoal")
            except PackageNotFoundError:  # on PYTHONPATH, never installed
                return "unknown"
        from shoal.core.aliases import OTHER_NAMES

        if name in OTHER_NAMES:
            raise AttributeError(f"shoal has no {name!r}: {OTHER_NAMES[name]}.")
        if name[:1].isupper():
            from shoal.core.registry import agent_class

            return agent_class(name)
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_HOME_OF, "__version__"])
