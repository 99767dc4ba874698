"""Evolution strategies as an agent: shared random numbers, counted steps, and candidates that fail."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.agents.es import ES, fitness_summary, without_failures
from shoal.core.env import Env, State
from shoal.core.errors import UnknownNameError
from shoal.core.keys import is_key, make_key
from shoal.core.registry import make
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, struct, to_arrays
from shoal.envs.probes import ActionReward
from shoal.nn.torsos import MLP
from shoal.rollouts.evaluate import evaluate
from shoal.specs.spec import RunSpec
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.loop import Run
from shoal.training.plan import make_plan

CONTRACT = {
    "es": {
        "population_size": 32,
        "episodes": 8,
        "episode_steps": 5,
        "hidden": (8,),
        "learning_rate": 0.1,
        "sigma": 0.3,
        "sigma_decay": 0.98,
        "learning_rate_decay": 0.98,
        # 200 generations are few for thousands of weights, so the policy is linear.
        "image": {
            "network": MLP(hidden=()),
            "strategy": "SNES",
            "population_size": 128,
            "episodes": 64,
            "learning_rate": 0.0,
            "learning_rate_decay": 1.0,
            "sigma_decay": 1.0,
        },
    }
}


def bound(env="CartPole-v1", **fields):
    env = make(env) if isinstance(env, str) else env
    return to_arrays(ES(**{"hidden": (4,), "population_size": 8, **fields}).bind(env)), to_arrays(env)


def begin(agent, env):
    """A first state, outside of a program: its operations are the same for most tests of this file."""
    return agent.init(make_key(0), env)


@struct
class Dice(Env):
    """A fair die with noise in first states, steps and terminations. The reward is the last observed number."""

    ends_at: Number = 0.9
    max_steps: Number | None = 20

    @property
    def observation_space(self):
        return Box(0.0, 2.0, (2,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return DiceState(jnp.int32(0), jax.random.uniform(key))

    def noise(self, key):
        return jax.random.uniform(key)

    def transition(self, state, action, noise):
        reward = state.face + action.astype(jnp.float32)
        return state.replace(face=noise), reward, noise > self.ends_at, {}

    def observe(self, state):
        return jnp.stack([state.face, 1 - state.face])


@struct
class DiceState(State):
    """The number rolled."""

    face: jax.Array


@struct
class Cliff(ActionReward):
    """Action 1 has reward NaN."""

    def transition(self, state, action, noise):
        """Give the reward and terminate."""
        del noise
        return state, jnp.where(action == 1, jnp.nan, 0.5).astype(jnp.float32), jnp.bool_(True), {}


def same_candidates(agent, env):
    """The same policy for every candidate."""
    flat = agent.evolution.solution(agent.init(make_key(0), env).search)
    return jnp.tile(flat, (agent.population_size, 1))


# Agents are arguments, so that agents which differ only in hyperparameters share a program.
update = jax.jit(lambda agent, env, state: agent.update(state, env, jnp.int32(0)))
play_equals = jax.jit(lambda agent, env: agent._run_episodes(env, same_candidates(agent, env), None, make_key(1)))


def returns_of_equals(**fields):
    """Returns [P, K] of identical candidates in a stochastic environment."""
    agent, env = bound(Dice(), episodes=3, **fields)
    lives = play_equals(agent, env)
    return np.asarray(lives.episode_return).reshape(agent.population_size, 3)


def test_equal_candidates_get_equal_returns_with_common_random_numbers():
    returns = returns_of_equals()
    assert (returns == returns[0]).all()
    assert len(set(returns[0].tolist())) == 3  # while every episode is another


def test_antithetic_pairs_share_their_random_numbers():
    returns = returns_of_equals(common_random_numbers=False)
    np.testing.assert_array_equal(returns[:4], returns[4:])  # evosax mirrors the first half in the second
    assert len(set(returns[:4].ravel().tolist())) == 12


def test_unpaired_candidates_have_different_random_numbers():
    for fields in ({"antithetic": "off"}, {"strategy": "SNES"}):
        returns = returns_of_equals(common_random_numbers=False, **fields)
        assert len(set(returns.ravel().tolist())) == 24


@jax.jit
def one_step(agent, env, weights, stats, env_state):
    obs = env.observe(env_state)
    seen = obs if stats is None else stats.normalize(obs)
    head, _ = agent._controller.apply(agent._unravel(weights), seen, None)
    env_state, reward, terminated, truncated, _ = env.advance(env_state, jnp.argmax(head), None)
    return env_state, obs, reward, terminated | truncated


def played_alone(agent, env, weights, stats, env_state):
    """One episode of one candidate, step by step: (return, observations)."""
    total, seen, done = 0.0, [], False
    while not done:
        env_state, obs, reward, done = one_step(agent, env, weights, stats, env_state)
        total += float(reward)
        seen.append(np.asarray(obs))
    return total, seen


def test_candidates_evaluated_together_equal_each_evaluated_alone():
    agent, env = bound(episodes=2, sigma=1.0)

    @jax.jit
    def played(key):
        population, _ = agent.evolution.ask(make_key(4), agent.init(key, env).search, jnp.float32(1.0))
        k_starts = jax.random.split(make_key(5), 3)[0]
        return population, agent._run_episodes(env, population, None, make_key(5)), agent._first_states(env, k_starts)

    population, lives, starts = jax.tree.map(np.asarray, played(make_key(3)))
    for p in (0, 5):
        for k in (0, 1):
            total, _ = played_alone(agent, env, population[p], None, jax.tree.map(lambda x, k=k: x[0, k], starts))
            assert lives.episode_return[2 * p + k] == total == lives.length[2 * p + k]
    assert lives.ended.all() and len(set(lives.length.tolist())) > 3


def test_step_and_episode_counts_are_those_of_the_episodes_that_ran():
    agent, env = bound(Dice(), episodes=4)
    _, metrics = update(agent, env, begin(agent, env))
    assert agent.steps_per_update == 8 * 4 * 20
    assert metrics.episodes.count == 32 and metrics.episodes.length_sum == metrics.losses["steps"]
    assert 32 < metrics.losses["steps"] < agent.steps_per_update
    np.testing.assert_allclose(metrics.episodes.return_mean, metrics.losses["fitness_mean"], rtol=1e-5)


def test_truncated_episodes_count_like_terminated_episodes():
    agent, env = bound("Pendulum-v1", episode_steps=5)
    state, metrics = update(agent, env, begin(agent, env))
    assert agent.steps_per_update == 40 == metrics.losses["steps"] and metrics.episodes.count == 8
    assert np.isfinite(metrics.losses["fitness_mean"])
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(agent.policy_state(state)))


def test_without_a_time_limit_an_episode_is_cut_after_1000_steps():
    agent, _ = bound(Dice(max_steps=None, ends_at=2.0), population_size=2)
    assert agent.steps_per_update == 2000


def test_an_episode_runs_until_the_time_limit_inside_the_environment():
    agent, env = bound(make("bsuite/cartpole/0", height_threshold=-1.0, x_threshold=1e9), population_size=2)
    assert agent.steps_per_update == 2 * 1001
    candidates = jnp.zeros((2, agent._count_weights()))
    lives = jax.jit(agent._run_episodes)(env, candidates, None, make_key(0))
    assert lives.ended.all() and lives.length.tolist() == [1001, 1001]


def test_limits_of_a_sweep_are_all_within_the_steps_counted():
    spec = RunSpec("es", "CartPole-v1", steps=1000, env_sweep={"max_steps": [100, 500]}, fields={"population_size": 2})
    assert make_plan(spec).agent.steps_per_update == 2 * 500


def test_a_candidate_that_fails_counts_as_just_below_the_worst_of_the_others():
    fitness = jnp.asarray([3.0, jnp.nan, -2.0, jnp.inf])
    below = np.nextafter(np.float32(-2), np.float32(-3))
    np.testing.assert_array_equal(without_failures(fitness), np.asarray([3, below, -2, below], np.float32))
    np.testing.assert_array_equal(without_failures(jnp.asarray([jnp.nan, -jnp.inf])), [0, 0])
    summary = fitness_summary(fitness)
    assert (summary["fitness_mean"], summary["fitness_best"], summary["fitness_std"], summary["failed"]) == (
        0.5,
        3,
        2.5,
        0.5,
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("strategy", ["Open_ES", "SNES", "SimpleGA"])
@pytest.mark.parametrize("shaping", ["default", "none"])
def test_candidates_with_nan_returns_do_not_affect_the_search(strategy, shaping):
    if strategy == "SNES" and shaping != "default":
        pytest.skip("SNES weighs ranks")
    agent, env = bound(Cliff(), strategy=strategy, shaping=shaping, sigma=1.0)
    state, failed = jax.jit(agent.init)(make_key(1), env), 0
    for _ in range(5):
        state, metrics = update(agent, env, state)
        failed += float(metrics.losses["failed"])
        assert all(np.isfinite(x) for x in metrics.losses.values())
        assert metrics.episodes.return_sum == 0.5 * metrics.episodes.count  # only the sound ones
    assert failed > 0
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(agent.policy_state(state)))


def test_a_generation_in_which_all_candidates_fail_is_reported():
    losses = fitness_summary(jnp.full(2, jnp.nan))
    assert np.isnan(losses["fitness_mean"]) and losses["failed"] == 1


def test_observation_statistics_are_those_of_all_steps_taken():
    agent, env = bound("CartPole-v1", normalize_observation=True, population_size=4)
    state, everything = begin(agent, env), []

    @jax.jit
    def first(state):
        """The candidates of an update, and their first environment states."""
        k_ask, k_play = jax.random.split(state.key, 4)[1:3]
        starts = agent._first_states(env, jax.random.split(k_play, 3)[0])
        population, _ = agent.evolution.ask(k_ask, state.search, jnp.float32(0.1))
        return population, jax.tree.map(lambda x: x[0, 0], starts)

    for _ in range(2):
        population, env_state = first(state)
        population = np.asarray(population)
        # All candidates normalize with the statistics from before their generation.
        played = [played_alone(agent, env, population[p], state.obs_stats, env_state) for p in range(4)]
        everything += [obs for _, seen in played for obs in seen]
        state, metrics = update(agent, env, state)
        np.testing.assert_allclose(metrics.losses["fitness_mean"], np.mean([total for total, _ in played]))
        assert state.obs_stats.count == len(everything)
        np.testing.assert_allclose(state.obs_stats.mean, np.mean(everything, 0), rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(state.obs_stats.std(), np.std(everything, 0), rtol=1e-3)


def test_episodes_with_nan_do_not_enter_the_observation_statistics():
    @struct
    class Broken(Dice):
        """Observes NaN after the second of two actions."""

        def transition(self, state, action, noise):
            """Roll, or observe NaN."""
            return state.replace(face=jnp.where(action == 1, jnp.nan, noise)), jnp.float32(1), noise > 0.9, {}

    agent, env = bound(Broken(), normalize_observation=True, sigma=1.0)
    state, metrics = update(agent, env, begin(agent, env))
    assert 0 < state.obs_stats.count < metrics.losses["steps"]
    assert np.isfinite(state.obs_stats.mean).all() and np.isfinite(state.obs_stats.std()).all()


@pytest.mark.slow
def test_a_recurrent_policy_keeps_its_carry_within_an_episode():
    fields = {"population_size": 64, "episodes": 8, "sigma": 0.3, "learning_rate": 0.1}
    scores = {}
    for memory, size in (("none", {}), ("gru", {"memory_size": 4}), ("lstm", {"memory_size": 4})):
        agent, env = bound("Probe-Memory-v0", episode_steps=5, memory=memory, **fields, **size)

        @jax.jit
        def train(key, agent=agent, env=env):
            state = agent.init(key, env)
            return jax.lax.fori_loop(0, 150, lambda i, s: agent.update(s, env, i)[0], state)

        scores[memory] = float(jnp.mean(evaluate(agent, train(make_key(0)), env, make_key(1), 200, 5).episode_return))
    assert scores["gru"] > 0.95 and scores["lstm"] > 0.95 and scores["none"] < 0.3


@pytest.mark.parametrize("squash", ["tanh", "clip"])
def test_actions_lie_within_their_bounds(squash):
    agent, env = bound("Pendulum-v1", squash=squash)
    heads = jnp.asarray([[-50.0], [0.0], [0.5], [50.0]])
    inner = 2 * np.tanh(0.5) if squash == "tanh" else 2 * 0.5
    np.testing.assert_allclose(agent._action(heads, None, None), [[-2], [0], [inner], [2]], rtol=1e-6)


def test_actions_are_sampled_only_with_sample_actions():
    for sample, expected in ((False, 1), (True, 2)):
        agent, env = bound("CartPole-v1", sample_actions=sample)
        policy, keys = agent.policy_state(begin(agent, env)), jax.random.split(make_key(0), 30)
        draw = jax.jit(jax.vmap(lambda key, a=agent, p=policy: a.act(p, jnp.ones(4), None, key, False)[0]))
        drawn = set(draw(keys).tolist())
        assert len(drawn) == expected
    returns = returns_of_equals(sample_actions=True)
    assert (returns == returns[0]).all()  # the samples of actions are common too


def test_a_policy_never_takes_a_masked_action():
    @struct
    class Half(ActionReward):
        """Only action 0 is allowed."""

        def action_mask(self, state):
            """Action 1 is forbidden."""
            return jnp.asarray([True, False])

    agent, env = bound(Half(), sigma=1.0)
    state, metrics = update(agent, env, begin(agent, env))
    assert metrics.episodes.return_max == -1.0
    assert agent.act(state, jnp.zeros(1), None, make_key(0), True, jnp.asarray([False, True]))[0] == 1


def test_the_policy_is_the_mean_and_not_the_best_candidate():
    agent, env = bound(Dice())
    state, _ = update(agent, env, begin(agent, env))
    search, policy = state.search, agent.policy_state(state).weights
    np.testing.assert_array_equal(jax.flatten_util.ravel_pytree(policy)[0], search.mean)
    assert not np.allclose(search.mean, search.best_solution)


def test_schedules_follow_the_member_s_age():
    agent, _ = bound(sigma=0.4, sigma_decay=0.5, sigma_limit=0.15, learning_rate=0.2, learning_rate_decay=0.9)
    np.testing.assert_allclose([agent._sigma(jnp.int32(i)) for i in range(4)], [0.4, 0.2, 0.15, 0.15], rtol=1e-5)
    without_limit, _ = bound(sigma=0.4, sigma_decay=0.0)
    np.testing.assert_allclose([without_limit._sigma(jnp.int32(i)) for i in range(3)], [0.4, 4e-4, 4e-4], rtol=1e-5)
    np.testing.assert_allclose([agent._learning_rate(jnp.int32(i)) for i in (0, 2)], [0.2, 0.162], rtol=1e-5)


def test_weight_decay_adds_a_cost_for_large_weights():
    agent, env = bound("Probe-ConstantReward-v0", weight_decay=1.0, learning_rate=0.1)
    state = begin(agent, env)
    norms = []
    for _ in range(30):
        state, metrics = update(agent, env, state)
        norms.append(float(metrics.losses["weight_norm"]))
    assert norms[-1] < 0.7 * norms[0]  # the return is always the same


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"strategy": "OpenES"}, UnknownNameError, "'OpenES' is not registered. Did you mean Open_ES"),
        ({"strategy": "SV_Open_ES"}, ValueError, "searches for several solutions at once"),
        ({"population_size": 7}, ValueError, "population_size=7: Population size must be even"),
        ({"population_size": 0}, ValueError, "population_size=0 must be at least 1"),
        ({"episode_steps": -1}, ValueError, "episode_steps=-1 must not be negative"),
        (
            {"strategy": "Sep_CMA_ES", "learning_rate": 0.1},
            ValueError,
            "rate=0.1 changes nothing in the strategy Sep_CMA",
        ),
        ({"strategy": "SNES", "sigma_decay": 0.9}, ValueError, "sigma_decay=0.9 changes nothing in the strategy SNES"),
        ({"strategy": "CMAAnchoredLES", "sigma_limit": 0.1}, ValueError, "sigma_limit=0.1 changes nothing in the"),
        ({"strategy": "LGA", "shaping": "ranks"}, ValueError, "LGA compares costs of different generations"),
        ({"strategy": "GuidedES"}, ValueError, "strategy GuidedES needs gradients from elsewhere: try Open_ES"),
        ({"strategy": "SNES", "population_size": 1}, ValueError, "population_size=1 is too few for strategy SNES"),
        ({"strategy": "SNES", "shaping": "ranks"}, ValueError, "SNES has its own weights for ranks"),
        ({"strategy": "PGPE", "antithetic": "off"}, ValueError, "PGPE has no option for antithetic sampling"),
        ({"strategy": "CMA_ES", "optimizer": "adam"}, ValueError, "CMA_ES has no optimizer"),
        ({"memory": "rnn"}, ValueError, "memory='rnn' is unknown. Choose one of none, gru, gtrxl, lru"),
    ],
)
def test_invalid_values_are_refused_before_compilation(fields, error, message):
    with pytest.raises(error, match=message):
        bound(**fields)


def test_evosax_is_imported_only_when_an_agent_is_bound():
    text = "import sys; from shoal.core.registry import AGENTS; AGENTS['es'].build(); print('evosax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_agents_with_equal_static_fields_share_a_program():
    env = make("CartPole-v1")
    shapes = []

    @jax.jit
    def steps(agent):
        shapes.append(agent.hidden)  # runs once for each compiled program
        return agent.sigma

    for changes in ({"sigma": 0.1}, {"sigma": 0.2}, {"optimizer": "sgd"}, {"antithetic": "off"}, {"hidden": (4, 4)}):
        steps(ES(**{"hidden": (4,), "population_size": 8, **changes}).bind(env))
    assert shapes == [(4,), (4,), (4,), (4, 4)]


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Train a few generations and return the final members as host arrays."""

    def run(hidden=4, **changes):
        fields = {"population_size": 4, "episodes": 2, "hidden": (hidden,), "episode_steps": 20}
        fields["normalize_observation"] = True
        spec = RunSpec(agent="es", env="CartPole-v1", fields=fields, steps=6 * 160, records=3, evaluations=0, **changes)
        folder = RunFolder(tmp_path_factory.mktemp("run") / "run")
        folder.create()
        with jax.numpy_dtype_promotion("standard"):
            Run(make_plan(spec), folder).train()
        with np.load(checkpoint.newest(folder.checkpoints) / "learners.npz") as file:
            return {name: file[name] for name in file.files}

    return run


@pytest.mark.sampled
@pytest.mark.parametrize("hidden", [4, 1000])  # in one kernel, and with matrix products of a library
def test_a_member_does_not_depend_on_how_many_others_there_are(train, hidden):
    one, three = train(hidden, seeds=1), train(hidden, seeds=3)
    assert one.keys() == three.keys() and len(one) > 8
    for name in one:
        np.testing.assert_array_equal(one[name][:1], three[name][:1], err_msg=name)


@pytest.mark.parametrize(("hidden", "is_large"), [(4, False), (1000, True)])
def test_large_policies_are_multiplied_by_library_calls(hidden, is_large):
    fields = {"population_size": 4, "episodes": 2, "hidden": (hidden,), "episode_steps": 20}
    plan = make_plan(RunSpec(agent="es", env="CartPole-v1", fields=fields, steps=160))
    agent, env = (plan.agent, plan.env)
    lowered = jax.jit(agent.update).lower(jax.eval_shape(agent.init, make_key(0), env), env, jnp.int32(0))
    compiled = lowered.compile(compiler_options=plan.placement.compiler_options).as_text()
    assert plan.placement.has_large_loops == is_large == ("ynn_fusion" in compiled)


@pytest.mark.parametrize("strategy", ["Open_ES", "SimpleGA"])
def test_a_state_copied_to_the_host_and_back_continues_with_the_same_bits(strategy):
    agent, env = bound(Dice(), strategy=strategy, normalize_observation=True)
    state = begin(agent, env)
    for _ in range(2):
        state, _ = update(agent, env, state)
    kept = jax.tree.map(lambda x: x if is_key(x) else jnp.asarray(np.asarray(x)), state)
    for _ in range(2):
        state, _ = update(agent, env, state)
        kept, _ = update(agent, env, kept)
    for straight, resumed in zip(jax.tree.leaves(state), jax.tree.leaves(kept), strict=True):
        np.testing.assert_array_equal(*(jax.random.key_data(x) if is_key(x) else x for x in (straight, resumed)))


@pytest.mark.long
def test_sep_cma_es_solves_mountain_car_although_most_returns_are_equal():
    # A return is -200 until a candidate reaches the goal.
    agent, env = bound(
        "MountainCar-v0", strategy="Sep_CMA_ES", population_size=32, sigma=0.3, episodes=2, normalize_observation=True
    )

    def train(key):
        def generation(state, _):
            state, metrics = agent.update(state, env, jnp.int32(0))
            return state, metrics.losses["fitness_mean"]

        return jax.lax.scan(generation, agent.init(key, env), None, length=50)[1][-5:]

    returns = jax.jit(jax.vmap(train))(jax.random.split(make_key(1), 4))
    assert returns.mean() > -150  # random actions get -200
