"""Environments of Pgx: `pgx/2048`, `pgx/connect_four`, `pgx/minatar-breakout`. Their steps are compiled with the agent.

The agent plays as player 0 of a game for several players; whose turn is first is drawn by Pgx. The others take random
legal actions. An action that is not legal ends the game, with Pgx's penalty as reward; the mask of legal actions is
the action mask, so agents that use one never take such an action.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from shoal.core.errors import need
from shoal.core.keys import Key, make_key
from shoal.core.spaces import Discrete, random_action
from shoal.core.struct import struct
from shoal.interop.foreign import (
    ForeignEnv,
    ForeignState,
    LibraryEnv,
    Outcome,
    arguments_of,
    checked_name,
    declare,
    plain_options,
    unbounded,
)

AGENT = 0  # the player whom the agent plays


@struct
class PgxEnv(ForeignEnv):
    """A game of Pgx against players who move at random, or for one player."""

    @classmethod
    def make_library_env(cls, options: Mapping[str, Any]) -> LibraryEnv:
        """Make the game, and trace its beginning for the shapes of observations."""
        env = _made(cls.id, options)
        state = jax.eval_shape(env.init, make_key(0))
        return LibraryEnv(env, unbounded(state.observation), Discrete(env.num_actions), None)

    def begin(self, key: Key) -> tuple[Any, Any]:
        """Begin a game, and let the others move until it is the agent's turn."""
        k_init, k_others = jax.random.split(key)
        state, _ = self._until_agents_turn(self.library.env.init(k_init), k_others)
        return state, _seen(state)

    def proceed(self, inner: Any, action: Any, key: Key | None) -> Outcome:
        """Take the agent's action, then those of the others. The reward is the sum of the agent's in all of them."""
        assert key is not None
        k_step, k_others = jax.random.split(key)
        state = self.library.env.step(inner, action, k_step)
        after, reward = self._until_agents_turn(state, k_others)
        return Outcome(after, _seen(after), state.rewards[AGENT] + reward, after.terminated | after.truncated)

    def observe(self, state: ForeignState) -> Any:
        """The observation of the player whose turn it is: during a game the agent."""
        return state.obs["observation"]

    def action_mask(self, state: ForeignState) -> Bool[Array, "A"]:
        """The legal actions."""
        return state.obs["legal"]

    def _until_agents_turn(self, state: Any, key: Key) -> tuple[Any, Any]:
        """Let the others take random legal actions: (the state at the agent's turn or at the end, the reward)."""
        env = self.library.env
        if env.num_players == 1:
            return state, jnp.float32(0)

        def goes_on(loop: tuple) -> Any:
            state = loop[0]
            return (state.current_player != AGENT) & ~(state.terminated | state.truncated)

        def move(loop: tuple) -> tuple:
            state, reward, key = loop
            key, k_act, k_step = jax.random.split(key, 3)
            action = random_action(self.action_space, state.legal_action_mask, k_act)
            state = env.step(state, action, k_step)
            return state, reward + state.rewards[AGENT], key

        state, reward, _ = jax.lax.while_loop(goes_on, move, (state, jnp.float32(0), key))
        return state, reward


def names() -> list[str]:
    """The ids that Pgx knows."""
    return list(_pgx("the list of Pgx's environments").available_envs())


@lru_cache
def class_of(name: str) -> type[ForeignEnv]:
    """Make the class of an id. The arguments of MinAtar's games are static fields; other games have one size."""
    full = checked_name("pgx", name, _pgx(f"pgx/{name}").available_envs())
    with jax.ensure_compile_time_eval():
        env = _made(name, {})
    arguments = plain_options(arguments_of(type(env))) if name.startswith("minatar-") else {}
    return declare(PgxEnv, full, f"{name} of Pgx.", options=arguments)


def _seen(state: Any) -> dict[str, Any]:
    return {"observation": state.observation, "legal": state.legal_action_mask}


def _made(name: str, options: Mapping[str, Any]) -> Any:
    env = _pgx(f"pgx/{name}").make(name)
    return type(env)(**options) if options else env


def _pgx(purpose: str) -> Any:
    return need("pgx", "pgx", purpose)
