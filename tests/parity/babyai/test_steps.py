"""Every step of every BabyAI id equals the reference's, from layouts of both sides."""

import gymnasium
import minigrid
import pytest

from parity.babyai.harness import FEW, LONG, MANY, compare_steps, record
from shoal.core.registry import ENVS, make

assert minigrid  # which registers its environments
IDS = sorted(name for name in gymnasium.registry if name.startswith("BabyAI-"))
OWN_LIMIT = {  # the ids whose time limit differs between episodes
    f"BabyAI-{name}-v0"
    for name in ("GoToSeq", "GoToSeqS5R2", "Synth", "SynthS5R2", "SynthLoc", "SynthSeq", "MiniBossLevel", "BossLevel",
                 "BossLevelNoUnlock")
}  # fmt: skip
# One without anything to remember, one with everything, and one in which the agent carries something from the start.
QUICK = ("BabyAI-GoToLocal-v0", "BabyAI-BossLevel-v0", "BabyAI-PutNextS5N2Carrying-v0")


def test_all_ids_are_registered():
    assert {name for name in ENVS if name.startswith("BabyAI-")} == {*IDS}


def test_the_limit_differs_between_episodes_in_nine_ids():
    assert {name for name in IDS if make(name).max_steps is None} == OWN_LIMIT


@pytest.mark.parametrize(
    "env_id", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in IDS]
)
def test_some_steps_match(env_id):
    _assert_match(env_id, FEW)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("env_id", IDS)
def test_many_steps_match(env_id):
    result = _assert_match(env_id, LONG)
    record(env_id, result)
    if LONG < MANY:
        return  # too few for every kind of end
    assert result.successes and result.truncations and result.both
    assert (result.failures > 0) == ("Debug" in env_id)
    assert (result.limits > 1) == (env_id in OWN_LIMIT)


def _assert_match(env_id, steps):
    result = compare_steps(env_id, steps)
    assert not result.mismatches, "\n".join(result.mismatches[:2])
    assert result.steps >= steps and result.episodes > 0
    return result
