"""Gymnasium's toy_text: three worlds that are tables, and Blackjack; exact against Gymnasium's."""
