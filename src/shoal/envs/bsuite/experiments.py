"""bsuite's 23 experiments as data: the settings of their ids, the number of episodes for a score, and their tags.

Source: Osband et al. 2020, "Behaviour Suite for Reinforcement Learning"; bsuite 0.3.6, `sweep.py`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from shoal.core.registry import env

Cls = TypeVar("Cls", bound=type)

LENGTHS = (*range(1, 11), 12, 14, 17, 20, 25, *range(30, 101, 10))
BITS = (*range(1, 11), 12, 14, 17, 20, 25, 30, 40)
SEA_SIZES = range(10, 51, 2)
NOISE_SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)
REWARD_SCALES = (0.001, 0.03, 1.0, 30.0, 1000.0)


class Experiment(NamedTuple):
    """One experiment: the id `bsuite/<name>/<i>` has the i-th setting."""

    settings: tuple[dict[str, Any], ...]
    episodes: int  # the number of episodes that bsuite plays with every setting
    tags: tuple[str, ...]


def _repeated(times: int = 20) -> tuple[dict[str, Any], ...]:
    return tuple({} for _ in range(times))


def _varied(field: str, values: Any, **fixed: Any) -> tuple[dict[str, Any], ...]:
    return tuple({field: value, **fixed} for value in values)


def _scaled(field: str, scales: tuple[float, ...], mapped: bool = False) -> tuple[dict[str, Any], ...]:
    return tuple({field: scale, **({"mapping_seed": n} if mapped else {})} for scale in scales for n in range(4))


NOISY, SCALED = _scaled("noise_scale", NOISE_SCALES), _scaled("reward_scale", REWARD_SCALES)

EXPERIMENTS: Mapping[str, Experiment] = {
    "bandit": Experiment(_varied("mapping_seed", range(20)), 10_000, ("basic",)),
    "bandit_noise": Experiment(_scaled("noise_scale", NOISE_SCALES, mapped=True), 10_000, ("noise",)),
    "bandit_scale": Experiment(_scaled("reward_scale", REWARD_SCALES, mapped=True), 10_000, ("scale",)),
    "cartpole": Experiment(_repeated(), 1_000, ("basic", "credit_assignment", "generalization")),
    "cartpole_noise": Experiment(NOISY, 1_000, ("noise", "generalization")),
    "cartpole_scale": Experiment(SCALED, 1_000, ("scale", "generalization")),
    "cartpole_swingup": Experiment(
        tuple({"height_threshold": n / 20, "x_reward_threshold": 1 - n / 20} for n in range(20)),
        1_000,
        ("exploration", "generalization"),
    ),
    "catch": Experiment(_repeated(), 10_000, ("basic", "credit_assignment")),
    "catch_noise": Experiment(NOISY, 10_000, ("noise", "credit_assignment")),
    "catch_scale": Experiment(SCALED, 10_000, ("scale", "credit_assignment")),
    "deep_sea": Experiment(_varied("size", SEA_SIZES, mapping_seed=42), 10_000, ("exploration",)),
    "deep_sea_stochastic": Experiment(_varied("size", SEA_SIZES, mapping_seed=42), 10_000, ("exploration", "noise")),
    "discounting_chain": Experiment(_varied("mapping_seed", range(20)), 1_000, ("credit_assignment",)),
    "memory_len": Experiment(_varied("memory_length", LENGTHS), 10_000, ("memory",)),
    "memory_size": Experiment(_varied("num_bits", BITS), 10_000, ("memory",)),
    "mnist": Experiment(_repeated(), 10_000, ("basic", "generalization")),
    "mnist_noise": Experiment(NOISY, 10_000, ("noise", "generalization")),
    "mnist_scale": Experiment(SCALED, 10_000, ("scale", "generalization")),
    "mountain_car": Experiment(_repeated(), 1_000, ("basic", "generalization")),
    "mountain_car_noise": Experiment(NOISY, 1_000, ("noise", "generalization")),
    "mountain_car_scale": Experiment(SCALED, 1_000, ("scale", "generalization")),
    "umbrella_distract": Experiment(_varied("n_distractor", LENGTHS), 10_000, ("credit_assignment", "noise")),
    "umbrella_length": Experiment(
        _varied("chain_length", LENGTHS, n_distractor=20), 10_000, ("credit_assignment", "noise")
    ),
}


def bsuite_id(experiment: str, index: int) -> str:
    """The id under which the setting `index` of an experiment is registered."""
    return f"bsuite/{experiment}/{index}"


def experiment(name: str, aliases: Mapping[int, str] | None = None, **fixed: Any) -> Callable[[Cls], Cls]:
    """A decorator that registers a class under every id of an experiment, each with the fields of its setting.

    `fixed` are fields that all ids share; `aliases` maps an index to a second id.
    """

    def decorate(cls: Cls) -> Cls:
        for index, setting in enumerate(EXPERIMENTS[name].settings):
            alias = (aliases or {}).get(index)
            env(bsuite_id(name, index), aliases=(alias,) if alias else (), **fixed, **setting)(cls)
        return cls

    return decorate


def wrapped_experiment(name: str, base: str) -> Callable[[Cls], Cls]:
    """A decorator that registers a wrapper under all ids of the experiment `name`, around ids of the experiment `base`.

    The wrapper holds the id of its inner environment, which is made later: so importing this module makes none.
    """

    def decorate(cls: Cls) -> Cls:
        for index, setting in enumerate(EXPERIMENTS[name].settings):
            fields = dict(setting)
            inner = bsuite_id(base, fields.pop("mapping_seed", 0))
            env(bsuite_id(name, index), env=inner, **fields)(cls)
        return cls

    return decorate
