"""What an evolution has found compared with its start: numbers by hand, few seeds, and runs without a score."""

import numpy as np
import pytest

from folders import write_run
from shoal.training.transfer import cells_of, references_of, transfer_rows


def test_few_seeds_have_no_interval_and_no_episode_no_score():
    few = {"value": 0.5, "low": None, "high": None}
    row = {"env": "A", "held_out": True, "seeds": 2, "start": few, "found": few, "difference": few, "about": "x"}
    none = {"env": "B", "held_out": False, "seeds": 0, "about": "no episode has ended"}
    assert [*cells_of([row, none])] == [
        ["A", "held out", 2, "0.500", "0.500", "0.500"],
        ["B", "trained", 0, "no score", "no score", "no score"],
    ]
    assert references_of([row, none])[1] == "B: no episode has ended"


@pytest.fixture
def folders(tmp_path):
    """Two environments that the evolution trained in, with three and two seeds, and one that was held out."""
    scores = {
        ("CartPole-v1", "start"): [100, 200, np.nan],
        ("CartPole-v1", "found"): [200, 400, 300],
        ("Acrobot-v1", "start"): [-498.6676, -498.6676],
        ("Acrobot-v1", "found"): [-100, -498.6676],
        ("MyEnv", "start"): [0, 10, 20, 30, 40, 50],  # no reference: normalized by 0 and 100
        ("MyEnv", "found"): [50, 60, 70, 80, 90, 100],
    }
    return {key: write_run(tmp_path / "-".join(key), own, env=key[0]) for key, own in scores.items()}


def test_rows_have_normalized_means_of_pairs_by_hand(folders):
    cartpole, acrobot, mine, mean = transfer_rows(folders, ["CartPole-v1", "Acrobot-v1"], "last")
    # Random play 22.1788, the largest return 500. The third seed has no score with the values of the start.
    span = 500 - 22.1788
    assert cartpole["seeds"] == 2 and acrobot["seeds"] == 2 and mine["seeds"] == 6
    assert cartpole["start"]["value"] == pytest.approx((150 - 22.1788) / span)
    assert cartpole["found"]["value"] == pytest.approx((300 - 22.1788) / span)
    assert cartpole["difference"]["value"] == pytest.approx(150 / span)
    assert np.isnan(cartpole["difference"]["low"])
    assert acrobot["difference"]["value"] == pytest.approx(0.5)
    assert (mine["start"]["value"], mine["found"]["value"]) == pytest.approx((0.25, 0.75))
    assert [*mine["difference"].values()] == pytest.approx([0.5, 0.5, 0.5])  # the same in each pair
    assert mine["about"] == "the lowest and the highest score of these runs, 0 and 100"
    assert [row["held_out"] for row in (cartpole, acrobot, mine, mean)] == [False, False, True, False]
    assert mean["difference"]["value"] == pytest.approx((150 / span + 0.5) / 2)
    assert (mean["env"], mean["about"], mean["seeds"]) == ("", "mean over 2 environments", 2)


def test_an_environment_without_a_score_has_a_reason(folders, tmp_path):
    folders["Acrobot-v1", "found"] = write_run(tmp_path / "none", [np.nan, np.nan], env="Acrobot-v1")
    rows = transfer_rows(folders, ["CartPole-v1", "Acrobot-v1"], "last")
    assert [row["env"] for row in rows] == ["CartPole-v1", "Acrobot-v1", "MyEnv"]  # one has no mean of its own
    assert rows[1]["seeds"] == 0 and "has no evaluation to compare" in rows[1]["about"]
    assert [*cells_of(rows)][1] == ["Acrobot-v1", "trained", 0, "no score", "no score", "no score"]
