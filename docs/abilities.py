"""The table of agents.md that says which agent works with what. Each cell is found by binding the agent.

`tests/agents/test_abilities.py` trains for each cell that says yes, and expects an error for each that says no.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from page_parts import table

from shoal.agents.rollout_agent import RolloutAgent
from shoal.core.agent import Agent
from shoal.core.env import Env
from shoal.core.errors import Unsuited
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box, Dict
from shoal.core.struct import struct
from shoal.core.wrappers.base import Wrapper
from shoal.population.pbt import PBT
from shoal.specs.selector import UserChoices

PLAYED = ("CartPole-v1", "Pendulum-v1", "CliffWalking-v1")  # of which every agent can play one
WORDS = (
    "Every agent trains any number of members and settings in one program, is resumed bit for bit after it was "
    "stopped, and can be chosen by studies, races, branches and `halving`. *PBT* is the selector `pbt`; *memory* are "
    "the recurrent networks; *Gymnasium* are environments that Python steps; *devices of a member* is "
    "`--devices-per-member`."
)


@struct
class InDict(Wrapper):
    """The observation of the inner environment as the only part of a Dict."""

    @property
    def observation_space(self) -> Dict:
        """A Dict with the inner space."""
        return Dict({"inner": self.env.observation_space})

    def observe(self, state: Any) -> Any:
        """A dict with the inner observation."""
        return {"inner": self.env.observe(state)}


@struct
class AsImage(Wrapper):
    """The numbers of the inner observation, each in a row of pixels of an image of 10 x 10 pixels."""

    @property
    def observation_space(self) -> Box:
        """An image of real numbers with one channel."""
        return Box(-np.inf, np.inf, (10, 10, 1))

    def observe(self, state: Any) -> Any:
        """The image [10, 10, 1]."""
        numbers = jnp.ravel(jnp.asarray(self.env.observe(state), jnp.float32))
        return jnp.resize(numbers, (10,))[:, None, None] * jnp.ones((1, 10, 1))


class Column(NamedTuple):
    """A column of the table."""

    title: str
    wrap: Callable[[Env], Env] = lambda env: env
    env: str = ""  # the only environment to play; "": any of `PLAYED`
    fields: Mapping[str, Any] = {}
    also: Callable[[Agent, Env], Any] = lambda agent, env: None  # raises an error, or returns False, for a no


COLUMNS = (
    Column("discrete actions", env="Probe-CountedMatching-v0"),
    Column("several at once", env="Probe-MultiDiscrete-v0"),
    Column("real actions", env="Pendulum-v1"),
    Column("action masks", env="Probe-Mask-v0"),
    Column("Dict", InDict),
    Column("images", AsImage),
    Column("memory", fields={"memory": "gru"}),
    Column("PBT", also=lambda agent, env: PBT().bind(agent, env, UserChoices())),
    Column("Gymnasium", also=lambda agent, env: isinstance(agent, RolloutAgent)),
    Column("devices of a member", also=lambda agent, env: type(agent).split is not Agent.split),
)


def played(name: str) -> Env:
    """The first environment of `PLAYED` that an agent can play."""
    return next(env for env in map(make, PLAYED) if _bound(AGENTS[name].build(), env))


def can(name: str, column: Column) -> bool:
    """Whether an agent works with what a column names."""
    env = column.wrap(make(column.env) if column.env else played(name))
    if missing := {*column.fields} - {*AGENTS[name].cls.__dataclass_fields__}:
        assert missing == {"memory"}
        return False
    agent = _bound(AGENTS[name].build(**column.fields), env)
    try:
        return agent is not None and column.also(agent, env) is not False
    except ValueError:
        return False


def ability_table() -> list[str]:
    """The words and the table of agents.md."""
    rows = [[f"[`{name}`](#{name})", *("yes" if can(name, column) else "" for column in COLUMNS)] for name in AGENTS]
    return [WORDS, table(("agent", *(column.title for column in COLUMNS)), rows)]


def _bound(agent: Agent, env: Env) -> Agent | None:
    """Return the agent, bound to an environment; None where it cannot play it."""
    try:
        return agent.bind(env)
    except Unsuited:
        return None
    except ValueError as error:  # of bc, which can play it, but has nothing to learn from
        assert "no demonstrations" in str(error)
        return agent
