"""Spaces, under the name of their module in gymnax."""

from shoal.core.spaces import Box, Dict, Discrete, Space, Tuple

__all__ = ["Box", "Dict", "Discrete", "Space", "Tuple"]
