"""Arithmetic shared by agents: returns, losses, running statistics, shuffles. Pure functions."""
