"""WFC against MiniGrid's: tables, walls from the same random numbers, steps, and the distribution of layouts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.minigrid import harness, wfc_reference
from parity.minigrid.reference import make_reference, packed_grid
from parity.minigrid.wfc_reference import control
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.minigrid import wave_function
from shoal.envs.minigrid.wave_function import MOST_PATTERNS, WRAPS
from shoal.envs.minigrid.wfc import WFCState
from shoal.grid.cells import GOAL
from shoal.grid.level import begin

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.filterwarnings("ignore"),  # MiniGrid's solver hashes numbers until they overflow
]

PICTURES = list(WRAPS)
IDS = [f"MiniGrid-WFC-{picture}-v0" for picture in PICTURES]
FAMILY = harness.Family(fields_of=lambda _: {"fallback": False}, batch=32)
SIDE = 23


@pytest.fixture(autouse=True)
def fast_reference():
    with wfc_reference.fast():
        yield


@pytest.mark.parametrize("picture", PICTURES)
def test_the_tables_are_what_minigrid_computes_from_its_picture(picture):
    config = wfc_reference.WFC_PRESETS[picture]
    tiles, tile_grid, _, _ = control.make_tile_catalog(wfc_reference.picture_of(picture), config.tile_size)
    contents, weights, names, grid = control.make_pattern_catalog_with_rotations(
        tile_grid, config.pattern_width, input_is_periodic=config.input_periodic, rotations=config.rotations - 1
    )
    offsets = [(0, -1), (1, 0), (0, 1), (-1, 0)]
    fits = np.zeros((4, len(names), len(names)), bool)
    index = {name: i for i, name in enumerate(names)}
    for offset, p, q in control.adjacency_extraction(
        grid, contents, list(enumerate(offsets)), (config.pattern_width,) * 2
    ):
        fits[offsets.index(offset), index[p], index[q]] = True
    is_wall = [tiles[contents[name][0, 0]][0, 0, 0] == 0 for name in names]
    with np.load(wave_function.CATALOGS) as ours:
        np.testing.assert_array_equal(ours[f"{picture}_adj"], fits)
        np.testing.assert_array_equal(ours[f"{picture}_w"], [weights[name] for name in names])
        np.testing.assert_array_equal(ours[f"{picture}_wall"], is_wall)
    assert WRAPS[picture] == config.output_periodic


@pytest.mark.parametrize(
    "picture", ["ObstaclesBlackdots", *(name for name in PICTURES if name != "ObstaclesBlackdots")]
)
def test_the_replaced_steps_of_the_solver_change_no_layout(picture):
    def walls():
        picture_and_options = wfc_reference.WFC_PRESETS[picture].wfc_kwargs
        image, _ = control.execute_wfc(
            attempt_limit=1000, output_size=(15, 15), np_random=np.random.default_rng(5), **picture_and_options
        )
        return image

    replaced = walls()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wfc_reference.solver, "propagate", wfc_reference.PROPAGATE)
        for name, function in wfc_reference.ORIGINAL.items():
            patch.setattr(control, name, function)
        np.testing.assert_array_equal(walls(), replaced)


class OurNumbers:
    """Gives MiniGrid's solver our order of the cells, and our random bits for each pattern that is taken."""

    def __init__(self, rank, bits):
        self.rank, self.bits = rank, iter(bits)

    def random(self, shape):
        return self.rank.reshape(shape) / self.rank.size

    def choice(self, count, p):
        lot = (int(next(self.bits)) >> 9) / 2**23
        return min(int(np.searchsorted(np.cumsum(p), lot, side="right")), count - 1)


def numbers_of(picture, key):
    """The rank of each cell, and the random bits of each visit in which a cell took a pattern."""
    k_rank, k_visits = jax.random.split(key)
    tables = wave_function.catalog(picture)
    rank = jax.random.permutation(k_rank, np.arange(SIDE * SIDE, dtype=np.int32))

    def visit(wave, number):
        bits = wave_function._random_bits(jax.random.fold_in(k_visits, number))
        first = jnp.min(wave.order)
        takes_one = (first >= MOST_PATTERNS * SIDE * SIDE) & ~wave_function._is_settled(wave)
        after = wave_function._visit(bits, wave, tables, SIDE)
        after = jax.tree.map(lambda new, old: jnp.where(wave_function._is_settled(wave), old, new), after, wave)
        return after, (takes_one, bits)

    start = wave_function._fresh(tables, rank)
    _, (takes_one, bits) = jax.jit(lambda start: jax.lax.scan(visit, start, jnp.arange(8000, dtype=jnp.int32)))(start)
    return np.asarray(rank), np.asarray(bits)[np.asarray(takes_one)]


@pytest.mark.parametrize("picture", PICTURES)
def test_the_same_random_numbers_make_the_same_walls(picture):
    walls = jax.jit(lambda key: wave_function.draw_walls(key, picture, SIDE))
    for seed in range(3):
        key = make_key(seed)
        ours, failed = walls(key)
        assert not failed
        image, counts = control.execute_wfc(
            attempt_limit=1000,
            output_size=(SIDE, SIDE),
            np_random=OurNumbers(*numbers_of(picture, key)),
            **wfc_reference.WFC_PRESETS[picture].wfc_kwargs,
        )
        np.testing.assert_array_equal(np.asarray(ours), image[:, :, 0] == 0)


@pytest.mark.parametrize("env_id", IDS)
@harness.few_and_many
def test_steps_match_minigrid(env_id, steps):
    harness.assert_steps_match(env_id, FAMILY, steps)


def number_of_walls(layouts):
    """How many walls there are, 20 at a time."""
    return harness.number_of(2, 1000)(layouts) // 20


def small_squares(layouts):
    """How often each pattern of walls occurs among the squares of 2 x 2 cells, one test a pattern, in classes of 8."""
    walls = (layouts.grid & 15 == 2).astype(int)
    patterns = walls[:, :-1, :-1] + 2 * walls[:, 1:, :-1] + 4 * walls[:, :-1, 1:] + 8 * walls[:, 1:, 1:]
    return np.stack([(patterns == p).sum((1, 2)) // 8 for p in range(16)], axis=1)


def neighbors(layouts):
    """How many cells have 0, 1, 2, 3 and 4 free neighbors, one test a number, in classes of 8."""
    free = layouts.grid & 15 != 2
    around = sum(np.roll(free, by, axis) for by in (1, -1) for axis in (1, 2))  # the outer walls are not free
    return np.stack([(free & (around == n)).sum((1, 2)) // 8 for n in range(5)], axis=1)


def start(layouts):
    """Where the agent is, in squares of 5 x 5 cells, and where it looks."""
    return (layouts.x // 5 * 5 + layouts.y // 5) * 4 + layouts.direction


def goal(layouts):
    """Where the goal is, in squares of 5 x 5 cells."""
    at, side = harness.position_of(int(GOAL))(layouts), layouts.grid.shape[1]
    return at // side // 5 * 5 + at % side // 5


def way_to_goal(layouts):
    """Where the goal is as seen from the agent, 5 cells at a time."""
    at, side = harness.position_of(int(GOAL))(layouts), layouts.grid.shape[1]
    return (at // side - layouts.x) // 5 * 100 + (at % side - layouts.y) // 5


def distance(layouts):
    """Steps from the agent to the goal, 3 at a time."""
    return harness.distance_to(8)(layouts) // 3


STATISTICS = [harness.cells, start, goal, number_of_walls, small_squares, neighbors, way_to_goal, distance]


def assert_same_generator(env_id, count, of_reference):
    ours, theirs = harness.layouts_of_ours(env_id, count), wfc_reference.layouts(env_id, of_reference)
    for statistic in STATISTICS:
        harness.assert_same_distribution(ours, theirs, statistic, tests=len(STATISTICS))
    assert (harness.distance_to(8)(ours) > 0).all() and not ours.fields["fallback"].any()


@pytest.mark.slow
@pytest.mark.parametrize("env_id", IDS)
def test_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 500, 100)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("env_id", IDS)
def test_many_layouts_come_from_minigrids_distribution(env_id):
    assert_same_generator(env_id, 3000, 3000)


def test_a_picture_is_minigrids_in_every_byte():
    reference = make_reference("MiniGrid-WFC-ObstaclesBlackdots-v0")
    pose = (*map(int, reference.agent_pos), int(reference.agent_dir))
    level = make("MiniGrid-WFC-ObstaclesBlackdots-v0", tile_size=8)
    state = WFCState(**begin(packed_grid(reference), *pose), fallback=jnp.bool_(False))
    np.testing.assert_array_equal(level.render(state), reference.get_frame(tile_size=8))
    assert level.mission_text(state) == reference.mission
