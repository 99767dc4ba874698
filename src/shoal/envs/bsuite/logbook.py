"""A wrapper that keeps bsuite's log of an environment in the environment state, on the device.

Source: bsuite 0.3.6 `utils/wrappers.py`, Logging: the same rows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from shoal.core.env import Env, Key, Observation, State, Transition
from shoal.core.struct import FieldInfo, Number, static, struct
from shoal.core.wrappers.base import StatefulWrapper, WrapperState
from shoal.envs.bsuite.scores import Log, log_episodes
from shoal.ops import sums

GENERAL = ("steps", "total_return", "episode_len", "episode_return")


@struct
class LogbookState(WrapperState):
    """The state of the inner environment, counters, and the rows of the log."""

    steps: Int[Array, ""]  # in all episodes so far
    episode: Int[Array, ""]  # number of finished episodes
    total_return: Float[Array, ""]  # the sum of all rewards so far
    lost: Float[Array, ""]  # rounding of total_return (`ops.sums`)
    episode_return: Float[Array, ""]  # the sum of the rewards of this episode so far
    rows: Float[Array, "G K"]  # a row for each episode of `log_episodes`; zeros until it ends


@struct
class Logbook(StatefulWrapper):
    """Keep bsuite's log of an environment: counters after episodes 1, 2, ..., 10, 12, 14, 17, 20, ... up to `episodes`.

    Later episodes are not logged. `env` holds several environments, stacked by `over` along the leading axis of each
    leaf; `setting` is the index of the one that is played. It is traced, so a whole sweep can be one population:
    `env_sweep={"setting": ...}`.
    """

    env: Env = FieldInfo(stacked=True).field()
    setting: Number = 0
    episodes: int = static(10_000)

    @classmethod
    def over(cls, envs: Sequence[Env], episodes: int) -> "Logbook":
        """A logbook of several environments. Raises ValueError if they differ in more than their traced fields."""
        if len({jax.tree.structure(env) for env in envs}) != 1:
            raise ValueError(
                "the environments of one logbook must differ in traced fields only: make one logbook for each "
                "combination of static fields."
            )
        if episodes < 1:
            raise ValueError(f"episodes={episodes} must be at least 1.")
        return cls(jax.tree.map(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *envs), 0, episodes)

    @property
    def selected(self) -> Any:
        """The environment at the index `setting`."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[jnp.asarray(self.setting, jnp.int32)], self.env)

    def init(self, key: Key) -> LogbookState:
        """The first state of the inner environment, and an empty log."""
        inner, zero, zero_f32 = self.selected.init(key), jnp.int32(0), jnp.float32(0)
        columns = len(GENERAL) + len(jax.eval_shape(self.selected.bsuite_info, inner))
        rows = jnp.zeros((len(log_episodes(self.episodes)), columns), jnp.float32)
        return LogbookState(inner.time, inner, zero, zero, zero_f32, zero_f32, zero_f32, rows)

    def noise(self, key: Key) -> Any:
        """The noise of the inner environment."""
        return self.selected.noise(key)

    def transition(self, state: LogbookState, action: Any, noise: Any) -> Transition[LogbookState]:
        """One step of the inner environment. At the end of an episode of `log_episodes`, write a row."""
        inner, reward, ended, info = self.selected.transition(state.inner.replace(time=state.time), action, noise)
        steps, episode = state.steps + 1, state.episode + ended.astype(jnp.int32)
        episode_return = state.episode_return + reward
        total, lost = sums.add(state.total_return, state.lost, reward)
        counters = self.selected.bsuite_info(inner)
        row = [steps, total, inner.time, episode_return, *(counters[name] for name in sorted(counters))]
        is_row = ended & (np.asarray(log_episodes(self.episodes), np.int32) == episode)
        rows = jnp.where(is_row[:, None], jnp.stack([x.astype(jnp.float32) for x in row])[None], state.rows)
        return LogbookState(inner.time, inner, steps, episode, total, lost, episode_return, rows), reward, ended, info

    def observe(self, state: LogbookState) -> Observation:
        """The observation of the inner environment."""
        return self.selected.observe(state.inner)

    def carry_over(self, ended: LogbookState, fresh: LogbookState) -> LogbookState:
        """Keep the log and the counters across the reset."""
        fields = {name: getattr(ended, name) for name in ("steps", "episode", "total_return", "lost", "rows")}
        return fresh.replace(inner=self.selected.carry_over(ended.inner, fresh.inner), **fields)

    def bsuite_info(self, state: LogbookState) -> dict[str, Float[Array, ""]]:
        """The counters of the inner environment."""
        return self.selected.bsuite_info(state.inner)

    def read(self, state: LogbookState, setting: Mapping[str, Any]) -> Log:
        """The log in a concrete (not traced) state, for `scores`. `setting` holds the fields of this id's setting."""
        names = (*GENERAL, *sorted(jax.eval_shape(self.bsuite_info, state)))
        episode = np.asarray(log_episodes(self.episodes))
        written = episode <= int(state.episode)
        rows = np.asarray(state.rows, float)[written]
        return Log(setting, {"episode": episode[written], **dict(zip(names, rows.T, strict=True))})


def logbooks_in(tree: Any) -> list[State]:
    """All logbook states in a pytree, such as an agent state that holds environment states."""
    return [x for x in jax.tree.leaves(tree, is_leaf=_is_logbook) if _is_logbook(x)]


def _is_logbook(x: Any) -> bool:
    return isinstance(x, LogbookState)
