"""Environments. Each family of environments is a package; each file registers its environments when it is imported."""
