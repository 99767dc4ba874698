"""Blackjack: hands, rules, cards, the picture."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from environments import advance, observe
from shoal.core.keys import make_key
from shoal.envs.toy_text.blackjack import Blackjack, Hand, cards_of, deal

STICK, HIT = 0, 1


def dealt(*cards):
    return deal([jnp.uint8(card) for card in cards])


def drawing(*ranks):
    """Words that hold these cards first, aces after them: a 13th of 2^32 for each rank, and so on."""
    digits = [rank - 1 for rank in ranks] + [0] * (12 - len(ranks))
    values = [sum(digit * 13 ** (3 - i) for i, digit in enumerate(digits[4 * w : 4 * w + 4])) for w in range(3)]
    return jnp.array([-(-value * 2**32 // 13**4) for value in values], jnp.uint32)


@pytest.mark.parametrize(
    "cards, total, value, usable",
    [((2, 3), 5, 5, False), ((1, 10), 11, 21, True), ((1, 1), 2, 12, True), ((1, 10, 5), 16, 16, False)],
)
def test_an_ace_counts_eleven_where_it_can(cards, total, value, usable):
    hand = Hand(jnp.uint8(0))
    for card in cards:
        hand = hand.with_card(jnp.uint8(card), jnp.bool_(True))
    assert (hand.sum, hand.value, hand.usable_ace) == (total, value, usable)


def test_a_card_that_is_not_drawn_changes_nothing():
    hand = Hand(jnp.uint8(7))
    assert hand.with_card(jnp.uint8(1), jnp.bool_(False)).points == 7


def test_twenty_wins_against_nineteen():
    env = Blackjack()
    state, reward, terminated, truncated, _ = advance(env, dealt(10, 9, 10, 10), jnp.int32(STICK), drawing())
    assert reward == 1 and terminated and not truncated and state.dealer.value == 19


def test_a_dealer_below_seventeen_draws():
    # 10 + 6, then 10: bust. Then 10 + 2, 4 and 10: bust too, because 16 is not enough.
    for cards, drawn, value in (((10, 6, 4, 5), [10], 26), ((10, 2, 4, 5), [4, 10], 26)):
        state, reward, *_ = advance(Blackjack(), dealt(*cards), jnp.int32(STICK), drawing(*drawn))
        assert state.dealer.value == value and reward == 1


def test_going_bust_loses():
    state, reward, terminated, *_ = advance(Blackjack(), dealt(10, 6, 10, 6), jnp.int32(HIT), drawing(6))
    assert state.player.value == 22 and reward == -1 and terminated
    state, reward, terminated, *_ = advance(Blackjack(), dealt(10, 6, 10, 6), jnp.int32(HIT), drawing(5))
    assert state.player.value == 21 and reward == 0 and not terminated


@pytest.mark.parametrize(
    "cards, rewards",
    [
        ((10, 9, 1, 10), (1, 1, 1.5)),  # a natural against 19
        ((10, 1, 1, 10), (0, 0, 0)),  # against another
        ((10, 6, 1, 10), (1, 0, 0)),  # against 21 of three cards
        ((10, 9, 10, 10), (1, 1, 1)),  # twenty
    ],
)
def test_a_natural_is_rewarded_by_the_selected_rules(cards, rewards):
    rules = ({"sab": True}, {"sab": False}, {"sab": False, "natural": True})
    for fields, expected in zip(rules, rewards, strict=True):
        _, reward, *_ = advance(Blackjack(**fields), dealt(*cards), jnp.int32(STICK), drawing(5))
        assert reward == expected


def test_twenty_one_of_three_cards_is_no_natural():
    env = Blackjack(sab=False, natural=True)
    state, *_ = advance(env, dealt(10, 9, 1, 5), jnp.int32(HIT), drawing(5))
    assert state.player.value == 21
    assert advance(env, state, jnp.int32(STICK), drawing())[1] == 1


def test_a_rule_without_effect_is_refused():
    with pytest.raises(ValueError, match="natural=True has no effect with sab=True"):
        Blackjack(natural=True)


def test_the_hidden_card_is_not_observed():
    env = Blackjack()
    for hidden in range(1, 11):
        assert [int(part) for part in observe(env, dealt(7, hidden, 1, 5))] == [16, 7, 1]


def test_cards_are_sampled_with_the_probabilities_of_a_deck():
    words = jax.vmap(Blackjack().noise)(jax.random.split(make_key(0), 20_000))
    cards = np.asarray(jax.jit(jax.vmap(lambda w: jnp.stack(cards_of(w))))(words))
    expected = 20_000 * np.array([1] * 9 + [4]) / 13
    for place in range(12):
        count = np.bincount(cards[:, place], minlength=11)[1:]
        assert (np.square(count - expected) / expected).sum() < 9 + 5 * np.sqrt(2 * 9)
    # Neighbors are independent of each other, within a word and across.
    pairs = np.zeros((10, 10))
    np.add.at(pairs, (cards[:, :-1].ravel() - 1, cards[:, 1:].ravel() - 1), 1)
    expected = 11 * np.outer(expected, expected) / 20_000
    assert (np.square(pairs - expected) / expected).sum() < 99 + 5 * np.sqrt(2 * 99)


def test_the_picture_shows_the_hands_and_at_the_end_the_dealers():
    env = Blackjack()
    state = dealt(10, 9, 1, 9)
    picture = env.render(state)
    assert picture.shape == (360, 400, 3) and picture.dtype == np.uint8
    after, *_ = advance(env, state, jnp.int32(STICK), drawing())
    changed = np.argwhere((env.render(after) != picture).any(axis=-1))
    assert changed[:, 0].min() < 180 and changed[:, 1].min() > 160  # the dealer's sum, and remarks
    other = np.argwhere((env.render(dealt(10, 9, 1, 8)) != picture).any(axis=-1))
    assert other[:, 0].min() > 180  # the player's sum
