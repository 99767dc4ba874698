"""Every id of bsuite's sweep: its settings, and the environment that bsuite's own loader builds."""

import numpy as np
import pytest
from bsuite import bsuite, sweep

from shoal.core.registry import ENVS, make
from shoal.envs.bsuite.experiments import EXPERIMENTS

# Attributes of bsuite's environments (the innermost, or the wrapper) and our fields.
SAME = {
    "_rows": "rows",
    "_columns": "columns",
    "_size": "size",
    "_deterministic": "deterministic",
    "_unscaled_move_cost": "unscaled_move_cost",
    "_action_mapping": "right",
    "_memory_length": "memory_length",
    "_num_bits": "num_bits",
    "_chain_length": "chain_length",
    "_n_distractor": "n_distractor",
    "_noise_scale": "noise_scale",
    "_reward_scale": "reward_scale",
    "_height_threshold": "height_threshold",
    "_x_threshold": "x_threshold",
    "_x_reward_threshold": "x_reward_threshold",
    "_theta_dot_threshold": "theta_dot_threshold",
    "_move_cost": "move_cost",
    "_timescale": "timescale",
    "_max_time": "max_time",
    "_max_steps": "episode_steps",
}


def test_the_ids_are_bsuites():
    assert {name.removeprefix("bsuite/") for name in ENVS if name.startswith("bsuite/")} == set(sweep.SWEEP)
    assert len(sweep.SWEEP) == 468


def test_settings_episodes_and_tags_are_bsuites():
    for name, experiment in EXPERIMENTS.items():
        for index, setting in enumerate(experiment.settings):
            theirs = {key: value for key, value in sweep.SETTINGS[f"{name}/{index}"].items() if key != "seed"}
            assert setting == theirs and experiment.episodes == sweep.EPISODES[f"{name}/{index}"]
        for tag, ids in sweep.TAGS.items():
            assert (f"{name}/0" in ids) == (tag in experiment.tags)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_id_builds_the_environment_that_bsuite_loads(name, monkeypatch):
    images = np.zeros((4, 28, 28), np.int8), np.zeros(4, np.uint8)
    monkeypatch.setattr("bsuite.utils.datasets.load_mnist", lambda: (images, images))
    for index in range(len(EXPERIMENTS[name].settings)):
        ours, theirs = make(f"bsuite/{name}/{index}"), bsuite.load(name, sweep.SETTINGS[f"{name}/{index}"])
        compared = 0
        while theirs is not None:
            for attribute, field in SAME.items():
                if attribute in vars(theirs):
                    np.testing.assert_array_equal(getattr(ours, field), vars(theirs)[attribute], err_msg=field)
                    compared += 1
            if "_reward_timestep" in vars(theirs):
                np.testing.assert_allclose(1 + 0.1 * (np.arange(5) == ours.mapping_seed % 5), theirs._rewards)
            elif "_rewards" in vars(theirs):
                np.testing.assert_allclose(ours.order / 10, theirs._rewards)
            assert ours.action_space.n == theirs.action_spec().num_values
            assert int(np.prod(ours.observation_space.shape)) == int(np.prod(theirs.observation_spec().shape))
            theirs = vars(theirs).get("_env")
            ours = ours.env if theirs is not None else None
        assert compared or name in ("bandit", "discounting_chain", "mnist")


@pytest.mark.parametrize(
    "alias, name",
    [
        ("Catch-bsuite", "bsuite/catch/0"),
        ("DeepSea-bsuite", "bsuite/deep_sea/0"),
        ("MemoryChain-bsuite", "bsuite/memory_len/4"),
        ("UmbrellaChain-bsuite", "bsuite/umbrella_length/9"),
        ("DiscountingChain-bsuite", "bsuite/discounting_chain/0"),
        ("MNISTBandit-bsuite", "bsuite/mnist/0"),
        ("SimpleBandit-bsuite", "bsuite/bandit/0"),
    ],
)
def test_gymnaxs_names_are_understood(alias, name):
    assert ENVS[alias].name == name


def test_the_error_of_an_unknown_index_suggests_the_nearest():
    with pytest.raises(ValueError, match=r"'bsuite/catch/20' is not registered. Did you mean bsuite/catch/"):
        make("bsuite/catch/20")
