"""bsuite's 23 experiments (468 ids), with its counters, scores and tags. They are tested to equal bsuite 0.3.6."""
