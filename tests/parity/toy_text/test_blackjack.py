"""Blackjack against Gymnasium's: both sides are dealt the same queue of cards."""

from fractions import Fraction

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shoal.core.keys import make_key
from shoal.core.registry import make
from shoal.envs.toy_text.blackjack import CARDS_A_WORD, MAX_DRAWN, RANKS, WORDS, Blackjack, cards_of, deal

pytestmark = pytest.mark.sampled

RULES = [{"sab": True}, {"sab": False}, {"sab": False, "natural": True}]
EPISODES, LONGEST = 6_000, 12


class Cards:
    """Replaces the generator: deals the given cards; suits and face cards are ignored."""

    def __init__(self) -> None:
        self.queue: list[int] = []

    def choice(self, among):
        return self.queue.pop(0) if len(among) == RANKS else among[0]


def packed(ranks: np.ndarray) -> np.ndarray:
    """The words of which `cards_of` makes these ranks [..., 12], 0 to 12: the smallest fractions that begin so."""
    digits = ranks.reshape(*ranks.shape[:-1], WORDS, CARDS_A_WORD)
    value = digits @ RANKS ** np.arange(CARDS_A_WORD - 1, -1, -1)
    return -(-value * 2**32 // RANKS**CARDS_A_WORD)


def counts(ranks: np.ndarray) -> np.ndarray:
    return np.minimum(ranks + 1, 10)


def theirs_plays(theirs: gymnasium.Env, dealt: np.ndarray, drawn: np.ndarray, actions: np.ndarray) -> list[tuple]:
    """One episode; before each step the queue is that of the step."""
    cards = Cards()
    theirs.unwrapped._np_random = cards
    cards.queue = counts(dealt).tolist()
    obs, _ = theirs.reset()
    seen = [(*obs, 0.0, False)]
    for action, ranks in zip(actions, drawn, strict=True):
        cards.queue = counts(ranks).tolist()
        obs, reward, terminated, truncated, _ = theirs.step(int(action))
        assert not truncated
        seen.append((*obs, reward, terminated))
        if terminated:
            return seen
    return seen


@pytest.mark.parametrize("rules", RULES)
def test_episodes_with_the_same_cards_equal_gymnasium(rules):
    random = np.random.default_rng(0)
    dealt = random.integers(0, RANKS, (EPISODES, 4))
    dealt[: EPISODES // 4, 2] = 0  # many aces,
    dealt[: EPISODES // 8, 3] = 12  # naturals,
    dealt[: EPISODES // 16, :2] = [12, 0]  # and dealers with one too
    drawn = random.integers(0, RANKS, (EPISODES, LONGEST, WORDS * CARDS_A_WORD))
    actions = random.random((EPISODES, LONGEST)) < 0.6
    actions[: EPISODES // 10] = False
    env = make("Blackjack-v1", **rules)

    def step(state, given):
        state, reward, terminated, _, _ = env.advance(state, *given)
        return state, (*env.observe(state), reward, terminated)

    def episode(dealt, words, actions):
        state = deal(list(dealt))
        return env.observe(state), jax.lax.scan(step, state, (actions, words))[1]

    given = jnp.asarray(counts(dealt), jnp.uint8), jnp.asarray(packed(drawn), jnp.uint32), actions.astype(np.int32)
    first, later = jax.tree.map(np.asarray, jax.jit(jax.vmap(episode))(*given))
    theirs = gymnasium.make("Blackjack-v1", disable_env_checker=True, **{"natural": False, **rules})
    theirs.reset(seed=0)
    rewards, lengths = [], []
    for e in range(EPISODES):
        expected = theirs_plays(theirs, dealt[e], drawn[e], actions[e])
        assert tuple(part[e] for part in first) == expected[0][:3]
        for t, row in enumerate(expected[1:]):
            assert tuple(part[e, t].item() for part in later) == row, (e, t)
        rewards.append(expected[-1][3])
        lengths.append(len(expected))
    assert set(rewards) == ({-1, 0, 1, 1.5} if rules.get("natural") else {-1, 0, 1}) and max(lengths) >= 7


def test_a_dealer_draws_as_many_cards_as_there_are():
    # Ace and ace, four more aces (a soft 16), a six (a hard 12), five aces: ten cards to 17.
    dealt, drawn = np.array([0, 0, 9, 9]), np.array([0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 12, 12])
    state = deal(list(jnp.asarray(counts(dealt), jnp.uint8)))
    state, reward, terminated, *_ = make("Blackjack-v1").advance(
        state, jnp.int32(0), jnp.asarray(packed(drawn), jnp.uint32)
    )
    theirs = gymnasium.make("Blackjack-v1", disable_env_checker=True)
    theirs.reset(seed=0)
    seen = theirs_plays(theirs, dealt, drawn[None], np.array([0]))
    assert theirs.unwrapped.dealer == [1, 1, 1, 1, 1, 1, 6, 1, 1, 1, 1, 1]
    assert state.dealer.value == 17 and reward == seen[-1][3] == 1 and terminated


def test_no_dealer_draws_more():
    # Every hand that a dealer may hold, by (sum with aces as 1, whether there is an ace): those that draw are followed.
    hands, drawn = {(0, False)}, -2
    while hands:
        assert drawn <= MAX_DRAWN
        after = {(total + card, ace or card == 1) for total, ace in hands for card in range(1, 11)}
        drawn += 1
        hands = {
            (total, ace) for total, ace in after if drawn < 0 or (total + 10 if ace and total <= 11 else total) < 17
        }
    assert drawn == MAX_DRAWN


def test_the_rules_of_the_registered_name_are_gymnasiums():
    theirs = gymnasium.spec("Blackjack-v1")
    ours = make("Blackjack-v1")
    assert {"sab": ours.sab, "natural": ours.natural} == theirs.kwargs
    assert ours.max_steps == theirs.max_episode_steps
    spaces = gymnasium.make("Blackjack-v1").observation_space
    assert [space.n for space in ours.observation_space.spaces] == [space.n for space in spaces]


def test_packed_cards_are_unpacked_again():
    ranks = np.random.default_rng(0).integers(0, RANKS, (500, WORDS * CARDS_A_WORD))
    cards = jax.vmap(lambda words: jnp.stack(cards_of(words)))(jnp.asarray(packed(ranks), jnp.uint32))
    np.testing.assert_array_equal(cards, counts(ranks))


def test_four_cards_of_a_word_are_all_but_equally_likely():
    # How many of the 2^32 words give each hand of four: the distance from one boundary to the next.
    hands = np.indices((RANKS,) * 4).reshape(4, -1).T
    first = packed(np.concatenate([hands, 0 * hands, 0 * hands], axis=1))[:, 0]
    share = np.diff([*first.tolist(), 2**32])
    assert share.min() > 0 and Fraction(int(share.max() - share.min()), int(share.min())) < Fraction(1, 100_000)


@pytest.mark.parametrize("rules", RULES)
def test_results_of_a_simple_player_are_distributed_as_gymnasiums(rules):
    # Hit below 17. 20,000 episodes each; a difference of 5 standard errors.
    env, episodes = Blackjack(**rules), 20_000

    def play(key):
        def step(carry, key):
            state, total, over = carry
            k_step, _ = jax.random.split(key)
            action = (state.player.value < 17).astype(jnp.int32)
            _, after, reward, terminated, *_ = env.step(k_step, state, action)
            total = total + jnp.where(over, 0.0, reward)
            return (after, total, over | terminated), None

        k_init, k_run = jax.random.split(key)
        carry = (env.init(k_init), jnp.float32(0), jnp.bool_(False))
        return jax.lax.scan(step, carry, jax.random.split(k_run, 16))[0][1]

    ours = np.asarray(jax.jit(jax.vmap(play))(jax.random.split(make_key(0), episodes)))
    theirs = gymnasium.make("Blackjack-v1", disable_env_checker=True, **{"natural": False, **rules})
    theirs.reset(seed=0)
    returns = []
    for _ in range(episodes):
        obs, _ = theirs.reset()
        terminated, reward = False, 0.0
        while not terminated:
            obs, reward, terminated, *_ = theirs.step(int(obs[0] < 17))
        returns.append(reward)
    for value in np.unique(returns):
        share, expected = (ours == value).mean(), (np.array(returns) == value).mean()
        assert abs(share - expected) < 5 * np.sqrt(2 * expected * (1 - expected) / episodes)
