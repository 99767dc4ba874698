"""Selectors that learn from a population: evolution strategies over hyperparameters and learned losses."""
