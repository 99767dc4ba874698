"""Environments. Each family is a package, each environment a file that registers itself."""
