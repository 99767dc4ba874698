"""The contestants of a race: names, jobs, scores, and what is refused."""

import numpy as np
import pytest

import shoal
from shoal.studies.contestants import make_contestants, notes_of

ENV = "FrozenLake-v1"


def names(*given, env=ENV, **options):
    return [contestant.name for contestant in make_contestants(given, env, options)]


def test_names_say_what_is_special():
    assert names("q-learning", "sarsa") == ["q-learning", "sarsa"]
    changed = {"agent": "q-learning", "fields": {"learning_rate": 0.5, "epsilon_end": 0.2}}
    assert names("q-learning", changed)[1] == "q-learning learning_rate=0.5 epsilon_end=0.2"
    assert names("sarsa", {"agent": "sarsa", "seed": 4, "name": "other"})[1] == "other"
    assert names(shoal.PPO(), shoal.PPO(hidden=(8, 8)), env="CartPole-v1") == ["ppo", "ppo hidden=(8,8)"]


def test_preset_files_name_agent_and_environment(tmp_path):
    for name, rate in (("one", 0.1), ("two", 0.2)):
        (tmp_path / f"{name}.toml").write_text(f'["{ENV}"]\nagent = "sarsa"\nlearning_rate = {rate}\nsteps = 5_000\n')
    one, two = make_contestants([tmp_path / "one.toml", str(tmp_path / "two.toml")], None, {})
    assert (one.name, two.name) == ("one.toml", "two.toml")
    assert one.job.spec.env == ENV and one.job.spec.fields["learning_rate"] == 0.1 and two.job.spec.steps == 5_000
    (tmp_path / "other.toml").write_text('["Taxi-v4"]\nagent = "sarsa"\n')
    with pytest.raises(
        ValueError, match=r"one.toml is on FrozenLake-v1 and other.toml on Taxi-v4, whose scores cannot"
    ):
        make_contestants([tmp_path / "one.toml", tmp_path / "other.toml"], None, {})


def test_seeds_are_members_of_one_run_or_populations_of_several():
    one, several = make_contestants(
        ["sarsa", {"agent": "sarsa", "selector": "random", "seeds": 3}], ENV, {"seed": 7, "steps": 1_000}
    )
    (job,) = one.jobs(8, 16).values()
    assert [*one.jobs(8, 16)] == ["sarsa/seeds-8-15"]
    assert (job.spec.seed, job.spec.first_seed, job.spec.seeds) == (7, 8, 8)
    jobs = several.jobs(8, 10)
    assert [*jobs] == ["sarsa,seeds=3,selector=random/seed-8", "sarsa,seeds=3,selector=random/seed-9"]
    assert [(job.spec.seed, job.spec.first_seed, job.spec.seeds) for job in jobs.values()] == [(15, 0, 3), (16, 0, 3)]


CURVES = {  # of three members, with four records
    "env_steps": np.array([10, 20, 30, 40]),
    "eval_return": np.array([[0, 0, np.nan], [np.nan] * 3, [5, 1, np.nan], [2, 3, np.nan]]),
    "train_return": np.array([[1.0, 2, 3], [3, 4, np.nan], [5, 6, 7], [7, 8, 9]]),
}


def test_scores_by_hand():
    one, several = make_contestants(["sarsa", {"agent": "sarsa", "selector": "random", "seeds": 3}], ENV, {})
    np.testing.assert_array_equal(one.scores(CURVES, "last", 40), [2, 3, np.nan])
    np.testing.assert_array_equal(one.scores(CURVES, "whole", 40), [4, 5, 19 / 3])
    np.testing.assert_array_equal(one.scores(CURVES, "reach:4", 40), [-30, -40, np.nan])  # the second never reaches 4
    np.testing.assert_array_equal(several.scores(CURVES, "last", 40), [3])
    np.testing.assert_array_equal(several.scores(CURVES, "reach:1", 40), [-30])
    np.testing.assert_allclose(several.scores(CURVES, "whole", 40), [(4 + 5 + 19 / 3) / 3])


def test_a_mistake_of_a_contestant_names_it():
    for wrong, name in (
        ({"agent": "sarsa", "fields": {"learning_rate": 2.0}}, r"\{'agent': 'sarsa', 'fields': .*: QTable"),
        ({"agent": "sarsa", "steps": 0, "name": "short"}, "'short': steps=0"),
    ):
        with pytest.raises(ValueError, match=f"^the contestant {name}"):
            make_contestants(["sarsa", wrong], ENV, {})
    with pytest.raises(ValueError, match="^steps=0 must be"):
        make_contestants(["sarsa", "q-learning"], ENV, {"steps": 0})


def test_different_lengths_are_told():
    found = make_contestants(["sarsa", {"agent": "sarsa", "steps": 100}], ENV, {"steps": 200})
    assert notes_of(found) == [
        "the contestants are trained for different numbers of steps: sarsa 200, sarsa steps=100 100 (--steps sets one "
        "for all)"
    ]
    assert notes_of(make_contestants(["sarsa", "q-learning"], ENV, {"steps": 200})) == []
