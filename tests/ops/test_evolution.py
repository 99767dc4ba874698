"""The adapter of evosax: traced hyperparameters, shaped costs, and a first generation that is used."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.errors import UnknownNameError
from shoal.core.keys import make_key
from shoal.ops.evolution import EXCLUDED, Evolution, tie_averaged

TARGET = jnp.asarray([0.5, -0.3, 0.2, 0.1, 0.4, 0.0, -0.1, 0.3])
SMALL = ["Open_ES", "SNES", "Sep_CMA_ES", "PGPE", "SimpleGA", "PSO", "DifferentialEvolution", "ARS", "LM_MA_ES"]


def names():
    algorithms = pytest.importorskip("evosax.algorithms")
    return [name for name in algorithms.algorithms if name not in EXCLUDED]


def minimize(name, generations=60):
    """Search for TARGET; the squared distance at the start and at the end."""
    evolution = Evolution.named(name, 16, TARGET.size)

    @jax.jit
    def run(key, sigma, rate):
        def generation(i, carry):
            state, key = carry
            key, k_ask, k_tell = jax.random.split(key, 3)
            population, state = evolution.ask(k_ask, state, sigma)
            cost = jnp.sum((population - TARGET[None]) ** 2, axis=1)
            return evolution.tell(k_tell, population, cost, state, sigma, rate), key

        start = evolution.init(key, jnp.zeros(TARGET.size), sigma)
        state, _ = jax.lax.fori_loop(0, generations, generation, (start, jax.random.fold_in(key, 1)))
        return evolution.solution(state)

    found = run(make_key(0), jnp.float32(0.1), jnp.float32(evolution.default_learning_rate))
    return float(jnp.sum(TARGET**2)), float(jnp.sum((found - TARGET) ** 2))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SMALL)
def test_a_strategy_minimizes(name):
    before, after = minimize(name)
    assert after < 0.5 * before


@pytest.mark.long
def test_every_strategy_of_evosax_minimizes():
    ends = {name: minimize(name) for name in names()}
    assert {name: end for name, end in ends.items() if not end[1] < 0.5 * end[0]} == {}


def one_step(shaping, cost, rate=0.5, sigma=0.2):
    """Candidates, and the mean after one tell of plain gradient descent."""
    evolution = Evolution.named("Open_ES", 6, 3, optimizer="sgd", shaping=shaping)
    state = evolution.init(make_key(0), jnp.asarray([1.0, 2.0, 3.0]), sigma)
    population, state = evolution.ask(make_key(1), state, sigma)
    state = evolution.tell(make_key(2), population, jnp.asarray(cost), state, sigma, rate)
    return np.asarray(population), np.asarray(evolution.solution(state))


@pytest.mark.parametrize(
    ("shaping", "shaped"),
    [
        ("default", [0.5, -0.5, 0.1, -0.3, 0.3, -0.1]),  # ranks of COST from 0 to 5, over 5, minus a half
        ("ranks", [0.5, -0.5, 0.1, -0.3, 0.3, -0.1]),
        ("none", [9.0, -4.0, 1.0, -2.0, 5.0, 0.0]),
        ("z-score", (np.array([9.0, -4, 1, -2, 5, 0]) - 1.5) / np.array([9.0, -4, 1, -2, 5, 0]).std()),
    ],
)
def test_shaped_costs_move_the_mean_as_in_numpy(shaping, shaped):
    population, mean = one_step(shaping, [9.0, -4.0, 1.0, -2.0, 5.0, 0.0])
    center = np.array([1.0, 2.0, 3.0])
    gradient = np.asarray(shaped) @ ((population - center) / 0.2) / (6 * 0.2)  # Salimans et al. 2017, algorithm 1
    np.testing.assert_allclose(mean, center - 0.5 * gradient, rtol=1e-4)


def test_equal_costs_have_equal_ranks():
    _, mean = one_step("ranks", [2.0] * 6)
    np.testing.assert_allclose(mean, [1, 2, 3], rtol=1e-6)


# Ties. Returns of episodes have them all the time.

WEIGH_RANKS = [
    "CMA_ES",  # with negative weights
    "MA_ES",  # which is given candidates best first
    *(pytest.param(name, marks=pytest.mark.long) for name in ("Sep_CMA_ES", "LM_MA_ES", "DES", "SimpleES")),
]


def test_candidates_of_equal_cost_share_the_mean_of_their_weights():
    weights = jnp.asarray([0.5, 0.3, 0.2, 0.0, -0.4])
    costs = jnp.asarray([[7.0, 1.0, 3.0, 1.0, 3.0], [0.0, 0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 4.0, 2.0, 3.0]])
    partly, flat, untied = jax.jit(jax.vmap(tie_averaged, (None, 0)))(weights, costs)
    np.testing.assert_allclose(partly, [0.4, 0.4, 0.1, 0.1, -0.4], rtol=1e-6)  # (0.5 + 0.3) / 2, (0.2 + 0.0) / 2
    np.testing.assert_allclose(flat, [0.12] * 5, rtol=1e-6)
    np.testing.assert_array_equal(untied, weights)


def test_candidates_that_share_positive_and_negative_weights_keep_the_positive_ones():
    weights, costs = jnp.asarray([0.6, 0.4, -0.2, -0.4]), jnp.asarray([[3.0, 1.0, 3.0, 3.0], [3.0, 1.0, 2.0, 3.0]])
    shared = jax.jit(jax.vmap(lambda cost: tie_averaged(weights, cost, positive_first=True)))(costs)
    np.testing.assert_allclose(shared, [[0.6, 0.4 / 3, 0.4 / 3, 0.4 / 3], [0.6, 0.4, -0.3, -0.3]], rtol=1e-6)


@pytest.mark.parametrize("name", WEIGH_RANKS)
def test_uninformative_costs_keep_the_spread_of_candidates(name):
    """Over 200 generations, random candidates have the lower cost: none, a tenth, half, or nine tenths of them."""
    evolution = Evolution.named(name, 16, 20)

    def search(key, share):
        def generation(i, carry):
            state, _, first = carry
            k_ask, k_tell, k_cost = jax.random.split(jax.random.fold_in(key, i), 3)
            population, state = evolution.ask(k_ask, state, 0.1)
            spread = jnp.mean(jnp.std(population, axis=0))
            cost = jnp.where(jax.random.uniform(k_cost, (16,)) < share, 199.0, 200.0)
            return evolution.tell(k_tell, population, cost, state, 0.1, 1.0), spread, jnp.where(i == 0, spread, first)

        start = evolution.init(key, jnp.zeros(20), 0.1), jnp.float32(0), jnp.float32(0)
        _, last, first = jax.lax.fori_loop(0, 200, generation, start)
        return jnp.log(last / first)

    over_shares = jax.vmap(search, (None, 0))
    grown = jax.jit(jax.vmap(over_shares, (0, None)))(jax.random.split(make_key(3), 8), jnp.asarray([0, 0.1, 0.5, 0.9]))
    flat, *partly = np.exp(grown.mean(axis=0))
    assert 0.9 < flat < 1.1
    assert min(partly) > 1 / 3 and max(partly) < 3  # without ties chance alone gives 0.4 (DES) to 1.1


COSTS = jnp.asarray([3.0, 1.0, 3.0, 3.0, 0.0, 1.0, 3.0, 3.0])


@pytest.mark.parametrize("name", WEIGH_RANKS)
def test_the_order_of_candidates_does_not_matter_and_flat_generations_move_the_mean_alone(name):
    evolution = Evolution.named(name, 8, 5)

    def fields(state):
        return {name: value for name, value in vars(state).items() if name != "z"}

    @jax.jit
    def generation(costs, orders):
        start = evolution.init(make_key(0), jnp.zeros(5), 0.1)
        population, asked = evolution.ask(make_key(1), start, 0.1)

        def updated(cost, order):
            state = asked.replace(z=asked.z[order]) if hasattr(asked, "z") else asked
            return fields(evolution.tell(make_key(2), population[order], cost[order], state, 0.1, 1.0))

        return population, fields(asked), jax.vmap(updated)(costs, orders)

    orders = jnp.asarray([[0, 1, 2, 3, 4, 5, 6, 7], [5, 7, 2, 0, 4, 1, 6, 3], [0, 1, 2, 3, 4, 5, 6, 7]])
    population, asked, updated = generation(jnp.stack([COSTS, COSTS, jnp.full(8, 2.0)]), orders)
    straight, turned, flat = (jax.tree.map(lambda x, i=i: x[i], updated) for i in range(3))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), straight, turned)
    assert not np.array_equal(straight["std"], asked["std"])
    np.testing.assert_allclose(flat.pop("mean"), np.mean(population, axis=0), rtol=1e-5, atol=1e-6)
    flat.pop("opt_state", None)  # which holds the rate of the call
    jax.tree.map(np.testing.assert_array_equal, flat, {name: asked[name] for name in flat})


@pytest.mark.long
def test_without_ties_the_state_equals_that_of_evosax():
    evolution, cost = Evolution.named("CMA_ES", 8, 5), COSTS + 0.01 * jnp.arange(8.0)

    @jax.jit
    def both():
        population, state = evolution.ask(make_key(1), evolution.init(make_key(0), jnp.zeros(5), 0.1), 0.1)
        ours = evolution.tell(make_key(2), population, cost, state, 0.1, 1.0)
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            parameters = evolution.strategy.default_params.replace(std_init=0.1)
            return ours, evolution.strategy.tell(make_key(2), population, cost, state, parameters)[0]

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), *both())


def test_candidates_are_mirrored_pairs_by_default():
    population, _ = one_step("ranks", [0.0] * 6)
    np.testing.assert_allclose(population[:3] + population[3:], [[2, 4, 6]] * 3, rtol=1e-6)
    plain = Evolution.named("Open_ES", 6, 3, antithetic=False)
    state = plain.init(make_key(0), jnp.zeros(3), 0.2)
    alone, _ = plain.ask(make_key(1), state, 0.2)
    assert not np.allclose(alone[:3] + alone[3:], 0) and not plain.is_antithetic


def is_mirrored(name):
    """Whether the second half of the candidates mirrors the first, and whether it is declared; None for populations."""
    evolution = Evolution.named(name, 8, 4)
    if evolution.has_population:
        return True, True
    state = evolution.init(make_key(0), jnp.zeros(4), 0.5)
    population, _ = evolution.ask(make_key(1), state, 0.5)
    return bool(np.allclose(population[:4] + population[4:], 0, atol=1e-5)), bool(evolution.is_antithetic)


@pytest.mark.parametrize("name", ["Open_ES", "PGPE", "CR_FM_NES", "SNES"])
def test_strategies_with_mirrored_candidates_are_listed(name):
    found, said = is_mirrored(name)
    assert found == said


@pytest.mark.long
def test_all_strategies_with_mirrored_candidates_are_listed():
    assert [name for name in names() if len(set(is_mirrored(name))) > 1] == []


def test_learning_rate_and_step_size_are_traced_arguments():
    evolution = Evolution.named("Open_ES", 6, 3, optimizer="sgd")
    traces = []

    @jax.jit
    def generation(sigma, rate):
        traces.append(1)
        state = evolution.init(make_key(0), jnp.zeros(3), 1.0)
        population, state = evolution.ask(make_key(1), state, sigma)
        state = evolution.tell(make_key(2), population, jnp.arange(6.0), state, sigma, rate)
        return population, evolution.solution(state)

    (near, slow), (far, fast) = generation(0.1, 0.1), generation(0.3, 0.6)
    np.testing.assert_allclose(far, 3 * near, rtol=1e-5)
    np.testing.assert_allclose(fast, 2 * slow, rtol=1e-5)  # six times the rate, at a third of the gradient
    assert len(traces) == 1


def test_the_step_size_that_is_reported_is_the_one_that_was_taken():
    evolution = Evolution.named("Open_ES", 6, 3)
    state = evolution.init(make_key(0), jnp.zeros(3), 0.3)
    population, state = evolution.ask(make_key(1), state, 0.3)
    state = evolution.tell(make_key(2), population, jnp.arange(6.0), state, 0.3, 0.1)
    np.testing.assert_allclose(evolution.sigma(state), 0.3)


@pytest.mark.parametrize("name", ["SimpleGA", "MR15_GA"])
def test_the_step_size_of_a_population_is_reported_from_the_first_generation_on(name):
    evolution = Evolution.named(name, 6, 3)
    state = evolution.init(make_key(0), jnp.zeros(3), 0.3)
    population, state = evolution.ask(make_key(1), state, 0.3)
    state = evolution.tell(make_key(2), population, jnp.arange(6.0), state, 0.3, 0.1)
    np.testing.assert_allclose(evolution.sigma(state), 0.3)


def test_a_strategy_that_adapts_its_step_size_is_given_the_first():
    evolution = Evolution.named("SNES", 8, 3)
    assert evolution.adapts_sigma and not evolution.is_scheduled
    state = evolution.init(make_key(0), jnp.zeros(3), 0.25)
    assert evolution.sigma(state) == 0.25
    assert evolution.sigma(evolution.with_smallest_sigma(state, 0.5)) == 0.5


def test_the_first_generation_of_a_population_is_the_one_it_began_with():
    evolution = Evolution.named("SimpleGA", 6, 2)
    state = evolution.init(make_key(0), jnp.ones(2), 0.1)
    population, asked = evolution.ask(make_key(1), state, 0.1)
    np.testing.assert_array_equal(population, state.population)
    updated = evolution.tell(make_key(2), population, jnp.asarray([3.0, 2, 0, 5, 1, 4]), asked, 0.1, 1.0)
    np.testing.assert_array_equal(evolution.solution(updated), population[2])
    later, _ = evolution.ask(make_key(3), updated, 0.1)
    assert not np.array_equal(later, population)


TRY_AGAIN = ["Open_ES", "SimpleGA", "SAMR_GA", "GESMR_GA", "PSO"]
NEVER_TRY_AGAIN = ["DifferentialEvolution", "MR15_GA", "HillClimbing", "GradientlessDescent"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TRY_AGAIN + NEVER_TRY_AGAIN)
def test_some_strategies_keep_a_candidate_whose_return_was_high_by_chance(name):
    evolution = Evolution.named(name, 8, 2)

    @jax.jit
    def search(key):
        """(the first candidates, the solution after four generations)"""
        first, state = evolution.ask(make_key(1), evolution.init(key, jnp.ones(2), 0.1), 0.1)
        state = evolution.tell(make_key(2), first, jnp.ones(8).at[3].set(0.0), state, 0.1, 0.1)

        def generation(i, state):
            k_ask, k_tell = jax.random.split(jax.random.fold_in(key, i))
            population, state = evolution.ask(k_ask, state, 0.1)
            cost = jnp.where(jnp.all(population == first[3][None], axis=1), 2.0, 1.0)  # a low cost by chance
            return evolution.tell(k_tell, population, cost, state, 0.1, 0.1)

        return first, evolution.solution(jax.lax.fori_loop(1, 4, generation, state))

    first, found = search(make_key(0))
    assert np.allclose(found, first[3], rtol=1e-6) == (name in NEVER_TRY_AGAIN)


def first_deviation(name):
    evolution = Evolution.named(name, 1_000, 500 if name == "LM_MA_ES" else 4)
    center = jnp.ones(500 if name == "LM_MA_ES" else 4)
    first = jax.jit(lambda key: evolution.ask(make_key(1), evolution.init(key, center, 0.1), 0.1)[0])
    return float(np.std(first(make_key(0)) - np.float32(1)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["xNES", "SNES", "Sep_CMA_ES", "PGPE", "Open_ES", "SimpleGA", "PSO", "iAMaLGaM_Full"])
def test_the_first_candidates_deviate_by_the_step_size(name):
    np.testing.assert_allclose(first_deviation(name), 0.1, rtol=0.05)


@pytest.mark.long
def test_strategies_whose_step_size_is_not_a_deviation_are_listed():
    assert {n for n in names() if abs(first_deviation(n) - 0.1) > 0.006} == {"ASEBO", "GradientlessDescent"}


def test_evosax_strategies_require_only_the_arguments_we_pass():
    algorithms = pytest.importorskip("evosax.algorithms").algorithms
    given = {"population_size", "solution"}
    for name in names():
        accepted = inspect.signature(algorithms[name]).parameters.values()
        assert {p.name for p in accepted if p.default is inspect.Parameter.empty} <= given, name


def test_the_error_of_an_unknown_strategy_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean SNES"):
        Evolution.named("sness", 8, 3)


def test_more_candidates_than_a_strategy_supports_are_refused():
    with pytest.raises(ValueError, match="LM_MA_ES with population_size=16 needs at least 8 weights .* here are 4"):
        Evolution.named("LM_MA_ES", 16, 4)
