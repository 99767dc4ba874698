"""Vectorised rollouts: automatic resets from a bank, episode statistics, evaluation."""
