"""Facts about BabyAI's levels: bad input, bounds of the generators, and what each class says of its levels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import ENVS, make
from shoal.core.struct import static, struct
from shoal.envs.babyai.floor_plans import OneRoom, most_within_reach
from shoal.envs.babyai.instruction import GO_TO, Grammar, go_to, one
from shoal.envs.babyai.kit import different_things, finished, looks, random_side, thing_of, with_agent_outside
from shoal.envs.babyai.level import Layout
from shoal.grid.cells import BALL, COLORS, EMPTY, KEY, WALL, cell
from shoal.grid.rooms import Rooms

ROOMS = Rooms(columns=3, rows=2, size=5)


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("GoToObj", {"room_size": 3}, "room_size=3 leaves too few cells between the walls: at least 4"),
        ("GoToLocal", {"num_dists": 0}, "num_dists=0 is impossible with room_size=8: from 1 to 24"),
        ("GoToLocal", {"room_size": 4, "num_dists": 2}, "from 1 to 1"),
        ("GoToLocal", {"room_size": 5, "num_dists": 5}, "from 1 to 4"),
        ("GoToLocal", {"room_size": 6, "num_dists": 9}, "from 1 to 8"),
        ("GoToRedBall", {"num_dists": 24}, "num_dists=24 is impossible with room_size=8: from 0 to 23"),
        ("GoTo", {"num_rows": 0}, "num_rows=0 leaves no room: at least 1"),
        ("GoTo", {"num_dists": 400}, "num_dists=400 is impossible in rooms of room_size=8"),
        ("GoToImpUnlock", {"num_rows": 1, "num_cols": 1}, "no wall for the locked door: at least 2 rooms"),
        ("GoToObjDoor", {"room_size": 6}, "room_size=6 leaves too few cells between the walls: at least 7"),
        ("Open", {"num_rows": 1, "num_cols": 1}, "have no door: at least 2 rooms"),
        ("OpenDoor", {"select_by": "size"}, "select_by='size' is unknown. Choose 'color' or 'loc'"),
        ("OpenTwoDoors", {"first_color": "pink"}, "first_color='pink' is unknown. Choose one of: red, green"),
        ("OpenRedBlueDoors", {"first_color": "blue"}, "first_color and second_color are both 'blue'"),
        ("OpenDoorsOrderN2", {"num_doors": 5}, "num_doors=5 is impossible in the four walls of a room: from 2 to 4"),
        ("PickupDist", {"room_size": 5}, "at least 6"),
        ("PutNextLocal", {"num_objs": 19}, "num_objs=19 is impossible with room_size=8, no two things alike"),
        ("PutNextLocal", {"num_objs": 1}, "from 2 to 18"),
        ("PutNextS5N2", {"objs_per_room": 10}, "objs_per_room=10 is impossible with room_size=5, no two alike"),
        ("MoveTwoAcrossS5N2", {"objs_per_room": 1}, "objs_per_room=1 is too few for two things of each side"),
        ("UnlockLocalDist", {"room_size": 4}, "at least 5"),
        ("KeyCorridor", {"num_rows": 0}, "num_rows=0 leaves no room for key and ball: at least 1"),
        ("BossLevel", {"locked_room_prob": 1.5}, "locked_room_prob=1.5 is no probability: from 0 to 1"),
        ("BossLevel", {"action_kinds": ("go",)}, "'go' is unknown. Choose among: goto, pickup, open, putnext"),
        ("BossLevel", {"instr_kinds": ()}, "it is empty. Choose among: action, and, seq"),
        ("BossLevel", {"instr_kinds": ("and", "and")}, "a name is there twice"),
        ("BossLevel", {"action_kinds": ("fly",), "max_steps": 50}, "'fly' is unknown"),
        ("BossLevel", {"num_rows": 1, "num_cols": 2, "num_dists": 72}, "in rooms of room_size=8: from 1 to 66"),
        ("PickupLoc", {"room_size": 5, "num_dists": 5}, "from 1 to 4"),
        ("PickupLoc", {"action_kinds": ("putnext",), "num_dists": 1}, "from 2 to 24"),
        (
            "BossLevel",
            {
                "num_rows": 1,
                "num_cols": 2,
                "locked_room_prob": 1.0,
                "implicit_unlock": False,
                "action_kinds": ("open",),
            },
            "needs a door that is not locked: at least 3 rooms, or locked_room_prob below 1",
        ),
        ("GoTo", {"num_rows": 1, "num_cols": 1, "room_size": 5, "num_dists": 5}, "from 1 to 4"),
        ("UnblockPickup", {"num_rows": 1, "num_cols": 1, "num_dists": 2}, "from 3 to 33"),
        ("UnblockPickup", {"num_rows": 1, "num_cols": 1, "room_size": 4, "num_dists": 1}, "the rooms are too small"),
        ("Unlock", {"room_size": 5}, "at least 6"),
        ("UnlockPickupDist", {"room_size": 5}, "at least 6"),
        ("PickupLoc", {"action_kinds": ("open",)}, "needs a door: at least 2 rooms"),
        ("PickupLoc", {"locked_room_prob": 0.5}, "no wall for the locked door"),
    ],
)
def test_impossible_levels_are_refused_when_they_are_made(name, fields, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")):
        make(f"BabyAI-{name}-v0", **fields)


@pytest.mark.parametrize("room_size", [4, 5, 6])
def test_the_most_things_in_a_small_room_are_those_that_an_agent_can_go_beside(room_size):
    n = room_size - 2
    at = np.arange(n * n)
    near = np.abs(at[:, None] // n - at // n) + np.abs(at[:, None] % n - at % n) < 2
    things = (np.arange(2 ** (n * n))[:, None] >> at & 1).astype(bool)  # every set of cells
    most = 0
    for agent in range(n * n):
        these = things[~np.any(things & near[agent], axis=1)]
        beside = np.broadcast_to(near[agent], these.shape)
        for _ in at:
            beside = beside | ((beside & ~these) @ near)
        most = max(most, int(these.sum(axis=1)[np.all(beside | ~these, axis=1)].max()))
    assert most == most_within_reach(room_size)


@struct
class Picky(OneRoom):
    """A level that accepts an attempt with probability `chance`; x counts, in a way, which attempt it is."""

    can_reject = True

    chance: float = static(0.0)

    @property
    def grammar(self):
        return Grammar(verbs=(GO_TO,))

    def layout(self, key):
        k_plan, k_thing, k_accept = jax.random.split(key, 3)
        plan = self.rooms.plan(k_plan, may_fail=True).with_thing(k_thing, (0, 0), KEY)
        plan = plan.provided(jax.random.bernoulli(k_accept, self.chance))
        return finished(plan, one(go_to(looks(jnp.asarray(KEY)))))


def test_a_level_whose_attempts_are_all_rejected_is_counted_in_info():
    run = jax.jit(lambda level, key: level.step(key, level.init(key), jnp.int32(0))[-1]["fallback"])
    assert run(Picky(), make_key(0)) and not run(Picky(chance=0.2), make_key(0))


def test_attempts_are_independent_and_the_accepted_one_is_kept():
    level = Picky(chance=0.1)
    attempt, init = jax.jit(level.layout), jax.jit(level.init)
    key = make_key(3)
    first = next(made for i in range(1000) if (made := attempt(jax.random.fold_in(key, i))).is_accepted)
    np.testing.assert_array_equal(init(key).grid, first.grid)


def test_things_are_numbered_by_kind_and_color():
    assert thing_of(jnp.int32(0)) == cell("key", "red") and thing_of(jnp.int32(17)) == cell("box", "grey")
    assert thing_of(jnp.int32(8)) == cell("ball", COLORS[2])


def test_different_things_are_never_like_those_besides():
    besides = (cell("ball", "blue"), cell("key", "grey"))
    draw = jax.jit(jax.vmap(lambda key: different_things(key, 16, *map(jnp.asarray, besides))))
    found = np.sort(np.asarray(draw(jax.random.split(make_key(0), 200))), axis=1)
    every = {int(thing_of(jnp.int32(i))) for i in range(18)} - {int(thing) for thing in besides}
    assert (found == np.sort([*every])).all()  # all sixteen others


def test_a_random_side_has_a_neighbor_and_is_uniform():
    def sides(room):
        plan = ROOMS.plan(make_key(0))
        draw = jax.jit(jax.vmap(lambda key: random_side(key, plan, room)))
        return np.bincount(np.asarray(draw(jax.random.split(make_key(1), 3000))), minlength=4)

    # Right, below, left, above. Three standard deviations of a share of 1/3 or 1/2 of 3,000 are 80.
    np.testing.assert_allclose(sides((0, 0)), [1500, 1500, 0, 0], atol=82)
    np.testing.assert_allclose(sides((1, 1)), [1000, 0, 1000, 1000], atol=78)


def test_an_agent_outside_a_room_needs_a_place_in_that_room_when_it_is_drawn_first():
    """The reference draws rooms, places the agent, and draws again in the locked room: a full one ends the attempt."""

    def attempt(key, grid):
        plan = ROOMS.plan(make_key(0), may_fail=True).replace(grid=grid)
        plan = with_agent_outside(key, plan, (2, 1))
        return plan.is_possible, plan.x // ROOMS.pitch * 2 + plan.y // ROOMS.pitch

    keys, empty = jax.random.split(make_key(2), 6000), ROOMS.plan(make_key(0)).grid
    full = jnp.where(jnp.zeros_like(empty, bool).at[9:12, 5:8].set(True), BALL, empty)
    place = jax.jit(jax.vmap(attempt, in_axes=(0, None)))
    is_possible, room = map(np.asarray, place(keys, empty))
    assert is_possible.all() and (np.bincount(room, minlength=6)[5] == 0)
    np.testing.assert_allclose(np.bincount(room)[:5], 1200, atol=4 * 31)  # 31: a standard deviation of 1/5 of 6,000
    is_possible, _ = map(np.asarray, place(keys, full))
    np.testing.assert_allclose(is_possible.mean(), 5 / 6, atol=4 * 0.0048)


def test_a_thing_in_the_hand_from_the_start_leaves_the_grid_with_the_first_action():
    level = make("BabyAI-PutNextS5N2Carrying-v0")
    state = jax.jit(level.init)(make_key(0))
    after = jax.jit(level.step)(make_key(1), state, jnp.int32(6))[1]
    things = np.asarray(state.grid)[(np.asarray(state.grid) != WALL) & (np.asarray(state.grid) != EMPTY)].tolist()
    left = np.asarray(after.grid)[(np.asarray(after.grid) != WALL) & (np.asarray(after.grid) != EMPTY)].tolist()
    assert len(things) == 4 and state.carrying == EMPTY
    assert sorted([*left, int(after.carrying)]) == sorted(things) and int(after.carrying) in things


def test_all_levels_say_that_they_are_like_minigrids():
    levels = {entry.cls for name, entry in ENVS.items() if name.startswith("BabyAI-")}
    for cls in levels:
        assert all(label in cls.__doc__ for label in ("Start:", "End:", "Time limit:", "`BabyLevel`")), cls
    assert isinstance(jax.eval_shape(make("BabyAI-GoToObjS4-v0").layout, make_key(0)), Layout)
