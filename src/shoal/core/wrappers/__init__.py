"""Wrappers: environments around environments, values too. One file each."""
