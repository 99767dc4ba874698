"""Behaviour cloning: its loss against NumPy, learning from demonstrations, and the values it refuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal.agents.bc import BC
from shoal.cli.main import main
from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.core.struct import to_arrays
from shoal.rollouts.demonstrations import Demonstrations
from shoal.training.recording import load_demonstrations, save_demonstrations
from weights import random_weights

# The best action of each probe as a function of the observation.
TEACHERS = {
    "MatchingAction": lambda obs: (obs[:, 0] > 0).astype(np.int32),
    "ContinuousMatching": lambda obs: 0.5 * obs,
    "TwoDials": lambda obs: np.where(obs > 0, [[1, 2]], [[0, 0]]).astype(np.int32),
    "Lamp": lambda obs: (obs.reshape(-1, 10, 10).argmax(axis=2).max(axis=1) >= 5).astype(np.int32),
}


def demonstrations_for(env):
    """Demonstrations for a probe; None for a probe without an entry in TEACHERS."""
    teacher = TEACHERS.get(type(env).__name__)
    if teacher is None:
        return None
    obs = np.asarray(jax.jit(jax.vmap(lambda k: env.observe(env.init(k))))(jax.random.split(make_key(5), 512)))
    return {"demonstrations": Demonstrations(jnp.asarray(obs), jnp.asarray(teacher(obs)))}


# How it learns the probes of the contract within seconds.
CONTRACT = {
    "bc": {
        "learning_rate": 1e-2,
        "horizon": 60 * 640,
        "batch_size": 64,
        "num_batches": 10,
        "hidden": (16,),
        "updates": 60,
        "for_env": demonstrations_for,
    }
}


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


def demonstrations(n=32, seed=0):
    random = np.random.default_rng(seed)
    obs = random.uniform(-0.4, 0.4, size=(n, 4)).astype(np.float32)
    return Demonstrations(jnp.asarray(obs), jnp.asarray(random.integers(0, 2, n), jnp.int32))


def bound(env="CartPole-v1", **fields):
    env = make(env)
    return to_arrays(BC(**{"hidden": (8,), "demonstrations": demonstrations(), **fields}).bind(env)), to_arrays(env)


def test_the_loss_is_the_likelihood_of_the_recorded_actions():
    agent, env = bound()
    rows = agent.demonstrations
    weights = random_weights(jax.eval_shape(agent.init, make_key(0), env).weights)
    loss, parts = jax.jit(agent._loss)(weights, rows)
    torso = weights["actor"]["params"]["Dense_0"]
    hidden = np.tanh(np.asarray(rows.obs) @ np.asarray(torso["kernel"], np.float64) + np.asarray(torso["bias"]))
    logits = hidden @ np.asarray(weights["policy"]["kernel"], np.float64) + np.asarray(weights["policy"]["bias"])
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(loss, -log_p[np.arange(32), rows.action].mean(), rtol=1e-4)
    np.testing.assert_allclose(parts["agreement"], (logits.argmax(1) == rows.action).mean(), rtol=1e-6)


def test_the_distance_metric_is_the_mean_absolute_action_error():
    agent, env = bound("Pendulum-v1", demonstrations=of_a_pendulum())
    weights = random_weights(jax.eval_shape(agent.init, make_key(0), env).weights)
    shown = agent.demonstrations
    both = jax.jit(lambda w: (agent._loss(w, shown)[1], agent._policy(w, shown.obs, None).mode()))
    parts, middle = both(weights)
    unit = agent.demonstrations.action / 2  # its bounds are -2 and 2
    np.testing.assert_allclose(parts["distance"], np.abs(middle - unit).mean(), rtol=1e-5)
    assert "agreement" not in parts


def of_a_pendulum():
    random = np.random.default_rng(0)
    obs = random.uniform(-1, 1, size=(16, 3)).astype(np.float32)
    return Demonstrations(obs, random.uniform(-2, 2, size=(16, 1)).astype(np.float32))


def test_masks_that_contradict_the_demonstrations_are_refused():
    given = demonstrations()
    mask = np.ones((32, 2), bool)
    bound(demonstrations=given.replace(mask=mask))
    mask[7, given.action[7]] = False
    with pytest.raises(ValueError, match="step 7 of the demonstrations took an action that its mask forbids"):
        bound(demonstrations=given.replace(mask=mask))
    with pytest.raises(ValueError, match=r"shape \(32, 3\), which does not fit actions Discrete"):
        bound(demonstrations=given.replace(mask=np.ones((32, 3), bool)))


def test_weight_decay_shrinks_weights_beside_the_gradient():
    agent, env = bound(num_batches=1, learning_rate=0.1, horizon=1e9)
    decayed = agent.replace(weight_decay=jnp.float32(0.5))
    state = jax.jit(agent.init)(make_key(0), env)
    update = jax.jit(lambda agent: agent.update(state, env, jnp.int32(0))[0].weights)
    plain, less = update(agent), update(decayed)
    for start, one, other in zip(*map(jax.tree.leaves, (state.weights, plain, less)), strict=True):
        np.testing.assert_allclose(one - other, 0.1 * 0.5 * start, atol=1e-6)


@pytest.mark.long
def test_a_clone_of_the_zoo_cartpole_policy_reaches_the_same_return(tmp_path):
    teacher = shoal.load("zoo:ppo/CartPole-v1")
    recorded = shoal.record(teacher, 2_000)
    result = shoal.train(
        BC(demonstrations=recorded), "CartPole-v1", steps=200_000, seeds=2, root=tmp_path, figures=False, progress=False
    )
    assert result.summary["last"]["min"] > 475


def test_recorded_demonstrations_are_the_actions_of_the_policy():
    teacher = shoal.load("zoo:ppo/CartPole-v1")
    recorded = shoal.record(teacher, 100, num_envs=3)
    assert len(recorded) == 100 and recorded.mask is None
    np.testing.assert_array_equal(teacher(recorded.obs), recorded.action)


def test_a_file_holds_observations_of_many_parts(tmp_path):
    obs = {"image": np.arange(24, dtype=np.uint8).reshape(3, 2, 4), "words": {"mission": np.ones((3, 5), np.int32)}}
    recorded = Demonstrations(obs, np.arange(3), np.ones((3, 2), bool))
    read = load_demonstrations(save_demonstrations(tmp_path / "some.npz", recorded))
    assert jax.tree.structure(read) == jax.tree.structure(recorded)
    for one, other in zip(jax.tree.leaves(read), jax.tree.leaves(recorded), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_a_file_holds_observations_that_are_tuples(tmp_path):
    env = make("Blackjack-v1")
    obs, action = jax.vmap(lambda k: (env.observation_space.sample(k), env.action_space.sample(k)))(
        jax.random.split(make_key(0), 20)
    )
    many = (*(obs[i % 3] for i in range(12)), {"0": (obs[0],)})  # more than nine, and within each other
    for parts in (obs, many):
        recorded = Demonstrations(parts, action)
        read = load_demonstrations(save_demonstrations(tmp_path / "some.npz", recorded))
        assert jax.tree.structure(read) == jax.tree.structure(recorded)
        for one, other in zip(jax.tree.leaves(read), jax.tree.leaves(recorded), strict=True):
            np.testing.assert_array_equal(one, other)
    bound(
        "Blackjack-v1",
        demonstrations=load_demonstrations(save_demonstrations(tmp_path / "cards.npz", Demonstrations(obs, action))),
    )


def test_the_command_line_records_demonstrations_and_trains_on_them(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shoal.training.host.prepare", lambda **options: None)
    assert main(["record", "zoo:ppo/CartPole-v1", "--steps", "500", "--out", "expert.npz"]) == 0
    assert "expert.npz (500 steps," in capsys.readouterr().out
    words = "train bc CartPole-v1 --demonstrations expert.npz --steps 640 --evaluations 0 --name clone --no-figures"
    assert main(words.split()) == 0
    policy = shoal.load("runs/clone")  # the spec names the file, so nothing of Python's is needed
    assert policy(np.zeros(4, np.float32)) in (0, 1)


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"demonstrations": None}, ValueError, "no demonstrations to learn from"),
        ({"demonstrations": np.zeros(3)}, TypeError, "must come from shoal.record"),
        (
            {"demonstrations": Demonstrations(np.zeros((5, 3), np.float32), np.zeros(5, np.int32))},
            ValueError,
            r"with observations Box.*: the smallest observation is float32 with shape \(3,\)",
        ),
        (
            {"demonstrations": Demonstrations(np.zeros((5, 4)), np.zeros(5, np.int32))},
            ValueError,
            "observation is float64",
        ),
        (
            {"demonstrations": Demonstrations(np.zeros((3, 4), np.float32), np.asarray([0, 1, 2], np.int32))},
            ValueError,
            r"another environment than this, with actions Discrete\(2\): the largest action=2 is out of bounds",
        ),
        (
            {"demonstrations": Demonstrations(np.full((3, 4), np.nan, np.float32), np.zeros(3, np.int32))},
            ValueError,
            "observation=.nan nan nan nan. is out of bounds",
        ),
        (
            {"demonstrations": Demonstrations(np.zeros((0, 4), np.float32), np.zeros(0, np.int32))},
            ValueError,
            r"hold \[0\] steps: all arrays need the same number, at least 1",
        ),
        (
            {"demonstrations": Demonstrations(np.zeros((4, 4), np.float32), np.zeros(3, np.int32))},
            ValueError,
            r"hold \[3, 4\] steps",
        ),
        ({"batch_size": 0}, ValueError, "batch_size=0 must be at least 1"),
    ],
)
def test_invalid_values_are_refused(fields, kind, words):
    with pytest.raises(kind, match=words):
        bound(**fields)


def test_the_error_of_a_missing_file_names_the_command_that_makes_one(tmp_path):
    with pytest.raises(FileNotFoundError, match="shoal record RUN --out .*none.npz` writes one"):
        load_demonstrations(tmp_path / "none.npz")
    (tmp_path / "wrong.npz").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="wrong.npz holds no demonstrations"):
        load_demonstrations(tmp_path / "wrong.npz")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Taxi-v4", "the smallest observation is uint16 with shape .*, not uint8"),
        ("CliffWalking-v1", r"observations Discrete\(16, uint8\): the largest observation=4\d is out of bounds"),
    ],
)
def test_demonstrations_outside_the_spaces_are_refused(name, words):
    other, keys = make(name), jax.random.split(make_key(0), 200)
    recorded = Demonstrations(jax.vmap(other.observation_space.sample)(keys), jax.vmap(other.action_space.sample)(keys))
    with pytest.raises(ValueError, match=words):
        bound("FrozenLake-v1", demonstrations=recorded)
