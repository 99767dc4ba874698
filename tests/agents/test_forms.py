"""Agents in the form of an accelerator, forced on a CPU: the same numbers up to the order of sums."""

import shutil
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array, Float

import shoal
from learners import all_agents, bound, playable, unbound
from shoal.core.agent import Agent, Guarded, Metrics
from shoal.core.env import Env, State
from shoal.core.form import CPU, form_for, in_form, using
from shoal.core.keys import make_key
from shoal.core.registry import AGENTS, make
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, Struct, static, struct, to_arrays
from shoal.ops.gradients import adam, moments_like
from shoal.rollouts.episodes import EpisodeStats
from shoal.training import checkpoint
from shoal.training.folder import RunFolder
from shoal.training.placement import key_words, make_placement
from shoal.training.program import Member, begin, train_chunk
from tiny import SILENT

SHORT = {"steps_per_trip": 2, "returns_per_trip": 2, "interpreted_kernels": True}  # which compiles sooner
FORMS = {"few": form_for("gpu", 1)._replace(**SHORT), "XLA's": form_for("gpu", 2048)._replace(**SHORT)}
FORMS["many"] = FORMS["XLA's"]._replace(q_network_kernels=True)
FORMS["XLA's"] = FORMS["XLA's"]._replace(gradient_kernels=False, rollout_kernels=False)
UPDATES = 4
SMALL = {
    "num_envs": 4, "num_steps": 8, "hidden": (8,), "num_epochs": 1, "num_minibatches": 2, "batch_size": 8,
    "buffer_size": 64, "learning_starts": 16, "train_frequency": 16, "target_period": 32, "population_size": 4,
    "episode_steps": 8,
}  # fmt: skip


def small(name, env):
    """An agent with settings that compile soon."""
    fields = AGENTS[name].cls.__dataclass_fields__
    return bound(name, env, **{field: value for field, value in SMALL.items() if field in fields})


@pytest.fixture(autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def trained(agent, envs, form, updates=UPDATES):
    """Two members, one in each of the environments [2], after some updates in a form; NumPy, with flat moments."""

    def run(seed, env):
        return train_chunk(begin(agent, env, seed, make_key(0)), agent, env, None, jnp.int32(0), jnp.int32(updates))[0]

    members = jax.jit(in_form(jax.vmap(run), form))(jnp.arange(2), envs)
    begun = jax.vmap(lambda seed, env: begin(agent, env, seed, make_key(0)))
    flat = jax.tree.map(key_words, jax.jit(in_form(begun, CPU))(jnp.arange(2), envs))
    return moments_like(jax.tree.map(key_words, members), flat)


def assert_close(left, right):
    for (path, x), (_, y) in zip(*map(jax.tree_util.tree_leaves_with_path, (left, right)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4, err_msg=jax.tree_util.keystr(path))


def both(env):
    """An environment [2]."""
    return jax.tree.map(lambda x: jnp.stack([x, x]), to_arrays(env))


@pytest.mark.parametrize("form", ["many", pytest.param("few", marks=pytest.mark.slow), "XLA's"])
@pytest.mark.parametrize("name", all_agents())
@pytest.mark.sampled(6)
def test_an_agent_learns_the_same_in_every_form(name, form):
    if form == "XLA's" and "kernels" not in AGENTS[name].cls.__dataclass_fields__:
        pytest.skip("it has no kernels")
    env = make(playable(name))
    agent = small(name, env)
    on_cpu, other = (trained(agent, both(env), each) for each in (CPU, FORMS[form]))
    first = trained(agent, both(env), CPU, updates=0)
    assert any(np.any(x != y) for x, y in zip(*map(jax.tree.leaves, (on_cpu, first)), strict=True))
    assert_close(on_cpu, other)


@pytest.mark.parametrize(
    ("name", "memory"), [("dqn", "gru"), ("sac", "gru"), pytest.param("dqn", "lru", marks=pytest.mark.slow)]
)
def test_a_recurrent_agent_learns_the_same_in_every_form(name, memory):
    env = make("Probe-Memory-v0")  # whose episodes have several steps: of one step no carry matters
    fields = {**SMALL, "memory": memory, "memory_size": 4, "sequence_length": 8, "burn_in": 4, "prioritized": True}
    agent = bound(name, env, **{k: v for k, v in fields.items() if k in AGENTS[name].cls.__dataclass_fields__})
    on_cpu, other = (trained(agent, both(env), form) for form in (CPU, FORMS["many"]))
    first = trained(agent, both(env), CPU, updates=0)
    weights = [member.state.weights if name == "dqn" else member.state.learner.actor for member in (first, on_cpu)]
    before, after = (jax.tree.leaves(of_network["memory"]) for of_network in weights)
    assert all(np.any(x != y) for x, y in zip(before, after, strict=True))
    assert_close(on_cpu, other)


@struct
class Blinding(Env):
    """Episodes of 4 steps with reward 1, or with an infinite one from the second episode on if `is_infinite`."""

    is_infinite: Number = 0.0
    max_steps: Number | None = 4
    continuous: bool = static(False)

    @property
    def observation_space(self):
        return Box(-1.0, 1.0, (1,))

    @property
    def action_space(self):
        return Box(-1.0, 1.0, (1,)) if self.continuous else Discrete(2)

    def init(self, key):
        return State(jnp.int32(0))

    def transition(self, state, action, noise):
        reward = jnp.where((self.is_infinite > 0) & (state.time == 3), jnp.inf, 1.0)
        return state, reward, jnp.bool_(False), {}

    def observe(self, state) -> Float[Array, "1"]:
        return jnp.ones(1)


CONTINUOUS = ("sac", "td3", "crossq", "tqc")
GUARDED = ["ppo", "pqn", "dqn", "sac", "td3", "tqc", "crossq"]  # agents with gradient steps that learn from rewards


@pytest.mark.parametrize("form", ["cpu", "many"])
@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.sampled(2)
def test_a_member_with_infinite_rewards_stops_and_the_other_goes_on(name, form):
    continuous = name in CONTINUOUS
    agent = small(name, Blinding(continuous=continuous))
    one = jax.tree.map(lambda *x: jnp.stack(x), *(to_arrays(Blinding(x, 4, continuous)) for x in (0.0, 1.0)))
    form = CPU if form == "cpu" else FORMS["many"]
    after = trained(agent, one, form, 8)
    alone = trained(agent, both(Blinding(continuous=continuous)), form, 8)
    assert after.alive.tolist() == [True, False]
    take = lambda tree, m: jax.tree.map(lambda x: x[m], tree)  # noqa: E731
    assert_close(take(after, 0), take(alone, 0))
    policy = agent.policy_state(jax.tree.map(jnp.asarray, take(after, 1).state))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(policy) if x.dtype.kind == "f")


@pytest.mark.parametrize("name", GUARDED)
@pytest.mark.sampled(2)
def test_the_gradient_steps_of_a_stopped_member_change_nothing(name):
    agent = small(name, Blinding(continuous=name in CONTINUOUS))

    def run(seed):
        member = begin(agent, agent_env, seed, make_key(0))
        stopped = Member(member.state, seed == 1)  # of two members the first one is stopped
        return member, train_chunk(stopped, agent, agent_env, None, jnp.int32(0), jnp.int32(8))[0]

    agent_env = to_arrays(Blinding(continuous=name in CONTINUOUS))
    before, after = jax.tree.map(key_words, jax.jit(in_form(jax.vmap(run), FORMS["many"]))(jnp.arange(2)))
    assert issubclass(type(before.state), Guarded) and before.state.guarded
    for field in before.state.guarded:
        old, new = (jax.tree.leaves(getattr(x.state, field)) for x in (before, after))
        for x, y in zip(old, new, strict=True):
            np.testing.assert_array_equal(x[0], y[0])
        assert any(np.any(x[1] != y[1]) for x, y in zip(old, new, strict=True))


def test_moments_of_a_tree_become_one_vector_and_a_tree_again():
    weights = {"a": jnp.arange(6.0).reshape(2, 3), "b": jnp.float32(7)}  # of one member
    like, flat = (jax.tree.map(lambda x: np.stack([x, x]), adam().init(x)) for x in (weights, jnp.zeros(7)))
    tree = like._replace(mu=jax.tree.map(lambda x: np.stack([x, 10 * x]), weights))
    joined = moments_like({"moments": tree, "other": np.ones(2)}, {"moments": flat, "other": np.ones(2)})
    np.testing.assert_array_equal(joined["moments"].mu, [[0, 1, 2, 3, 4, 5, 7], [0, 10, 20, 30, 40, 50, 70]])
    assert joined["moments"].count.shape == (2,) and joined["moments"].nu.shape == (2, 7)
    again = moments_like(joined, {"moments": like, "other": np.ones(2)})["moments"]
    for x, y in zip(*map(jax.tree.leaves, (again, tree)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_moments_of_one_array_become_a_vector():
    matrix, flat = (jax.tree.map(lambda x: np.stack([x, x]), adam().init(x)) for x in (jnp.ones((2, 3)), jnp.ones(6)))
    assert moments_like(matrix, flat).mu.shape == (2, 6) and moments_like(flat, matrix).mu.shape == (2, 2, 3)


@struct
class Optaxed(Agent):
    """An agent of a user, with an optimizer of optax over a tree of weights."""

    def bind(self, env):
        return self

    def init(self, key, env):
        weights = {"a": jnp.ones((2, 3)), "b": jnp.float32(1)}
        return OptaxedState(jnp.int32(0), key, weights, optax.adam(1e-2).init(weights))

    def update(self, state, env, clock):
        gradient = jax.tree.map(lambda x: 2 * x, state.weights)
        step, optimizer = optax.adam(1e-2).update(gradient, state.optimizer)
        weights = optax.apply_updates(state.weights, step)
        episodes = EpisodeStats.of(jnp.array([True]), jnp.array([1.0]), jnp.array([2]))
        state = state.replace(age=state.age + 1, weights=weights, optimizer=optimizer)
        return state, Metrics(episodes, {"loss": weights["b"]})

    def policy_state(self, state):
        return state.weights

    def act(self, state, obs, carry, key, greedy, mask=None):
        return jnp.int32(0), carry

    @property
    def steps_per_update(self):
        return 2


@struct
class OptaxedState(Struct):
    """Its state."""

    age: Any
    key: Any
    weights: Any
    optimizer: Any


@pytest.mark.parametrize("form", ["cpu", "many"])
def test_an_optimizer_of_the_user_is_resumed(form, tmp_path):
    with using(CPU if form == "cpu" else FORMS["many"]):
        whole = tmp_path / "whole"
        options = {"steps": 8, "seeds": 2, "records": 2, "evaluations": 0, **SILENT}
        shoal.train(Optaxed(), "CartPole-v1", folder=whole, **options)
        cut = shutil.copytree(whole, tmp_path / "cut")
        shutil.rmtree(checkpoint.newest(cut / "checkpoints"))
        (cut / "summary.json").unlink()
        shoal.train(Optaxed(), resume=cut, **SILENT)
    straight, resumed = (np.load(checkpoint.newest(run / "checkpoints") / "learners.npz") for run in (whole, cut))
    assert straight.files == resumed.files and any("optimizer" in name and "/a" in name for name in straight.files)
    for array in straight.files:
        np.testing.assert_array_equal(straight[array], resumed[array], err_msg=array)


@pytest.mark.parametrize("name", [n if n == "sac" else pytest.param(n, marks=pytest.mark.slow) for n in GUARDED])
def test_a_run_goes_on_in_another_form(name, tmp_path, capsys):
    probe = playable(name)
    agent, size = unbound(name, make(probe)), bound(name, make(probe)).steps_per_update
    whole = tmp_path / "whole"
    shoal.train(agent, probe, steps=4 * size, seeds=2, records=2, evaluations=0, folder=whole, **SILENT)
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(checkpoint.newest(cut / "checkpoints"))
    (cut / "summary.json").unlink()
    with using(FORMS["many"]):
        shoal.train(agent, resume=cut, **{**SILENT, "progress": True})
    assert "another form of the compiled programs (" in capsys.readouterr().err
    assert RunFolder(cut).read_json("provenance.json")["form"]["flat_weights"]
    straight, resumed = (np.load(checkpoint.newest(run / "checkpoints") / "learners.npz") for run in (whole, cut))
    assert straight.files == resumed.files
    for array in straight.files:
        np.testing.assert_allclose(straight[array], resumed[array], rtol=1e-3, atol=1e-4, err_msg=array)


def test_kernels_on_a_cpu_are_refused():
    with pytest.raises(ValueError, match="kernels='on', but kernels run on NVIDIA GPUs, and JAX uses cpu here"):
        small("ppo", make("CartPole-v1")).replace(kernels="on").bind(make("CartPole-v1"))


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("ppo", {"memory": "gru", "num_envs": 8, "num_minibatches": 2}, "but (gradient|rollout) kernels do not apply"),
        ("ppo", {"hidden": (256, 256)}, "kernels do not apply here: .* too large"),
        ("pqn", {"memory": "mingru", "num_envs": 8}, "but q network kernels do not apply"),
        ("dqn", {"memory": "gru"}, "but q network kernels do not apply here: a memory reads sequences"),
        ("dqn", {"prioritized": True}, r"reports an array of shape \(128,\)"),
        ("dqn", {"batch_size": 256, "max_batch_size": 256}, "a minibatch has at most 128 rows, not 256"),
        ("dqn", {"hidden": (256, 256)}, "has 74,256 weights .* more than 32,768"),
        ("dqn", {"noisy": True}, "random_split has no rule"),
        ("iqn", {}, "random_split has no rule"),
        ("c51", {}, "more than 32,768"),
    ],
)
def test_kernels_that_do_not_apply_are_refused_with_the_reason(name, fields, reason):
    with using(FORMS["many"]), pytest.raises(ValueError, match="kernels='on', .*" + reason):
        AGENTS[name].build(kernels="on", **fields).bind(make("CartPole-v1"))
    with using(FORMS["many"]):
        AGENTS[name].build(**fields).bind(make("CartPole-v1"))


def is_in_kernels(agent, env, form):
    """Whether an update has kernels of our own."""
    state = jax.eval_shape(in_form(lambda: agent.init(make_key(0), env), form))
    update = in_form(lambda state: agent.update(state, env, jnp.int32(0)), form)
    return "pallas_call" in str(jax.make_jaxpr(update)(state))


@pytest.mark.parametrize("name", ["ppo", "dqn", "pqn"])
def test_kernels_that_are_on_or_off_change_the_last_digits_only(name):
    env = make(playable(name))
    on, off = (small(name, env).replace(kernels=kernels) for kernels in ("on", "off"))
    assert is_in_kernels(on, to_arrays(env), FORMS["XLA's"]) and not is_in_kernels(off, to_arrays(env), FORMS["many"])
    assert_close(trained(on, both(env), FORMS["XLA's"]), trained(off, both(env), FORMS["many"]))


def test_kernels_run_on_a_mesh_of_devices(tmp_path, monkeypatch):
    # Programs of a run on devices have operations that say where arrays are, which a kernel must not refuse.
    monkeypatch.setattr("shoal.training.plan.make_placement", partial(make_placement, on_mesh=True))
    with using(FORMS["many"]):
        fields = {"num_envs": 2, "num_steps": 16, "hidden": (8,), "num_epochs": 1, "kernels": "on"}
        shoal.train("ppo", "CartPole-v1", preset=None, steps=64, seeds=2, fields=fields, root=tmp_path, **SILENT)
