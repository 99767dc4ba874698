"""Blackjack: hit or stick against a dealer with a fixed rule.

Source: Sutton and Barto, example 5.1; Gymnasium 1.4 `toy_text/blackjack.py`: the same cards give the same game.
"""

import functools
from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, UInt8, UInt32

from shoal.canvas import BLACK, WHITE, Canvas, box
from shoal.core.env import Env, Key, State, Transition
from shoal.core.registry import env
from shoal.core.spaces import Discrete, Tuple
from shoal.core.struct import Struct, static, struct

RANKS = 13  # ace to king, equally likely: the deck is infinite
# The largest number of cards that a dealer draws after the first two. The longest hand has 12 cards: six aces (sum 16),
# a six (sum 12, since now all aces count 1) and five more aces (sum 17).
MAX_DRAWN = 10
CARDS_A_WORD, WORDS = 4, 3  # 13^4 hands from 2^32 words: their probabilities differ by at most 1 part in 150,000
DEALER_STICKS = 17
FELT, BACK, GOLD = (35, 100, 70), (150, 45, 50), (245, 205, 90)
ACE = np.uint8(32)  # a bit above the bits of the largest sum

Cards = Sequence[UInt8[Array, ""]]


@struct
class Hand(Struct):
    """The sum of a hand and whether it holds an ace, in one byte, since most steps deal new hands."""

    points: UInt8[Array, ""]  # the sum with every ace as 1 (at most 31), plus ACE if the hand holds an ace

    @property
    def sum(self) -> UInt8[Array, ""]:
        """The sum with every ace as 1."""
        return self.points & (ACE - 1)

    @property
    def usable_ace(self) -> Bool[Array, ""]:
        """Whether an ace can count 11 without the hand going bust."""
        return (self.points >= ACE) & (self.points <= ACE + 11)

    @property
    def value(self) -> UInt8[Array, ""]:
        """The sum, with one ace as 11 if it is usable."""
        return self.sum + jnp.where(self.usable_ace, jnp.uint8(10), jnp.uint8(0))

    @property
    def score(self) -> UInt8[Array, ""]:
        """The value, or 0 for a hand that is bust."""
        return jnp.where(self.value > 21, jnp.uint8(0), self.value)

    def with_card(self, card: UInt8[Array, ""], drawn: Bool[Array, ""]) -> "Hand":
        """This hand plus `card` if `drawn`, else this hand."""
        more = (self.points + card) | jnp.where(card == 1, ACE, jnp.uint8(0))
        return Hand(jnp.where(drawn, more, self.points))


@struct
class BlackjackState(State):
    """Both hands, and the dealer's visible card. The dealer's second card is not observed."""

    player: Hand
    dealer: Hand
    dealer_card: UInt8[Array, ""]  # the visible one; 1 is an ace
    has_stuck: Bool[Array, ""]  # whether the player has stuck


@env("Blackjack-v1")
@struct
class Blackjack(Env):
    """Draw cards to get closer to 21 than the dealer, without going above 21.

    Action: Discrete(2); 0 stick, 1 hit.

    Observation: Tuple of uint8: the player's sum, Discrete(32); the dealer's visible card (1 is an ace),
    Discrete(11); whether the player has an ace that counts 11, Discrete(2).

    Reward: on the last step 1 for winning, -1 for losing, 0 for a draw; 0 on all other steps. A natural is an ace and
    a ten as the first two cards. With `sab` (the rules of Sutton and Barto) it wins against everything except another
    natural. With `sab=False` and `natural=True` the reward for winning with a natural is 1.5.
    Start: two cards each.
    End: terminated when the player goes bust, or sticks: then the dealer draws cards up to 17 or more, and the hands
    are compared.
    Noise: the next ten cards, the largest number that a dealer draws. The deck is infinite.
    Differences from Gymnasium: `natural=True` with `sab=True` raises ValueError; Gymnasium ignores it.
    """

    reset_every: ClassVar[int] = 1

    sab: bool = static(True, choices=(False, True))
    natural: bool = static(False, choices=(False, True))

    def __post_init__(self) -> None:
        if self.sab and self.natural:
            raise ValueError(
                "natural=True has no effect with sab=True, where the reward of a natural is 1: set sab=False too."
            )

    @property
    def observation_space(self) -> Tuple:
        """The player's sum, the dealer's visible card, and whether the player has a usable ace."""
        return Tuple(tuple(Discrete(n, np.uint8) for n in (32, 11, 2)))

    @property
    def action_space(self) -> Discrete:
        """0 is stick, 1 is hit."""
        return Discrete(2)

    def init(self, key: Key) -> BlackjackState:
        """The first state: two cards each."""
        return deal(cards_of(jax.random.bits(key, (1,), jnp.uint32)))

    def noise(self, key: Key) -> UInt32[Array, "3"]:
        """Three random words, which hold twelve cards; ten of them are used."""
        return jax.random.bits(key, (WORDS,), jnp.uint32)

    def transition(
        self, state: BlackjackState, action: Integer[Array, ""], noise: UInt32[Array, "3"]
    ) -> Transition[BlackjackState]:
        """Hit: the player draws a card. Stick: the dealer draws all cards, and the hands are compared."""
        cards, sticks, dealer = cards_of(noise), action == 0, state.dealer
        player = state.player.with_card(cards[0], ~sticks)
        for card in cards[:MAX_DRAWN]:
            dealer = dealer.with_card(card, sticks & (dealer.value < DEALER_STICKS))
        bust = player.sum > 21
        reward = jnp.where(sticks, self._compare(state, dealer), -bust.astype(jnp.float32))
        state = state.replace(player=player, dealer=dealer, has_stuck=sticks)
        return state, reward, sticks | bust, {}

    def observe(self, state: BlackjackState) -> tuple[UInt8[Array, ""], UInt8[Array, ""], UInt8[Array, ""]]:
        """The player's sum, the dealer's visible card, and whether the player has a usable ace."""
        return state.player.value, state.dealer_card, state.player.usable_ace.astype(jnp.uint8)

    def render(self, state: BlackjackState) -> UInt8[np.ndarray, "360 400 3"]:
        """The dealer's cards above, the player's sum below; after the player has stuck, also the dealer's sum."""
        canvas = Canvas(400, 360, background=FELT)
        canvas.text((30, 24), "Dealer", WHITE, 22)
        canvas.text((30, 196), "Player", WHITE, 22)
        _draw_card(canvas, 30, "A" if state.dealer_card == 1 else str(state.dealer_card))
        _draw_card(canvas, 120, None)
        if state.has_stuck:
            canvas.text((300, 110), str(state.dealer.value), WHITE, 64, "mm")
        canvas.text((80, 275), str(state.player.value), WHITE, 80, "mm")
        for line, words in enumerate(_remarks(state)):
            canvas.text((170, 245 + 36 * line), words, GOLD, 24)
        return canvas.pixels()

    def _compare(self, state: BlackjackState, dealer: Hand) -> Float[Array, ""]:
        player_score, dealer_score = state.player.score, dealer.score
        reward = (player_score > dealer_score).astype(jnp.float32) - (player_score < dealer_score).astype(jnp.float32)
        is_natural = (player_score == 21) & (state.time == 1)  # no card has been drawn
        if self.sab:
            # The dealer's hand before drawing: only the first two cards can be a natural.
            wins = is_natural & (state.dealer.value < 21)
            return jnp.where(wins, jnp.float32(1), reward)
        if self.natural:
            return jnp.where(is_natural & (reward == 1), jnp.float32(1.5), reward)
        return reward


def deal(cards: Cards) -> BlackjackState:
    """The first state: two cards for the dealer, of which the first is visible, then two for the player."""
    dealer, player = hand_of(cards[:2]), hand_of(cards[2:])
    return BlackjackState(jnp.int32(0), player, dealer, cards[0], jnp.bool_(False))


def hand_of(cards: Cards) -> Hand:
    """The hand of two cards."""
    nothing, yes = Hand(jnp.uint8(0)), jnp.bool_(True)
    return functools.reduce(lambda hand, card: hand.with_card(card, yes), cards, nothing)


def cards_of(words: UInt32[Array, "W"]) -> Cards:
    """The cards in some random words, four per word, as values: an ace is 1, and four of the thirteen ranks are 10.

    A word divided by 2^32 is written as a fraction in base 13: each digit is a rank.
    """
    cards = []
    for word in words:
        for _ in range(CARDS_A_WORD):
            # 13 word = digit 2^32 + rest. It is computed in two halves, since there are no integers of 64 bits.
            high = (word >> 16) * RANKS + ((word & 0xFFFF) * RANKS >> 16)
            cards.append(jnp.minimum((high >> 16) + 1, 10).astype(jnp.uint8))
            word = word * RANKS
    return cards


def _draw_card(canvas: Canvas, left: int, rank: str | None) -> None:
    """Draw a card with its rank, or its back if `rank` is None."""
    canvas.polygon(box(left, 60, left + 74, 164), WHITE)
    if rank is None:
        canvas.polygon(box(left + 6, 66, left + 68, 158), BACK)
    else:
        canvas.text((left + 37, 112), rank, BLACK, 44, "mm")


def _remarks(state: BlackjackState) -> list[str]:
    player_score, dealer_score = int(state.player.score), int(state.dealer.score)
    remarks = ["one ace counts 11"] if state.player.usable_ace else []
    if player_score == 0:
        remarks.append("bust: lost")
    elif state.has_stuck:
        remarks.append("dealer is bust" if dealer_score == 0 else "sticks")
    return remarks
