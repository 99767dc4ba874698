"""MiniGrid's bot plays BabyAI's levels of ours: as demonstrations for `bc`, and to show that levels can be solved."""

import sys

import jax
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import ENVS, make
from shoal.envs.babyai import bot as babyai_bot
from shoal.envs.babyai.bot import BotReport, copy_of, play, record_bot

pytest.importorskip("minigrid", reason="the bot is MiniGrid's, in the extra `minigrid`")
pytestmark = pytest.mark.filterwarnings("ignore")  # of MiniGrid and Gymnasium

# What the bot solves of 100 levels of MiniGrid's where that is not all of them, and of how many of ours it must solve
# how many: the rest has no solution for it.
NOT_ALL = {
    "BabyAI-GoToImpUnlock-v0": 0.8,  # 96
    "BabyAI-Unlock-v0": 0.85,  # 99
    "BabyAI-UnlockToUnlock-v0": 0.3,  # 59
    "BabyAI-SynthS5R2-v0": 0.8,  # 97
    "BabyAI-PickupDistDebug-v0": 0.85,  # 98
    "BabyAI-OpenDoorsOrderN2Debug-v0": 0.05,  # 29: the others fail by the rules
    "BabyAI-OpenDoorsOrderN4Debug-v0": 0.05,  # 33
}
NONE = ("BabyAI-KeyInBox-v0", *(f"BabyAI-PutNext{size}Carrying-v0" for size in ("S5N2", "S6N3", "S7N4")))


@pytest.fixture
def bot():
    return pytest.importorskip("minigrid.utils.baby_ai_bot")


def first_states(level, count, seed=0):
    """Some first states of a level, as NumPy arrays."""
    keys = jax.random.split(make_key(seed), count)
    states = jax.tree.map(np.asarray, jax.jit(jax.vmap(level.init))(keys))
    return [jax.tree.map(lambda x, i=i: x[i], states) for i in range(count)]


def test_demonstrations_are_whole_episodes_that_end_in_success():
    level = make("BabyAI-GoToLocal-v0")
    demonstrations, report = record_bot(level, 400)
    assert len(demonstrations) >= 400 and report.solved == report.episodes >= 64
    assert set(demonstrations.obs) == {"image", "direction", "mission"} and demonstrations.mask is None
    # The bot turns and walks only, and takes 5.2 steps in MiniGrid's levels (standard error 0.2, 200 levels).
    assert set(np.unique(demonstrations.action)) <= {0, 1, 2, 6}
    assert 3.5 < len(demonstrations) / report.solved < 7.5


def test_the_same_seed_gives_the_same_demonstrations():
    once, again, other = (record_bot("BabyAI-GoToObjS4-v0", 100, seed=seed).demonstrations for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, once.obs, again.obs)
    np.testing.assert_array_equal(once.action, again.action)
    assert not np.array_equal(once.obs["image"][:50], other.obs["image"][:50])


@pytest.mark.parametrize("env_id", ["BabyAI-GoToLocal-v0", pytest.param("BabyAI-BossLevel-v0", marks=pytest.mark.slow)])
def test_the_copy_shows_what_the_level_shows(env_id):
    level = make(env_id)
    for state in first_states(level, 10):
        copy, arrays = copy_of(level, state), jax.tree.map(jax.numpy.asarray, state)
        obs, theirs = jax.jit(level.observe)(arrays), copy.gen_obs()
        np.testing.assert_array_equal(theirs["image"], obs["image"])
        assert theirs["mission"] == level.mission_text(arrays) and theirs["direction"] == obs["direction"]
        assert copy.max_steps == level.limit_of(arrays)


def test_a_bot_that_repeats_itself_is_stopped(bot):
    level, report = make("BabyAI-UnlockToUnlock-v0"), BotReport()
    for state in first_states(level, 12):  # half of which it cannot solve
        play(level, state, report, bot)
    assert report.stopped > 0 and report.solved > 0 and report.episodes == 12
    assert f"in {report.stopped} it looked for a plan without end and was stopped" in str(report)


def test_a_report_counts_every_kind_of_end():
    report = BotReport(solved=5, too_slow=1, failed=2, gave_up=3, stopped=4)
    assert report.episodes == 15
    assert str(report) == (
        "the bot solved 5 of 15 levels; in 1 it reached the time limit; in 2 it failed; in 3 it found no plan; "
        "in 4 it looked for a plan without end and was stopped"
    )
    assert str(BotReport(solved=1200)) == "the bot solved 1,200 of 1,200 levels"


def test_a_level_that_the_bot_never_solves_is_refused():
    with pytest.raises(ValueError, match="solved 0 of 128 levels; in 128 it found no plan: KeyInBox is no level that"):
        record_bot("BabyAI-KeyInBox-v0", 100)


def test_other_environments_are_refused():
    with pytest.raises(ValueError, match="the bot plays only BabyAI's levels without wrappers, not CartPole: name one"):
        record_bot("CartPole-v1")
    with pytest.raises(ValueError, match="steps=0 must be at least 1"):
        record_bot("BabyAI-GoToLocal-v0", 0)


def test_without_minigrid_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid.utils.baby_ai_bot", None)
    with pytest.raises(ImportError, match=r"pip install 'shoal\[minigrid\]'"):
        record_bot("BabyAI-GoToLocal-v0", 10)


def test_actions_that_do_not_solve_the_level_are_no_demonstrations():
    level = make("BabyAI-GoToLocal-v0")
    states = jax.tree.map(lambda *x: np.stack(x), *first_states(level, babyai_bot.BATCH))
    played = [[0]] * babyai_bot.BATCH  # of some level, one turn is not enough
    with pytest.raises(RuntimeError, match="solve MiniGrid's copy of GoToLocal, but not the level"):
        babyai_bot._replayed(level, states, played, [*range(babyai_bot.BATCH)])


@pytest.mark.slow
@pytest.mark.parametrize("env_id", sorted(name for name in ENVS if name.startswith("BabyAI-")))
def test_the_bot_solves_our_levels_as_it_solves_minigrids(env_id, bot):
    level, report = make(env_id), BotReport()
    for state in first_states(level, 30):
        play(level, state, report, bot)
    if env_id in NONE:
        assert report.solved == 0, report
    else:
        assert report.solved >= 30 * NOT_ALL.get(env_id, 1), report
