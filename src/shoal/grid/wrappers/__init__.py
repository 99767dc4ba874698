"""MiniGrid's wrappers for grid environments, one file each. Each has the name of MiniGrid's and does the same.

They nest as in MiniGrid: `ImgObs(RGBImgPartialObs(shoal.make("MiniGrid-DoorKey-8x8-v0")))`.
"""

from shoal.grid.wrappers.action_bonus import ActionBonus as ActionBonus
from shoal.grid.wrappers.dict_observation_space import DictObservationSpace as DictObservationSpace
from shoal.grid.wrappers.direction_obs import DirectionObs as DirectionObs
from shoal.grid.wrappers.flat_obs import FlatObs as FlatObs
from shoal.grid.wrappers.fully_obs import FullyObs as FullyObs
from shoal.grid.wrappers.img_obs import ImgObs as ImgObs
from shoal.grid.wrappers.no_death import NoDeath as NoDeath
from shoal.grid.wrappers.one_hot_partial_obs import OneHotPartialObs as OneHotPartialObs
from shoal.grid.wrappers.position_bonus import PositionBonus as PositionBonus
from shoal.grid.wrappers.reseed import Reseed as Reseed
from shoal.grid.wrappers.rgb_img_obs import RGBImgObs as RGBImgObs
from shoal.grid.wrappers.rgb_img_partial_obs import RGBImgPartialObs as RGBImgPartialObs
from shoal.grid.wrappers.stochastic_action import StochasticAction as StochasticAction
from shoal.grid.wrappers.symbolic_obs import SymbolicObs as SymbolicObs
from shoal.grid.wrappers.view_size import ViewSize as ViewSize
