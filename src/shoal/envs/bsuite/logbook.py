"""A logbook: a wrapper that writes bsuite's log of a world into the state, on the device, at bsuite's own episodes.

Source: bsuite 0.3.6 `utils/wrappers.py`, Logging, row for row.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from shoal.core.env import Env, Key, Observation, State
from shoal.core.struct import Number, static, struct
from shoal.core.wrappers.base import StatefulWrapper, WrapperState
from shoal.envs.bsuite.scores import Log, log_episodes

GENERAL = ("steps", "total_return", "episode_len", "episode_return")


@struct
class LogbookState(WrapperState):
    """The world inside, counters of our own, and the rows written so far."""

    steps: Int[Array, ""]  # of all episodes
    episode: Int[Array, ""]  # episodes that have ended
    total_return: Float[Array, ""]
    lost: Float[Array, ""]  # what rounding has added to it so far (Kahan 1965): a sum of a million rewards drifts
    episode_return: Float[Array, ""]
    rows: Float[Array, "G K"]  # a row for each episode of `log_episodes`, zero until then


@struct
class Logbook(StatefulWrapper):
    """Keep bsuite's log of a world: how it stands after episodes 1, 2, ..., 10, 12, 14, 17, 20, ... up to `episodes`.

    What happens after `episodes` episodes is not logged any more. `env` is a stack of worlds, made by `over`, of which
    this one plays number `setting`, a traced number: so a whole sweep is one population, `env_sweep={"setting": ...}`.
    """

    env: Env = dataclasses.field(metadata={"stacked": True})
    setting: Number = 0
    episodes: int = static(10_000)

    @classmethod
    def over(cls, worlds: Sequence[Env], episodes: int) -> "Logbook":
        """A logbook over worlds that differ in numbers only. Raises ValueError where they differ in more."""
        if len({jax.tree.structure(world) for world in worlds}) != 1:
            raise ValueError("worlds of one logbook must differ in numbers only: give each kind a logbook of its own.")
        if episodes < 1:
            raise ValueError(f"episodes={episodes} must be at least 1.")
        return cls(jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *worlds), 0, episodes)

    @property
    def world(self) -> Any:
        """The world of this setting."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[jnp.asarray(self.setting, jnp.int32)], self.env)

    def init(self, key: Key) -> LogbookState:
        """An empty logbook."""
        inner, none, nought = self.world.init(key), jnp.int32(0), jnp.float32(0)
        columns = len(GENERAL) + len(jax.eval_shape(self.world.bsuite_info, inner))
        rows = jnp.zeros((len(log_episodes(self.episodes)), columns), jnp.float32)
        return LogbookState(inner.time, inner, none, none, nought, nought, nought, rows)

    def noise(self, key: Key) -> Any:
        """The noise of the world inside."""
        return self.world.noise(key)

    def transition(
        self, state: LogbookState, action: Any, noise: Any
    ) -> tuple[LogbookState, Float[Array, ""], Bool[Array, ""], dict[str, Array]]:
        """A step inside; at the end of an episode that is to be logged, a row."""
        inner, reward, ended, info = self.world.transition(state.inner.replace(time=state.time), action, noise)
        steps, episode = state.steps + 1, state.episode + ended.astype(jnp.int32)
        owed, gained = reward - state.lost, state.episode_return + reward
        total = state.total_return + owed
        lost = (total - state.total_return) - owed
        counters = self.world.bsuite_info(inner)
        row = [steps, total, inner.time, gained, *(counters[name] for name in sorted(counters))]
        here = ended & (np.asarray(log_episodes(self.episodes), np.int32) == episode)
        rows = jnp.where(here[:, None], jnp.stack([x.astype(jnp.float32) for x in row])[None], state.rows)
        return LogbookState(inner.time, inner, steps, episode, total, lost, gained, rows), reward, ended, info

    def observe(self, state: LogbookState) -> Observation:
        """The observation of the world inside."""
        return self.world.observe(state.inner)

    def carry_over(self, ended: LogbookState, fresh: LogbookState) -> LogbookState:
        """The log and the counters go on."""
        kept = {name: getattr(ended, name) for name in ("steps", "episode", "total_return", "lost", "rows")}
        return fresh.replace(inner=self.world.carry_over(ended.inner, fresh.inner), **kept)

    def bsuite_info(self, state: LogbookState) -> dict[str, Float[Array, ""]]:
        """That of the world inside."""
        return self.world.bsuite_info(state.inner)

    def read(self, state: LogbookState, setting: Mapping[str, Any]) -> Log:
        """The log in a concrete state, as scores take it. `setting` is the sweep's, of this id."""
        names = (*GENERAL, *sorted(jax.eval_shape(self.bsuite_info, state)))
        episode = np.asarray(log_episodes(self.episodes))
        written = episode <= int(state.episode)
        rows = np.asarray(state.rows, float)[written]
        return Log(setting, {"episode": episode[written], **dict(zip(names, rows.T, strict=True))})


def logbooks_in(tree: Any) -> list[State]:
    """All logbook states in the state of an agent, wherever it keeps its worlds."""
    return [x for x in jax.tree.leaves(tree, is_leaf=_is_logbook) if _is_logbook(x)]


def _is_logbook(x: Any) -> bool:
    return isinstance(x, LogbookState)
