"""Training in environments that Python steps.

The oracle: a deterministic environment of shoal, once compiled and once stepped by Python. Every agent must learn the
same from both, because weights, noise and keys are the same.
"""

import shutil
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

import shoal
from shoal.core.agent import Actor
from shoal.core.env import Env, State
from shoal.core.host_env import HostEnv
from shoal.core.keys import make_key, member_key
from shoal.core.registry import AGENTS
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, static, struct
from shoal.core.wrappers.time_limit import TimeLimit
from shoal.rollouts.rollout import final_slots
from shoal.specs.spec import spec_for
from shoal.training import checkpoint
from shoal.training.host_evaluation import evaluate_on_host
from shoal.training.plan import make_plan
from shoal.training.playing import evaluate
from shoal.training.stopping import Stopped
from stops import Request, assert_same_run, assert_stopped_within_a_record
from tiny import SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@struct
class WalkState(State):
    place: Float[Array, ""]
    steps: Int[Array, ""]


@struct
class Walk(Env):
    """Walk on a line from 0: the episode ends at 3 or after `max_steps`; each step costs its distance from 2."""

    continuous: bool = static(False)
    masked: bool = static(False)
    max_steps: Number | None = 7

    @property
    def observation_space(self):
        return Box(-np.inf, np.inf, (2,))

    @property
    def action_space(self):
        return Box(-1.0, 1.0, (1,)) if self.continuous else Discrete(3)

    def init(self, key):
        del key
        return WalkState(jnp.int32(0), jnp.float32(0), jnp.int32(0))

    def transition(self, state, action, noise):
        move = action[0] if self.continuous else action.astype(jnp.float32) - 1
        place = state.place + move
        return state.replace(place=place, steps=state.steps + 1), -jnp.abs(place - 2), place >= 3, {}

    def observe(self, state):
        return jnp.stack([state.place, state.steps.astype(jnp.float32) / 7])

    def action_mask(self, state):
        return jnp.stack([state.place > -2, jnp.asarray(True), jnp.asarray(True)]) if self.masked else None


@struct
class WalkOnHost(HostEnv):
    """The same, stepped by Python."""

    continuous: bool = static(False)
    forgets: bool = static(False)  # whether an episode does not follow from its seed and actions
    is_endless: bool = static(False)  # whether simulators leave the time limit to shoal
    max_steps: Number | None = 7

    observation_space = Walk.observation_space
    action_space = Walk.action_space

    def open(self):
        return WalkSimulator(self)


class WalkSimulator:
    opened = 0

    def __init__(self, env):
        self.walk = Walk(env.continuous, env.has_mask, None if env.is_endless else env.max_steps)
        WalkSimulator.opened += 1
        self.offset = WalkSimulator.opened if env.forgets else 0

    def observed(self):
        mask = self.walk.action_mask(self.state)
        return np.asarray(self.walk.observe(self.state)) + self.offset, None if mask is None else np.asarray(mask)

    def reset(self, seed):
        assert 0 <= seed < 2**31
        self.state = self.walk.init(make_key(0))
        return self.observed()

    def step(self, action):
        self.state, reward, terminated, truncated, _ = self.walk.advance(self.state, jnp.asarray(action), None)
        return *self.observed(), float(reward), bool(terminated), bool(truncated)

    def close(self):
        pass


FIELDS = {
    "ppo": {"num_envs": 3, "num_steps": 16, "num_minibatches": 4, "num_epochs": 2},
    "ppo-gru": {"num_envs": 4, "num_steps": 16, "num_minibatches": 2, "memory": "gru", "memory_size": 8},
    "a2c": {"num_envs": 3, "num_steps": 9},
    "pqn": {"num_envs": 4, "num_steps": 16, "num_minibatches": 4},
    "dqn": {"num_envs": 2, "num_steps": 10, "learning_starts": 20, "batch_size": 16, "prioritized": True, "n_step": 3},
    "dqn-gru": {
        "num_envs": 2,
        "num_steps": 10,
        "learning_starts": 20,
        "batch_size": 8,
        "memory": "gru",
        "memory_size": 8,
        "sequence_length": 10,
        "burn_in": 5,
    },
    "sac": {"num_envs": 2, "num_steps": 10, "learning_starts": 20, "batch_size": 16, "buffer_size": 200},
    "sac-gru": {
        "num_envs": 2,
        "num_steps": 10,
        "learning_starts": 20,
        "batch_size": 8,
        "buffer_size": 200,
        "memory": "gru",
        "memory_size": 8,
        "sequence_length": 10,
        "burn_in": 5,
    },
    "td3": {"num_envs": 2, "num_steps": 10, "learning_starts": 20, "batch_size": 16, "buffer_size": 200},
    "crossq": {"num_envs": 2, "num_steps": 10, "learning_starts": 20, "batch_size": 16, "buffer_size": 200},
}


def agent_of(name):
    return AGENTS[name.partition("-")[0]].build(**FIELDS[name])


def train(name, env, updates=6, **options):
    agent = agent_of(name)
    options = {"records": 3, "evaluations": 1, "eval_episodes": 5, **SILENT, **options}
    return shoal.train(agent, env, steps=updates * agent.steps_per_update, **options)


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.sampled(2)
def test_an_agent_learns_the_same_whether_python_or_the_program_takes_the_steps(name, tmp_path):
    continuous, masked = name in ("sac", "sac-gru", "td3", "crossq"), name in ("ppo", "dqn", "pqn")
    compiled = train(name, Walk(continuous, masked), seeds=2, folder=tmp_path / "compiled")
    stepped = train(name, WalkOnHost(has_mask=masked, continuous=continuous), seeds=2, folder=tmp_path / "stepped")
    for one, other in zip(
        jax.tree.leaves(compiled.policies.weights), jax.tree.leaves(stepped.policies.weights), strict=True
    ):
        if name == "crossq":  # it divides by spreads, and Adam steps as far where a gradient is nearly 0
            assert np.quantile(np.abs(one - other), 0.98) < 3e-3
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-2 if name == "crossq" else 2e-4)
    for curve in ("train_return", "train_episodes", "train_length", "loss", "eval_return"):
        if curve in compiled.curves:
            np.testing.assert_allclose(
                compiled.curves[curve], stepped.curves[curve], rtol=1e-3, atol=1e-3, err_msg=curve
            )


@pytest.mark.parametrize("name", ["ppo-gru", "dqn", pytest.param("dqn-gru", marks=pytest.mark.slow)])
def test_a_resumed_run_ends_with_the_same_bits(name, tmp_path):
    whole = tmp_path / "whole"
    train(name, WalkOnHost(), seeds=2, evaluations=0, folder=whole)
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(checkpoint.newest(cut / "checkpoints"))
    (cut / "summary.json").unlink()
    shoal.train(agent_of(name), WalkOnHost(), resume=cut, **SILENT)
    resumed, after = arrays_of(cut), arrays_of(whole)
    assert resumed.keys() == after.keys() and any(name.startswith("episodes") for name in after)
    for array in after:
        np.testing.assert_array_equal(resumed[array], after[array], err_msg=array)


def test_a_run_that_is_stopped_within_a_record_ends_with_the_same_bits(tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train("ppo", WalkOnHost(), seeds=2, folder=whole)
    request = Request(monkeypatch)
    request.at = 3
    with pytest.raises(Stopped):
        train("ppo", WalkOnHost(), seeds=2, folder=cut)
    assert_stopped_within_a_record(cut, 3, records=1)
    shoal.train(agent_of("ppo"), WalkOnHost(), resume=cut, **SILENT)
    assert_same_run(cut, whole)


def arrays_of(run):
    with np.load(checkpoint.newest(run / "checkpoints") / "learners.npz") as file:
        return dict(file)


def test_a_run_says_that_its_environments_could_not_be_restored(tmp_path, capsys):
    whole = tmp_path / "whole"
    train("ppo", WalkOnHost(forgets=True), evaluations=0, folder=whole)
    shutil.rmtree(checkpoint.newest(whole / "checkpoints"))
    (whole / "summary.json").unlink()
    capsys.readouterr()
    shoal.train(agent_of("ppo"), WalkOnHost(forgets=True), resume=whole, **{**SILENT, "progress": True})
    said = " ".join(capsys.readouterr().err.split())
    assert "3 of 3 environments did not come to their saved states by repeating their actions" in said


def test_a_run_says_before_that_python_steps_its_evaluations():
    def notes(env, **options):
        spec = spec_for(agent_of("ppo"), env, steps=480, records=4, **options)
        return make_plan(spec, agent_of("ppo"), env).notes

    assert "Python steps the evaluations too, 4 x 100 episodes" in notes(WalkOnHost())
    assert "Python steps" not in notes(WalkOnHost(), evaluations=0) + notes(Walk())


def test_a_member_does_not_depend_on_the_others(tmp_path):
    one = train("ppo", WalkOnHost(), seeds=1, folder=tmp_path / "one")
    three = train("ppo", WalkOnHost(), seeds=3, folder=tmp_path / "three")
    for alone, among in zip(
        jax.tree.leaves(one.policies.weights), jax.tree.leaves(three.policies.weights), strict=True
    ):
        np.testing.assert_array_equal(alone[0], among[0])
        assert not np.array_equal(among[0], among[1]) or np.all(among[0] == 0)


def test_population_based_training_copies_members_with_their_episodes(tmp_path):
    result = train("ppo", WalkOnHost(), updates=8, seeds=4, records=4, selector="pbt", folder=tmp_path / "pbt")
    assert (np.asarray(result.curves["parent"]) >= 0).any()
    assert np.isfinite(result.curves["train_return"][-1]).all()


def test_an_evaluation_counts_each_episode_once_and_cuts_off_at_the_horizon():
    @struct
    class Mover(Actor):
        move: int = static(2)

        def act(self, state, obs, carry, key, greedy, mask=None):
            return jnp.int32(self.move), carry

    # To the right: 3 steps, rewards -1, 0, -1. Standing: until the limit of 7 steps at a cost of 2 each.
    right = evaluate_on_host(Mover(), None, WalkOnHost(), make_key(0), episodes=40, horizon=100)
    assert right.episode_return.tolist() == [-2.0] * 40 and right.episode_length.tolist() == [3] * 40
    assert right.finished.all()
    stands = evaluate_on_host(Mover(move=1), None, WalkOnHost(), make_key(0), episodes=3, horizon=5)
    assert stands.episode_return.tolist() == [-10.0] * 3 and not stands.finished.any()


def test_the_time_limit_holds_where_the_simulator_has_none(tmp_path):
    curves = [train("ppo", WalkOnHost(is_endless=e), folder=tmp_path / str(e)).curves for e in (False, True)]
    assert np.nanmax(curves[0]["train_length"]) <= 7
    for name in ("train_return", "train_length", "eval_return"):
        np.testing.assert_array_equal(curves[1][name], curves[0][name])


def test_agents_that_cannot_learn_from_python_and_wrappers_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"es cannot play .*WalkOnHost.*Python steps this environment.*ppo"):
        shoal.train("es", WalkOnHost(), folder=tmp_path / "es", **SILENT)
    with pytest.raises(TypeError, match=r"TimeLimit cannot wrap WalkOnHost.*wrapper of its own library"):
        shoal.train("ppo", TimeLimit(WalkOnHost(), max_steps=5), folder=tmp_path / "wrapped", **SILENT)
    with pytest.raises(TypeError, match="cannot be part of a compiled program"):
        shoal.rollout("random", WalkOnHost(), num_steps=3)


@struct
class Unlimited(WalkOnHost):
    max_steps: Number | None = None

    def open(self):
        return WalkSimulator(WalkOnHost())


def test_a_truncation_that_no_limit_announces_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match=r"truncated after 7 steps.*env.truncates_early=true, or give env.max_steps"):
        train("ppo", Unlimited(), folder=tmp_path / "unlimited")


@pytest.mark.parametrize("name", ["ppo", pytest.param("dqn", marks=pytest.mark.slow)])
def test_truncations_at_any_step_bootstrap_where_the_environment_says_that_they_come(name, tmp_path):
    """The same episodes as with a limit of 7 steps that is known before."""
    limited = train(name, WalkOnHost(), updates=3, evaluations=0, folder=tmp_path / "limited")
    early = train(name, Unlimited(truncates_early=True), updates=3, evaluations=0, folder=tmp_path / "early")
    np.testing.assert_array_equal(early.curves["train_length"], limited.curves["train_length"])
    for one, other in zip(
        jax.tree.leaves(early.policies.weights), jax.tree.leaves(limited.policies.weights), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert final_slots(Unlimited(truncates_early=True), 16) == 16 and final_slots(WalkOnHost(), 16) == 3
    assert final_slots(Unlimited(), 16) == 0


def test_a_policy_trained_by_the_program_plays_on_the_host(tmp_path):
    result = train("ppo", Walk(), folder=tmp_path / "run")
    compiled, stepped = (evaluate(result.policies, env, episodes=7) for env in (Walk(), WalkOnHost()))
    np.testing.assert_allclose(stepped.episode_return, compiled.episode_return, rtol=1e-6)
    np.testing.assert_array_equal(stepped.episode_length, compiled.episode_length)


def train_ahead(name, env, overlap=True, fields=(), **options):
    agent = AGENTS[name.partition("-")[0]].build(**{**FIELDS[name], **dict(fields)})
    options = {"records": 3, "evaluations": 0, **SILENT, **options}
    return shoal.train(agent, env, steps=6 * agent.steps_per_update, overlap=overlap, **options)


@pytest.mark.parametrize("name", ["dqn-gru", "sac", pytest.param("dqn", marks=pytest.mark.slow)])
def test_steps_ahead_are_those_without_overlap_where_weights_do_not_change(name, tmp_path):
    """With learning rates of 0 only the age of the weights differs; noise, schedules and carries do not."""
    env = WalkOnHost(continuous=name == "sac")
    fields = {"learning_rate": 0.0, **({"policy_learning_rate": 0.0} if name == "sac" else {})}
    runs = [train_ahead(name, env, overlap, fields, folder=tmp_path / str(overlap)) for overlap in (False, True)]
    for curve in ("train_return", "train_length"):
        np.testing.assert_array_equal(runs[1].curves[curve], runs[0].curves[curve])
    plain, ahead = (arrays_of(tmp_path / str(overlap)) for overlap in (False, True))
    assert ahead.keys() > plain.keys() and all(array.startswith("pending") for array in ahead.keys() - plain.keys())
    stored = [array for array in plain if "replay" in array]
    assert len(stored) > 5
    for array in stored:
        np.testing.assert_array_equal(ahead[array], plain[array], err_msg=array)


@pytest.mark.parametrize("name", ["dqn", "sac"])
def test_actions_come_from_weights_one_update_old(name, tmp_path):
    """The oracle takes the steps in the compiled program, and learns from those of the update before."""
    continuous = name == "sac"
    ahead = train_ahead(name, WalkOnHost(continuous=continuous), folder=tmp_path / "ahead")
    plain = train_ahead(name, WalkOnHost(continuous=continuous), overlap=False, folder=tmp_path / "plain")
    env = Walk(continuous)
    agent = make_plan(spec_for(agent_of(name), env, steps=120), agent_of(name), env).agent

    @jax.jit
    def collect(agent, state, env_states):
        key, k_noise, k_envs, _ = jax.random.split(state.key, 4)
        noise = agent.policy_noise(state, k_noise)
        env_states, trajectory, _ = agent.rollout.collect(env, env_states, agent.behavior(state), noise, k_envs)
        return env_states, trajectory

    @jax.jit
    def learn(agent, state, trajectory, clock):
        key, _, _, k_learn = jax.random.split(state.key, 4)
        return agent.learn_from(state.replace(key=key), trajectory, None, k_learn, clock)[0]

    state = agent.init(member_key(make_key(0), jnp.int32(0)), env)
    env_states, trajectory = collect(agent, state, state.env_states)
    for update in range(6):
        ahead_of_it = state.replace(key=jax.random.split(state.key, 4)[0], age=state.age + 1)
        env_states, following = collect(agent, ahead_of_it, env_states)
        state, trajectory = learn(agent, state, trajectory, jnp.int32(update)), following
    expected = jax.tree.leaves(agent.policy_state(state))
    found, others = (jax.tree.leaves(result.policies.weights) for result in (ahead, plain))
    differs = 0.0
    for one, other, third in zip(found, expected, others, strict=True):
        np.testing.assert_allclose(one[0], other, rtol=2e-3, atol=2e-4)
        differs = max(differs, float(np.abs(one[0] - third[0]).max()))
    assert differs > 1e-3  # from a run whose actions come from the newest weights


@struct
class SlowWalk(WalkOnHost):
    def open(self):
        return SlowSimulator(self)


class SlowSimulator(WalkSimulator):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)


def test_steps_ahead_do_not_depend_on_how_long_a_step_takes_nor_on_a_stop(tmp_path, monkeypatch):
    whole, slow, cut = (tmp_path / name for name in ("whole", "slow", "cut"))
    train_ahead("dqn", WalkOnHost(), folder=whole, seeds=2)
    train_ahead("dqn", SlowWalk(), folder=slow, seeds=2)
    for array, expected in arrays_of(whole).items():
        np.testing.assert_array_equal(arrays_of(slow)[array], expected, err_msg=array)
    request = Request(monkeypatch)
    request.at = 3
    with pytest.raises(Stopped):
        train_ahead("dqn", WalkOnHost(), folder=cut, seeds=2)
    assert_stopped_within_a_record(cut, 3, records=1)
    shoal.train(agent_of("dqn"), WalkOnHost(), resume=cut, **SILENT)
    assert_same_run(cut, whole)


def test_members_that_are_copied_go_on_with_the_steps_of_their_originals(tmp_path):
    result = train_ahead(
        "dqn", WalkOnHost(), seeds=4, records=4, evaluations=4, selector="pbt", folder=tmp_path / "pbt"
    )
    assert (np.asarray(result.curves["parent"]) >= 0).any() and np.isfinite(result.curves["loss"][-1]).all()


def test_overlap_is_refused_where_it_would_change_nothing_or_what_is_learned(tmp_path):
    with pytest.raises(
        ValueError, match="overlap lets environments that Python steps .* Walk are part of the compiled"
    ):
        train_ahead("dqn", Walk(), folder=tmp_path / "compiled")
    with pytest.raises(
        ValueError, match=r"weights one update old, and ppo learns only .*newest weights.*: .*dqn, .*sac"
    ):
        train_ahead("ppo", WalkOnHost(), folder=tmp_path / "ppo")
    assert not [*tmp_path.iterdir()]
