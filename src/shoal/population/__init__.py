"""Experiments with populations of learners: selectors, evolution, and learners as parts of environments."""
