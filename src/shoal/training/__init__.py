"""Runs: specification, plan, loop, records, checkpoints. Writes data; draws nothing."""
