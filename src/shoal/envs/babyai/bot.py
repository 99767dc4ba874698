"""Demonstrations of MiniGrid's bot for BabyAI's levels, in shoal's layouts.

The bot (`minigrid.utils.baby_ai_bot`, MiniGrid 3.2.0) plans on the host and knows only what the agent has seen. It
plays a copy of each level that is made of MiniGrid's own objects. Its actions are then replayed in shoal's environment,
in one compiled program for many episodes, which gives the observations and confirms that the instruction is fulfilled.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shoal.core.env import Env
from shoal.core.errors import need
from shoal.core.keys import make_key, stream
from shoal.core.kinds import checked_kinds
from shoal.core.registry import make
from shoal.envs.babyai.instruction import AFTER, ANY_COLOR, ANY_KIND, BEFORE, GO_TO, NONE, OPEN, PLACES, PUT_NEXT, VERB
from shoal.envs.babyai.level import BabyLevel
from shoal.grid.cells import COLORS, OBJECTS
from shoal.grid.level import Level
from shoal.rollouts.demonstrations import Demonstrations

BATCH = 64  # episodes that are replayed at a time
PADDING = 32  # episodes are replayed in programs for a multiple of so many steps
# Searches for one action after which the bot is taken to repeat itself.
MOST_SEARCHES = 1000
FIRST_EPISODES = 100  # if none of these is solved, recording ends with an error


@dataclasses.dataclass
class BotReport:
    """Counts of the episodes that the bot played, by their outcome."""

    solved: int = 0  # these are recorded
    too_slow: int = 0  # the time limit came first
    failed: int = 0  # the instruction failed, for example with the wrong object
    gave_up: int = 0  # the bot found no plan: it raised an error
    stopped: int = 0  # the bot looked for a plan without end, and was stopped

    @property
    def episodes(self) -> int:
        """How many episodes the bot played."""
        return sum(dataclasses.astuple(self))

    def __str__(self) -> str:
        """For example "the bot solved 98 of 100 levels; in 2 it looked for a plan without end and was stopped"."""
        rest = [
            (self.too_slow, "reached the time limit"),
            (self.failed, "failed"),
            (self.gave_up, "found no plan"),
            (self.stopped, "looked for a plan without end and was stopped"),
        ]
        others = "".join(f"; in {count:,} it {what}" for count, what in rest if count)
        return f"the bot solved {self.solved:,} of {self.episodes:,} levels{others}"


class Recorded(NamedTuple):
    """Demonstrations, and how the bot fared."""

    demonstrations: Demonstrations
    report: BotReport


@checked_kinds()
def record_bot(env: Env | str, steps: int = 10_000, *, seed: int = 0) -> Recorded:
    """Record at least `steps` steps of MiniGrid's bot in whole episodes of a BabyAI level, for `BC` to imitate.

    Only episodes in which the bot fulfils the instruction are recorded; the report counts the others. In some levels it
    looks for a plan without end and is stopped (UnlockToUnlock, and levels without a solution). Raises ValueError for
    another environment, and where the bot solves none of the first 100 levels (KeyInBox, PutNext...Carrying).

        demonstrations, report = shoal.record_bot("BabyAI-GoToLocal-v0", 5_000)
    """
    level = make(env) if isinstance(env, str) else env
    if not isinstance(level, BabyLevel):
        raise ValueError(
            f"the bot plays only BabyAI's levels without wrappers, not {type(level).__name__}: name one such as "
            "BabyAI-GoToLocal-v0."
        )
    if steps < 1:
        raise ValueError(f"steps={steps} must be at least 1.")
    bot = need("minigrid.utils.baby_ai_bot", "minigrid", "the bot")
    key, report, parts, count, batch = stream(make_key(seed), "bot"), BotReport(), [], 0, 0
    draw = jax.jit(lambda key: jax.vmap(level.init)(jax.random.split(key, BATCH)))
    while count < steps:
        states = jax.tree.map(np.asarray, draw(jax.random.fold_in(key, batch)))
        batch += 1
        played = [play(level, jax.tree.map(lambda x, i=i: x[i], states), report, bot) for i in range(BATCH)]
        solved = [i for i, actions in enumerate(played) if actions is not None]
        if not report.solved and report.episodes >= FIRST_EPISODES:
            raise ValueError(f"{report}: {type(level).__name__} is no level that it can play.")
        for obs, action in _replayed(level, states, played, solved):
            parts.append((obs, action))
            count += len(action)
    obs, action = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    return Recorded(Demonstrations(obs=obs, action=action), report)


def play(level: BabyLevel, state: Any, report: BotReport, bot: Any) -> list[int] | None:
    """The bot's actions from a first state on, if it fulfils the instruction, else None. The report counts it."""
    copy = copy_of(level, state)
    player, actions = stopping(bot.BabyAIBot)(copy), []
    while True:
        try:
            action = int(player.replan())
        except RepeatsItself:
            report.stopped += 1
            return None
        except (AssertionError, bot.DisappearedBoxError):
            report.gave_up += 1
            return None
        actions.append(action)
        _, reward, terminated, truncated, _ = copy.step(action)
        if terminated and reward > 0:
            report.solved += 1
            return actions
        if terminated:
            report.failed += 1
            return None
        if truncated:
            report.too_slow += 1
            return None


class RepeatsItself(Exception):
    """Raised where the bot searches so often for one action that it would never find it."""


@functools.cache
def stopping(bot: type) -> type:
    """The bot's class, whose `replan` raises `RepeatsItself` where it would not return."""

    class StoppingBot(bot):
        searches = 0

        def replan(self, action_taken: Any = None) -> Any:
            self.searches = 0
            return super().replan(action_taken)

        def _breadth_first_search(self, *args: Any, **kwargs: Any) -> Any:
            self.searches += 1
            if self.searches > MOST_SEARCHES:
                raise RepeatsItself
            return super()._breadth_first_search(*args, **kwargs)

    return StoppingBot


def copy_of(level: BabyLevel, state: Any) -> Any:
    """MiniGrid's environment in the situation of a first state, made of MiniGrid's own objects.

    Raises RuntimeError if its mission is not the level's.
    """
    roomgrid_level = need("minigrid.envs.babyai.core.roomgrid_level", "minigrid", "a copy of the level")
    rooms, arrays = level.rooms, jax.tree.map(jnp.asarray, state)
    copy = roomgrid_level.RoomGridLevel(
        room_size=rooms.size,
        num_rows=rooms.rows,
        num_cols=rooms.columns,
        max_steps=int(np.asarray(level.limit_of(arrays))),
        agent_view_size=level.view_size,
    )
    copy.see_through_walls = level.see_through_walls
    roomgrid_level.RoomGrid._gen_grid(copy, *level.shape)  # the rooms, to which it belongs where the agent starts
    for (x, y), cell in np.ndenumerate(state.grid):
        thing = _thing(int(cell))
        copy.grid.set(x, y, thing)
        if thing is not None:
            thing.init_pos = thing.cur_pos = (x, y)
    copy.agent_pos, copy.agent_dir = np.array([state.x, state.y]), int(state.direction)
    copy.carrying, copy.step_count = _thing(int(state.carrying)), 0
    copy.instrs = _instruction(state)
    copy.mission = copy.instrs.surface(copy)
    copy.instrs.reset_verifier(copy)
    _put_into_hand(copy, level, arrays)
    if copy.mission != (ours := level.mission_text(arrays)):
        raise RuntimeError(f"MiniGrid says {copy.mission!r} where shoal says {ours!r}.")
    return copy


def _put_into_hand(copy: Any, level: BabyLevel, state: Any) -> None:
    """Where the level puts an object into the agent's hand before the first action, do the same with the copy's."""
    if type(level).move_objects is Level.move_objects:
        return
    moved = level.move_objects(state.replace(time=jnp.int32(1)), None)
    for x, y in np.argwhere(np.asarray(moved.grid != state.grid)):
        copy.carrying = copy.grid.get(x, y)
        copy.grid.set(x, y, None)


def _thing(cell: int) -> Any:
    """MiniGrid's object for a cell; None if it is empty."""
    decode = need("minigrid.core.world_object", "minigrid", "a copy of the level").WorldObj.decode
    thing = decode(cell & 15, cell >> 4 & 7, cell >> 7 & 3)
    if thing is not None and cell >> 9:
        thing.contains = decode(cell >> 9 & 15, cell >> 13, 0)
    return thing


def _instruction(state: Any) -> Any:
    """MiniGrid's instruction for that of a state, whose groups are in the order in which they have to be done."""
    verifier = need("minigrid.envs.babyai.core.verifier", "minigrid", "a copy of the level")

    def description(kind: int, color: int, place: int) -> Any:
        return verifier.ObjDesc(
            None if kind == ANY_KIND else OBJECTS[kind],
            None if color == ANY_COLOR else COLORS[color],
            PLACES[place] or None,
        )

    def clause(row: list[int]) -> Any:
        verb, strict, first, second = row[VERB], bool(row[1]), description(*row[2:5]), description(*row[5:8])
        if verb == GO_TO:
            return verifier.GoToInstr(first)
        if verb == PUT_NEXT:
            return verifier.PutNextInstr(first, second, strict=strict)
        return (verifier.OpenInstr if verb == OPEN else verifier.PickupInstr)(first, strict=strict)

    def group(rows: np.ndarray) -> Any:
        parts = [clause(row) for row in rows.tolist() if row[VERB] != NONE]
        return parts[0] if len(parts) == 1 else verifier.AndInstr(*parts)

    order = 0 if state.order is None else int(state.order)
    if order == BEFORE:
        return verifier.BeforeInstr(*map(group, state.clauses))
    if order == AFTER:
        return verifier.AfterInstr(*map(group, state.clauses[::-1]))
    return group(state.clauses[0])


def _replayed(level: BabyLevel, states: Any, played: list, solved: list[int]) -> list[tuple[Any, np.ndarray]]:
    """The observations and actions of the episodes `solved`. Raises RuntimeError if one does not end in success."""
    if not solved:
        return []
    longest = max(len(played[i]) for i in solved)
    length = -(-longest // PADDING) * PADDING
    actions = np.zeros((BATCH, length), np.int32)
    for i in solved:
        actions[i, : len(played[i])] = played[i]
    obs, reward, terminated = jax.tree.map(np.asarray, _replay(level, states, actions))
    parts = []
    for i in solved:
        count = len(played[i])
        if not (terminated[i, count - 1] and reward[i, count - 1] > 0) or terminated[i, : count - 1].any():
            raise RuntimeError(f"the bot's actions solve MiniGrid's copy of {type(level).__name__}, but not the level.")
        action = actions[i, :count].astype(level.action_space.dtype)
        parts.append((jax.tree.map(lambda x, i=i, count=count: x[i, :count], obs), action))
    return parts


@jax.jit
def _replay(level: BabyLevel, states: Any, actions: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
    """(observation before each step, reward, terminated) of episodes with given actions, all with axes [E, T]."""

    def step(state: Any, action: jax.Array) -> tuple[Any, tuple]:
        after, reward, terminated, _, _ = level.advance(state, action, None)
        return after, (level.observe(state), reward, terminated)

    return jax.vmap(lambda state, sequence: jax.lax.scan(step, state, sequence)[1])(states, actions)
