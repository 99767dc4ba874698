"""Players of the reference's levels: each returns the next action for the present situation of an environment.

Random play alone shows little of a verifier. `Bot` is MiniGrid's own. `busy` handles things of any kind; `returning`
goes to where the things of the mission are and were, which is where old positions and identities matter; `solve` plays
the levels that the bot can not.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from minigrid.utils.baby_ai_bot import BabyAIBot

from parity.babyai.reference import clauses_of, descriptors_of
from parity.minigrid import walker
from shoal.envs.babyai.bot import RepeatsItself, stopping

LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)
FORWARD_BIASED = np.array([3, 3, 10, 3, 2, 3, 1]) / 25
Player = Callable[[Any], int]


class Bot:
    """MiniGrid's bot, which sometimes acts at random instead. Once it gives up, or is stopped, it acts at random."""

    def __init__(self, env: Any, rng: np.random.Generator, noise: float) -> None:
        self.rng, self.noise, self.last = rng, noise, None
        self.bot: BabyAIBot | None = stopping(BabyAIBot)(env)
        self.is_stopped = False

    def __call__(self, env: Any) -> int:
        """The bot's advice, or a random action."""
        if self.bot is None or self.rng.random() < self.noise:
            self.last = int(self.rng.choice(7, p=FORWARD_BIASED))
            return self.last
        try:
            self.last = int(self.bot.replan(self.last))
        except RepeatsItself:
            self.bot, self.is_stopped, self.last = None, True, DONE
        except Exception:  # the bot gives up: asserts and errors of its own
            self.bot, self.last = None, DONE
        return self.last


class Busy:
    """Goes to a random thing, or with something in the hand to a random free cell, and handles it."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.target = rng, None

    def __call__(self, env: Any) -> int:
        """The next action on the way, or the one to take there."""
        if self.target is None or self.rng.random() < 0.02:
            self.target = self._new_target(env)
        return _towards(self, env, (PICKUP, PICKUP, DROP, DROP, TOGGLE, LEFT, RIGHT))

    def _new_target(self, env: Any) -> tuple[int, int] | None:
        wants_free = env.carrying is not None and self.rng.random() < 0.5
        places = [divmod(i, env.width)[::-1] for i, thing in enumerate(env.grid.grid) if _is(thing, wants_free)]
        return places[self.rng.integers(len(places))] if places else None


class Returning:
    """Goes to where a thing of the mission is, or to where it was when its position was last listed."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.target = rng, None

    def __call__(self, env: Any) -> int:
        """The next action on the way, or the one to take there."""
        if self.target is None or self.rng.random() < 0.01:
            self.target = self._new_target(env)
        return _towards(self, env, (PICKUP, PICKUP, PICKUP, DROP, DROP, TOGGLE, LEFT, RIGHT))

    def _new_target(self, env: Any) -> tuple[int, int] | None:
        descriptors = descriptors_of(env.instrs)
        descriptor = descriptors[self.rng.integers(len(descriptors))]
        things = {id(thing): divmod(i, env.width)[::-1] for i, thing in enumerate(env.grid.grid) if _is(thing, False)}
        places = [things[id(thing)] for thing in descriptor.obj_set if id(thing) in things]
        left = [tuple(at) for at in descriptor.obj_poss if env.grid.get(*at) is None]
        if left and self.rng.random() < 0.5:
            places = left
        if env.carrying is not None and self.rng.random() < 0.5:  # drop it beside them
            places = [(x + dx, y + dy) for x, y in places for dx, dy in walker.STEPS]
            places = [at for at in places if env.grid.get(*at) is None]
        return places[self.rng.integers(len(places))] if places else None


class Solve:
    """Solves what the bot does not: a key in a box, and levels in which the agent carries something from the start."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, env: Any) -> int:
        """The next action of a solution, or sometimes a random one."""
        action = _unlock_with_key_in_box(env) if type(env).__name__ == "KeyInBox" else _put_next(env)
        return int(self.rng.integers(6)) if action is None or self.rng.random() < 0.05 else action


def new_player(env: Any, rng: np.random.Generator) -> Player:
    """One of the players, at random, for a new episode of the reference."""
    kind = rng.random()
    if kind < 0.15:
        return lambda env: int(rng.integers(7))
    if kind < 0.3:
        return lambda env: int(rng.choice(7, p=FORWARD_BIASED))
    if kind < 0.45:
        return Busy(rng)
    if kind < 0.65:
        return Returning(rng)
    if type(env).__name__ == "KeyInBox" or env.carrying is not None:
        return Solve(rng)
    return Bot(env, rng, noise=(0.0, 0.05, 0.3)[rng.integers(3)])


def _towards(player: Busy | Returning, env: Any, there: tuple[int, ...]) -> int:
    """The next action towards the player's target; one of `there` in front of it, and then it needs a new target."""
    if player.target is not None:
        if tuple(env.front_pos) == player.target:
            player.target = None
            return int(player.rng.choice(there))
        action = walker.face(env, player.target)
        if action is not None:
            return action
    player.target = None
    return int(player.rng.integers(6))


def _unlock_with_key_in_box(env: Any) -> int | None:
    kinds = {thing.type: divmod(i, env.width)[::-1] for i, thing in enumerate(env.grid.grid) if thing is not None}
    if env.carrying is not None:
        return walker.use(env, kinds["door"], TOGGLE)
    if "key" in kinds:
        return walker.use(env, kinds["key"], PICKUP)
    return walker.use(env, kinds["box"], TOGGLE) if "box" in kinds else None


def _put_next(env: Any) -> int | None:
    clause = clauses_of(env.instrs)[0]
    if env.carrying is None:
        places = [at for at in clause.desc_move.obj_poss if env.grid.get(*at) is not None]
        return walker.use(env, places[0], PICKUP) if places else None
    beside = [(x + dx, y + dy) for x, y in clause.desc_fixed.obj_poss for dx, dy in walker.STEPS]
    ways = [walker.use(env, at, DROP) for at in beside if env.grid.get(*at) is None]
    return next((way for way in ways if way is not None), None)


def _is(thing: Any, wants_free: bool) -> bool:
    return thing is None if wants_free else thing is not None and thing.type != "wall"
