"""Runs whose hyperparameters have schedules: in one program, resumed, in specs, presets and selectors."""

import json
import tomllib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shoal
from commands import say
from listeners import Interrupt
from shoal import PPO, load_result
from shoal.core.schedules import Scheduled
from shoal.population.pbt import PBT
from shoal.specs.changes import changes_in_words
from shoal.specs.roster import first_roster
from shoal.specs.selector import Standing
from shoal.specs.settings import AgentEnv
from shoal.studies.search import read_space
from shoal.training import checkpoint
from shoal.training.export_config import export_config
from shoal.training.jobs import make_job
from shoal.training.stopping import Stopped
from tiny import FIELDS, FLAGS, OPTIONS, SILENT

COSINE = "cosine(0.01, 0.001, warmup=0.25)"
LINEAR = "linear(0.02, 0.0)"
RUN = {"agent": "ppo", "env": "CartPole-v1", "preset": None, **OPTIONS, **SILENT}


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):
        yield


def train(folder, **changes):
    return shoal.train(**{**RUN, "folder": folder, **changes})


def learners(folder):
    with np.load(checkpoint.newest(folder / "checkpoints") / "learners.npz") as file:
        return dict(file)


def assert_same_bits(left, right):
    left, right = learners(left), learners(right)
    assert left.keys() == right.keys() and len(left) > 4
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)


def count_compilations(monkeypatch):
    found, compile_it = [], jax.stages.Lowered.compile

    def counted(lowered, *arguments, **options):
        found.append(lowered)
        return compile_it(lowered, *arguments, **options)

    monkeypatch.setattr(jax.stages.Lowered, "compile", counted)
    return found


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Three members: two with schedules, one with a number."""
    values = [COSINE, LINEAR, 0.005]
    return train(tmp_path_factory.mktemp("swept") / "r", fields=FIELDS, sweep={"learning_rate": values})


def test_members_with_different_schedules_share_one_program(tmp_path, monkeypatch):
    programs = count_compilations(monkeypatch)
    both = train(tmp_path / "both", fields=FIELDS, sweep={"learning_rate": [COSINE, LINEAR]})
    assert len(programs) == 3  # that begin, train and evaluate
    assert [setting["learning_rate"] for setting in both.settings] == [COSINE, LINEAR]


@pytest.mark.parametrize(("row", "value"), [(0, COSINE), (1, LINEAR), (2, 0.005)])
def test_a_member_of_a_sweep_over_schedules_is_the_one_of_a_run_alone(row, value, swept, tmp_path):
    alone = train(tmp_path / "alone", fields={**FIELDS, "learning_rate": value})
    found, expected = (run.curves["policy_loss"][:, m] for run, m in ((swept, row), (alone, 0)))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    assert swept.spec.sweep["learning_rate"] == [COSINE, LINEAR, 0.005]


def test_a_schedule_that_is_a_straight_line_to_0_is_anneal(tmp_path):
    line = train(tmp_path / "line", fields={**FIELDS, "learning_rate": "linear(0.01, 0)"})
    anneal = train(tmp_path / "anneal", fields={**FIELDS, "learning_rate": 0.01, "anneal": 1.0})
    for name in ("policy_loss", "value_loss"):
        np.testing.assert_allclose(line.curves[name], anneal.curves[name], rtol=1e-3, atol=1e-6)
    constant = train(tmp_path / "constant", fields={**FIELDS, "learning_rate": "constant(0.01)"})
    number = train(tmp_path / "number", fields={**FIELDS, "learning_rate": 0.01, "anneal": 0.0})
    np.testing.assert_allclose(constant.curves["value_loss"], number.curves["value_loss"], rtol=1e-3, atol=1e-6)
    assert np.abs(line.curves["value_loss"] - constant.curves["value_loss"]).max() > 1e-3


@pytest.mark.parametrize("options", [{}, {"selector": PBT(vary={"learning_rate": (1e-4, 0.1, "log")}), "seeds": 4}])
def test_a_stopped_run_with_a_schedule_resumes_bit_for_bit(options, tmp_path):
    again = {**options, "fields": {**FIELDS, "learning_rate": COSINE, "clip": "steps(0.3, 0.1 @ 0.6)"}}
    whole = train(tmp_path / "whole", **again)
    with pytest.raises(Stopped):
        train(tmp_path / "r", sinks=[Interrupt(after=2)], **again)
    resumed = shoal.train(resume=tmp_path / "r", **SILENT)
    assert_same_bits(whole.folder, resumed.folder)


def test_a_schedule_follows_all_steps_of_an_extended_run(tmp_path, capsys):
    train(tmp_path / "r", fields={**FIELDS, "learning_rate": LINEAR}, steps=128)
    longer = shoal.train(resume=tmp_path / "r", steps=256, figures=False)
    assert "the schedule of learning_rate" in capsys.readouterr().err
    assert longer.spec.fields["learning_rate"] == LINEAR


def test_an_agent_without_a_horizon_of_its_own_follows_the_run(tmp_path):
    fields = {"num_envs": 2, "num_steps": 8, "buffer_size": 64.0, "exploration_noise": "linear(0.2, 0)"}
    job = make_job("td3", "Pendulum-v1", preset=None, steps=256, fields=fields)
    agent, _ = job.plan().batched()
    assert agent.exploration_noise.horizon.tolist() == [256.0]
    one = jax.tree.map(lambda x: x[0], agent)
    np.testing.assert_allclose(one.at(jnp.int32(8)).exploration_noise, 0.1)  # 8 updates of 16 steps
    assert one.at(None).exploration_noise == 0


def test_the_spec_holds_the_text_and_makes_the_same_run_again(swept, tmp_path):
    data = json.loads((swept.folder / "spec.json").read_text())
    assert data["sweep"]["learning_rate"] == [COSINE, LINEAR, 0.005]
    value = PPO(learning_rate="cosine(1e-2,1e-3,warmup=.25)", **FIELDS)
    one = shoal.train(value, "CartPole-v1", folder=tmp_path / "one", **OPTIONS, **SILENT)
    assert json.loads((one.folder / "spec.json").read_text())["fields"]["learning_rate"] == COSINE
    shoal.train(resume=one.folder, agent=value, env="CartPole-v1", **SILENT)  # the same, so it is accepted
    with pytest.raises(ValueError, match="learning_rate: cosine.* -> constant"):
        shoal.train(resume=one.folder, fields={"learning_rate": "constant(0.1)"}, **SILENT)
    assert one.policy(0).actor.learning_rate.kind.shape == ()
    one.policy(0)(np.zeros(4, np.float32))


def test_a_preset_file_holds_a_schedule_and_export_config_writes_one(tmp_path):
    lines = ['["CartPole-v1"]', 'agent = "ppo"', "steps = 128", "num_envs = 4", "num_steps = 16", "hidden = [8]"]
    text = "\n".join([*lines, f'learning_rate = "{COSINE}"'])
    (tmp_path / "mine.toml").write_text(text)
    assert make_job(None, None, preset=tmp_path / "mine.toml").spec.fields["learning_rate"] == COSINE
    run = shoal.train(preset=tmp_path / "mine.toml", folder=tmp_path / "r", evaluations=1, eval_episodes=2, **SILENT)
    assert tomllib.loads(export_config(run.folder))["CartPole-v1"]["learning_rate"] == COSINE
    (tmp_path / "bad.toml").write_text(text.replace("cosine", "cosin"))
    with pytest.raises(ValueError, match="Did you mean cosine"):
        make_job(None, None, preset=tmp_path / "bad.toml")


def test_the_command_line_takes_schedules_alone_and_in_a_list(tmp_path, capsys):
    words = ["train", "ppo", "CartPole-v1", *FLAGS, "--no-figures", "--root", tmp_path, "--name", "r"]
    words += ["--learning-rate", f"{COSINE}, 1e-3,linear(1e-3,0)", "--clip", "linear(.3,.1)"]
    status, out, err = say(capsys, *words)
    assert not status, err
    assert "cosine(0.01, 0.001, warmup=0.25)" in out
    found = load_result(tmp_path / "r")
    assert [s["learning_rate"] for s in found.settings] == [COSINE, 0.001, "linear(0.001, 0.0)"]
    assert found.spec.fields["clip"] == "linear(0.3, 0.1)"
    assert "clip=linear(0.3, 0.1)" in changes_in_words(found.spec)
    status, _, err = say(capsys, "train", "--resume", tmp_path / "r", "--clip", "0.1")
    assert status and "clip: linear(0.3, 0.1) -> 0.1" in err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--learning-rate", "cosin(1e-3,0)"], "Did you mean cosine"),
        (["--num-epochs", "linear(4,8)"], "shapes the program"),
        (["--env.gravity", "linear(4,8)"], "only hyperparameters of agents"),
        (["--learning-rate", "linear(1e-3,2)"], "is 2 at progress 1"),
        (["--learning-rate", "linear(1e-3,0)", "--anneal", "0.5"], "replaces anneal: leave anneal out"),
    ],
)
def test_the_command_line_refuses_in_words(flags, words, tmp_path, capsys):
    status, _, err = say(capsys, "train", "ppo", "CartPole-v1", *FLAGS, "--root", tmp_path, *flags)
    assert status and words in err and "Traceback" not in err


def test_a_schedule_replaces_the_anneal_of_a_preset(tmp_path):
    job = make_job("a2c", "CartPole-v1", fields={"learning_rate": LINEAR})
    now = job.plan().batched().agent
    assert float(jax.tree.map(lambda x: x[0], now).at(jnp.int32(0)).anneal) == 0


def test_pbt_scales_schedules_and_keeps_their_shape():
    texts = ["cosine(0.01, 0.001)", "linear(0.02, 0)", "cosine(0.01, 0.001)", "linear(0.02, 0)"]
    rows = [jax.tree.map(np.asarray, Scheduled.of(text)) for text in texts]
    roster = first_roster({"learning_rate": jax.tree.map(lambda *xs: np.stack(xs), *rows)}, np.arange(4))
    score = np.asarray([3.0, 2.0, 1.0, 0.0])
    standing = Standing(0, 1, roster, np.ones(4, int), score, np.ones(4, bool))
    selector = PBT(vary={"learning_rate": (1e-5, 0.1, "log")}, quantile=0.5, first_given=("learning_rate",))
    state, _ = selector.begin(roster, shoal.make_key(0))
    _, turnover = selector.select(state, standing, shoal.make_key(1))
    new, source = turnover.hyperparameters["learning_rate"], turnover.source
    assert {*source[2:]} <= {0, 1} and source[:2].tolist() == [0, 1]
    for slot in (0, 1):
        np.testing.assert_array_equal(new.levels[slot], rows[slot].levels)
    for slot in (2, 3):
        original = rows[source[slot]]
        factor = new.levels[slot][0] / original.levels[0]
        assert factor == pytest.approx(1.25) or factor == pytest.approx(0.8)
        np.testing.assert_allclose(new.levels[slot], original.levels * factor)
        assert new.kind[slot] == original.kind


def test_pbt_copies_scaled_schedules_between_members_of_a_run(tmp_path):
    selector = PBT(vary={"learning_rate": (1e-4, 0.1, "log")}, quantile=0.5)
    run = train(tmp_path / "r", fields={**FIELDS, "learning_rate": COSINE}, selector=selector, seeds=4)
    peaks = run.curves["learning_rate"]
    assert (peaks[0] == np.float32(0.01)).all() and len(np.unique(peaks)) > 1
    text = tomllib.loads(export_config(run.folder))["CartPole-v1"]["learning_rate"]
    schedule = Scheduled.of(text)
    assert float(schedule.levels[1] / schedule.levels[0]) == pytest.approx(0.1) and "warmup=0.25" in text
    assert schedule.peak in peaks[-1].astype(float) or np.isclose(peaks[-1], schedule.peak).any()


def test_a_new_member_of_a_selector_gets_a_scaled_schedule(tmp_path):
    preset = tmp_path / "mine.toml"
    preset.write_text(f'["CartPole-v1"]\nagent = "ppo"\nsteps = 128\nlearning_rate = "{COSINE}"\n')
    job = make_job(None, None, preset=preset, fields=FIELDS, selector="random", seeds=3, records=40)
    plan = job.plan()
    _, changes = plan.selector.begin(plan.roster, shoal.make_key(0))
    schedule = changes["learning_rate"]
    np.testing.assert_allclose(schedule.levels[:, 1], schedule.levels[:, 0] * 0.1, rtol=1e-6)
    assert len({*schedule.levels[:, 0]}) == 3


def test_a_search_over_a_schedule_is_refused_in_words(tmp_path):
    with pytest.raises(ValueError, match="is searched, and has a value too"):
        search, fields = {"learning_rate": (1e-4, 1e-2)}, {"learning_rate": COSINE}
        shoal.tune("ppo", "CartPole-v1", search=search, fields=fields, trials=2, root=tmp_path)
    pair = AgentEnv(PPO(learning_rate=COSINE), shoal.make("CartPole-v1"))
    with pytest.raises(ValueError, match="has the schedule cosine.*, and a search chooses numbers"):
        read_space(pair, {"learning_rate": (1e-4, 1e-2)})
    assert "learning_rate" not in read_space(pair, None).distributions
