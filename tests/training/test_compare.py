"""`compare` pairs members that share their random numbers, and averages normalized scores over environments."""

import dataclasses
import json
import shutil

import jax
import numpy as np
import pytest

import shoal
from folders import change_curves, write_run
from shoal.cli.main import main
from shoal.ops.aggregates import AGGREGATES, estimate, paired_difference, probability_of_improvement
from shoal.specs.describe import describe
from shoal.training.comparison import env_differences, env_key
from tiny import FIELDS, OPTIONS, SILENT


@pytest.fixture(scope="module", autouse=True)
def _promotion_as_users_have_it():
    with jax.numpy_dtype_promotion("standard"):  # optax's Adam raises a float to an integer power
        yield


def test_comparing_a_run_with_its_copy_finds_no_difference(result, tmp_path):
    found = shoal.compare(result.folder, shutil.copytree(result.folder, tmp_path / "copy")).against(0, 1)
    assert found.pairs == 4 and found.difference.value == 0 and found.probability.value == 0.5


@pytest.mark.parametrize("change", [{"seed": 1}, {"prng": "threefry2x32"}])
def test_only_members_that_share_their_random_numbers_are_paired(change, result, tmp_path):
    other = shutil.copytree(result.folder, tmp_path / "other")
    spec = {**json.loads((other / "spec.json").read_text()), **change}
    (other / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(ValueError, match="belongs to something else: it is of a run with another spec.json"):
        shoal.compare(result.folder, other)
    shutil.rmtree(other / "checkpoints")
    found = shoal.compare(result.folder, other)
    against = found.against(0, 1)
    assert against.pairs == 0 and against.difference is None
    assert [len(group.cells[0].names) for group in found.groups] == [4, 4]


def test_members_without_a_score_are_counted_and_left_out(result, tmp_path, capsys):
    other = shutil.copytree(result.folder, tmp_path / "other")
    curves = {**result.curves, "eval_return": result.curves["eval_return"].copy()}
    curves["eval_return"][:, 2] = -np.inf
    np.savez(other / "curves.npz", **curves)
    found = shoal.compare(result.folder, other)
    assert [(len(group.cells[0].names), group.dropped) for group in found.groups] == [(4, 0), (3, 1)]
    assert found.against(0, 1).pairs == 3
    assert main(["compare", str(result.folder), str(other)]) == 0
    assert "\n1 member of B left out: no finite score\n" in capsys.readouterr().out
    curves["eval_return"][:] = -np.inf
    np.savez(other / "curves.npz", **curves)
    with pytest.raises(ValueError, match="has no finite score to compare"):
        shoal.compare(result.folder, other)


def test_a_run_that_stopped_before_its_first_evaluation_is_said_to_be_unfinished(result, tmp_path):
    other = shutil.copytree(result.folder, tmp_path / "other")
    np.savez(other / "curves.npz", **{**result.curves, "eval_return": result.curves["eval_return"] * np.nan})
    with pytest.raises(ValueError, match="no evaluation to compare: train with --evaluations 1 or more"):
        shoal.compare(result.folder, other)
    (other / "summary.json").unlink()
    with pytest.raises(ValueError, match=r"did not finish \(256 of 256 steps\)\. Continue it with .* --resume"):
        shoal.compare(result.folder, other)


def test_unfinished_runs_and_different_environments_are_noted(result, tmp_path, capsys):
    other = shutil.copytree(result.folder, tmp_path / "other")
    assert shoal.compare(result.folder, other).notes == ()
    (other / "summary.json").unlink()
    shutil.rmtree(other / "checkpoints")  # they are of the spec before
    spec = json.loads((other / "spec.json").read_text())
    spec["env_fields"]["gravity"], spec["steps"] = 5.0, 2 * spec["steps"]
    (other / "spec.json").write_text(json.dumps(spec))
    assert main(["compare", str(result.folder), str(other)]) == 0
    notes = capsys.readouterr().out.splitlines()[-2:]
    assert notes == [
        "note: B is not finished: 256 of 512 steps",
        "note: the environments differ: env.gravity=9.8 in A, 5.0 in B",
    ]
    spec["env"] = "Acrobot-v1"
    (other / "spec.json").write_text(json.dumps(spec))
    assert "the environments differ: CartPole-v1 in A, Acrobot-v1 in B" in shoal.compare(result.folder, other).notes


def test_the_headline_of_a_sweep_is_that_of_its_best_setting(result):
    best = max(result.summary["settings"], key=lambda s: s["mean"])
    ((path, value),) = best["setting"].items()
    assert f"mean return {best['mean']:.4g} with the best of 2 settings, " in result.headline()
    assert f"{value}" in result.headline() and path in result.headline() and "4 members" in result.headline()


def test_comparisons_in_both_directions_are_mirror_images_and_few_pairs_have_no_interval(result, tmp_path, capsys):
    curves = {**result.curves, "eval_return": result.curves["eval_return"].copy()}
    curves["eval_return"][-1] += [0.5, -1.0, 3.0, 0.25]
    other = shutil.copytree(result.folder, tmp_path / "other")
    np.savez(other / "curves.npz", **curves)
    there, back = shoal.compare(result.folder, other), shoal.compare(other, result.folder)
    found, turned = there.against(0, 1), back.against(0, 1)
    assert found.pairs == 4 and found.difference.value == -turned.difference.value == pytest.approx(-2.75 / 4)
    assert np.isnan([*found.difference[1:], *there.returns(0, 0)[1:], *back.returns(1, 0)[1:]]).all()
    assert main(["compare", str(result.folder), str(other)]) == 0
    said = capsys.readouterr().out
    assert "= -0.6875 over 4 pairs" in said and "too few pairs to decide: an interval needs 6" in said


def test_one_pair_has_no_interval(tmp_path):
    options = {"fields": FIELDS, **OPTIONS, "seeds": 1, "seed": 3}
    folders = [shoal.train("ppo", "CartPole-v1", folder=tmp_path / x, **options, **SILENT).folder for x in "ab"]
    found = shoal.compare(*folders)
    against = found.against(0, 1)
    assert against.pairs == 1 and against.difference.value == 0.0
    assert np.isnan([*against.difference[1:], *found.returns(0, 0)[1:]]).all()


ENVS = {"Acrobot-v1": (-498.6676, -100.0), "CartPole-v1": (22.1788, 500.0), "Mine": (0.0, 10.0)}  # as compared


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Runs of two agents in three environments, one of them of a file, with eight seeds; their normalized scores."""
    root, random = tmp_path_factory.mktemp("many"), np.random.default_rng(0)
    reference = root / "mine.toml"
    reference.write_text('["Mine"]\nrandom = 0\ntarget = 10\n')
    folders, scores = [], {}
    for agent in ("ppo", "dqn"):
        scores[agent] = [random.normal(0.5, 0.3, 8) for _ in ENVS]
        for (env, (low, high)), score in zip(ENVS.items(), scores[agent], strict=True):
            name = "mine.py:Mine" if env == "Mine" else env
            folders.append(write_run(root / f"{agent}-{env}", low + (high - low) * score, agent=agent, env=name))
    return folders, scores, reference


def test_scores_are_normalized_in_each_environment_and_aggregated(many):
    folders, scores, reference = many
    found = shoal.compare(folders, reference=reference)
    assert [env.name for env in found.environments] == [*ENVS] and found.notes == ()
    assert [group.name for group in found.groups] == ["ppo", "dqn"] and not found.are_runs
    for g, group in enumerate(found.groups):
        for name, statistic in AGGREGATES.items():
            expected = estimate(statistic, [np.sort(values) for values in scores[group.name]])
            np.testing.assert_allclose(found.aggregates[g][name], expected, rtol=1e-9)
        expected = [(values[:, None] > found.profiles[0]).mean(axis=0) for values in scores[group.name]]
        np.testing.assert_allclose(found.profiles[1][g].value, np.mean(expected, axis=0), atol=1e-9)
    against = found.against(0, 1)
    np.testing.assert_allclose(against.difference, paired_difference(*scores.values()), rtol=1e-9)
    chance = probability_of_improvement(*scores.values(), paired=True)
    assert against.pairs == 8 and against.probability == pytest.approx(chance)


def test_the_last_point_of_sample_efficiency_is_the_iqm_of_the_last_returns(many):
    folders, scores, reference = many
    for group, found in zip(("ppo", "dqn"), shoal.compare(folders, reference=reference).efficiency, strict=True):
        expected = estimate(AGGREGATES["IQM"], scores[group])  # as `write_run` makes them
        assert [each[-1] for each in found] == pytest.approx(expected, rel=1e-9)
        assert np.isnan(found.value[0]) and np.isfinite(found.value[-1])  # before the first record, and at the end


def test_a_comparison_in_the_other_order_is_the_mirror_image_to_the_last_digit(many):
    folders, _, reference = many
    there = shoal.compare(folders, reference=reference)
    back = shoal.compare(folders[:2:-1] + folders[2::-1], reference=reference)  # other agents and environments first
    assert [group.name for group in back.groups] == ["dqn", "ppo"] and back.aggregates == there.aggregates[::-1]
    for one, other in ((there.against(0, 1), back.against(0, 1)), (there.against(0, 1), there.against(1, 0))):
        assert other.difference == (-one.difference.value, -one.difference.high, -one.difference.low)
        assert other.probability == tuple(1 - one.probability[i] for i in (0, 2, 1))


def test_labels_and_hyperparameters_say_what_is_compared(many, tmp_path):
    folders, _, _ = many
    labels = {"mine": folders[:3], "theirs": folders[3:]}
    found = shoal.compare(label=labels, reference="range")
    assert [group.name for group in found.groups] == ["mine", "theirs"]
    assert [group.runs for group in found.groups] == [tuple(map(str, runs)) for runs in labels.values()]
    sweep = {"sweep": {"learning_rate": [0.1, 0.01]}, "env_sweep": {"gravity": [5.0, 9.8]}}
    scores = np.arange(32.0).reshape(4, 8)
    one = write_run(tmp_path / "one", scores, **sweep)
    two = write_run(tmp_path / "two", -scores, **sweep, seed=1)
    found = shoal.compare(one, two, group="learning-rate")
    assert [group.name for group in found.groups] == ["learning_rate=0.1", "learning_rate=0.01"]
    assert [env.name for env in found.environments] == ["CartPole-v1 gravity=5.0", "CartPole-v1 gravity=9.8"]
    assert found.against(0, 1).pairs == 16
    np.testing.assert_array_equal(found.groups[1].cells[0].scores, [*scores[2], *-scores[2]])
    by_env = shoal.compare(one, two, group="env.gravity")
    assert len(by_env.environments) == 1 and by_env.groups[1].name == "env.gravity=9.8"


def test_one_group_has_its_score_over_all_environments(many):
    folders, _, reference = many
    found = shoal.compare(folders[:3], reference=reference)
    assert [group.name for group in found.groups] == ["ppo"] and len(found.environments) == 3
    assert found.aggregates[0] == shoal.compare(folders, reference=reference).aggregates[0]


def test_without_a_reference_scores_are_normalized_to_their_range(many):
    folders, scores, _ = many
    found = shoal.compare(folders)
    mine = found.environments[2].reference
    known = 10 * np.concatenate([scores["ppo"][2], scores["dqn"][2]])
    assert (mine.low, mine.high) == pytest.approx((known.min(), known.max()))
    assert mine.about.startswith("the lowest and the highest score of these runs")
    assert found.environments[1].reference.about == "random play 22.1788, the largest return 500"
    assert "the lowest" in shoal.compare(folders, reference="range").environments[0].reference.about


def test_unequal_seeds_and_steps_are_compared_and_said(many, tmp_path):
    folders, _, _ = many
    few = write_run(tmp_path / "few", [1.0, 2, 3, 4, 5, 6], agent="pqn", env="Acrobot-v1", steps=3000, records=3)
    more = write_run(tmp_path / "more", [1.0, 2, 3, 4, 5, 6, 7], agent="sac", records=3)
    found = shoal.compare(few, folders[0], folders[3])
    assert found.are_runs and [len(group.cells[0].names) for group in found.groups] == [6, 8, 8]
    assert found.against(0, 1).pairs == 6 and np.isfinite(found.against(0, 1).probability.low)
    assert any("have 3,000 to 6,000 steps: curves end at 3,000" in note for note in found.notes)
    assert found.environments[0].steps[-1] == 3000
    both = shoal.compare(label={"new": [few, more], "ppo": folders[:2]})  # 6 and 7 seeds of one group
    assert np.isfinite([each.low for each in both.aggregates[0].values()]).all()


def test_mistakes_are_said_in_words(many, tmp_path):
    folders, _, _ = many
    same = write_run(tmp_path / "same", np.zeros(8), fields={"learning_rate": 0.5})
    evolved = write_run(tmp_path / "e", [1.0], selector={"class": "shoal.population.evolve:Evolve", "fields": {}})

    def refused(match, *runs, error=ValueError, **how):
        with pytest.raises(error, match=match):
            shoal.compare(*runs, **how)

    refused("is not a run folder", folders[0], tmp_path / "none", error=FileNotFoundError)
    refused("is given twice", folders[0], folders[1], folders[0])
    refused("is given twice", folders[0], folders[0].parent / "x" / ".." / folders[0].name)
    refused("compare needs a second run folder, or --group", folders[0])
    refused("there is only one group, ppo, in one environment", folders[0], group="agent")
    refused("compare needs run folders")
    refused("e is an evolution", folders[0], evolved)
    refused("metric='first' is unknown", *folders, metric="first")
    refused("dqn has no run in CartPole-v1, which the others have", folders[0], folders[1], folders[3])
    refused(r"are both ppo in CartPole-v1 .* differ in learning_rate: .* --group", *folders, same)
    refused("has no hyperparameter 'learning_rat'.* Did you mean learning_rate", same, *folders, group="learning_rat")
    refused("group and label both", *folders, group="agent", label={"a": folders})
    refused("the label 'a' names no run", *folders, label={"a": []})
    refused("has two labels, a and b", label={"a": folders, "b": folders[:1]})
    refused("dqn-Mine has no label", *folders, label={"a": folders[:3], "b": folders[3:5]})
    refused("is not a run folder", label={"a": folders[:1], "b": [tmp_path / "none"]}, error=FileNotFoundError)
    refused("does not exist", *folders, reference=tmp_path / "none.toml", error=FileNotFoundError)
    (tmp_path / "near.toml").write_text('["Min"]\nrandom = 0\ntarget = 1\n')
    found = shoal.compare(folders, reference=tmp_path / "near.toml")
    assert found.environments[2].reference.about.endswith("Did you mean Min?")


def test_a_group_without_a_finite_score_in_an_environment_is_refused(tmp_path):
    bad = write_run(tmp_path / "bad", [[0.0] * 4, [1.0] * 4], sweep={"gamma": [0.5, 0.9]})
    change_curves(bad, eval_return=lambda values: values[:, :4].fill(np.inf))
    good = write_run(tmp_path / "good", np.zeros(4), fields={"gamma": 0.9}, seed=3)
    with pytest.raises(ValueError, match="gamma=0.5 has no finite score in CartPole-v1"):
        shoal.compare(bad, good, group="gamma")


def test_a_policy_of_the_zoo_has_the_usual_environment():
    ours = shoal.load_result("zoo:ppo/CartPole-v1").spec
    usual = dataclasses.replace(ours, env_fields=dict(describe(shoal.make("CartPole-v1")).fields))
    assert not ours.env_fields and env_differences(ours, usual) == {} and env_key(ours) == env_key(usual)
    light = dataclasses.replace(ours, env_fields={"gravity": 5.0})
    assert env_differences(ours, light) == {"env.gravity": (9.8, 5.0)} and env_key(ours) != env_key(light)
    file = dataclasses.replace(ours, env="e.py:One", env_fields={"size": 3})
    assert env_key(file)[1] == (("env.size", "3"),)  # its code is not run
