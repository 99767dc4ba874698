"""`BabyLevel`, the base class of BabyAI's levels. A family of levels adds its rooms, its grammar and a generator."""

import abc
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, UInt8, UInt16

from shoal.core.env import Key, Transition
from shoal.core.struct import Number, Struct, is_concrete, struct
from shoal.envs.babyai.attempts import accepted
from shoal.envs.babyai.instruction import (
    AFTER,
    FIRST,
    GO_TO,
    KINDS,
    NONE,
    OPEN,
    PICK_UP,
    PUT_NEXT,
    SECOND,
    SIZE,
    VERB,
    Grammar,
    Instruction,
    is_possible,
    matches,
    navigations,
    padded,
    some_and_several,
)
from shoal.envs.babyai.mission import VERB_PHRASES, described, longest_mission, longest_text, parse, words
from shoal.envs.babyai.verifier import Tracks, first_tracks, needs_tracks, track, verify
from shoal.grid.cells import EMPTY, OBJECTS, color_of, object_of
from shoal.grid.level import GridState, Level, begin
from shoal.grid.rooms import Rooms
from shoal.grid.words import VOCABULARY


@struct
class Layout(Struct):
    """One attempt of a generator: a grid, the agent's pose, and the instruction."""

    grid: UInt16[Array, "W H"]
    x: Int[Array, ""]
    y: Int[Array, ""]
    direction: Int[Array, ""]
    instruction: Instruction
    is_accepted: Bool[Array, ""]  # False: the level has to be generated again


@struct
class BabyState(GridState):
    """A grid, the agent in it, and its instruction. Fields that a level does not need are None."""

    clauses: Int8[Array, "G P 8"]  # of the instruction, in the order in which the groups have to be done
    mission: UInt8[Array, "L"]  # the instruction as word numbers
    order: Int8[Array, ""] | None  # how the groups are spoken, see `Instruction`
    done: UInt8[Array, ""] | None  # which clauses are done, see `verify`
    tracks: Tracks | None  # the objects of the descriptors
    limit: Int[Array, ""] | None  # the time limit of this episode
    is_fallback: Bool[Array, ""] | None  # whether every attempt of the generator was rejected


@struct
class BabyLevel(Level):
    """A level with an instruction in words. A subclass defines `rooms`, `grammar` and `layout`.

    Actions and observation: see `Level`. The words of `mission` are all those of `grid/words.py`; its length L differs
    between levels.

    Info: `fallback`, in levels whose generator may reject a level: whether 16,384 attempts were rejected, and the level
    is the last of them, which may have no solution. It never occurs in the registered levels; it may with more things
    or in smaller rooms than they have, and a reset is then slow.

    Reward: 1 - 0.9 * time / limit when the instruction is fulfilled, 0 otherwise.
    End: terminated when the instruction is fulfilled; in the levels with `debug` or `strict` also, without a reward,
    when the agent opens a wrong door or picks up a wrong thing; truncated at the time limit.

    | action                 | it is done when                                                                         |
    |------------------------|-----------------------------------------------------------------------------------------|
    | go to D                | the agent faces D                                                                       |
    | open D                 | it toggles D, and D is open then                                                        |
    | pick up D              | it picks D up                                                                           |
    | put D next to E        | it drops D in one of the four cells next to E                                           |

    A description D ("the red ball") stands for the objects that fit it at the start, whatever happens to them; "a"
    instead of "the" says that there are several. "A, then B" needs A first. "A and B" may be done in any order.

    Source: MiniGrid 3.2.0, `envs/babyai/`. Differences: an attempt of the generator that would never end in MiniGrid
    (nowhere in its room can the agent face an empty cell or a wall) is rejected; nothing is printed when an attempt is
    rejected; the mode in which the agent has to choose "done" (BABYAI_DONE_ACTIONS) does not exist.
    """

    vocabulary_size: ClassVar[int] = len(VOCABULARY)
    # Whether `layout` may return a layout with `is_accepted` False, which is then generated again.
    can_reject: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def rooms(self) -> Rooms:
        """The number of rooms and their size."""

    @property
    @abc.abstractmethod
    def grammar(self) -> Grammar:
        """The kinds of instructions of this level: verbs, number of clauses, and whether places are named."""

    @abc.abstractmethod
    def layout(self, key: Key) -> Layout:
        """Generate a level in one attempt. `key` is consumed."""

    @property
    def reset_every(self) -> int:  # type: ignore[override]  # it follows from the size of the level
        """A quarter of the smallest time limit: most random episodes are longer."""
        fewest, _ = self._navigations
        return max(1, (self.time_limit or self._steps_per_navigation * fewest) // 4)

    @property
    def time_limit(self) -> int | None:
        """The cells of all rooms, for each object that the agent has to go to; None if their number is random."""
        fewest, most = self._navigations
        return self._steps_per_navigation * most if fewest == most else None

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height of all rooms together."""
        return self.rooms.shape

    @property
    def limit_range(self) -> tuple[Number, Number]:
        """The smallest and the largest time limit of an episode."""
        if self.max_steps is not None:
            return self.max_steps, self.max_steps
        fewest, most = self._navigations
        return self._steps_per_navigation * fewest, self._steps_per_navigation * most

    @property
    def mission_length(self) -> int:
        """The number of words of the longest instruction."""
        return longest_mission(self.grammar)

    @property
    def longest_mission(self) -> int:
        """The number of characters of the longest instruction."""
        return longest_text(self.grammar)

    def init(self, key: Key) -> BabyState:
        """Generate a level and begin an episode in it."""
        if not self.can_reject:
            return self.first_state(self.layout(key))
        return self.first_state(*accepted(self.layout, key))

    def first_state(self, layout: Layout, is_fallback: Bool[Array, ""] | None = None) -> BabyState:
        """The first state of an episode in a layout."""
        instruction, grammar = layout.instruction, self.grammar
        is_turned = instruction.order == AFTER
        to_do = instruction.replace(clauses=jnp.where(is_turned, instruction.clauses[::-1], instruction.clauses))
        pose = (layout.x, layout.y, layout.direction)
        found = matches(to_do, layout.grid, *pose, self.rooms.size)
        _, several = some_and_several(found)
        bits = several >> np.arange(2 * grammar.clauses, dtype=np.uint8) & np.uint8(1)
        is_plural = (bits == 1).reshape(*instruction.shape, 2)
        limit = None
        if self.max_steps is None:
            limit = jnp.maximum(navigations(instruction), 1) * self._steps_per_navigation
        return BabyState(
            **begin(layout.grid, *pose),
            clauses=to_do.clauses,
            mission=words(instruction, jnp.where(is_turned, is_plural[::-1], is_plural), grammar),
            order=instruction.order if grammar.groups > 1 else None,
            done=jnp.uint8(0) if grammar.clauses > 1 else None,
            tracks=first_tracks(found) if needs_tracks(grammar) else None,
            limit=limit,
            is_fallback=is_fallback,
        )

    def with_instruction(self, state: BabyState, text: str) -> BabyState:
        """The first state of an episode with the grid and the agent of a state, and an instruction given as text.

        Runs outside of compiled code, for a single state. Raises ValueError for an unknown word, for a text that is no
        instruction, for one that this level can not hold, for one that describes an object that is not there, and for a
        "put" that makes no sense: the object next to itself, or where one is next to the other already.

        The instruction is never strict: in the levels with `debug` or `strict` a wrong object does not end the episode.

            level = shoal.make("BabyAI-BossLevel-v0")
            state = level.with_instruction(level.init(key), "go to a door, then pick up a box")
        """
        self._check_state(state)
        instruction = parse(text)
        self._check_grammar(instruction, text)
        if int(state.carrying) != EMPTY:
            raise ValueError("an instruction is given to an agent that carries nothing: drop the object first.")
        layout = Layout(state.grid, state.x, state.y, state.direction, instruction, jnp.bool_(True))
        _check_objects(layout, self.rooms.size, text)
        layout = layout.replace(instruction=padded(instruction, self.grammar.groups, self.grammar.parts))
        return self.first_state(layout, None if state.is_fallback is None else jnp.bool_(False))

    def limit_of(self, state: BabyState) -> Number | None:
        """The time limit of the episode."""
        return state.limit if self.max_steps is None else self.max_steps

    def advance_task(self, before: BabyState, after: BabyState, action: Int[Array, ""]) -> Transition[BabyState]:
        """Verify the instruction."""
        tracks = None
        if before.tracks is not None:
            tracks = (before.tracks, track(before.tracks, before, after, action))
            after = after.replace(tracks=tracks[1])
        done = jnp.uint8(0) if before.done is None else before.done
        verdict = verify(before.clauses, self.grammar, done, tracks, before, after, action)
        if before.done is not None:
            after = after.replace(done=verdict.done)
        info = {} if before.is_fallback is None else {"fallback": before.is_fallback}
        reward = jnp.where(verdict.success, self.success(after), 0)
        return after, reward, verdict.success | verdict.failure, info

    def mission(self, state: BabyState) -> UInt8[Array, "L"]:
        """The instruction as word numbers."""
        return state.mission

    @property
    def _steps_per_navigation(self) -> int:
        return self.rooms.size**2 * self.rooms.columns * self.rooms.rows

    @property
    def _navigations(self) -> tuple[int, int]:
        # The smallest and the largest number of objects that the agent has to go to.
        objects = [2 if verb == PUT_NEXT else 1 for verb in self.grammar.verbs]
        return min(objects), max(objects) * self.grammar.clauses

    def _check_state(self, state: Any) -> None:
        """Raise TypeError or ValueError if this is not a single state of this level, with values that are known."""
        if not isinstance(state, BabyState):
            raise TypeError(f"with_instruction takes a state and then a text: {state!r:.60} is no state of this level.")
        if not is_concrete(state.time):
            raise TypeError("with_instruction runs outside of compiled code: call it before jax.jit or jax.vmap.")
        if jnp.ndim(state.time):
            raise ValueError(
                f"with_instruction takes one state, and here are {len(state.time)}. Take one of them with "
                "jax.tree.map(lambda x: x[0], state)."
            )
        if state.grid.shape != self.shape:
            (columns, rows), (width, height) = state.grid.shape, self.shape
            raise ValueError(f"the state has {columns} x {rows} cells, and this level {width} x {height}.")

    def _check_grammar(self, instruction: Instruction, text: str) -> None:
        """Raise ValueError if the states of this level have no room for an instruction."""
        clauses = np.asarray(instruction.clauses).reshape(-1, SIZE)
        fits = all(has <= room for has, room in zip(instruction.shape, self.grammar[1:3], strict=True))
        fits = fits and {int(verb) for verb in clauses[:, VERB]} - {NONE} <= {*self.grammar.verbs}
        if not fits or (np.any(clauses[:, [FIRST + 2, SECOND + 2]]) and not self.grammar.places):
            raise ValueError(
                f"instruction {text!r}: {type(self).__name__} has only {_in_words(self.grammar)}. "
                "BabyAI-BossLevel-v0 has all kinds of instructions."
            )


# The kinds of objects that a clause can be about: those of its first descriptor, those of its second.
_CARRIED = tuple(kind for kind in KINDS if kind != OBJECTS.index("door"))
_OBJECTS_OF = {
    NONE: (),
    GO_TO: (KINDS,),
    OPEN: ((OBJECTS.index("door"),),),
    PICK_UP: (_CARRIED,),
    PUT_NEXT: (_CARRIED, KINDS),
}


def _check_objects(layout: Layout, room_size: int, text: str) -> None:
    """Raise ValueError if there is no object for a descriptor, or a "put" makes no sense."""
    found = matches(layout.instruction, layout.grid, layout.x, layout.y, layout.direction, room_size)
    bits, grid = np.asarray(found), np.asarray(layout.grid)
    for c, clause in enumerate(np.asarray(layout.instruction.clauses).reshape(-1, SIZE).tolist()):
        for i, kinds in enumerate(_OBJECTS_OF[clause[VERB]]):
            is_candidate = np.isin(object_of(grid), kinds)
            if np.any(is_candidate & (bits >> 2 * c + i & 1 == 1)):
                continue
            what = described(*clause[FIRST + 3 * i : SECOND + 3 * i])
            others = {described(int(object_of(thing)), int(color_of(thing))) for thing in grid[is_candidate]}
            there = ", ".join(sorted(others)) or "none"
            raise ValueError(f"instruction {text!r}: the level has no {what} for this. There are: {there}.")
    # Only what the agent can carry is moved: "a grey object" describes walls, too.
    movable = np.where(np.isin(object_of(grid), _CARRIED), bits, bits & np.uint8(0b10101010))
    if not bool(is_possible(jnp.asarray(movable))):
        raise ValueError(
            f"instruction {text!r}: the object would be put next to itself, or one is next to the other already."
        )


def _in_words(grammar: Grammar) -> str:
    verbs = " or ".join(f'"{VERB_PHRASES[verb]}"' for verb in grammar.verbs)
    counts = {
        (1, 1): "one action",
        (1, 2): 'one action, or two joined by "and"',
        (2, 1): 'one action, or two joined by "then" or "after you"',
        (2, 2): "one to four actions",
    }
    places = "" if grammar.places else ', and no places such as "on your left"'
    return f"instructions of {counts[grammar.groups, grammar.parts]}, with {verbs}{places}"
