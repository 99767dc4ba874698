"""The room kit: geometry by hand, additions to a plan, and how rooms are connected."""

import functools
import itertools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

from shoal.core.keys import make_key
from shoal.grid.cells import EMPTY, KEY, OBJECTS, STATES, WALL, cell
from shoal.grid.rooms import ABOVE, BELOW, LEFT, RIGHT, Rooms

ROOMS = Rooms(columns=3, rows=2, size=5)
DOOR, LOCKED_DOOR = cell("door", "blue", "closed"), cell("door", "red", "locked")


@pytest.fixture(scope="module")
def plan():
    return jax.jit(ROOMS.plan)(make_key(0))


def many(make, n=2000, seed=1):
    """NumPy plans from `make(key)`, with a leading axis."""
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(make))(jax.random.split(make_key(seed), n)))


def test_neighbors_share_a_wall(plan):
    assert ROOMS.shape == (13, 9)
    is_wall = np.zeros((13, 9), bool)
    is_wall[[0, 4, 8, 12]] = is_wall[:, [0, 4, 8]] = True
    assert np.array_equal(plan.grid == WALL, is_wall) and np.array_equal(plan.grid == EMPTY, ~is_wall)


def test_the_agent_is_kept_in_the_middle_until_it_is_placed(plan):
    # MiniGrid: (columns // 2) * (size - 1) + size // 2, and so for rows.
    assert (int(plan.x), int(plan.y)) == (1 * 4 + 2, 1 * 4 + 2)
    assert Rooms(columns=2, rows=1, size=6).middle == (8, 3)


def test_a_door_may_stand_anywhere_between_the_corners_of_its_wall():
    plans = many(ROOMS.plan)
    assert set(plans.door_x[:, 0, 0, 1]) == {4} and set(plans.door_y[:, 0, 0, 1]) == {5, 6, 7}
    assert set(plans.door_x[:, 1, 2, 0]) == {9, 10, 11} and set(plans.door_y[:, 1, 2, 0]) == {4}
    nearer = many(lambda key: ROOMS.plan(key, last=2))
    assert set(nearer.door_y[:, 0, 0, 1]) == {5, 6}


def test_two_rooms_agree_about_the_door_between_them(plan):
    assert plan.door_at((0, 1), RIGHT) == plan.door_at((1, 1), LEFT)
    assert plan.door_at((2, 0), BELOW) == plan.door_at((2, 1), ABOVE)


def test_a_door_opens_its_wall_and_locks_the_room_that_it_was_given_to(plan):
    after = plan.with_door((1, 0), LEFT, LOCKED_DOOR)
    x, y = plan.door_at((1, 0), LEFT)
    assert after.grid[x, y] == LOCKED_DOOR and (after.grid != plan.grid).sum() == 1
    assert np.argwhere(after.is_open).tolist() == [[0, 0, 0]]
    assert np.argwhere(after.is_locked).tolist() == [[1, 0]]
    assert not after.with_door((1, 0), RIGHT, DOOR).is_locked.any()  # as in MiniGrid, the last door decides


def test_rooms_and_sides_may_be_random():
    def with_random_door(room, side):
        return ROOMS.plan(make_key(0)).with_door((room, 1), side, LOCKED_DOOR)

    random = jax.jit(with_random_door)
    for side in (LEFT, ABOVE):
        fixed = jax.jit(functools.partial(with_random_door, 1, side))()
        traced = random(jnp.int32(1), jnp.int32(side))
        assert all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(fixed), jax.tree.leaves(traced), strict=True))


@pytest.mark.parametrize(
    ("room", "side", "gap"),
    [
        ((0, 0), RIGHT, (4, slice(1, 4))),
        ((1, 0), LEFT, (4, slice(1, 4))),
        ((1, 0), BELOW, (slice(5, 8), 4)),
        ((1, 1), ABOVE, (slice(5, 8), 4)),
    ],
)
def test_removing_a_wall_keeps_its_end_cells(plan, room, side, gap):
    after = jax.jit(lambda plan: plan.without_wall(room, side))(plan)
    expected = np.array(plan.grid)
    expected[gap] = EMPTY
    assert np.array_equal(after.grid, expected)
    assert after.is_open.sum() == 1


def test_an_obstacle_replaces_any_object_in_front_of_its_door(plan):
    x, y = plan.door_at((1, 0), BELOW)
    full = plan.replace(grid=plan.grid.at[x, y - 1].set(KEY).at[x, y + 1].set(KEY))
    put = jax.jit(lambda plan: (plan.with_obstacle((1, 0), BELOW, DOOR), plan.with_obstacle((1, 1), ABOVE, DOOR)))
    above, below = put(full)
    assert np.argwhere(above.grid != full.grid).tolist() == [[int(x), int(y) - 1]]
    assert np.argwhere(below.grid != full.grid).tolist() == [[int(x), int(y) + 1]]


def test_objects_are_not_placed_next_to_the_agent():
    # The agent stands at (6, 6), in the middle of room (1, 1): its four corners are left.
    grids = many(lambda key: ROOMS.plan(key).with_thing(key, (1, 1), KEY).grid)
    assert Counter(zip(*np.argwhere(grids == KEY)[:, 1:].T.tolist(), strict=True)).keys() == {
        (5, 5), (5, 7), (7, 5), (7, 7),
    }  # fmt: skip


def test_no_suitable_cell_is_an_error_and_leaves_the_plan_unchanged_in_compiled_code(plan):
    full = plan.replace(grid=jnp.full_like(plan.grid, WALL))
    for call in (lambda p: p.with_thing(make_key(0), (0, 0), KEY), lambda p: p.with_agent(make_key(0), (0, 0))):
        with pytest.raises(ValueError, match="no cell of the mask is left"):
            call(full)
        assert np.array_equal(jax.jit(call)(full).grid, full.grid)


def test_a_plan_that_may_fail_says_so_and_raises_no_error(plan):
    def is_possible(grid, is_locked, *calls):
        def make(grid, is_locked):
            plan = ROOMS.plan(make_key(0), may_fail=True).replace(grid=grid, is_locked=is_locked)
            for call in calls:
                plan = call(plan)
            return plan.is_possible

        return bool(jax.jit(make)(grid, is_locked))

    def thing(plan):
        return plan.with_thing(make_key(0), (0, 0), KEY)

    def agent(plan):
        return plan.with_agent(make_key(0), (0, 0))

    def doors(plan):
        return plan.connected(make_key(0))

    unlocked, empty = jnp.zeros((3, 2), bool), plan.grid
    one_free = jnp.full_like(empty, WALL).at[1, 1].set(EMPTY)  # a place for one thing, or for the agent
    assert is_possible(one_free, unlocked, thing) and is_possible(one_free, unlocked, agent)
    assert not is_possible(one_free, unlocked, thing, thing) and not is_possible(one_free, unlocked, thing, agent)
    assert not is_possible(one_free, unlocked, thing, thing, doors)  # once impossible, always impossible
    assert is_possible(empty, unlocked, doors)
    assert not is_possible(empty, unlocked.at[0, 0].set(True), doors)  # the locked room has no door yet
    assert not is_possible(empty, unlocked, lambda plan: plan.provided(jnp.bool_(False)))
    failing = ROOMS.plan(make_key(0), may_fail=True).replace(grid=jnp.full_like(empty, WALL))
    assert not thing(failing).is_possible  # not compiled


def test_rooms_separated_by_locked_doors_are_an_error(plan):
    for room, side in (((0, 0), RIGHT), ((0, 1), RIGHT)):
        plan = plan.with_door(room, side, LOCKED_DOOR)
    connected = jax.jit(lambda plan: plan.connected(make_key(0)))
    # Rooms (0, 0) and (0, 1) are locked, and lead to the middle: all rooms can be reached.
    assert connected(plan).is_open.sum() > 2
    apart = plan.replace(is_open=jnp.zeros_like(plan.is_open))
    with pytest.raises(ValueError, match="some rooms cannot be reached"):
        apart.connected(make_key(0))
    assert connected(apart).is_open.sum() == 4  # all walls between the other four rooms


def test_the_agent_never_starts_facing_an_object():
    def place(key):
        plan = ROOMS.plan(make_key(0))
        return plan.replace(grid=plan.grid.at[2, 2].set(KEY)).with_agent(key, (0, 0))

    plans = many(place, 4000)
    # Around the key in the middle lie eight cells; from the four beside it one of four directions is barred.
    poses = Counter(zip(plans.x.tolist(), plans.y.tolist(), plans.direction.tolist(), strict=True))
    barred = {(1, 2, 0), (2, 1, 1), (3, 2, 2), (2, 3, 3)}
    free = {(x, y, d) for x in (1, 2, 3) for y in (1, 2, 3) for d in range(4) if (x, y) != (2, 2)} - barred
    assert set(poses) == free
    assert chisquare(list(poses.values())).pvalue > 1e-3


def test_an_agent_may_stand_where_a_wall_was():
    plans = many(lambda key: ROOMS.plan(key).without_wall((0, 0), RIGHT).with_agent(key, (0, 0)))
    assert set(plans.x.tolist()) == {1, 2, 3, 4}


def walls(rooms):
    """Every inner wall, with the two rooms that it divides."""
    inner = np.argwhere(rooms.inner_walls).tolist()
    return {(side, c, r): {(c, r), (c + (side == 0), r + (side == 1))} for side, c, r in inner}


def hang_together(rooms, opened):
    """Whether every room can be reached from every other one."""
    doorways, reached, before = [walls(rooms)[wall] for wall in opened], {(0, 0)}, set()
    while reached != before:
        before = set(reached)
        for doorway in doorways:
            reached |= doorway if reached & doorway else set()
    return len(reached) == rooms.columns * rooms.rows


def test_doors_are_added_in_random_order_until_all_rooms_are_connected():
    # All orders of the seven walls of 2 x 3 rooms, each as likely: what is open when the rooms are first connected.
    rooms = Rooms(columns=2, rows=3, size=3)
    first, expected = functools.cache(lambda opened: hang_together(rooms, opened)), Counter()
    for order in itertools.permutations(walls(rooms)):
        expected[next(frozenset(order[:n]) for n in (5, 6, 7) if first(order[:n]))] += 1
    n = 8000
    plans = many(lambda key: rooms.plan(key).connected(key), n)
    found = Counter(frozenset(map(tuple, np.argwhere(is_open).tolist())) for is_open in plans.is_open)
    assert set(found) <= set(expected)
    observed = [found[opened] for opened in expected]
    assert chisquare(observed, [count / 5040 * n for count in expected.values()]).pvalue > 1e-3
    assert {len(opened) for opened in found} == {5, 6}  # one door more than needed, at times
    assert np.array_equal((plans.grid & 15 == OBJECTS.index("door")).sum((1, 2)), plans.is_open.sum((1, 2, 3)))


def test_a_locked_room_gets_no_other_door():
    def connect(key):
        return ROOMS.plan(key).with_door((2, 1), LEFT, LOCKED_DOOR).connected(key)

    plans = many(connect)
    assert (plans.is_open[:, 0, 1, 1]).all()  # the locked door itself
    assert not plans.is_open[:, 1, 2, 0].any()  # the wall above
    assert all(hang_together(ROOMS, map(tuple, np.argwhere(is_open).tolist())) for is_open in plans.is_open[:50])


def test_connected_rooms_get_no_more_doors():
    rooms = Rooms(columns=2, rows=1, size=4)
    open_rooms = jax.jit(lambda key: rooms.plan(key).without_wall((0, 0), RIGHT))(make_key(0))
    assert np.array_equal(jax.jit(open_rooms.connected)(make_key(1)).grid, open_rooms.grid)


def test_new_doors_are_closed_and_of_every_color():
    def doors(grids):
        found = grids[grids & 15 == OBJECTS.index("door")]
        assert (found >> 7 & 3 == STATES.index("closed")).all()
        return Counter((found >> 4 & 7).tolist())

    assert set(doors(many(lambda key: ROOMS.plan(key).connected(key)).grid)) == set(range(6))


def test_doors_between_rooms_may_be_given_their_colors():
    colors = jnp.arange(12, dtype=jnp.int32).reshape(2, 3, 2) % 6
    plans = many(lambda key: ROOMS.plan(key).connected(key, colors), 20)
    for plan in range(20):
        for side, column, row in np.argwhere(plans.is_open[plan]):
            where = plans.door_x[plan, side, column, row], plans.door_y[plan, side, column, row]
            assert int(plans.grid[plan][where]) >> 4 & 7 == int(colors[side, column, row])


def test_the_agents_poses_in_a_room(plan):
    # A key in the middle of room (0, 0): the four cells beside it bar one direction each, as do the cells of a door.
    full = plan.replace(grid=plan.grid.at[2, 2].set(KEY).at[4, 1].set(DOOR))
    poses = {(int(x), int(y), int(d)) for d, x, y in np.argwhere(full.poses((0, 0)))}
    barred = {(1, 2, 0), (2, 1, 1), (3, 2, 2), (2, 3, 3), (3, 1, 0)}
    assert poses == {(x, y, d) for x in (1, 2, 3) for y in (1, 2, 3) for d in range(4) if (x, y) != (2, 2)} - barred
