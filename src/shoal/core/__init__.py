"""Foundations: values, spaces, keys, the environment and agent contracts, the registry."""
