"""Vectorised rollouts with automatic resets, episode statistics, evaluation, and the check of an agent's contract."""
