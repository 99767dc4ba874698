"""Tabular agents: the arithmetic of each rule, fixed points against value iteration, and the values they refuse."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.agents.tabular import QTable
from shoal.core.errors import Unsuited
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import to_arrays
from shoal.envs.gridworlds.grid_world import GridWorldState
from shoal.rollouts.rollout import Rollout
from tiny import SILENT
from value_iteration import tabulate, value_iteration

# How tables learn the probes of the contract within seconds.
LEARNS = {
    "learning_rate": 0.5,
    "discount": 0.9,
    "epsilon_end": 0.0,
    "exploration": 0.5,
    "num_steps": 100,
    "horizon": 200 * 100,
}
CONTRACT = dict.fromkeys(("q-learning", "double-q", "sarsa", "expected-sarsa"), LEARNS)
RULES = ("q", "double-q", "sarsa", "expected-sarsa")
CONSTANT = {"exploration": 0.0}  # epsilon_end from the first step on


def bound(env="Probe-Chain-v0", **fields):
    env = make(env) if isinstance(env, str) else env
    return to_arrays(QTable(**fields).bind(env)), to_arrays(env)


def begin(agent, env):
    """A first state, outside of a program: its operations are the same for most tests of this file."""
    return agent.init(make_key(0), env)


# Agents are arguments, so that agents which differ only in hyperparameters share a program.
update = jax.jit(lambda agent, env, state, clock: agent.update(state, env, clock))


@jax.jit
def train(agent, env, updates):
    """The state after some updates."""
    return jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], agent.init(make_key(0), env))


def one_by_one(agent, env, steps):
    """Host copies of the states before each of some updates of one step, and after the last."""
    state, states = begin(agent, env), []
    for t in range(steps + 1):
        states.append(Before(*map(np.array, (state.q, state.env_states.state.cell[0], state.action))))
        state, _ = update(agent, env, state, jnp.int32(t))
    return states


class Before(NamedTuple):
    """The tables and the next action before a step."""

    q: np.ndarray
    cell: np.ndarray
    action: np.ndarray

    @property
    def arrives(self):
        """The next cell of the chain after an action."""
        return int(np.clip(self.cell + (1 if self.action else -1), 0, 4))


# One step at a time, against the rule by hand. On the chain, with V known from the tables themselves.


@pytest.mark.parametrize("rule", RULES)
def test_each_step_changes_the_entry_of_its_state_and_action_by_its_rule(rule):
    agent, env = bound(rule=rule, num_steps=1, learning_rate=0.5, discount=0.9, epsilon_end=0.3, **CONSTANT)
    states, told_apart = one_by_one(agent, env, 300), 0
    for before, after in zip(states, states[1:], strict=False):
        q = before.q[:, before.arrives]
        q_values = {
            "q": [q[0].max()],
            "sarsa": [q[0, after.action]],
            "expected-sarsa": [0.7 * q[0].max() + 0.3 * q[0].mean()],
            # Either table may change; the other one gives the value of its best actions.
            "double-q": [q[len(q) - 1 - k][q[k] == q[k].max()].mean() for k in range(len(q))],
        }
        tables = [_learned(before, k, value) for k, value in enumerate(q_values[rule])]
        assert any(np.allclose(after.q, table, atol=1e-6) for table in tables)
        told_apart += (
            len({round(float(x), 3) for x in (*q_values["q"], *q_values["sarsa"], *q_values["expected-sarsa"])}) == 3
        )
        told_apart += len(tables) == 2 and not np.allclose(*tables)
    assert told_apart > 20  # so that all rules give different results


def _learned(before, k, value):
    """The tables after half a step towards the target."""
    q, place = before.q.copy(), (k, int(before.cell), int(before.action))
    target = 1.0 if before.arrives == 4 else 0.9 * value
    q[place] += 0.5 * (target - q[place])
    return q


@pytest.mark.parametrize("rule", ["q", "sarsa", "expected-sarsa"])
def test_an_entry_updated_at_every_step_uses_its_newest_value(rule):
    # Left of the first cell is the first cell: Q <- Q + 0.5 (0.9 Q - Q) = 0.95 Q, twenty times in one update.
    agent, env = bound(rule=rule, num_steps=20, learning_rate=0.5, discount=0.9, epsilon_end=0.0, **CONSTANT)
    state = begin(agent, env)
    state = state.replace(q=state.q.at[0, 0].set(jnp.asarray([1.0, -1.0])), action=jnp.int32(0))
    state, _ = update(agent, env, state, jnp.int32(0))
    np.testing.assert_allclose(state.q[0, 0], [0.95**20, -1], rtol=1e-5)


@pytest.mark.parametrize(("rule", "next_action"), [("q", 1), ("expected-sarsa", 1), ("sarsa", 0)])
def test_only_sarsa_chooses_the_next_action_before_the_table_update(rule, next_action):
    # The step to the left takes the better value, 1, down to 0.95, below the other.
    agent, env = bound(rule=rule, num_steps=1, learning_rate=0.5, discount=0.9, epsilon_end=0.0, **CONSTANT)
    state = begin(agent, env)
    state = state.replace(q=state.q.at[0, 0].set(jnp.asarray([1.0, 0.96])), action=jnp.int32(0))
    state, _ = update(agent, env, state, jnp.int32(0))
    assert state.action == next_action


@pytest.mark.parametrize("rule", RULES)
def test_a_time_limit_bootstraps_from_the_state_that_it_cut_off(rule):
    # One step an episode, always from cell 0, all other cells worth 5: Q(0, right) = 0.9 * 5, Q(0, left) = 0.9 * that.
    env = make("Probe-Chain-v0", max_steps=1)
    agent, env = bound(
        env, rule=rule, num_steps=1000, learning_rate=0.5, discount=0.9, epsilon_end=0.01, initial_value=5.0, **CONSTANT
    )
    state = train(agent, env, 20)
    np.testing.assert_allclose(agent.policy_state(state).q[0], [4.05, 4.5], rtol=0.02)
    assert (state.q[:, 1:] == 5).all()


def test_sarsa_takes_the_action_of_its_target_also_across_updates():
    agent, env = bound(rule="sarsa", num_steps=1, epsilon_end=0.5, **CONSTANT)
    states = one_by_one(agent, env, 100)
    for before, after in zip(states, states[1:], strict=False):
        assert after.cell == (before.arrives if before.arrives < 4 else 0)


def test_double_q_learning_changes_each_table_about_equally_often():
    agent, env = bound("Probe-CountedTimeLimit-v0", rule="double-q", num_steps=1000, count_visits=True)
    state = train(agent, env, 1)
    first, second = np.asarray(state.visits).sum(axis=(1, 2))
    assert first + second == 1000 and 400 < first < 600


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rule", RULES)
def test_one_update_of_many_steps_equals_many_updates_of_one_step(rule):
    # On average: their random numbers differ.
    tables = []
    for num_steps in (1, 50):
        agent, env = bound(rule=rule, num_steps=num_steps, learning_rate=0.2, discount=0.9, epsilon_end=0.3, **CONSTANT)
        run = jax.jit(jax.vmap(lambda key, a=agent, e=env, n=num_steps: _table(a, e, 400 // n, key)))
        tables.append(np.asarray(run(jax.random.split(make_key(1), 400))))
    np.testing.assert_allclose(tables[0].mean(0), tables[1].mean(0), atol=0.03)


def _table(agent, env, updates, key):
    state = agent.init(key, env)
    return jax.lax.fori_loop(0, updates, lambda i, s: agent.update(s, env, i)[0], state).q


# Against value iteration. All entries, not only those that a good policy visits.


def grid_model():
    env = make("GridWorld-v0")
    cells = jnp.arange(96, dtype=jnp.int32)
    states = jax.vmap(lambda i: GridWorldState(jnp.int32(0), (i // 12).astype(jnp.uint8), (i % 12).astype(jnp.uint8)))(
        cells
    )
    return tabulate(env, states, lambda s: s.row.astype(jnp.int32) * 12 + s.column.astype(jnp.int32))


def cliff_model():
    return make("CliffWalking-v1").model()


MODELS = {"GridWorld-v0": grid_model, "CliffWalking-v1": cliff_model}
# Cells that are never left: the goal, and of the cliff all between start and goal.
NEVER = {"GridWorld-v0": [0], "CliffWalking-v1": list(range(37, 48))}


def assert_greedy_is_optimal(q, best, tolerance, never):
    """Assert that greedy actions of all cells, except some, have the optimal value."""
    cells = [cell for cell in range(len(best)) if cell not in never]
    q_values = best[np.arange(len(best)), q.argmax(axis=1)]
    np.testing.assert_allclose(q_values[cells], best.max(axis=1)[cells], atol=tolerance)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("env_name", sorted(MODELS))
@pytest.mark.parametrize("rule", ["q", "double-q"])
def test_off_policy_tables_equal_value_iteration(env_name, rule):
    # A random policy visits all entries; in a deterministic environment a constant step size converges.
    agent, env = bound(env_name, rule=rule, learning_rate=0.5, discount=0.9, epsilon_end=1.0, num_steps=1000)
    state = train(agent, env, 2000)
    best, never = value_iteration(MODELS[env_name](), 0.9), NEVER[env_name]
    q = np.asarray(agent.policy_state(state).q)
    cells = [cell for cell in range(len(best)) if cell not in never]
    np.testing.assert_allclose(q[cells], best[cells], rtol=1e-4, atol=1e-4)
    assert_greedy_is_optimal(q, best, 1e-6, never)


@pytest.mark.sampled
@pytest.mark.parametrize("env_name", sorted(MODELS))
def test_expected_sarsa_equals_value_iteration_under_its_exploration(env_name):
    agent, env = bound(
        env_name,
        rule="expected-sarsa",
        learning_rate=0.5,
        count_visits=True,
        visit_power=0.0,
        discount=0.9,
        epsilon_end=0.5,
        num_steps=1000,
        **CONSTANT,
    )
    state = train(agent, env, 4000)
    best = value_iteration(MODELS[env_name](), 0.9, epsilon=0.5)
    often = np.asarray(state.visits[0]) > 200
    assert often.sum() > 100
    np.testing.assert_allclose(np.asarray(state.q[0])[often], best[often], rtol=1e-3, atol=1e-3)


@pytest.mark.sampled
@pytest.mark.parametrize("env_name", sorted(MODELS))
def test_sarsa_approaches_value_iteration_under_its_exploration(env_name):
    # Its targets are random, so step sizes must fall; the tolerance covers the remaining noise.
    agent, env = bound(
        env_name,
        rule="sarsa",
        learning_rate=1.0,
        count_visits=True,
        visit_power=0.8,
        discount=0.9,
        epsilon_end=0.5,
        num_steps=1000,
        **CONSTANT,
    )
    state = train(agent, env, 6000)
    best = value_iteration(MODELS[env_name](), 0.9, epsilon=0.5)
    often = np.asarray(state.visits[0]) > 5000
    assert often.sum() > 40
    np.testing.assert_allclose(np.asarray(state.q[0])[often], best[often], atol=0.05 * np.abs(best).max())


# The loop over steps equals that of `Rollout`.


@pytest.mark.parametrize("reset", ["bank", "exact"])
@pytest.mark.parametrize("action", [1, 2])
def test_environment_states_equal_those_of_a_rollout(reset, action):
    # A constant table with the same greedy action everywhere, on slippery ice with a short time limit.
    agent, env = bound(make("FrozenLake-v1", max_steps=7), learning_rate=0.0, epsilon_end=0.0, reset=reset, **CONSTANT)
    state = begin(agent, env)
    q = jnp.zeros_like(state.q).at[..., action].set(1.0)
    state = state.replace(q=q, action=jnp.int32(action))
    after, metrics = update(agent, env, state, jnp.int32(0))

    rollout = Rollout.for_env(env, 1, agent.num_steps, reset)
    k_envs = jax.random.split(state.key, 4)[1]
    actions = jnp.full((agent.num_steps, 1), action, jnp.int32)
    env_states, trajectory, _ = jax.jit(rollout.collect, static_argnums=2)(
        env, state.env_states, lambda obs, mask, chosen, carry: (chosen, None, carry), actions, k_envs
    )
    for ours, theirs in zip(jax.tree.leaves(after.env_states), jax.tree.leaves(env_states), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(jax.tree.leaves(metrics.episodes), jax.tree.leaves(trajectory.episodes()), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert trajectory.terminated.any() and trajectory.truncated.any() and metrics.episodes.count > 20


def test_a_forbidden_action_is_never_taken():
    # Only actions that change something are allowed in a taxi, so every step moves the state of the table.
    agent, env = bound("Taxi-v4", num_steps=1, epsilon_end=1.0, **CONSTANT)
    state = begin(agent, env)
    for t in range(200):
        here = jax.tree.map(lambda x: x[0], state.env_states.state)
        assert bool(env.action_mask(here)[state.action])
        state, _ = update(agent, env, state, jnp.int32(t))
    # Entries that are not allowed keep their first value, and targets ignore them.
    assert float(state.q.max()) == 0.0 and float(state.q.min()) < 0


def test_targets_ignore_forbidden_actions():
    agent, env = bound("Taxi-v4", num_steps=1000, epsilon_end=1.0, learning_rate=0.5, discount=0.9, **CONSTANT)
    state = train(agent, env, 1000)
    mask = np.asarray(jax.vmap(lambda i: _taxi_mask(env, i))(jnp.arange(500)))
    model = env.model()
    # Forbidden actions have the lowest value.
    model = model.replace(reward=jnp.where(jnp.asarray(mask)[..., None], model.reward, -1e6))
    best = value_iteration(model, 0.9)
    known = mask & (np.asarray(state.q[0]) != 0)
    assert known.sum() > 1000
    np.testing.assert_allclose(np.asarray(state.q[0])[known], best[known], atol=0.05)


def _taxi_mask(env, index):
    state = env.init(make_key(0))
    return env.action_mask(state.replace(index=index.astype(state.index.dtype)))


# Schedules, snapshots, policies.


def test_epsilon_falls_at_every_step_and_the_step_size_at_every_update():
    agent, _ = bound(epsilon_end=0.2, exploration=0.5, horizon=400, num_steps=100, learning_rate=0.4, anneal=0.5)
    epsilon = agent._action_noise(make_key(0), jnp.int32(1), 100).epsilon  # steps 100 to 199 of 200
    np.testing.assert_allclose(epsilon[jnp.asarray([0, 50, 99])], [0.6, 0.4, 0.204], atol=1e-6)
    np.testing.assert_allclose(agent._epsilon(jnp.int32(3), jnp.int32(0)), 0.2, atol=1e-6)
    np.testing.assert_allclose(
        [agent._learning_rate(jnp.int32(n)) for n in (0, 2, 4, 9)], [0.4, 0.3, 0.2, 0.2], rtol=1e-5
    )


def test_the_step_size_falls_with_the_visits_of_an_entry():
    # Every step pays 1 and ends: after n visits with sizes 1/n the value is the mean of n rewards, 1, from the first.
    agent, env = bound(learning_rate=1.0, count_visits=True, visit_power=1.0, initial_value=5.0, num_steps=100)
    visits, size = agent._step_size(jnp.asarray([3.0, 0.0]), jnp.int32(0), jnp.float32(0.5))
    assert visits.tolist() == [4, 0] and size == 0.125
    state = train(agent, env, 1)
    assert state.visits.sum() == 100 and state.q[0, 4].tolist() == [5, 5]  # no action is taken beyond the chain


def test_snapshots_are_the_tables_at_the_parts_of_the_horizon():
    agent, env = bound(snapshots=4, num_steps=10, horizon=80, rule="double-q")
    state = begin(agent, env)
    tables = [state.q]
    for i in range(8):
        state, _ = update(agent, env, state, jnp.int32(i))
        tables.append(state.q)
    policy = agent.policy_state(state)
    np.testing.assert_array_equal(policy.snapshots, jnp.stack([tables[n].mean(axis=0) for n in (2, 4, 6, 8)]))
    np.testing.assert_array_equal(policy.snapshots[-1], policy.q)
    assert len({float(table.sum()) for table in policy.snapshots}) == 4


def test_snapshots_between_two_updates_are_the_table_of_the_first():
    agent, env = bound(snapshots=5, num_steps=40, horizon=80, initial_value=3.0)
    state = begin(agent, env)
    tables = [state.q[0]]
    for i in range(2):
        state, _ = update(agent, env, state, jnp.int32(i))
        tables.append(state.q[0])
    # Parts end at steps 16, 32, 48, 64 and 80; updates at 40 and 80.
    np.testing.assert_array_equal(state.snapshots, jnp.stack([tables[n] for n in (0, 0, 1, 1, 2)]))
    assert len({float(table.sum()) for table in tables}) == 3
    beyond, _ = update(agent, env, state, jnp.int32(2))
    np.testing.assert_array_equal(beyond.snapshots, state.snapshots.at[-1].set(beyond.q[0]))


def test_a_policy_acts_as_in_training_and_gives_values_for_a_batch():
    agent, env = bound(epsilon_end=0.5, **CONSTANT)
    policy = agent.policy_state(begin(agent, env)).replace(q=jnp.arange(10.0).reshape(5, 2))
    keys = jax.random.split(make_key(1), 2000)
    drawn = jax.jit(jax.vmap(lambda key: agent.act(policy, jnp.int32(3), None, key, False)[0]))(keys)
    np.testing.assert_allclose(drawn.mean(), 0.75, atol=0.03)  # right, but for half of the times that it explores
    assert agent.act(policy, jnp.int32(3), None, make_key(0), True)[0] == 1
    assert agent.value(policy, jnp.arange(5)).tolist() == [1, 3, 5, 7, 9]


def test_a_table_is_indexed_by_tuple_observations():
    agent, env = bound("Blackjack-v1", num_steps=2000, learning_rate=0.05, discount=1.0, epsilon_end=1.0, **CONSTANT)
    state = train(agent, env, 200)
    obs = (jnp.uint8(20), jnp.uint8(5), jnp.uint8(0))  # 20 against a 5: the best action is to stick
    assert agent.act(state, obs, None, make_key(0), True)[0] == 0


# Refused values.


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("CartPole-v1", r"observations that can be counted: Discrete, MultiDiscrete, .*not Box"),
        ("Pendulum-v1", r"actions that can be counted, Discrete, not Box"),
        ("Doors-v0", r"observations and 5 actions is too large: it may have 1,000,000 entries"),
    ],
)
def test_environments_too_large_for_a_table_are_refused(env, message):
    with pytest.raises(Unsuited, match=message):
        QTable().bind(make(env))


def test_invalid_values_are_refused_at_construction():
    for fields, message in (
        ({"rule": "td"}, "rule='td' is unknown. Choose one of q, double-q, sarsa, expected-sarsa"),
        ({"num_steps": 0}, "num_steps=0 must be at least 1"),
        ({"snapshots": -1}, "snapshots=-1 must not be negative"),
    ):
        with pytest.raises(ValueError, match=message):
            QTable(**fields).bind(make("Probe-Chain-v0"))


def test_every_rule_has_a_name():
    assert sorted(AGENTS[name].build().rule for name in CONTRACT) == sorted(RULES)


def test_a_run_stores_the_requested_snapshots(tmp_path):
    result = shoal.train(
        "sarsa",
        "Probe-Chain-v0",
        steps=400,
        fields={"num_steps": 50, "snapshots": 3},
        folder=tmp_path / "run",
        **SILENT,
    )
    weights = shoal.load(result.folder).weights
    assert weights.snapshots.shape == (3, 5, 2) and weights.q.shape == (5, 2)
    np.testing.assert_array_equal(weights.snapshots[-1], weights.q)
