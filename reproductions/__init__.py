"""The documents that shoal grew from, measured again: one file for each in `sources`, found by registration."""

COMMAND = "python -m reproductions"  # from the root of the repository
