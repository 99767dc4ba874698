"""Steps MiniGrid and shoal side by side from the same layout, and compares everything after every step.

Half of the episodes start from a layout of ours that is put into the reference, half from the reference's own after its
`reset`, read into our state. Players are random, biased forward and scripted; episodes start at time 0, start late, or
have a short time limit, and some that ended are played again with the limit on their last step, so that `terminated`
and `truncated` fall together.

A test module writes one `Family` and calls `assert_steps_match` for each of its ids. The long runs (100,000 steps an
id) write what they counted to the file that the environment variable SHOAL_PARITY_RECORD names:

    SHOAL_PARITY_RECORD=benchmarks/results/minigrid-parity.json pytest -m long tests/parity/minigrid -k match
"""

import dataclasses
import functools
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minigrid import walker
from parity.minigrid.layouts import (
    assert_frequencies,
    assert_same_distribution,
    cells,
    distance_to,
    drawing,
    layouts_of_ours,
    layouts_of_reference,
    mission,
    number_of,
    pose,
    position_of,
    whole,
)
from parity.minigrid.reference import MiniGridEnv, inject, make_reference, pack, packed_grid
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.grid.level import GridState
from shoal.grid.words import decode

__all__ = [
    "Family", "Result", "assert_frequencies", "assert_same_distribution", "assert_steps_match", "cells",
    "compare_steps", "distance_to", "few_and_many", "layouts_of_ours", "layouts_of_reference",
    "mission", "number_of", "pose", "position_of", "whole",
]  # fmt: skip

Script = Callable[[MiniGridEnv], int | None]
FEW, MANY = 2_000, 100_000
few_and_many = pytest.mark.parametrize(
    "steps", [FEW, pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
FORWARD_BIASED = np.array([3, 3, 10, 3, 2, 3, 1])
RARELY = 0.05  # how often a scripted player does something else


def _nothing(_: Any) -> dict[str, Any]:
    return {}


class Family(NamedTuple):
    """The data of a level family that the harness needs besides grid, agent and mission."""

    # Our state (unbatched, NumPy) -> attributes of the reference, see `reference.inject`.
    task_of: Callable[[Any], dict[str, Any]] = _nothing
    # The reference after its reset -> the fields that our state has beyond those of GridState.
    fields_of: Callable[[Any], dict[str, Any]] = _nothing
    # Scripted players for the task, see `walker`; some should succeed, some fail.
    scripts: tuple[Script, ...] = (walker.reach_goal,)
    # Makes the reference's next step draw what ours drew: (reference, our state before, our state after).
    force: Callable[[Any, Any, Any], None] | None = None
    # Whether success and failure exist, so that a run that meets none of them has shown too little.
    succeeds: bool = True
    fails: bool = False
    # How many of our layouts to draw at a time: few where that takes long.
    batch: int = 500


class Result(NamedTuple):
    """What a comparison met."""

    steps: int
    episodes: int
    successes: int
    failures: int
    truncations: int
    both: int  # terminated and truncated in one step
    mismatches: list[str]


@dataclasses.dataclass
class Episode:
    """One episode under way, and what it takes to play it again."""

    number: int  # names the stream of its noise
    origin: str
    player: Callable[[MiniGridEnv, int], int]
    start: Any
    limit: int
    actions: list[int] = dataclasses.field(default_factory=list)
    is_replay: bool = False


def assert_steps_match(env_id: str, family: Family, steps: int, seed: int = 0) -> Result:
    """Zero mismatches in at least `steps` steps, in which success, failure, time limit, and limit with end were met."""
    result = compare_steps(env_id, family, steps, seed)
    if steps >= MANY:
        _record(env_id, result)
    assert not result.mismatches, "\n".join(result.mismatches[:3])
    assert _is_covered(result, family), f"{env_id}: the players met too little: {result}"
    return result


def compare_steps(env_id: str, family: Family, steps: int, seed: int = 0, slots: int = 16) -> Result:
    """Play on both sides until `steps` steps are compared; a bit longer where some kind of end was not met yet."""
    match = Match(env_id, family, seed, slots)
    while match.result.steps < steps or (match.result.steps < 4 * steps and not _is_covered(match.result, family)):
        match.step()
    return match.result


def _is_covered(result: Result, family: Family) -> bool:
    return (
        result.truncations > 0
        and (result.successes > 0 or not family.succeeds)
        and (result.failures > 0 or not family.fails)
        and (result.both > 0 or not (family.succeeds or family.fails))
    )


class Match:
    """Some episodes side by side: our states as one batch, the reference as one environment each."""

    def __init__(self, env_id: str, family: Family, seed: int, slots: int) -> None:
        self.family, self.rng = family, np.random.default_rng(seed)
        self.ours = Ours(env_id, seed, slots, family.batch)
        self.theirs = [make_reference(env_id) for _ in range(slots)]
        for i, reference in enumerate(self.theirs):
            reference.reset(seed=1000 * seed + i)
        self.default_limit = self.theirs[0].max_steps
        assert self.default_limit == self.ours.env.max_steps, (self.default_limit, self.ours.env.max_steps)
        self.num_actions = int(self.theirs[0].action_space.n)
        assert self.num_actions == self.ours.env.action_space.n
        self.result, self.count = Result(0, 0, 0, 0, 0, 0, []), 0
        self.replays: list[Episode] = []
        self.states = jax.tree.map(lambda leaf: np.stack([leaf] * slots), self.ours.fresh())
        self.episodes = [self._begin(slot) for slot in range(slots)]

    def step(self) -> None:
        """One step in every slot."""
        actions = [e.player(self.theirs[i], len(e.actions)) for i, e in enumerate(self.episodes)]
        numbers, times = [e.number for e in self.episodes], [len(e.actions) for e in self.episodes]
        limits = [e.limit for e in self.episodes]
        before = self.states
        obs, self.states, reward, terminated, truncated = self.ours.step(before, actions, numbers, times, limits)
        for i, (episode, reference) in enumerate(zip(self.episodes, self.theirs, strict=True)):
            episode.actions.append(actions[i])
            state = jax.tree.map(lambda leaf, i=i: leaf[i], self.states)
            if self.family.force is not None:
                self.family.force(reference, jax.tree.map(lambda leaf, i=i: leaf[i], before), state)
            their_obs, *theirs, _ = reference.step(actions[i])
            ours = (reward[i], terminated[i], truncated[i])
            our_obs = {name: value[i] for name, value in obs.items()}
            wrong = differences(our_obs, state, their_obs, reference) + flag_differences(ours, theirs)
            self._count(episode, wrong, *theirs)
            if wrong or theirs[1] or theirs[2]:
                self._keep_for_replay(episode, *theirs[1:])
                self.episodes[i] = self._begin(i)

    def _count(self, episode: Episode, wrong: list[str], reward: float, terminated: bool, truncated: bool) -> None:
        if wrong:
            where = f"{type(self.ours.env).__name__}, {episode.origin}, actions {episode.actions}"
            self.result.mismatches.append(f"{where}: {'; '.join(wrong)}")
        r = self.result
        self.result = r._replace(
            steps=r.steps + 1,
            episodes=r.episodes + bool(terminated or truncated),
            successes=r.successes + bool(terminated and reward > 0),
            failures=r.failures + bool(terminated and reward <= 0),
            truncations=r.truncations + bool(truncated),
            both=r.both + bool(terminated and truncated),
        )

    def _keep_for_replay(self, episode: Episode, terminated: bool, truncated: bool) -> None:
        wanted = not self.result.both or self.rng.random() < 0.3
        if terminated and not truncated and not episode.is_replay and wanted:
            limit = int(episode.start.time) + len(episode.actions)
            played = list(episode.actions)
            again = dataclasses.replace(
                episode, limit=limit, actions=[], is_replay=True, player=lambda _, t: played[min(t, len(played) - 1)]
            )
            self.replays.append(again)

    def _begin(self, slot: int) -> Episode:
        reference = self.theirs[slot]
        if self.replays:
            episode = self.replays.pop()
            self._inject(reference, episode)
        elif self.rng.random() < 0.5:
            episode = self._new("our layout", self.ours.fresh())
            self._inject(reference, episode)
        else:
            reference.__dict__.pop("place_obj", None)  # left there by a family's `force`
            reference.reset()
            episode = self._new("their layout", self.ours.state_of(reference, self.family.fields_of(reference)))
            reference.max_steps, reference.step_count = episode.limit, int(episode.start.time)
        for leaf, value in zip(jax.tree.leaves(self.states), jax.tree.leaves(episode.start), strict=True):
            leaf[slot] = value
        obs = self.ours.observe(episode.start)
        wrong = differences(obs, episode.start, reference.gen_obs(), reference)
        if wrong:
            self.result.mismatches.append(f"{type(reference).__name__}, {episode.origin}, start: {'; '.join(wrong)}")
        return episode

    def _inject(self, reference: MiniGridEnv, episode: Episode) -> None:
        s = episode.start
        text = decode(self.ours.observe(s)["mission"])
        agent = (int(s.x), int(s.y), int(s.direction))
        task = self.family.task_of(s)
        inject(reference, s.grid, agent, mission=text, task=task, max_steps=episode.limit, time=int(s.time))

    def _new(self, origin: str, start: Any) -> Episode:
        self.count += 1
        when, limit = self.rng.random(), self.default_limit
        if when < 0.2:
            limit = int(self.rng.integers(1, 13))
        elif when < 0.5:
            start = at_time(start, limit - int(self.rng.integers(1, min(limit, 60))))
        return Episode(self.count, origin, self._player(), start, limit)

    def _player(self) -> Callable[[MiniGridEnv, int], int]:
        n, rng = self.num_actions, self.rng
        biased = FORWARD_BIASED[:n] / FORWARD_BIASED[:n].sum()

        def uniform(*_: Any) -> int:
            return int(rng.integers(n))

        kind = rng.random()
        if kind < 0.25:
            return uniform
        if kind < 0.5 or not self.family.scripts:
            return lambda *_: int(rng.choice(n, p=biased))
        script = self.family.scripts[rng.integers(len(self.family.scripts))]

        def scripted(reference: MiniGridEnv, _: int) -> int:
            action = script(reference) if rng.random() > RARELY else None
            return uniform() if action is None else action

        return scripted


class Ours:
    """Our side: one compiled step for a batch, fresh layouts, and states from the reference."""

    def __init__(self, env_id: str, seed: int, slots: int, batch: int) -> None:
        self.env, self.key, self.slots = make(env_id), make_key(seed), slots
        self.draw, (self.step_batch, self.template) = drawing(env_id, batch), programs(env_id)
        self.pool: list[Any] = []
        self.batches = 0

    def fresh(self) -> Any:
        """The first state of an episode."""
        if not self.pool:
            self.batches += 1
            batch = jax.tree.map(np.asarray, self.draw(jax.random.fold_in(self.key, self.batches))[0])
            self.pool = [jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(len(batch.time))]
        return self.pool.pop()

    def step(self, states: Any, actions: list[int], numbers: list[int], times: list[int], limits: list[int]) -> tuple:
        """(obs, states, reward, terminated, truncated) of a batch, as arrays that may be written to."""
        given = (np.array(each, np.int32) for each in (actions, numbers, times, limits))
        return jax.tree.map(np.array, self.step_batch(self.key, states, *given, np.bool_(False)))

    def observe(self, state: Any) -> dict[str, np.ndarray]:
        """Our observation of one state, which the program of a step makes, so that there is one to compile."""
        states, unused = jax.tree.map(lambda leaf: np.stack([leaf] * self.slots), state), np.zeros(self.slots, np.int32)
        obs, *_ = self.step_batch(self.key, states, unused, unused, unused, unused, np.bool_(True))
        return jax.tree.map(lambda leaf: np.asarray(leaf[0]), obs)

    def state_of(self, reference: MiniGridEnv, extra: dict[str, Any]) -> Any:
        """Our state of the reference's situation."""
        x, y = reference.agent_pos
        known = {
            "time": reference.step_count, "grid": packed_grid(reference), "x": x, "y": y,
            "direction": reference.agent_dir, "carrying": pack(reference.carrying),
        }  # fmt: skip
        values = {**known, **extra}
        shapes, tree = jax.tree.flatten(self.template)
        leaves = [np.asarray(values[f.name]) for f in dataclasses.fields(self.template)]
        for shape, leaf in zip(shapes, leaves, strict=True):
            assert leaf.shape == shape.shape, (shape, leaf)
        return jax.tree.unflatten(tree, [leaf.astype(shape.dtype) for shape, leaf in zip(shapes, leaves, strict=True)])


def at_time(state: Any, time: int) -> Any:
    """A NumPy state at another time. `replace` would check that its fields are JAX arrays."""
    leaves, tree = jax.tree.flatten(state)
    return jax.tree.unflatten(tree, [np.int32(time), *leaves[1:]])  # `time` is the first field of every state


@functools.cache
def programs(env_id: str) -> tuple:
    """Compiled once an id: a step of a batch, with the observations after it or, where asked for, before it; and the
    shape of a state."""
    env = make(env_id)

    def step(key: jax.Array, state: GridState, action: Any, number: Any, t: Any, limit: Any, before: Any) -> tuple:
        key = jax.random.fold_in(jax.random.fold_in(key, number), t)
        _, after, reward, terminated, truncated, _ = env.replace(max_steps=limit).step(key, state, action)
        seen = jax.tree.map(lambda old, new: jnp.where(before, old, new), state, after)
        return env.observe(seen), after, reward, terminated, truncated

    template = jax.eval_shape(env.init, make_key(0))
    return jax.jit(jax.vmap(step, in_axes=(None, 0, 0, 0, 0, 0, None))), template


def differences(obs: dict[str, np.ndarray], state: Any, their_obs: dict[str, Any], reference: MiniGridEnv) -> list[str]:
    """What differs between our observation and state and the reference's, in words."""
    x, y = reference.agent_pos
    theirs = {
        "direction in obs": their_obs["direction"],
        "mission": their_obs["mission"],
        "pose": (int(x), int(y), int(reference.agent_dir)),
        "carrying": pack(reference.carrying),
        "time": reference.step_count,
    }
    ours = {
        "direction in obs": int(obs["direction"]),
        "mission": mission_text(obs["mission"].tobytes()),
        "pose": (int(state.x), int(state.y), int(state.direction)),
        "carrying": int(state.carrying),
        "time": int(state.time),
    }
    wrong = [f"{name}: {ours[name]!r} != {theirs[name]!r}" for name in theirs if ours[name] != theirs[name]]
    if not np.array_equal(obs["image"], their_obs["image"]):
        wrong.append(f"image differs at {np.argwhere((obs['image'] != their_obs['image']).any(-1)).tolist()}")
    grid = packed_grid(reference)
    if not np.array_equal(state.grid, grid):
        where = np.argwhere(state.grid != grid)
        wrong.append(f"grid differs at {where.tolist()}: {[(int(state.grid[*p]), int(grid[*p])) for p in where]}")
    return wrong


def flag_differences(ours: tuple, theirs: list) -> list[str]:
    """What differs in reward, terminated and truncated."""
    reward = [] if abs(np.float32(theirs[0]) - ours[0]) <= 1e-6 else [f"reward {ours[0]} != {theirs[0]}"]
    flags = zip(("terminated", "truncated"), ours[1:], theirs[1:], strict=True)
    return reward + [f"{name} {mine} != {their}" for name, mine, their in flags if bool(mine) != bool(their)]


@functools.lru_cache(4096)
def mission_text(numbers: bytes) -> str:
    """The words of a mission, from the bytes of its numbers."""
    return decode(np.frombuffer(numbers, np.uint8))


def _record(env_id: str, result: Result) -> None:
    """Keep what a long run counted: one entry an id in a JSON file, with the versions that were compared."""
    if "SHOAL_PARITY_RECORD" not in os.environ:
        return
    path = Path(os.environ["SHOAL_PARITY_RECORD"])
    kept = json.loads(path.read_text()) if path.exists() else {}
    versions = {name: importlib.metadata.version(name) for name in ("minigrid", "gymnasium", "jax", "numpy")}
    counted = {**result._asdict(), "mismatches": len(result.mismatches)}
    kept["command"] = "SHOAL_PARITY_RECORD=FILE python -m pytest -m long tests/parity/minigrid -k match"
    kept["versions"] = {"python": sys.version.split()[0], **versions}
    kept["ids"] = dict(sorted({**kept.get("ids", {}), env_id: counted}.items()))
    path.write_text(json.dumps(kept, indent=1) + "\n")
