"""The Python face: training, loading, acting, rolling out, resuming, and what bad input gets."""

import inspect
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from shoal import PPO
from shoal.agents import presets
from shoal.cli.main import main
from shoal.core.env import Env, State
from shoal.core.errors import CheckpointError
from shoal.core.registry import AGENTS, ENVS
from shoal.core.spaces import Box, Discrete
from shoal.core.struct import Number, struct
from shoal.nn.torsos import MLP
from shoal.tracking.events import Message, Recorded, Sink
from shoal.training import checkpoint
from shoal.training.describe import describe_fields
from shoal.training.jobs import make_job
from shoal.training.policy import Chance, Policy, fit_observation
from shoal.training.stopping import Stopped
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


@struct
class Poisoned(Env):
    """Reward 1, or NaN where `poison` is set."""

    poison: Number = 0.0
    max_steps: Number | None = 5

    @property
    def observation_space(self):
        return Box(0.0, 1.0, (1,))

    @property
    def action_space(self):
        return Discrete(2)

    def init(self, key):
        return State(jnp.int32(0))

    def observe(self, state):
        return jnp.zeros((1,), jnp.float32)

    def transition(self, state, action, noise):
        reward = jnp.where(self.poison > 0, jnp.nan, 1.0).astype(jnp.float32)
        return state, reward, jnp.bool_(False), {}


class Listener(Sink):
    """Keeps the messages."""

    def __init__(self):
        self.heard = []

    def hear(self, event):
        if isinstance(event, Message):
            self.heard.append(event.text)


class Interrupt(Listener):
    """Presses Ctrl-C when a record was written."""

    def __init__(self, after):
        super().__init__()
        self.left = after

    def hear(self, event):
        super().hear(event)
        if isinstance(event, Recorded):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """Two learning rates, two seeds each."""
    return shoal.train(
        "ppo",
        "CartPole-v1",
        seeds=2,
        fields=FIELDS,
        sweep={"learning_rate": [1e-3, 1e-2]},
        preset=None,
        folder=tmp_path_factory.mktemp("runs") / "small",
        **OPTIONS,
        **SILENT,
    )


def weights_of(folder):
    """Everything in the last checkpoint of a run."""
    with np.load(checkpoint.newest(folder / "checkpoints") / "learners.npz") as file:
        return {name: file[name] for name in file.files}


def assert_same_bits(left, right):
    left, right = weights_of(left), weights_of(right)
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def test_what_train_takes_is_in_its_signature():
    kinds = {parameter.kind for parameter in inspect.signature(shoal.train).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds and "eval_episodes" in inspect.signature(shoal.train).parameters


def test_no_room_bears_the_name_of_a_public_function():
    rooms = {folder.name for folder in Path(shoal.__file__).parent.iterdir()}
    assert not rooms & set(dir(shoal))
    assert inspect.isfunction(shoal.train) and inspect.isfunction(shoal.rollout)


def test_public_names_exist_and_unknown_ones_do_not():
    for name in dir(shoal):
        assert getattr(shoal, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'PPOO'"):
        shoal.PPOO  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        shoal.trian  # noqa: B018


def test_every_agent_and_wrapper_is_listed():
    from shoal.core import wrappers
    from shoal.grid import wrappers as level_wrappers

    shown = set(dir(shoal))
    assert {entry.cls.__name__ for entry in AGENTS.values() if entry.cls.__module__.startswith("shoal.")} <= shown
    for package in (wrappers, level_wrappers):
        made = {name: x for name, x in vars(package).items() if isinstance(x, type) and issubclass(x, Env)}
        assert made and set(made) <= shown and all(getattr(shoal, name) is cls for name, cls in made.items())


def test_names_for_type_checkers_are_those_that_are_imported():
    import ast

    tree = ast.parse(Path(shoal.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    assert {(node.module, name.name) for node in checked.body for name in node.names} == {
        (module, name) for module, names in shoal._HOME.items() for name in names
    }


def test_render_films_a_policy_and_an_environment_by_value(result, tmp_path):
    (path,) = shoal.render(result.policy(0), max_steps=3, out=tmp_path / "policy.gif")
    (other,) = shoal.render(shoal.make("CartPole-v1", gravity=20.0), max_steps=3, out=tmp_path / "env.gif")
    assert path.read_bytes()[:3] == other.read_bytes()[:3] == b"GIF"
    with pytest.raises(ValueError, match="member and which are for a run"):
        shoal.render("CartPole-v1", member=1)
    with pytest.raises(ValueError, match="env_fields is for an environment by name"):
        shoal.render(result.folder, env_fields={"gravity": 1.0})


def test_members_are_settings_times_seeds_setting_major(result):
    assert result.settings == [{"learning_rate": 1e-3}, {"learning_rate": 1e-2}]
    assert [(m["learning_rate"], m["seed"]) for m in result.members] == [(1e-3, 0), (1e-3, 1), (1e-2, 0), (1e-2, 1)]
    assert len(result.policies) == 4


def test_curves_have_a_row_for_each_record(result):
    np.testing.assert_array_equal(result.curves["env_steps"], [64, 128, 192, 256])
    assert result.curves["train_return"].shape == (4, 4)
    assert (~np.isnan(result.curves["eval_return"])).sum() == 2 * 4  # two evaluations of four members
    assert result.summary["members"] == 4


def test_the_representation_says_what_and_where(result):
    assert "ppo on CartPole-v1: mean return" in repr(result)
    assert "learning_rate = 0.001" in result._repr_html_()


def test_a_frame_is_long_or_says_what_to_install(result):
    pandas = pytest.importorskip("pandas", reason="the message is tested in core")
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 16
    row = frame[(frame.member == 3) & (frame.env_steps == 256)].iloc[0]
    assert row.learning_rate == 1e-2 and row.seed == 1 and row.train_return == result.curves["train_return"][3, 3]


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


def test_the_best_member_is_the_one_with_the_highest_last_evaluation(result):
    last = result.curves["eval_return"][-1]
    assert result.ranking()[0] == int(np.argmax(last))
    assert result.policy("best").name == result.policy(int(np.argmax(last))).name


def test_an_observation_that_does_not_fit_is_refused(result):
    policy = result.policy(0)
    with pytest.raises(ValueError, match=r"shape \(3,\), not float32 with shape \(4,\)"):
        policy(np.zeros(3))
    with pytest.raises(ValueError, match="the observation is of complex128"):
        policy(np.zeros(4, complex))
    with pytest.raises(ValueError, match="float64, where .* uint8"):
        fit_observation(Box(0, 255, (2,), np.uint8), np.zeros(2))


def test_an_unknown_member_is_refused(result):
    with pytest.raises(IndexError, match="member 9 does not exist: the population has members 0 to 3"):
        result.policy(9)
    with pytest.raises(ValueError, match="member='worst' is unknown"):
        result.policy("worst")


def test_evaluation_of_a_run_covers_every_member(result):
    done = shoal.evaluate(result.folder, episodes=3, max_steps=10)
    assert done.episode_return.shape == (4, 3)
    np.testing.assert_array_equal(done.episode_return, done.episode_length)  # CartPole pays 1 a step
    alone = shoal.evaluate(result.policy(2), episodes=3, max_steps=10)
    np.testing.assert_array_equal(done.episode_return[2], alone.episode_return)


def test_evaluation_in_another_world_changes_it(result):
    heavy = shoal.evaluate(result.policy(0), episodes=3, env_fields={"force_mag": 0.0, "max_steps": 7})
    assert heavy.episode_length.max() <= 7
    with pytest.raises(ValueError, match="episodes=0 must be at least 1"):
        shoal.evaluate(result.policy(0), episodes=0)
    with pytest.raises(ValueError, match="was trained with observation_space"):
        shoal.evaluate(result.policy(0), "Pendulum-v1")


def test_a_population_meets_a_world_of_another_shape_or_time_limit(result):
    for fields in ({"integrator": "semi-implicit", "force_mag": 30}, {"max_steps": 7}):
        many = shoal.evaluate(result.folder, episodes=3, env_fields=fields)
        alone = shoal.evaluate(result.policy(2), episodes=3, env_fields=fields)
        np.testing.assert_array_equal(many.episode_return[2], alone.episode_return)
    told = result.policies
    endless = type(told)(told.actor, told.weights, told.env.replace(max_steps=None), told.names)
    np.testing.assert_array_equal(
        shoal.evaluate(endless, episodes=3, env_fields={"max_steps": 7}).episode_return, many.episode_return
    )


def test_a_world_with_other_observations_or_actions_is_refused():
    lake = shoal.make("FrozenLake-v1")
    policy = Policy(Chance(lake.action_space), None, lake)
    assert shoal.evaluate(policy, env_fields={"is_slippery": False}, episodes=2).episode_return.shape == (2,)
    for other in ({"env": "FrozenLake8x8-v1"}, {"env_fields": {"desc": "SFFF/FFFF/FFFF/FFFF/FFFG"}}):
        with pytest.raises(ValueError, match=r"trained with observation_space Discrete\(16, uint8\); FrozenLake has"):
            shoal.evaluate(policy, episodes=2, **other)


@pytest.mark.parametrize(("num_envs", "lead"), [(None, (6,)), (3, (6, 3))])
def test_a_rollout_returns_what_was_asked_for(num_envs, lead, result):
    out = shoal.rollout(result.policy(0), num_steps=6, num_envs=num_envs, keep=["obs", "reward"])
    assert set(out) == {"obs", "reward", "episodes"}
    assert out["obs"].shape == (*lead, 4) and out["reward"].shape == lead


def test_a_rollout_of_a_population_leads_with_members(result):
    out = shoal.rollout(result.policies, num_steps=6, num_envs=3, keep=["action"])
    assert out["action"].shape == (4, 6, 3)


def test_a_rollout_takes_functions_and_chance():
    out = shoal.rollout(lambda obs, key: jnp.int32(1), "CartPole-v1", num_steps=30, keep=["action", "terminated"])
    assert (out["action"] == 1).all() and int(out["episodes"].count) == int(out["terminated"].sum()) > 0
    assert set(np.asarray(shoal.rollout("random", "CartPole-v1", num_steps=30, keep=["action"])["action"])) == {0, 1}
    with pytest.raises(ValueError, match="keep names 'rewards'"):
        shoal.rollout("random", "CartPole-v1", num_steps=3, keep=["rewards"])


def test_comparing_a_run_with_itself_finds_no_difference(result):
    found = shoal.compare(result.folder, result.folder)
    assert found["pairs"] == 4 and found["difference"] == 0 and found["probability_of_improvement"] == 0.5


@pytest.mark.parametrize("change", [{"seed": 1}, {"prng": "threefry2x32"}])
def test_only_members_that_share_their_random_numbers_are_paired(change, result, tmp_path):
    other = shutil.copytree(result.folder, tmp_path / "other")
    spec = {**json.loads((other / "spec.json").read_text()), **change}
    (other / "spec.json").write_text(json.dumps(spec))
    found = shoal.compare(result.folder, other)
    assert found["pairs"] == 0 and "difference" not in found and found["members"] == [4, 4]


def test_members_without_a_score_are_counted_and_left_out(result, tmp_path, capsys):
    other = shutil.copytree(result.folder, tmp_path / "other")
    curves = {**result.curves, "eval_return": result.curves["eval_return"].copy()}
    curves["eval_return"][:, 2] = -np.inf
    np.savez(other / "curves.npz", **curves)
    found = shoal.compare(result.folder, other)
    assert found["members"] == [4, 3] and found["dropped"] == [0, 1] and found["pairs"] == 3
    assert main(["compare", str(result.folder), str(other)]) == 0
    assert "\n1 member of B left out: no finite score\n" in capsys.readouterr().out
    curves["eval_return"][:] = -np.inf
    np.savez(other / "curves.npz", **curves)
    with pytest.raises(ValueError, match="has no finite score to compare"):
        shoal.compare(result.folder, other)


def test_an_action_of_the_wrong_shape_is_refused_in_words():
    env = shoal.make("CartPole-v1")
    _, state = env.reset(shoal.make_key(0))
    with pytest.raises(ValueError, match="action is .* The action space of CartPole is Discrete"):
        env.step(shoal.make_key(1), state, jnp.zeros((2,), jnp.int32))


def test_a_run_that_was_stopped_goes_on_bit_for_bit(result, tmp_path):
    again = {"seeds": 2, "sweep": {"learning_rate": [1e-3, 1e-2]}, "fields": FIELDS, "preset": None, **OPTIONS}
    user = Interrupt(after=2)
    with pytest.raises(Stopped, match="--resume"):
        shoal.train("ppo", "CartPole-v1", folder=tmp_path / "r", progress=False, sinks=[user], figures=False, **again)
    assert user.heard == ["stopping when this chunk is saved; Ctrl-C again stops at once"]
    assert not (tmp_path / "r" / "summary.json").exists()
    assert len(shoal.load_result(tmp_path / "r").curves["env_steps"]) == 2
    resumed = shoal.train(resume=tmp_path / "r", **SILENT)
    assert_same_bits(resumed.folder, result.folder)
    for name, curve in result.curves.items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(resumed.curves[name], curve, err_msg=name)
    assert len((resumed.folder / "metrics.jsonl").read_text().splitlines()) == 4


def test_resuming_with_changes_says_what_changed(result):
    with pytest.raises(ValueError, match=r"cannot be resumed with changes \(steps: 256 -> 128\)"):
        shoal.train(resume=result.folder, steps=128)
    with pytest.raises(ValueError, match="env: CartPole-v1 -> Pendulum-v1"):
        shoal.train(env="Pendulum-v1", resume=result.folder)
    with pytest.raises(ValueError, match=r"\(num_envs: 4 -> 8; env.gravity: 9.8 -> 5.0\)"):
        shoal.train(resume=result.folder, fields={"num_envs": 8}, env_fields={"gravity": 5.0})
    with pytest.raises(ValueError, match=r"gravity: 9.8 -> 5.0"):
        shoal.train(env=shoal.make("CartPole-v1", gravity=5.0), resume=result.folder)
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        shoal.train(resume=result.folder / "nothing")


@pytest.mark.parametrize("given", [{"name": "x"}, {"root": "x"}, {"folder": "x"}, {"preset": "fast"}, {"preset": None}])
def test_resuming_refuses_what_is_for_a_new_run(given, result):
    with pytest.raises(ValueError, match=f"{[*given][0]}='.*' is for a new run; resume continues"):
        shoal.train(resume=result.folder, **given)


def test_resuming_compares_seeds_and_knows_aliases(result, monkeypatch):
    with pytest.raises(ValueError, match=r"cannot be resumed with changes \(seeds: 2 -> 1\)"):
        shoal.train(resume=result.folder, seeds=1)
    monkeypatch.setitem(ENVS._aliases, "Pole", "CartPole-v1")
    assert shoal.train(env="Pole", resume=result.folder, **SILENT).spec.env == "CartPole-v1"


def test_a_preset_by_name_is_refused_for_a_value():
    for pair in ((PPO(), "CartPole-v1"), ("ppo", shoal.make("CartPole-v1"))):
        with pytest.raises(ValueError, match="preset='fast' needs agent and environment by name"):
            shoal.train(*pair, preset="fast")


def test_a_member_that_turns_nan_stops_alone(tmp_path):
    listener = Listener()
    options = {**OPTIONS, "seeds": 1, "figures": False}
    both = shoal.train(
        PPO(**FIELDS),
        Poisoned(),
        env_sweep={"poison": [0.0, 1.0]},
        folder=tmp_path / "both",
        progress=False,
        sinks=[listener],
        **options,
    )
    alone = shoal.train(
        PPO(**FIELDS), Poisoned(), env_sweep={"poison": [0.0]}, folder=tmp_path / "a", progress=False, **options
    )
    assert both.curves["alive"].tolist() == [[True, False]] * 4
    assert [m["alive"] for m in both.summary["per_member"]] == [True, False]
    assert [text for text in listener.heard if "member 1 (env.poison=1.0 seed=0) stopped" in text]
    for name, array in weights_of(both.folder).items():
        assert array.dtype.kind != "f" or "worlds" in name or np.isfinite(array).all(), name  # the last good weights
        np.testing.assert_array_equal(array[0], weights_of(alone.folder)[name][0], err_msg=name)


def test_pictures_are_made_of_three_members(tmp_path):
    made = shoal.train(
        PPO(**FIELDS),
        shoal.make("CartPole-v1", max_steps=10),
        seeds=3,
        folder=tmp_path / "p",
        progress=False,
        **OPTIONS,
    )
    files = {path.name for path in [*(made.folder / "figures").iterdir(), *(made.folder / "videos").iterdir()]}
    assert files == {"learning_curves.png", "best.gif", "median.gif", "worst.gif"}


def test_a_world_without_a_picture_still_gets_its_curve(tmp_path):
    listener = Listener()
    made = shoal.train(PPO(**FIELDS), Poisoned(), folder=tmp_path / "p", progress=False, sinks=[listener], **OPTIONS)
    assert (made.folder / "figures" / "learning_curves.png").is_file() and not (made.folder / "videos").exists()
    assert [text for text in listener.heard if text.startswith("no videos: ") and "has no picture" in text]


@struct
class Late(Poisoned):
    """Rewards that are NaN from the tenth step on, which evaluations reach and short trainings do not."""

    max_steps: Number | None = 50

    def transition(self, state, action, noise):
        reward = jnp.where(state.time >= 10, jnp.nan, 1.0).astype(jnp.float32)
        return state, reward, jnp.bool_(False), {}


def test_a_resumed_run_keeps_the_same_policy_of_a_member_that_never_scored(tmp_path):
    agent, options = PPO(**{**FIELDS, "num_steps": 2}), {**OPTIONS, "steps": 32, "figures": False}
    straight = shoal.train(agent, Late(), folder=tmp_path / "straight", progress=False, **options)
    assert straight.summary["per_member"][0] == {
        "member": 0,
        "name": "seed=0",
        "last": None,
        "best": None,
        "alive": True,
    }
    with pytest.raises(Stopped):
        shoal.train(agent, Late(), folder=tmp_path / "r", progress=False, sinks=[Interrupt(after=2)], **options)
    about = checkpoint.read_about(checkpoint.newest(tmp_path / "r" / "checkpoints"))
    assert about["best_return"] == [None]  # JSON has no infinities
    resumed = shoal.train(env=Late(), resume=tmp_path / "r", **SILENT)
    for left, right in zip(
        *(jax.tree.leaves(run.policy(0, "best").weights) for run in (straight, resumed)), strict=True
    ):
        np.testing.assert_array_equal(left, right)


@struct
class Smudged(Poisoned):
    """Has a picture that cannot be drawn."""

    def render(self, state):
        raise ZeroDivisionError("no ink")


def test_a_picture_that_fails_does_not_fail_the_run(tmp_path):
    listener = Listener()
    made = shoal.train(PPO(**FIELDS), Smudged(), folder=tmp_path / "p", progress=False, sinks=[listener], **OPTIONS)
    assert made.summary["members"] == 1
    assert [text for text in listener.heard if "failed with ZeroDivisionError('no ink')" in text]


def test_pictures_are_prepared_while_the_run_trains(tmp_path, monkeypatch):
    from shoal.viz.studio import Studio

    trained = threading.Event()

    class Watch(Listener):
        def hear(self, event):
            super().hear(event)
            if isinstance(event, Recorded):
                trained.set()

    def prepare(self):
        assert trained.wait(60)  # forever, were it waited for before the first record
        raise ZeroDivisionError("no camera")

    monkeypatch.setattr(Studio, "_prepare", prepare)
    listener = Watch()
    made = shoal.train(
        "ppo", "CartPole-v1", fields=FIELDS, folder=tmp_path / "p", progress=False, sinks=[listener], **OPTIONS
    )
    assert made.summary["members"] == 1 and (made.folder / "figures" / "learning_curves.png").is_file()
    assert [text for text in listener.heard if "failed with ZeroDivisionError('no camera')" in text]


@pytest.mark.parametrize(
    ("settings", "cache", "expected"),
    [
        ({"jax_compilation_cache_dir": None}, True, "own"),
        ({"jax_compilation_cache_dir": None}, False, None),
        ({"jax_compilation_cache_dir": "/elsewhere"}, True, "/elsewhere"),
        ({"jax_compilation_cache_dir": None, "jax_enable_compilation_cache": False}, True, None),
    ],
)
def test_training_keeps_compiled_programs_unless_told_otherwise(settings, cache, expected, tmp_path, monkeypatch):

    from shoal.studies import runs

    kept = ("jax_compilation_cache_dir", "jax_enable_compilation_cache", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in kept}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    seen = []

    def run_nothing(*given, **options):
        seen.append(jax.config.values["jax_compilation_cache_dir"])
        raise Stopped

    monkeypatch.setattr(runs, "run_job", run_nothing)
    try:
        for name, value in settings.items():
            jax.config.update(name, value)
        with pytest.raises(Stopped):
            shoal.train("ppo", "CartPole-v1", cache=cache, root=tmp_path)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
    assert seen == [str(tmp_path / "shoal" / "programs") if expected == "own" else expected]


def test_what_only_python_holds_is_asked_for_again(tmp_path):
    agent = PPO(**FIELDS, surrogate=lambda ratio, advantage, clip: ratio * advantage)
    made = shoal.train(agent, "CartPole-v1", folder=tmp_path / "own", **OPTIONS, **SILENT)
    assert made.policy()(np.zeros(4)).shape == ()
    with pytest.raises(ValueError, match="with surrogate of its own, which no file can hold: give agent="):
        shoal.load(made.folder)
    with pytest.raises(ValueError, match="give agent="):
        shoal.train(resume=made.folder)
    assert shoal.load(made.folder, agent=agent)(np.zeros(4)).shape == ()
    assert shoal.train(agent, resume=made.folder, **SILENT).summary["members"] == 1


def test_a_run_is_resumed_with_exactly_what_it_was_given(tmp_path):
    agent = PPO(network=MLP((8,), "relu"), num_steps=16)
    beside = {"fields": {"num_envs": 4}, "sweep": {"learning_rate": [1e-3, 1e-4]}}
    made = shoal.train(agent, "CartPole-v1", folder=tmp_path / "r", **beside, **OPTIONS, **SILENT)
    for again in (beside, {}, {"fields": beside["fields"]}):
        assert shoal.train(agent, resume=made.folder, **again, **SILENT).summary["members"] == 2
    with pytest.raises(ValueError, match="changes \\(num_steps: 16 -> 32\\)"):
        shoal.train(agent.replace(num_steps=32), resume=made.folder, **SILENT)
    with pytest.raises(ValueError, match="changes \\(num_envs: 4 -> 8\\)"):
        shoal.train(agent.replace(num_envs=8), resume=made.folder, **SILENT)


def test_a_finished_folder_is_not_overwritten(result):
    with pytest.raises(FileExistsError, match="already holds a run"):
        shoal.train("ppo", "CartPole-v1", folder=result.folder, fields=FIELDS, **OPTIONS, **SILENT)


def test_a_folder_that_cannot_be_written_is_said_before_compiling(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PermissionError, match="cannot be written"):
        shoal.train("ppo", "CartPole-v1", folder=tmp_path / "file" / "run", fields=FIELDS, **OPTIONS, **SILENT)


def test_a_mistake_leaves_no_folder(tmp_path):
    with pytest.raises(ValueError, match="num_steps"):
        shoal.train("ppo", "CartPole-v1", fields={"num_steps": 0}, root=tmp_path / "runs", **SILENT)
    assert not (tmp_path / "runs").exists()


def test_one_place_is_enough(tmp_path):
    with pytest.raises(ValueError, match="says where the run goes: leave name and root out"):
        shoal.train("ppo", "CartPole-v1", folder=tmp_path / "x", name="y", fields=FIELDS, **OPTIONS, **SILENT)


def test_members_and_weights_are_named_or_refused(result):
    with pytest.raises(ValueError, match="which='final' is unknown. Choose 'last' or 'best'"):
        shoal.load(result.folder, which="final")
    with pytest.raises(ValueError, match="member='worst' is unknown. Give a number, or 'best'"):
        shoal.load(result.folder, "worst")
    assert result.policy(np.int64(1)).name == result.policy(1).name


def test_the_best_of_members_that_nobody_evaluated_is_not_known(tmp_path):
    options = {"fields": FIELDS, **OPTIONS, "evaluations": 0, "seeds": 2}
    made = shoal.train("ppo", "CartPole-v1", folder=tmp_path / "r", **options, **SILENT)
    with pytest.raises(ValueError, match="has not been evaluated, so no member is the best yet: give a number"):
        made.policy()
    assert made.policy(1) is not None
    (made.folder / "summary.json").unlink()
    assert "not finished" in made._repr_html_()


def test_one_pair_proves_nothing(tmp_path):
    options = {"fields": FIELDS, **OPTIONS, "seeds": 1, "seed": 3}
    folders = [shoal.train("ppo", "CartPole-v1", folder=tmp_path / x, **options, **SILENT).folder for x in "ab"]
    found = shoal.compare(*folders)
    assert found["pairs"] == 1 and found["difference"] == 0.0
    assert np.isnan([*found["difference_interval"], *found["interval"][0]]).all()


def test_runs_are_named_after_what_they_are():
    from shoal.training.folder import run_name

    assert run_name("/home/u/my_agent.py:MyAgent", "classic") == "MyAgent-classic"
    assert run_name("ppo", "MinAtar/Breakout-v1") == "ppo-MinAtar-Breakout-v1"


def test_a_foreign_checkpoint_is_refused(result, tmp_path):
    other = shoal.train(
        "ppo",
        "CartPole-v1",
        fields={**FIELDS, "hidden": (16,)},
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
        with pytest.raises(CheckpointError, match="belongs to something else: its leaves fit, but it is of a run"):
            use(copy)
    (copy / "spec.json").write_text(json.dumps(dict(reversed(json.loads(spec).items()))))
    assert shoal.load(copy, 0).name == "learning_rate=0.001 seed=0"


def flip_a_bit(folder):
    file = checkpoint.newest(folder / "checkpoints") / "learners.npz"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def drop_a_record(folder, kept=3):
    with np.load(folder / "curves.npz") as file:
        curves = {name: file[name][:kept] for name in file.files}
    np.savez(folder / "curves.npz", **curves)


@pytest.mark.parametrize(
    ("damage", "said"),
    [(flip_a_bit, "does not match the hash in its manifest"), (drop_a_record, "curves.npz has 3 records, and its run")],
)
def test_a_damaged_run_goes_on_from_the_checkpoint_before_it_and_says_so(damage, said, result, tmp_path):
    copy, listener = tmp_path / "copy", Listener()
    shutil.copytree(result.folder, copy)
    damage(copy)
    shoal.train(resume=copy, progress=False, sinks=[listener], figures=False)
    assert [text for text in listener.heard if said in text and text.endswith("Going on from the checkpoint before it")]
    assert_same_bits(copy, result.folder)
    for name, curve in shoal.load_result(copy).curves.items():
        if name != "wall_seconds":
            np.testing.assert_array_equal(curve, result.curves[name], err_msg=name)


def spoil(directory):
    (directory / "policies.npz").write_bytes(b"no arrays")


@pytest.mark.parametrize("damage", [shutil.rmtree, spoil])
def test_best_policies_that_are_lost_do_not_end_a_run(damage, result, tmp_path):
    copy, listener = tmp_path / "copy", Listener()
    shutil.copytree(result.folder, copy)
    newest = checkpoint.newest(copy / "checkpoints")
    shutil.rmtree(newest)  # one chunk is to be done again
    damage(copy / "checkpoints" / "best")
    shoal.train(resume=copy, progress=False, sinks=[listener], figures=False)
    assert [text for text in listener.heard if "best policies so far are lost" in text]
    last = checkpoint.newest(copy / "checkpoints")
    for part in ("learners.npz", "policies.npz"):
        assert (last / part).read_bytes() == (result.folder / "checkpoints" / last.name / part).read_bytes()
    assert shoal.load(copy, which="best") is not None


def test_a_run_without_an_undamaged_checkpoint_is_refused_in_words(result, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(result.folder, copy)
    drop_a_record(copy, kept=2)
    with pytest.raises(CheckpointError, match="curves.npz has 2 records, and its run's checkpoint was made after 3"):
        shoal.train(resume=copy, **SILENT)


def test_a_run_that_is_resumed_in_a_changed_world_says_so(tmp_path, monkeypatch):
    made = shoal.train(PPO(**FIELDS), Poisoned(), folder=tmp_path / "r", **OPTIONS, **SILENT)
    assert json.loads((made.folder / "provenance.json").read_text())["env_revision"] == 1
    assert checkpoint.read_about(checkpoint.newest(made.folder / "checkpoints"))["env_revision"] == 1
    monkeypatch.setattr(Poisoned, "revision", 2)
    listener = Listener()
    shoal.train(env=Poisoned(), resume=made.folder, progress=False, sinks=[listener], figures=False)
    assert [text for text in listener.heard if "is in revision 2 and was in revision 1 when this run began" in text]


# Presets.


def write_presets(tmp_path, text):
    path = tmp_path / "ppo.toml"
    path.write_text(text)
    return path


GOOD = '["CartPole-v1"]\nsteps = 1000\nevidence = "by hand"\nhidden = [8]\nnum_envs = 2\n'


def test_every_preset_binds_to_its_environment():
    for agent in AGENTS:
        for preset in presets.presets(agent).values():
            preset.build().bind(ENVS[preset.env].build(**preset.env_fields))


def test_a_named_agent_takes_its_preset_and_what_is_given_wins(tmp_path, monkeypatch):
    table = presets.read(
        write_presets(tmp_path, GOOD + 'learning_rate = 0.5\n["CartPole-v1:fast"]\nsteps = 7\nevidence = "x"\n'), "ppo"
    )
    monkeypatch.setattr(presets, "presets", lambda agent: table)
    spec = make_job("ppo", "CartPole-v1", fields={"num_envs": 8}, sweep={"learning_rate": [0.1]}).spec
    usual = describe_fields(PPO())
    rest = {name: value for name, value in usual.items() if name != "learning_rate"}  # which is swept
    assert spec.fields == {**rest, "hidden": (8,), "num_envs": 8} and spec.steps == 1000
    assert make_job("ppo", "CartPole-v1", preset="fast", steps=9).spec.steps == 9
    assert make_job("ppo", "CartPole-v1", preset="fast").spec.steps == 7
    assert make_job("ppo", "CartPole-v1", preset=None).spec.fields == usual
    assert make_job(PPO(), "CartPole-v1").spec.fields == usual  # a value is taken as it is
    with pytest.raises(ValueError, match="no preset 'fats' for CartPole-v1. Did you mean fast"):
        make_job("ppo", "CartPole-v1", preset="fats")
    assert shoal.preset("ppo", "CartPole-v1").build(num_envs=4).num_envs == 4
    with pytest.raises(ValueError, match="ppo has no preset for Pendulum-v1. It has: CartPole-v1"):
        shoal.preset("ppo", "Pendulum-v1")


def test_a_variant_may_change_the_environment_and_what_is_given_wins(tmp_path, monkeypatch):
    light = '["CartPole-v1:light"]\nsteps = 7\nevidence = "x"\nenv.gravity = 5.0\nenv.force_mag = 8\n'
    table = presets.read(write_presets(tmp_path, GOOD + light), "ppo")
    monkeypatch.setattr(presets, "presets", lambda agent: table)
    usual = describe_fields(shoal.make("CartPole-v1"))
    light = {**usual, "gravity": 5.0, "force_mag": 8}
    assert make_job("ppo", "CartPole-v1").spec.env_fields == usual
    assert make_job("ppo", "CartPole-v1", preset="light").spec.env_fields == light
    changed = make_job(
        "ppo", "CartPole-v1", preset="light", env_fields={"gravity": 1}, env_sweep={"force_mag": [5, 10]}
    )
    rest = {name: value for name, value in usual.items() if name != "force_mag"}
    assert changed.spec.env_fields == {**rest, "gravity": 1} and changed.spec.env_sweep == {"force_mag": [5, 10]}
    with pytest.raises(ValueError, match="changes the environment: only a variant may"):
        presets.read(write_presets(tmp_path, GOOD + "env.gravity = 5.0\n"), "ppo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "num_env = 3\n", "has no field 'num_env'. Did you mean num_envs"),
        (GOOD + "learning_rate = [0.1, 0.2]\n", "must be one number"),
        (GOOD.replace("1000", '"1e3"'), "needs `steps`"),
        (GOOD.replace('"by hand"', '" "'), "needs `evidence`"),
    ],
)
def test_a_preset_that_is_misspelled_is_refused(text, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        presets.read(write_presets(tmp_path, text), "ppo")


@pytest.mark.parametrize("evaluations", [0, 1])
def test_pictures_need_no_evaluation_and_a_finished_run_draws_them_again(evaluations, tmp_path):
    few = {**OPTIONS, "evaluations": evaluations, "records": 2, "seeds": 1}
    made = shoal.train(
        PPO(**FIELDS), shoal.make("CartPole-v1", max_steps=10), folder=tmp_path / "p", progress=False, **few
    )
    video = made.folder / "videos" / "best.gif"
    first = video.read_bytes()
    video.unlink()
    shoal.train(resume=made.folder, progress=False)
    assert video.read_bytes() == first


def test_ctrl_c_does_not_wait_for_the_compiler(tmp_path, monkeypatch):
    released, compiling, interrupted = threading.Event(), [], []

    def interrupt():
        interrupted.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    def compile_for_a_minute(*arguments):
        compiling.append(arguments)
        if len(compiling) == 3:  # nothing is traced any more: Ctrl-C finds the main thread waiting
            threading.Timer(1.0, interrupt).start()
        released.wait(60)

    monkeypatch.setattr(jax.stages.Lowered, "compile", compile_for_a_minute)
    try:
        with pytest.raises(KeyboardInterrupt):
            shoal.train("ppo", "CartPole-v1", folder=tmp_path / "r", fields=FIELDS, progress=False, figures=False)
        assert time.perf_counter() - interrupted[0] < 30
    finally:
        released.set()
