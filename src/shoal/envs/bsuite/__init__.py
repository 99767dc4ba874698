"""bsuite's 23 experiments, 468 ids, exact against bsuite 0.3.6, with its counters, scores and tags."""
