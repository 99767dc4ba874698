"""LearnerEnv: its step is the training of the inner agent; hyperparameters, rewards, refusals; agents train on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import Poisoned, advance, init, noise, observe
from learners import playable, unbound
from shoal import ES, PPO, SAC, QTable
from shoal.core.checks import check_env
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.struct import hyper_fields, info_of, to_arrays
from shoal.population.learner_env import LearnerEnv, without_keys
from shoal.studies.runs import train

INNER = make("Probe-CountedMatching-v0")
STEPS = 8  # of an inner update
ENV = LearnerEnv(
    QTable(num_steps=STEPS),
    INNER,
    updates=3,
    steps=4,
    hyperparameters=("learning_rate", ("discount", 0.0, 0.8)),
)


def play(env, actions):
    """The noise of each step of an episode, and (state, reward, flags, info) after each."""
    key = make_key(1)
    state, lots = init(env, key), [noise(env, k) for k in jax.random.split(key, len(actions))]
    steps = []
    for action, lot in zip(actions, lots, strict=True):
        state, reward, terminated, truncated, info = advance(env, state, jnp.float32(action), lot)
        steps.append((state, float(reward), bool(terminated), bool(truncated), info))
    return lots, steps


def test_a_step_is_the_inner_agents_own_updates_with_the_chosen_hyperparameters():
    # [-1, 1] is [0.01, 1] on a logarithmic scale: 0 is 0.1; and [0, 0.8] on a linear one: 0.5 is 0.6
    lots, steps = play(ENV, [(0.0, 0.5)])
    learned = steps[0][0].learner
    agent = QTable(num_steps=STEPS, learning_rate=0.1, discount=0.6, horizon=4 * 3 * STEPS).bind(INNER)
    agent, env = to_arrays(agent), to_arrays(INNER)
    state, update = agent.init(make_key(1), env), jax.jit(type(agent).update)
    total = count = 0.0
    for i, key in enumerate(jax.random.split(lots[0], 3)):
        state, metrics = update(agent, agent.reseed(state, key), env, jnp.int32(i))
        total, count = total + float(metrics.episodes.return_sum), count + int(metrics.episodes.count)
    expected = without_keys(state)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5), learned, expected)
    assert count and steps[0][1] == pytest.approx(total / count, rel=1e-5)


def test_an_episode_is_one_training_run_and_its_improvements_add_up_to_the_last_return():
    actions = np.random.default_rng(0).uniform(-1, 1, (4, 2))
    _, steps = play(ENV, actions)
    assert [terminated for _, _, terminated, _, _ in steps] == [False, False, False, True]
    assert not any(truncated for _, _, _, truncated, _ in steps)
    _, improved = play(ENV.replace(reward="improvement"), actions)
    np.testing.assert_allclose(sum(step[1] for step in improved), steps[-1][1], rtol=1e-5)
    seen = observe(ENV, steps[1][0])
    assert seen[0] == 0.5 and seen[3] == 1
    np.testing.assert_allclose(seen[1], np.sign(steps[1][1]) * np.log1p(abs(steps[1][1])), rtol=1e-5)
    np.testing.assert_allclose(seen[4:6], actions[1], rtol=1e-5)
    assert ENV.observation_space.contains(seen)


def test_the_inner_learner_learns_with_a_good_rate_and_not_with_the_smallest():
    def last_return(choice):
        env = LearnerEnv(
            QTable(num_steps=64, exploration=0.3), INNER, updates=4, steps=5, hyperparameters=(("learning_rate", 0, 1),)
        )
        return play(env, [(choice,)] * 5)[1][-1][1]

    assert last_return(0.0) > 0.7 and last_return(-1.0) < 0.5


def test_an_update_that_is_not_finite_is_undone_and_ends_training():
    env = LearnerEnv(
        PPO(num_envs=1, num_steps=5, num_minibatches=1, num_epochs=1, hidden=(2,)),
        Poisoned(),
        hyperparameters=(("env.poison", -1.0, 1.0),),
    )
    _, steps = play(env, [(-1.0,), (1.0,), (-1.0,)])
    (good, *_), (bad, reward, *_), (later, *_) = steps
    assert good.alive and not bad.alive and not later.alive
    assert reward == 5 == float(good.mean_return)
    jax.tree.map(np.testing.assert_array_equal, good.learner, bad.learner)
    jax.tree.map(np.testing.assert_array_equal, good.learner, later.learner)
    assert np.isfinite(observe(env, later)).all()


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"hyperparameters": ("learning_rat",)}, TypeError, "Did you mean learning_rate"),
        ({"hyperparameters": ("num_steps",)}, ValueError, "num_steps cannot change within one program: choose one of"),
        ({"hyperparameters": ("initial_value",)}, ValueError, "declares no search range: write"),
        ({"hyperparameters": (("learning_rate", 0.5, 2.0),)}, ValueError, "leaves the valid values of learning_rate"),
        ({"hyperparameters": (("learning_rate", 0.5, 0.1),)}, ValueError, "is empty"),
        ({"hyperparameters": (("learning_rate", 0.0, 0.1, "log"),)}, ValueError, "above 0"),
        ({"hyperparameters": ()}, ValueError, "needs a hyperparameter"),
        ({"steps": 0}, ValueError, "at least 1"),
        ({"reward": "loss"}, ValueError, "Choose 'return' or 'improvement'"),
        ({"env": make("Probe-Mask-v0")}, ValueError, "build a new LearnerEnv"),
        ({"agent": "ppo"}, TypeError, "trains an agent such as"),
    ],
)
def test_a_wrong_field_is_refused(fields, error, message):
    with pytest.raises(error, match=message):
        ENV.replace(**fields)


CAPPED = [name for name in sorted(AGENTS) if any(info_of(f).cap for f in hyper_fields(AGENTS[name].cls).values())]


@pytest.mark.parametrize("name", CAPPED)
@pytest.mark.sampled(4)
def test_sizes_hold_for_the_largest_action(name):
    env = make(playable(name))
    agent = unbound(name, env, batch_size=4, buffer_size=40)
    with_ranges = LearnerEnv(agent, env, hyperparameters=(("batch_size", 2, 16), ("buffer_size", 40, 160)))
    inner, largest = with_ranges.agent, with_ranges.values(np.ones(2))
    assert (inner.max_batch_size, inner.max_buffer_size) == (16, 160) == tuple(largest.values())
    assert (inner.batch_size, inner.buffer_size) == (4, 40)
    state = jax.eval_shape(inner.init, make_key(0), env)
    assert state.replay.rows * inner.num_envs >= 160
    declared = LearnerEnv(agent, env, hyperparameters=("batch_size",)).agent
    assert declared.max_batch_size == info_of(hyper_fields(agent)["batch_size"]).search.high
    with pytest.raises(
        ValueError, match="actions set batch_size up to 512, and the agent was bound with max_batch_size=16"
    ):
        with_ranges.replace(hyperparameters=("batch_size",))
    with pytest.raises(ValueError, match="batch_size=512 is more than max_batch_size=8. Raise max_batch_size"):
        LearnerEnv(agent.replace(max_batch_size=8), env, hyperparameters=("batch_size",))


@pytest.mark.parametrize(
    ("agent", "name"), [(PPO(num_envs=1, num_steps=8), "log_std_init"), (SAC(buffer_size=40), "alpha")]
)
def test_what_only_a_new_agent_reads_is_refused(agent, name):
    with pytest.raises(ValueError, match=f"{name} is read only when a member begins"):
        LearnerEnv(agent, make("Pendulum-v1"), hyperparameters=(name,))


def test_es_trains_the_schedule_of_a_learner(tmp_path):
    outer = ES(population_size=4, hidden=(2,), strategy="SNES")
    result = train(outer, ENV, steps=2 * 4 * 4, folder=tmp_path / "run", progress=False)
    assert np.isfinite(result.curves["train_return"]).all()


@pytest.mark.slow
def test_it_keeps_the_contract():
    check_env(ENV, steps=8)
