"""Gymnasium's environments as environments of shoal: spaces, conversion, training, names."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

import shoal
from shoal.core.checks import check_env
from shoal.core.errors import CheckError, UnknownNameError
from shoal.core.keys import make_key
from shoal.core.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from shoal.grid.words import decode
from shoal.interop.from_gymnasium import action_for, element_of, space_of
from shoal.interop.sources.gymnasium import GymnasiumEnv, properties_of
from shoal.training.host_evaluation import record_on_host
from tiny import SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (spaces.Discrete(3, start=-1), Discrete(3)),
        (spaces.MultiDiscrete([3, 2]), MultiDiscrete((3, 2))),
        (spaces.MultiDiscrete([3, 2], start=[1, 5]), MultiDiscrete((3, 2))),
        (spaces.MultiBinary(4), MultiDiscrete((2,) * 4)),
        (spaces.Box(0, 255, (4, 4, 3), np.uint8), Box(0, 255, (4, 4, 3), np.uint8)),
        (spaces.Box(-1.0, 2.0, (2,), np.float64), Box(-1.0, 2.0, (2,), np.float32)),
        (spaces.Box(-(2**30), 2**30, (2,), np.int64), Box(-(2**30), 2**30, (2,), np.int32)),
        (spaces.Box(np.array([-np.inf, 0.0], np.float32), np.array([1.0, np.inf], np.float32)), None),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,))]), Tuple((Discrete(2), Box(0, 1, (1,))))),
        (
            spaces.Dict(b=spaces.Discrete(2), a=spaces.Discrete(3)),
            Dict({"b": Discrete(2), "a": Discrete(3)}),
        ),
    ],
    ids=lambda x: str(x)[:30],
)
def test_elements_lie_in_the_converted_space_and_come_back(space, expected):
    ours = space_of(space)
    assert expected is None or ours == expected
    space.seed(0)
    for _ in range(20):
        sample = space.sample()
        element = element_of(space, sample)
        assert bool(ours.contains(jax.tree.map(np.asarray, element)))
        back = action_for(space, element)
        assert space.contains(back)
        for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(sample), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_integers_of_64_bits_become_the_nearest_of_32_bits():
    space = spaces.Box(-(2**40), 2**40, (2,), np.int64)
    assert space_of(space) == Box(-(2**31), 2**31 - 1, (2,), np.int32)
    assert element_of(space, np.array([-(2**39), 7])).tolist() == [-(2**31), 7]


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Sequence(spaces.Discrete(2)), spaces.MultiBinary((2, 2))])
def test_a_space_without_a_fixed_shape_is_refused_by_name(space):
    with pytest.raises(TypeError, match=r"'cue' of the space is .*which shoal cannot hold.*TransformObservation"):
        space_of(spaces.Dict(cue=space))


def test_an_environment_is_played_as_gymnasium_plays_it():
    """The same seed and actions give the same observations, rewards and ends as in Gymnasium."""
    for name, steps in (("CartPole-v1", 60), ("Pendulum-v1", 210), ("Taxi-v4", 220), ("Blackjack-v1", 10)):
        env = shoal.make(f"gymnasium/{name}")
        ours, theirs = env.open(), gymnasium.make(name)
        obs, mask = ours.reset(3)
        expected, info = theirs.reset(seed=3)
        assert (mask is not None) == ("action_mask" in info) == env.has_mask
        theirs.action_space.seed(1)
        for _ in range(steps):
            for one, other in zip(jax.tree.leaves(obs), jax.tree.leaves(expected), strict=True):
                np.testing.assert_array_equal(one, np.asarray(other, np.asarray(one).dtype))
            action = theirs.action_space.sample()
            obs, mask, *outcome = ours.step(element_of(theirs.action_space, action))
            expected, *expected_outcome, info = theirs.step(action)
            assert outcome == expected_outcome
            assert mask is None or mask.tolist() == info["action_mask"].astype(bool).tolist()
            if outcome[1] or outcome[2]:
                break
        assert outcome[1] or outcome[2]  # to its end


def test_the_time_limit_is_that_of_the_registration_unless_it_is_given():
    assert shoal.make("gymnasium/CartPole-v1").max_steps == 500
    env = shoal.make("gymnasium/CartPole-v1", max_steps=3)
    simulator = env.open()
    simulator.reset(0)
    ends = [simulator.step(np.int32(t % 2))[3:] for t in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


@pytest.mark.parametrize(
    ("agent", "name", "fields"),
    [
        ("ppo", "CartPole-v1", {"num_envs": 2, "num_steps": 32, "num_minibatches": 2}),
        ("ppo", "Taxi-v4", {"num_envs": 2, "num_steps": 32, "num_minibatches": 2}),
        ("dqn", "CartPole-v1", {"learning_starts": 30, "num_steps": 20, "batch_size": 16}),
        ("sac", "Pendulum-v1", {"learning_starts": 30, "num_steps": 20, "batch_size": 16, "buffer_size": 1000}),
    ],
)
@pytest.mark.sampled(2)
def test_agents_train_and_the_run_folder_is_as_always(agent, name, fields, tmp_path):
    run = tmp_path / "run"
    options = {"seeds": 2, "records": 2, "evaluations": 1, "eval_episodes": 3, "fields": fields, **SILENT}
    shoal.train(agent, f"gymnasium/{name}", steps=160, folder=run, eval_max_steps=20, **options)
    assert {path.name for path in run.iterdir()} >= {"spec.json", "summary.json", "curves.npz", "checkpoints"}
    policy = shoal.load(run)
    found = shoal.evaluate(policy, episodes=3, max_steps=20)
    again = shoal.evaluate(run, episodes=3, max_steps=20)
    assert found.episode_return.shape == (3,) and again.episode_return.shape == (2, 3)
    shoal.train(resume=run, steps=320, **SILENT)
    assert shoal.load(run) is not None


def test_a_policy_plays_in_the_gymnasium_version_of_its_environment(tmp_path):
    shoal.train("ppo", "CartPole-v1", steps=20_000, folder=tmp_path / "run", **SILENT)
    ours, theirs = (shoal.evaluate(tmp_path / "run", env, episodes=20) for env in (None, "gymnasium/CartPole-v1"))
    assert theirs.finished.all() and theirs.episode_return.mean() > 100
    assert abs(np.log(theirs.episode_return.mean() / ours.episode_return.mean())) < 0.5


def test_episodes_are_drawn_by_gymnasium(tmp_path, monkeypatch):
    pytest.importorskip("pygame")
    run = tmp_path / "run"
    fields = {"num_envs": 2, "num_steps": 16, "num_minibatches": 2}
    options = {"records": 1, "evaluations": 1, "eval_episodes": 1, "eval_max_steps": 20, "fields": fields}
    shoal.train("ppo", "gymnasium/CartPole-v1", steps=32, seeds=3, folder=run, **options, **SILENT)
    env = shoal.load(run).env
    with pytest.raises(NotImplementedError, match="GymnasiumEnv has no picture: shoal.render records some"):
        env.render(env.init(jax.random.key(0)))
    paths = shoal.render(run, max_steps=12)
    assert [path.name for path in paths] == ["best.gif", "median.gif", "worst.gif"]
    path = shoal.render(run, members="all", max_steps=6, out=tmp_path / "all.gif")[0]
    assert path.stat().st_size > 1000
    expected = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    episode = record_on_host(*_of_best(run), make_key(3), 5)
    expected.reset(seed=int(np.asarray(jax.random.bits(jax.random.split(make_key(3))[0])) >> 1))
    for t in range(len(episode.valid) + 1):
        np.testing.assert_array_equal(episode.state.picture[t], expected.render())
        if t < len(episode.valid):
            obs = expected.step(int(episode.action[t]))[0]
            np.testing.assert_array_equal(episode.state.obs[t + 1], obs)


def _of_best(run):
    policy = shoal.load(run)
    return policy.actor, policy.weights, policy.env


def test_missions_of_minigrid_are_the_word_numbers_of_shoals_level():
    pytest.importorskip("minigrid")
    for name in ("MiniGrid-GoToDoor-5x5-v0", "MiniGrid-Empty-5x5-v0", "BabyAI-GoToLocal-v0"):
        env, level = shoal.make(f"gymnasium/minigrid:{name}"), shoal.make(name)
        assert env.observation_space == level.observation_space and env.action_space == level.action_space
        assert check_env(env, steps=20) >= 0
        obs, _ = env.open().reset(3)
        text = gymnasium.make(name).reset(seed=3)[0]["mission"]
        assert decode(obs["mission"]) == text and len(text) > 8


def test_a_policy_of_shoals_minigrid_plays_in_minigrid(tmp_path):
    pytest.importorskip("minigrid")
    name = "MiniGrid-GoToDoor-5x5-v0"
    fields = {"num_envs": 2, "num_steps": 8, "num_minibatches": 2, "num_epochs": 1}
    options = {"steps": 16, "evaluations": 0, "fields": fields, "preset": "none", **SILENT}
    shoal.train("ppo", name, folder=tmp_path / "run", **options)
    played = shoal.evaluate(tmp_path / "run", f"gymnasium/minigrid:{name}", episodes=2, max_steps=5)
    assert played.episode_return.shape == (1, 2) and (played.episode_length <= 5).all()


class Strange(gymnasium.Env):
    """Breaks one rule of Gymnasium: `wrong` is what `reset` or `step` returns in the place of what it should."""

    def __init__(self, space, obs, wrong=None, actions=None, mask=None):
        self.observation_space, self.action_space = space, actions or spaces.Discrete(2)
        self.obs, self.wrong, self.info = obs, wrong or {}, {} if mask is None else {"action_mask": mask}

    def reset(self, *, seed=None, options=None):
        return self.wrong.get("reset", (self.wrong.get("first", self.obs), self.info))

    def step(self, action):
        good = {"obs": self.obs, "reward": 1.0, "terminated": False, "truncated": False, "info": self.info}
        return self.wrong.get("step", tuple((good | self.wrong)[name] for name in good))


REAL, WHOLE = (
    (spaces.Box(-1, 1, (2,)), np.zeros(2, np.float32)),
    (spaces.Box(0, 9, (2,), np.int32), np.zeros(2, np.int32)),
)
DICT = (spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(0, 1, (1,))), {"a": 0, "b": np.zeros(1, np.float32)})
STRANGE = {
    "another shape": (REAL, {"obs": np.zeros(3, np.float32)}, "not float32 with shape"),
    "another shape at first": (REAL, {"first": np.zeros((2, 1), np.float32)}, "not float32 with shape"),
    "a number": (REAL, {"obs": 0.5}, "not float32 with shape"),
    "fractions for whole numbers": (WHOLE, {"obs": np.full(2, 0.5)}, "float64 is not of the kind of int32"),
    "objects": (REAL, {"obs": np.array([None, 1])}, "object is not of the kind"),
    "a text": (REAL, {"obs": "left"}, "is not of the kind"),
    "nothing": (REAL, {"obs": None}, "is not of the kind"),
    "complex": (REAL, {"obs": np.zeros(2, complex)}, "is not of the kind"),
    "out of range": (REAL, {"obs": np.full(2, 5.0)}, "is out of bounds"),
    "NaN": (REAL, {"obs": np.full(2, np.nan)}, "is out of bounds"),
    "a choice too high": ((spaces.Discrete(3), 0), {"obs": 3}, "is out of bounds"),
    "a choice as an array": ((spaces.Discrete(3), 0), {"obs": np.zeros(1, int)}, "not int32 with shape"),
    "a part missing": (DICT, {"obs": {"a": 0}}, "does not fit its observation space"),
    "no dict": (DICT, {"obs": np.zeros(2)}, "does not fit its observation space"),
    "reward None": (REAL, {"reward": None}, "None as reward; it must be one number"),
    "reward array": (REAL, {"reward": np.ones(1)}, "as reward; it must be one number"),
    "reward list": (REAL, {"reward": [1.0]}, "as reward; it must be one number"),
    "reward text": (REAL, {"reward": "1"}, "as reward; it must be one number"),
    "reward NaN": (REAL, {"reward": np.nan}, "the reward nan, which is not finite"),
    "terminated array": (REAL, {"terminated": np.array([False, True])}, "as terminated; it must be one number"),
    "terminated None": (REAL, {"terminated": None}, "as terminated; it must be one number"),
    "the old step": (REAL, {"step": (REAL[1], 1.0, False, {})}, "step must return"),
    "the old reset": (REAL, {"reset": REAL[1]}, "reset must return"),
    "no info": (REAL, {"info": None}, "step must return"),
}


@pytest.fixture
def registered():
    """Register environments with Gymnasium for one test; the call returns shoal's name."""
    ids = []

    def register(**arguments):
        ids.append(f"Strange{len(ids)}-v0")
        gymnasium.register(ids[-1], Strange, max_episode_steps=20, kwargs=arguments)
        return f"gymnasium/{ids[-1]}"

    yield register
    for each in ids:
        gymnasium.registry.pop(each)
    properties_of.cache_clear()


@pytest.mark.parametrize("kind", STRANGE)
def test_what_an_environment_must_not_return_is_refused_before_the_run(kind, registered, tmp_path):
    (space, obs), wrong, message = STRANGE[kind]
    name = registered(space=space, obs=obs, wrong=wrong)
    with pytest.raises((TypeError, CheckError), match=rf"{name}: .*{message}"):
        shoal.train("ppo", name, steps=64, folder=tmp_path / "run", **SILENT)
    assert not (tmp_path / "run").exists()


def test_an_environment_that_keeps_the_rules_passes(registered):
    for space, obs in (REAL, WHOLE, DICT):
        assert check_env(shoal.make(registered(space=space, obs=obs)), steps=40) == 2
    narrow = registered(space=spaces.Box(0, 255, (2,), np.uint8), obs=np.zeros(2, np.int64))
    assert check_env(shoal.make(narrow), steps=40) == 2


@pytest.mark.parametrize("mask", [(np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8)), np.array([1, 0, 0, 1, 1])])
def test_masks_of_several_choices_are_one_vector(mask, registered):
    space, obs = REAL
    env = shoal.make(registered(space=space, obs=obs, actions=spaces.MultiDiscrete([2, 3]), mask=mask))
    assert env.has_mask and env.open().reset(0)[1].tolist() == [True, False, False, True, True]
    assert check_env(env, steps=40) == 2


def test_masks_that_fit_no_action_are_refused(registered):
    space, obs = REAL
    for mask, message in ((np.ones(3), "shape \\(3,\\), not \\(2,\\)"), (np.zeros(2), "allows no action")):
        with pytest.raises(CheckError, match=message):
            check_env(shoal.make(registered(space=space, obs=obs, mask=mask)))
    of_box = registered(space=space, obs=obs, mask=np.ones(1), actions=spaces.Box(-1, 1, (1,)))
    assert not shoal.make(of_box).has_mask


def test_an_environment_may_truncate_at_any_step_if_that_is_said(registered, tmp_path):
    """Each episode is truncated after its first step, long before the registered limit of 20 steps."""
    space, obs = REAL
    name = registered(space=space, obs=obs, wrong={"truncated": True})
    fields = {"num_envs": 2, "num_steps": 8, "num_minibatches": 2, "num_epochs": 1}
    options = {"steps": 32, "fields": fields, "evaluations": 0, **SILENT}
    with pytest.raises(RuntimeError, match=r"truncated after 1 steps.*env.truncates_early=true"):
        shoal.train("ppo", name, folder=tmp_path / "regular", **options)
    result = shoal.train("ppo", shoal.make(name, truncates_early=True), folder=tmp_path / "early", **options)
    assert result.curves["train_length"][-1] == 1 and np.isfinite(result.curves["loss"]).all()


def test_options_of_make_are_passed_on():
    env = GymnasiumEnv(id="CartPole-v1", options=(("sutton_barto_reward", True),))
    simulator = env.open()
    simulator.reset(0)
    assert simulator.step(np.int32(0))[2] == 0.0
    assert check_env(env, steps=40) > 0


class Talker(gymnasium.Env):
    """An environment whose observations are texts."""

    observation_space = spaces.Dict(said=spaces.Text(3))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return {"said": "abc"}, {}


def test_a_file_in_the_working_folder_may_register_the_id(tmp_path, monkeypatch):
    text = "from gymnasium import register\nregister('Here-v0', 'gymnasium.envs.classic_control:PendulumEnv')\n"
    (tmp_path / "here.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert shoal.make("gymnasium/here:Here-v0").observation_space.shape == (3,)
    with pytest.raises(UnknownNameError, match=r"cannot make There-v0: .*needs its name: gymnasium/MODULE:ID"):
        shoal.make("gymnasium/here:There-v0")
    del gymnasium.registry["Here-v0"]


def test_an_environment_with_other_spaces_is_refused_by_its_name():
    gymnasium.register("Talker-v0", Talker)
    with pytest.raises(TypeError, match=r"'said' of the observation space of gymnasium/Talker-v0 is Text.*cannot hold"):
        shoal.make("gymnasium/Talker-v0")
    del gymnasium.registry["Talker-v0"]


def test_a_missing_package_is_named():
    with pytest.raises(ImportError, match=r"gymnasium/Ant-v5 needs another package: .*gymnasium\[mujoco\]"):
        shoal.make("gymnasium/Ant-v5")
    with pytest.raises(UnknownNameError, match="Atari games need the package ale_py: pip install ale-py"):
        shoal.make("gymnasium/ALE/Pong-v5")


def test_a_package_that_an_environment_imports_is_named(monkeypatch):
    def lacks(*_, **__):
        raise ModuleNotFoundError("No module named 'imageio'", name="imageio")

    monkeypatch.setattr(gymnasium, "make", lacks)
    with pytest.raises(
        ImportError, match="gymnasium/Reacher-v5 needs another package: imageio, .* pip install imageio"
    ):
        shoal.make("gymnasium/Reacher-v5")


def test_unknown_names_are_answered_with_the_nearest_ids():
    with pytest.raises(UnknownNameError, match=r"Gymnasium cannot make CartPol-v1.*Did you mean gymnasium/CartPole-v1"):
        shoal.make("gymnasium/CartPol-v1")
    with pytest.raises(UnknownNameError, match=r"cannot make no_such_module:Env-v0: .*no_such_module"):
        shoal.make("gymnasium/no_such_module:Env-v0")
