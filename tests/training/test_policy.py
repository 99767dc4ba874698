"""A trained policy acts outside of a run, is loaded from files, and refuses observations of another space."""

import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from learners import all_agents, bound
from shoal import PPO, Env, State, struct
from shoal.core.errors import CheckError, CheckpointError
from shoal.core.keys import make_key
from shoal.core.spaces import Box, Discrete, MultiDiscrete, mask_parts
from shoal.core.struct import static
from shoal.core.wrappers import FrameStack
from shoal.training import checkpoint, policy
from shoal.training.policy import Policy, RandomPolicy, fit_observation
from shoal.training.pyfunc import PolicyModel
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


def test_a_policy_acts_on_one_observation_and_on_a_batch(result):
    policy = result.policy(1)
    one = policy(np.zeros(4))  # float64, as NumPy gives it
    many = policy(np.zeros((5, 4), np.float32))
    assert one.shape == () and many.shape == (5,) and many.dtype == np.int32
    assert (many == one).all()
    drawn = np.array([policy.sample(np.zeros(4), seed) for seed in range(20)])
    assert set(drawn.tolist()) == {0, 1}


def test_a_loaded_policy_is_the_trained_one(result):
    loaded = shoal.load(result.folder, member=2)
    for mine, theirs in zip(jax.tree.leaves(loaded.weights), jax.tree.leaves(result.policies[2].weights), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert loaded.name == "learning_rate=0.01 seed=0"


def test_whole_numbers_of_any_width_fit_a_discrete_observation():
    space = Discrete(16, np.uint8)
    one, batch = fit_observation(space, 3)
    assert one == 3 and one.dtype == space.dtype == np.uint8 and batch == 0
    many, batch = fit_observation(space, [0, 15])
    assert many.tolist() == [0, 15] and many.dtype == np.uint8 and batch == 2
    for outside in (16, -1, 99, [3, 16], 300):
        with pytest.raises(ValueError, match="must be from 0 to 15"):
            fit_observation(space, outside)
    with pytest.raises(ValueError, match="is of float64, where"):
        fit_observation(space, 3.0)


def test_an_observation_that_does_not_fit_is_refused(result):
    policy = result.policy(0)
    with pytest.raises(ValueError, match=r"shape \(3,\), not float32 with shape \(4,\)"):
        policy(np.zeros(3))
    with pytest.raises(ValueError, match="the observation is of complex128"):
        policy(np.zeros(4, complex))
    with pytest.raises(ValueError, match="float64, where .* uint8"):
        fit_observation(Box(0, 255, (2,), np.uint8), np.zeros(2))


def test_values_that_no_file_can_hold_must_be_given_again(tmp_path):
    agent = PPO(**FIELDS, surrogate=lambda ratio, advantage, clip: ratio * advantage)
    made = shoal.train(agent, "CartPole-v1", folder=tmp_path / "own", **OPTIONS, **SILENT)
    assert made.policy()(np.zeros(4)).shape == ()
    with pytest.raises(
        ValueError, match=r"with a surrogate of your own, .* give agent= .* as in shoal.load\(run, agent=agent\)"
    ):
        shoal.load(made.folder)
    with pytest.raises(ValueError, match="give agent="):
        shoal.train(resume=made.folder)
    assert shoal.load(made.folder, agent=agent)(np.zeros(4)).shape == ()
    assert shoal.train(agent, resume=made.folder, **SILENT).summary["members"] == 1


def test_a_foreign_checkpoint_is_refused(result, tmp_path):
    other = shoal.train(
        "ppo",
        "CartPole-v1",
        fields=FIELDS,
        preset=None,
        folder=tmp_path / "o",
        **OPTIONS,
        **SILENT,
    )
    (checkpoint.newest(other.folder / "checkpoints")).rename(other.folder / "checkpoints" / "step-000000099999")
    for path in (result.folder / "spec.json", result.folder / "provenance.json"):
        (other.folder / path.name).write_text(path.read_text())
    with pytest.raises(CheckpointError, match="belongs to something else"):
        shoal.load(other.folder, 0)


def test_a_checkpoint_of_the_same_shapes_and_another_spec_is_refused(result, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(result.folder, copy)
    spec = (copy / "spec.json").read_text()
    (copy / "spec.json").write_text(spec.replace("0.001", "0.002"))
    for use in (shoal.load, lambda folder: shoal.load(folder, which="best"), lambda f: shoal.train(resume=f, **SILENT)):
        with pytest.raises(CheckpointError, match="belongs to something else: it is of a run with another"):
            use(copy)
    (copy / "spec.json").write_text(json.dumps(dict(reversed(json.loads(spec).items()))))
    assert shoal.load(copy, 0).name == "learning_rate=0.001 seed=0"


def rewritten(folder, change):
    """Write the newest checkpoint of a run again as an older version did: without the revision of the agent.

    `change(name, array)` gives the array in its place, or None for none.
    """
    path = checkpoint.newest(folder / "checkpoints")
    manifest = json.loads((path / "manifest.json").read_text())
    for part, entry in manifest["parts"].items():
        with np.load(path / f"{part}.npz") as file:
            arrays = {name: change(name, file[name]) for name in file.files}
        np.savez(path / f"{part}.npz", **{name: array for name, array in arrays.items() if array is not None})
        entry["leaves"] = {name: leaf for name, leaf in entry["leaves"].items() if arrays[name] is not None}
        entry["bytes"] = (path / f"{part}.npz").stat().st_size
        entry["sha256"] = checkpoint.hash_of_file(path / f"{part}.npz")
    del manifest["about"]["agent_revision"]
    manifest["sha256"] = checkpoint.hash_of_manifest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def in_raw_units(name, array):
    """The weights of a Gaussian for actions of at most 2, as the first revision of ppo had learned them."""
    if name.endswith("weights/log_std"):
        return array + np.float32(np.log(2))
    return 2 * array if "weights/policy/" in name else array


def trained(env, folder):
    return shoal.train("ppo", env, fields=FIELDS, preset=None, folder=folder, **OPTIONS, **SILENT)


def test_policies_of_an_older_revision_act_as_they_did(tmp_path):
    run = trained("Pendulum-v1", tmp_path / "run")
    policy, obs = shoal.load(run.folder, member=0), np.asarray([0.5, 0.5, 1.0])
    rewritten(run.folder, in_raw_units)
    old = shoal.load(run.folder, member=0)
    np.testing.assert_allclose(old(obs), policy(obs), rtol=1e-5)
    np.testing.assert_allclose(old.sample(obs, 3), policy.sample(obs, 3), rtol=1e-5)
    with pytest.raises(CheckpointError, match="trained by an older revision of ppo.*cannot go on.*--init RUN"):
        shoal.train(resume=run.folder, steps=512, **SILENT)
    begun = shoal.train(
        "ppo", "Pendulum-v1", fields=FIELDS, preset=None, init=run.folder, folder=tmp_path / "on", **OPTIONS, **SILENT
    )
    assert begun.folder.is_dir()


def test_a_run_in_a_box_whose_units_did_not_change_goes_on(tmp_path):
    run = trained("MountainCarContinuous-v0", tmp_path / "run")
    rewritten(run.folder, lambda name, array: array)
    assert shoal.train(resume=run.folder, steps=512, **SILENT).summary["steps_per_member"] == 512


def test_a_checkpoint_without_the_rounding_of_sums_is_read(tmp_path):
    fields = {**FIELDS, "normalize_observation": True}
    options = {"fields": fields, "preset": None, **OPTIONS, **SILENT}
    run = shoal.train("ppo", "CartPole-v1", folder=tmp_path / "run", **options)
    before = shoal.load(run.folder, member=0)
    rewritten(run.folder, lambda name, array: None if "rounding" in name.split("/") else array)
    after = shoal.load(run.folder, member=0)
    np.testing.assert_array_equal(after.weights.obs_stats.mean, before.weights.obs_stats.mean)
    assert not np.any(after.weights.obs_stats.rounding[0])
    shoal.train("ppo", "CartPole-v1", folder=tmp_path / "begun", init=run.folder, **options)
    assert shoal.train(resume=run.folder, steps=512, **SILENT).summary["steps_per_member"] == 512


def test_weights_of_a_later_revision_are_refused(tmp_path):
    run = trained("Pendulum-v1", tmp_path / "run")
    path = checkpoint.newest(run.folder / "checkpoints") / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["about"]["agent_revision"] = 9
    manifest["sha256"] = checkpoint.hash_of_manifest(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="weights are of revision 9 of PPO, and here it has revision 2"):
        shoal.load(run.folder, member=0)


# Action masks.


@struct
class TwoChoices(Env):
    """Two choices in each step, of 2 and of 3; one of each is forbidden. `size` is that of the mask, `empty` a part."""

    size: int = static(5)
    empty: bool = static(False)
    max_steps: int | None = 5

    @property
    def observation_space(self):
        return Discrete(3)

    @property
    def action_space(self):
        return MultiDiscrete((2, 3))

    def init(self, key):
        return State(jnp.int32(0))

    def observe(self, state):
        return state.time % 3

    def action_mask(self, state):
        return jnp.asarray([True, False, *([False] * 3 if self.empty else [False, True, True])] + [True] * 3)[
            : self.size
        ]

    def transition(self, state, action, noise):
        return state, jnp.float32(0), jnp.bool_(False), {}


MASKED = {"Probe-Mask-v0": [True, False, True], "TwoChoices": [False, True, True, False, True]}


def masked_env(name):
    return TwoChoices() if name == "TwoChoices" else shoal.make(name)


def untrained(agent, env):
    """The policy of an agent with its first weights; a random one for "random"."""
    if agent == "random":
        return Policy(RandomPolicy(env.action_space), None, env)
    made = bound(agent, env)
    return made and Policy(made, made.policy_state(made.init(make_key(0), env)), env)


@pytest.mark.parametrize("env", MASKED)
@pytest.mark.parametrize("agent", [*all_agents(), "random"])
@pytest.mark.sampled(9)
def test_a_policy_takes_masks_that_fit_and_refuses_all_others(agent, env):
    mask, of_env = np.asarray(MASKED[env]), masked_env(env)
    policy = untrained(agent, of_env)
    if policy is None:
        pytest.skip("the agent cannot learn there")
    size, space = len(mask), of_env.action_space

    def is_allowed(action):
        parts = zip(mask_parts(space, mask), np.atleast_1d(action), strict=True)
        return all(part[choice] for part, choice in parts)

    as_tuple = tuple(mask_parts(space, mask.astype(np.int8)))
    for given in (mask, mask.tolist(), mask.astype(np.int8), jnp.asarray(mask), as_tuple):
        policy.reset()
        assert is_allowed(policy(1, given)) and is_allowed(policy.sample(1, 3, given))
    for batch in (1, 3, size):
        policy.reset()
        actions = policy(np.zeros(batch, int), np.tile(mask, (batch, 1)))
        drawn = [policy.sample(np.zeros(batch, int), seed, np.tile(mask, (batch, 1))) for seed in range(3)]
        assert len(actions) == batch and all(map(is_allowed, [*actions, *np.concatenate(drawn)]))
    policy.reset()
    wrong = [(mask[:-1], 0), (mask[None], 0), (np.True_, 0), (np.ones((size, 1), bool), 0), (np.ones((2, 2, size)), 2)]
    wrong += [
        (mask, 3),
        (mask, size),
        (np.tile(mask, (2, 1)), 3),
        (np.ones((size, 4), bool), 3),
        ([[True], [True, False]], 0),
    ]
    wrong += [(mask * 0.5, 0), (mask + 1, 0), ("yes", 0), ({}, 0)]
    for given, batch in wrong:
        with pytest.raises(ValueError, match="the mask "):
            policy(np.zeros(batch, int) if batch else 0, given)
    for given, batch in ((mask & False, 0), (np.stack([mask, mask & False]), 2)):
        with pytest.raises(ValueError, match="allows no action"):
            policy(np.zeros(batch, int) if batch else 0, given)
    for call in (lambda: policy(0), lambda: policy(np.zeros(3, int)), lambda: policy.sample(0, 1)):
        with pytest.raises(ValueError, match="forbids some actions, so the policy needs its mask"):
            call()


def test_inside_jit_a_mask_is_needed_and_fits_too():
    policy = untrained("ppo", shoal.make("Probe-Mask-v0"))
    act = jax.jit(policy)
    assert act(jnp.int32(0), jnp.asarray([False, False, True])) == 2
    with pytest.raises(ValueError, match=r"the mask has the shape \(2,\)"):
        act(jnp.int32(0), jnp.ones(2, bool))
    with pytest.raises(ValueError, match="needs its mask"):
        act(jnp.int32(0))


def test_actions_of_a_box_have_no_mask():
    policy = untrained("ppo", shoal.make("Pendulum-v1"))
    with pytest.raises(ValueError, match="have no mask: leave it out"):
        policy(np.zeros(3), np.ones(1, bool))


def test_a_mask_behind_a_wrapper_is_needed_too():
    env = FrameStack(TwoChoices(), n=2)
    with pytest.raises(ValueError, match="FrameStack forbids some actions"):
        Policy(RandomPolicy(env.action_space), None, env)(np.zeros(2, int))


def test_random_actions_of_several_choices_follow_the_mask():
    policy = untrained("random", TwoChoices())
    drawn = np.asarray([policy.sample(0, seed, [True, True, True, False, True]) for seed in range(40)])
    assert {*map(tuple, drawn.tolist())} == {(0, 0), (0, 2), (1, 0), (1, 2)}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (TwoChoices(size=4), r"action_mask gives bool\[4\]; return bool\[5\]"),
        (TwoChoices(size=8), r"action_mask gives bool\[8\]; return bool\[5\]"),
        (TwoChoices(empty=True), "action_mask allows no action at all"),
    ],
)
def test_check_env_refuses_masks_that_fit_no_action(env, message):
    assert shoal.check_env(TwoChoices())
    with pytest.raises(CheckError, match=message):
        shoal.check_env(env)


# Recurrent policies, and seeds.


@pytest.mark.parametrize("sizes", [(3, 0), (0, 3), (3, 1), (1, 3), (2, 3), (1, 0), (0, 1)])
def test_a_recurrent_policy_says_reset_where_the_number_of_observations_changes(sizes):
    env = shoal.make("CartPole-v1")
    agent = PPO(memory="gru", **FIELDS).bind(env)
    policy = Policy(agent, agent.policy_state(agent.init(make_key(0), env)), env)
    before, now = (np.zeros((size, 4)) if size else np.zeros(4) for size in sizes)
    policy(before)
    policy(before)
    with pytest.raises(ValueError, match=r"is recurrent.* Call policy.reset\(\)"):
        policy(now)
    policy.reset()
    assert policy(now).shape == now.shape[:-1]


@pytest.mark.usefixtures("without_type_checker")
def test_seeds_are_integers_of_python_or_numpy(result):
    policy = result.policy(0)
    expected = policy.sample(np.zeros(4), 3)
    for seed in (np.int64(3), np.uint8(3), np.asarray(3), jnp.int32(3), make_key(3)):
        assert policy.sample(np.zeros(4), seed) == expected
        shoal.rollout(policy, key=seed, num_steps=1)
    for seed in (np.asarray([3]), None, 3.0, np.nan, True, "3", np.float32(3), jax.random.split(make_key(0))):
        for call in (lambda: policy.sample(np.zeros(4), seed), lambda: shoal.rollout(policy, key=seed, num_steps=1)):  # noqa: B023
            with pytest.raises(TypeError, match="^key"):
                call()


def test_the_model_of_mlflow_takes_masks_beside_observations():
    model = PolicyModel(untrained("ppo", shoal.make("Probe-Mask-v0")))
    only = np.eye(3, dtype=bool)  # one action is allowed for each observation
    actions = model.predict({"observation": np.zeros(3, int), "action_mask": only})
    assert actions.tolist() == [0, 1, 2]
    assert model.predict({"observation": 0, "action_mask": only[2]}) == 2
    with pytest.raises(ValueError, match="the policy needs its mask too"):
        model.predict(np.zeros(3, int))


def test_programs_of_many_policies_are_released(monkeypatch):
    """Each has 12 memory maps, and a process has 65,530."""
    monkeypatch.setattr(policy, "MOST_PROGRAMS", 2)
    policy._act_on_one.clear_cache()
    env = shoal.make("CartPole-v1")
    for width in (2, 3, 4, 2):
        made = PPO(hidden=(width,)).bind(env)
        assert Policy(made, made.policy_state(made.init(make_key(0), env)), env)(np.zeros(4)) in (0, 1)
        assert policy._act_on_one._cache_size() <= 2
