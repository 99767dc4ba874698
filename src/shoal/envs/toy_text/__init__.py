"""Gymnasium's toy_text: three environments that are tables, and Blackjack. They are tested to equal Gymnasium's."""
