"""Options of levels, against MiniGrid's level built with the same option."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minigrid import harness, pick_up
from parity.minigrid.reference import make_reference
from parity.minigrid.test_wrappers import level_state
from shoal.core.registry import make
from shoal.grid.cells import BOX, GOAL

STARTS = [
    ("MiniGrid-Empty-6x6-v0", (2, 4), 3),
    ("MiniGrid-DistShift1-v0", (7, 5), 1),
    ("MiniGrid-Dynamic-Obstacles-6x6-v0", (4, 2), 2),
]


@pytest.mark.sampled
@pytest.mark.parametrize("env_id, position, direction", STARTS)
def test_a_chosen_start_is_minigrids(env_id, position, direction):
    options = {"agent_start_pos": position, "agent_start_dir": direction}
    ours = harness.layouts_of_ours(env_id, 2000, **options)
    theirs = harness.layouts_of_reference(env_id, 500, **options)
    assert set(harness.pose(ours).tolist()) == set(harness.pose(theirs).tolist()) and len(set(harness.pose(ours))) == 1
    harness.assert_same_distribution(ours, theirs, harness.cells)


def test_distshift_starts_anywhere_where_minigrids_does():
    ours = harness.layouts_of_ours("MiniGrid-DistShift2-v0", 4000, random_start=True)
    theirs = harness.layouts_of_reference("MiniGrid-DistShift2-v0", 1000, agent_start_pos=None)
    harness.assert_same_distribution(ours, theirs, harness.pose)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "options",
    [{"agent_pos": (2, 2), "goal_pos": (15, 4)}, {"agent_pos": (3, 9)}, {"goal_pos": (9, 12)}],
)
def test_chosen_positions_in_four_rooms_are_those_of_minigrid(options):
    ours = harness.layouts_of_ours("MiniGrid-FourRooms-v0", 4000, **options)
    theirs = harness.layouts_of_reference("MiniGrid-FourRooms-v0", 1000, **options)
    for statistic in (harness.cells, harness.pose, harness.position_of(int(GOAL))):
        harness.assert_same_distribution(ours, theirs, statistic, tests=3)
    assert not (ours.grid[np.arange(4000), ours.x, ours.y] == GOAL).any()  # in MiniGrid at times, if only it was chosen


@pytest.mark.slow
def test_rooms_in_an_oblong_grid_are_minigrids():
    options = {"width": 9, "height": 16}  # MiniGrid draws the first row from the width, so few rooms lie low
    ours = harness.layouts_of_ours("MiniGrid-MultiRoom-N2-S4-v0", 4000, **options)
    theirs = harness.layouts_of_reference("MiniGrid-MultiRoom-N2-S4-v0", 1000, **options)
    for statistic in (harness.cells, harness.pose, lambda layouts: layouts.y):
        harness.assert_same_distribution(ours, theirs, statistic, tests=3)


@pytest.mark.slow
def test_a_box_behind_the_locked_door_is_minigrids():
    ours = harness.layouts_of_ours("MiniGrid-KeyCorridorS3R2-v0", 4000, obj_type="box")
    theirs = harness.layouts_of_reference("MiniGrid-KeyCorridorS3R2-v0", 1000, obj_type="box")
    for statistic in (harness.cells, harness.pose, harness.mission):
        harness.assert_same_distribution(ours, theirs, statistic, tests=3)
    assert (harness.number_of(int(BOX))(ours) == 1).all()


def test_taking_the_box_succeeds_as_in_minigrid():
    env = make("MiniGrid-KeyCorridorS3R1-v0", obj_type="box")
    reference = make_reference("MiniGrid-KeyCorridorS3R1-v0", obj_type="box")
    target = jnp.asarray(pick_up.fields_of(reference)["target"], jnp.uint16)
    start = level_state(reference)
    given = {name: getattr(start, name) for name in ("grid", "x", "y", "direction")}
    state = jax.jit(lambda given: env.init(jax.random.key(0)).replace(**given))({**given, "target": target})
    advance, terminated = jax.jit(env.advance), False
    while not terminated:
        action = pick_up.take_target(reference)
        state, reward, terminated, *_ = advance(state, jnp.int32(action), None)
        _, their_reward, their_end, _, _ = reference.step(action)
        assert (bool(terminated), float(reward)) == (their_end, pytest.approx(their_reward))
    assert reward > 0


@pytest.mark.parametrize("sees", [False, True])
def test_seeing_through_walls_is_minigrids(sees):
    env = make("MiniGrid-DoorKey-5x5-v0", see_through_walls=sees)
    reference, observe = make_reference("MiniGrid-DoorKey-5x5-v0", see_through_walls=sees), jax.jit(env.observe)
    hidden = 0
    for seed in range(20):
        obs, _ = reference.reset(seed=seed)
        image = np.asarray(observe(level_state(reference))["image"])
        np.testing.assert_array_equal(image, obs["image"])
        hidden += (image[..., 0] == 0).sum()
    assert (hidden == 0) == sees
