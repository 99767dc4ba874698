"""A run whose members begin with the policies of another run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS
from shoal.training.fine_tuning import first_policies, with_policies
from shoal.training.jobs import make_job
from shoal.training.population import Population

CARTPOLE = "zoo:ppo/CartPole-v1"
WORLDS = {
    "q-learning": "FrozenLake-v1",
    "double-q-learning": "FrozenLake-v1",
    "sac": "Pendulum-v1",
    "td3": "Pendulum-v1",
    "crossq": "Pendulum-v1",
    "tqc": "Pendulum-v1",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["ppo", "dqn", "sac", "td3", "crossq", "tqc", "q-learning", "pqn"])
def test_a_member_acts_as_the_policy_that_it_begins_with(name):
    env = shoal.make(WORLDS.get(name, "CartPole-v1"))
    agent = AGENTS[name].build().bind(env)

    def policies(keys):
        fresh, other = (agent.init(key, env) for key in keys)
        begun = agent.with_policy(fresh, agent.policy_state(other))
        return agent.policy_state(other), agent.policy_state(begun), agent.policy_state(fresh), begun.age

    other, begun, fresh, age = jax.jit(policies)(jax.random.split(make_key(0), 2))
    assert age == 0 and jax.tree.structure(other) == jax.tree.structure(begun)
    for one, two in zip(jax.tree.leaves(other), jax.tree.leaves(begun), strict=True):
        np.testing.assert_array_equal(one, two)
    if name != "q-learning":  # whose tables begin alike
        assert any(np.any(a != b) for a, b in zip(jax.tree.leaves(fresh), jax.tree.leaves(begun), strict=True))


def test_an_agent_whose_state_holds_no_policy_is_refused():
    env = shoal.make("CartPole-v1")
    agent = AGENTS["es"].build().bind(env)
    state = jax.eval_shape(lambda: agent.init(make_key(0), env))
    with pytest.raises(TypeError, match="ES cannot begin with a policy: its state has no weights"):
        jax.eval_shape(lambda s: agent.with_policy(s, agent.policy_state(s)), state)


def test_every_member_begins_with_the_policy_of_another_run():
    job = make_job("ppo", "CartPole-v1", init=CARTPOLE, seeds=2, env_fields={"gravity": 5.0})
    assert job.spec.init["run"] == CARTPOLE and job.spec.init["member"] == 0
    plan, key = job.plan(), make_key(0)
    weights = first_policies(plan)
    fresh = jax.jit(jax.vmap(lambda m: agent_state(plan, m, key)))(jnp.arange(2))
    begun = with_policies(plan, fresh, weights)
    want = shoal.load(CARTPOLE).weights.weights
    for theirs, mine in zip(jax.tree.leaves(want), jax.tree.leaves(begun.state.weights), strict=True):
        np.testing.assert_array_equal(np.stack([theirs, theirs]), mine)
    assert np.any(np.asarray(jax.random.key_data(begun.state.key))[0] != jax.random.key_data(begun.state.key)[1])
    assert isinstance(Population(plan, key).shapes(), type(begun))


def agent_state(plan, seed_index, key):
    """A fresh member of a plan."""
    from shoal.training.program import begin

    return begin(plan.agent, plan.env, seed_index, key)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"init": CARTPOLE, "fields": {"hidden": (8,)}}, r"do not fit .* is \[.*\] there and \[.*\] here"),
        ({"init": {"run": CARTPOLE, "member": "all"}, "seeds": 3}, "has 1 members and this run 3"),
        ({"init": {"run": CARTPOLE, "best": 1}}, "init has best, and takes run, member and which"),
        ({"init": {"member": 1}}, "init needs the run"),
        ({"init": {"run": CARTPOLE, "member": 1}}, "has members 0 to 0, so none can begin with 1"),
    ],
)
def test_policies_that_do_not_fit_are_refused(given, answer):
    with pytest.raises(ValueError, match=answer):
        make_job("ppo", "CartPole-v1", **given).plan()


def test_a_run_that_changed_since_is_refused():
    job = make_job("ppo", "CartPole-v1", init=CARTPOLE)
    job.spec.init["spec"] = "0"
    with pytest.raises(ValueError, match="is another run by now"):
        job.plan()
