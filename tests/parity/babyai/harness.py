"""Steps BabyAI's levels of MiniGrid and of shoal side by side, and compares everything after every step.

Half of the episodes start from a layout of ours that is put into the reference, half from the reference's own, which is
put into our level. Some have a short time limit; some that ended are played again with the limit on their last step,
so that `terminated` and `truncated` fall together. Images, directions, missions, rewards, flags, poses and what the
agent carries are compared after every step, whole grids after every 20 steps and at the end.

The long runs (100,000 steps an id, or SHOAL_PARITY_STEPS) write what they counted to the file that SHOAL_PARITY_RECORD
names:

    SHOAL_PARITY_RECORD=benchmarks/results/babyai-parity.json pytest -m long tests/parity/babyai -k many_steps
"""

import dataclasses
import functools
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from parity.babyai.players import Bot, Player, new_player
from parity.babyai.reference import Start, begin, fresh, packed_grid, reset, start_of
from parity.minigrid.harness import flag_differences, mission_text
from parity.minigrid.reference import pack
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.babyai.instruction import AFTER, FIRST, VERB, Instruction
from shoal.envs.babyai.level import BabyLevel, BabyState, Layout

FEW, MANY = 400, 100_000
LONG = int(os.environ.get("SHOAL_PARITY_STEPS", MANY))  # of the long runs
DRAWN = 64  # layouts that our generator draws at a time
GRID_EVERY = 20  # steps between two comparisons of whole grids
SEEDS_WITHOUT_END = {"BabyAI-SynthS5R2-v0": 1741}  # of this id the reference never returns from some resets


class Result(NamedTuple):
    """What a comparison met."""

    steps: int = 0
    episodes: int = 0
    successes: int = 0
    failures: int = 0
    truncations: int = 0
    both: int = 0  # terminated and truncated in one step
    bot_stopped: int = 0  # episodes in which the bot did not return and was stopped
    limits: int = 0  # different time limits of the level's own that were met
    mismatches: tuple[str, ...] = ()


@dataclasses.dataclass
class Episode:
    """One episode under way, and what it takes to play it again."""

    origin: str
    start: Start
    player: Player
    is_replay: bool = False
    actions: list[int] = dataclasses.field(default_factory=list)


def compare_steps(env_id: str, steps: int, seed: int = 0, slots: int = 32) -> Result:
    """Play on both sides until `steps` steps are compared."""
    match = Match(env_id, seed, min(slots, steps))
    while match.result.steps < steps:
        match.step()
    return match.result._replace(limits=len(match.limits))


class Match:
    """Some episodes side by side: our states as one batch, the reference as one environment each."""

    def __init__(self, env_id: str, seed: int, slots: int) -> None:
        self.rng, self.slots = np.random.default_rng(seed), slots
        self.ours = Ours(env_id, seed, slots)
        self.theirs = [fresh(env_id, seed=1000 * seed + i) for i in range(slots)]
        self.fixed_limit = self.theirs[0].max_steps  # where a reset does not compute another one
        self.result, self.limits = Result(), set()
        self.replays: list[Episode] = []
        self.waiting: dict[int, tuple[int, dict]] = {}  # the level's own time limit, and the reference's observation
        self.states: Any = None
        self.episodes = [self._new_episode(i) for i in range(slots)]
        self._enter(range(slots))

    def step(self) -> None:
        """One step in every slot."""
        for i, episode in enumerate(self.episodes):
            episode.actions.append(episode.player(self.theirs[i]))
        actions = np.array([episode.actions[-1] for episode in self.episodes], np.int32)
        limits = np.array([episode.start.max_steps for episode in self.episodes], np.int32)
        obs, self.states, reward, terminated, truncated = self.ours.step(self.states, actions, limits)
        ended = []
        for i, (episode, reference) in enumerate(zip(self.episodes, self.theirs, strict=True)):
            their_obs, *theirs, _ = reference.step(int(actions[i]))
            is_end = theirs[1] or theirs[2]
            wrong = self._differences(i, obs, their_obs, whole_grid=is_end or len(episode.actions) % GRID_EVERY == 0)
            wrong += flag_differences((reward[i], terminated[i], truncated[i]), theirs)
            self._count(episode, wrong, *theirs)
            if wrong or is_end:
                self._end(episode, bool(theirs[1]) and not wrong, bool(theirs[2]))
                ended.append(i)
        for i in ended:
            self.episodes[i] = self._new_episode(i)
        self._enter(ended)

    def _enter(self, slots: Any) -> None:
        """Put the new episodes of some slots into our batch of states, and compare their first observations."""
        if not len(slots):
            return
        starts = [self.episodes[i].start for i in range(self.slots)]
        obs, states, own_limits = self.ours.begin(starts)
        if self.states is None:
            self.states = states
        for kept, new in zip(jax.tree.leaves(self.states), jax.tree.leaves(states), strict=True):
            for i in slots:
                kept[i] = new[i]
        for i in slots:
            own_limit, their_obs = self.waiting.pop(i)
            has_all = self.episodes[i].start.carried is None
            wrong = self._differences(i, obs, their_obs, whole_grid=has_all, is_start=True)
            wrong += [] if own_limit == own_limits[i] else [f"limit {own_limits[i]} != {own_limit}"]
            self._count_mismatch(self.episodes[i], wrong)

    def _new_episode(self, slot: int) -> Episode:
        reference = self.theirs[slot]
        if self.replays:
            episode = self.replays.pop()
            their_obs = begin(reference, episode.start)
        elif self.rng.random() < 0.5:
            start = self._with_limit(self.ours.fresh())
            their_obs = begin(reference, start)
            episode = Episode("our layout", start, new_player(reference, self.rng))
        else:
            reference.max_steps = self.fixed_limit
            their_obs = reset(reference, self._seed())
            start = self._with_limit(start_of(reference))
            episode = Episode("their layout", start, new_player(reference, self.rng))
        own_limit = self._own_limit(reference)
        reference.max_steps = episode.start.max_steps
        self.limits.add(own_limit)
        self.waiting[slot] = (own_limit, their_obs)
        return episode

    def _own_limit(self, reference: Any) -> int:
        """The time limit of the reference's level, as its reset computes it."""
        if reference.fixed_max_steps:
            return self.fixed_limit
        cells = reference.room_size**2 * reference.num_rows * reference.num_cols
        return reference.num_navs_needed(reference.instrs) * cells

    def _seed(self) -> int:
        return int(self.rng.integers(SEEDS_WITHOUT_END.get(self.ours.env_id, 2**31)))

    def _with_limit(self, start: Start) -> Start:
        when = self.rng.random()
        if when < 0.15:
            return start._replace(max_steps=int(self.rng.integers(1, 40)))
        return start._replace(max_steps=int(self.rng.integers(40, 300))) if when < 0.4 else start

    def _end(self, episode: Episode, terminated: bool, truncated: bool) -> None:
        if isinstance(episode.player, Bot) and episode.player.is_stopped:
            self.result = self.result._replace(bot_stopped=self.result.bot_stopped + 1)
        if terminated and not truncated and not episode.is_replay and self.rng.random() < 0.2:
            played = list(episode.actions)
            start = episode.start._replace(max_steps=len(played))
            self.replays.append(Episode(f"again, {episode.origin}", start, Repeat(played), is_replay=True))

    def _count(self, episode: Episode, wrong: list[str], reward: float, terminated: bool, truncated: bool) -> None:
        self._count_mismatch(episode, wrong)
        r = self.result
        self.result = r._replace(
            steps=r.steps + 1,
            episodes=r.episodes + bool(terminated or truncated),
            successes=r.successes + bool(terminated and reward > 0),
            failures=r.failures + bool(terminated and reward <= 0),
            truncations=r.truncations + bool(truncated),
            both=r.both + bool(terminated and truncated),
        )

    def _count_mismatch(self, episode: Episode, wrong: list[str]) -> None:
        if wrong:
            where = f"{self.ours.env_id}, {episode.origin}, {episode.start}, actions {episode.actions}"
            self.result = self.result._replace(mismatches=(*self.result.mismatches, f"{'; '.join(wrong)}: {where}"))

    def _differences(
        self, i: int, obs: dict[str, Any], their_obs: dict[str, Any], whole_grid: bool, is_start: bool = False
    ) -> list[str]:
        """What differs between our observation and state and the reference's, in words."""
        reference, s = self.theirs[i], self.states
        pairs = {
            "direction in obs": (int(obs["direction"][i]), int(their_obs["direction"])),
            "mission": (mission_text(obs["mission"][i].tobytes()), their_obs["mission"]),
            "pose": ((int(s.x[i]), int(s.y[i])), tuple(int(p) for p in reference.agent_pos)),
            "direction": (int(s.direction[i]), int(reference.agent_dir)),
            "time": (int(s.time[i]), reference.step_count),
        }
        if not (is_start and reference.carrying is not None):
            pairs["carrying"] = (int(s.carrying[i]), pack(reference.carrying))
        wrong = [f"{name}: {ours!r} != {theirs!r}" for name, (ours, theirs) in pairs.items() if ours != theirs]
        if not np.array_equal(obs["image"][i], their_obs["image"]):
            wrong.append(f"image differs at {np.argwhere((obs['image'][i] != their_obs['image']).any(-1)).tolist()}")
        if whole_grid and not np.array_equal(s.grid[i], packed_grid(reference)):
            wrong.append(f"grid differs at {np.argwhere(s.grid[i] != packed_grid(reference)).tolist()}")
        return wrong


class Repeat:
    """Plays given actions."""

    def __init__(self, actions: list[int]) -> None:
        self.actions, self.played = actions, 0

    def __call__(self, env: Any) -> int:
        """The next one; the last one again when there are no more."""
        self.played += 1
        return self.actions[min(self.played, len(self.actions)) - 1]


class Ours:
    """Our side: a compiled step of a batch, fresh layouts, and first states of layouts of either side."""

    def __init__(self, env_id: str, seed: int, slots: int) -> None:
        self.env_id, self.env, self.slots = env_id, make(env_id), slots
        assert isinstance(self.env, BabyLevel)
        self.draw, self.start_batch, self.step_batch = programs(env_id)
        self.key, self.batches = make_key(seed), 0
        self.pool: list[Start] = []

    def fresh(self) -> Start:
        """A layout of our generator."""
        if not self.pool:
            self.batches += 1
            states = jax.tree.map(np.asarray, self.draw(jax.random.fold_in(self.key, self.batches)))
            self.pool = [start_of_ours(self.env, jax.tree.map(lambda x, i=i: x[i], states)) for i in range(DRAWN)]
        return self.pool.pop()

    def begin(self, starts: list[Start]) -> tuple[dict[str, np.ndarray], Any]:
        """(observations, states, the levels' own limits) at the start, of a batch, as arrays that may be written to."""
        groups, parts = self.env.grammar.groups, self.env.grammar.parts
        for start in starts:
            assert not start.clauses[groups:].any() and not start.clauses[:, parts:].any(), (self.env_id, start.clauses)
        poses = [np.array([getattr(s, name) for s in starts], np.int32) for name in ("x", "y", "direction")]
        orders = np.array([s.order for s in starts], np.int8)
        clauses = np.stack([s.clauses[:groups, :parts] for s in starts])
        limits = np.array([s.max_steps for s in starts], np.int32)
        grids = np.stack([s.grid for s in starts])
        return jax.tree.map(np.array, self.start_batch(grids, *poses, orders, clauses, limits))

    def step(self, states: Any, actions: np.ndarray, limits: np.ndarray) -> tuple:
        """(obs, states, reward, terminated, truncated) of a batch, as arrays that may be written to."""
        return jax.tree.map(np.array, self.step_batch(states, actions, limits))


@functools.cache
def programs(env_id: str) -> tuple:
    """Compiled once an id: draw states; begin episodes of a batch with given limits; take a step of a batch."""
    env: Any = make(env_id)
    keeps_limit = env.max_steps is None

    def start(grid: Any, x: Any, y: Any, direction: Any, order: Any, clauses: Any, limit: Any) -> tuple:
        layout = Layout(grid, x, y, direction, Instruction(order, clauses), jnp.bool_(True))
        state = env.first_state(layout, jnp.bool_(False) if env.can_reject else None)
        own_limit = jnp.int32(env.limit_of(state))
        state = state.replace(limit=limit) if keeps_limit else state
        return env.observe(state), state, own_limit

    def step(state: BabyState, action: Any, limit: Any) -> tuple:
        level = env if keeps_limit else env.replace(max_steps=limit)
        state, reward, terminated, truncated, _ = level.advance(state, action, None)
        return env.observe(state), state, reward, terminated, truncated

    def draw(key: jax.Array) -> BabyState:
        return jax.vmap(env.init)(jax.random.split(key, DRAWN))

    return jax.jit(draw), jax.jit(jax.vmap(start)), jax.jit(jax.vmap(step))


def start_of_ours(env: Any, state: Any) -> Start:
    """The start of an episode that our first state (unbatched, NumPy) is in."""
    clauses = np.zeros((2, 2, 8), np.int8)
    order = 0 if state.order is None else int(state.order)
    spoken = state.clauses[::-1] if order == AFTER else state.clauses
    clauses[: spoken.shape[0], : spoken.shape[1]] = spoken
    clauses[clauses[..., VERB] == 0] = 0
    limit = int(env.max_steps if state.limit is None else state.limit)
    x, y, direction = int(state.x), int(state.y), int(state.direction)
    return Start(state.grid, x, y, direction, _carried(env, state), order, clauses, limit)


def _carried(env: Any, state: Any) -> tuple[int, int] | None:
    """The position of the object that the agent carries from the start."""
    if not getattr(env, "start_carrying", False):
        return None
    kind, color = (int(number) for number in state.clauses[0, 0, FIRST : FIRST + 2])
    ((x, y),) = np.argwhere((state.grid & 15 == kind) & (state.grid >> 4 & 7 == color))
    return int(x), int(y)


def record(env_id: str, result: Result) -> None:
    """Keep what a long run counted: one entry an id in a JSON file, with the versions that were compared."""
    if "SHOAL_PARITY_RECORD" not in os.environ:
        return
    path = Path(os.environ["SHOAL_PARITY_RECORD"])
    kept = json.loads(path.read_text()) if path.exists() else {}
    versions = {name: importlib.metadata.version(name) for name in ("minigrid", "gymnasium", "jax", "numpy")}
    counted = {**result._asdict(), "mismatches": len(result.mismatches)}
    kept["command"] = (
        "SHOAL_PARITY_RECORD=FILE [SHOAL_PARITY_STEPS=N] python -m pytest -m long tests/parity/babyai -k many_steps"
    )
    kept["versions"] = {"python": sys.version.split()[0], **versions}
    kept["ids"] = dict(sorted({**kept.get("ids", {}), env_id: counted}.items()))
    path.write_text(json.dumps(kept, indent=1) + "\n")
