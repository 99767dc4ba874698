"""Fixtures of MLflow stores."""

from stores import made_store, root  # noqa: F401
