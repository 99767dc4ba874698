"""Fixtures of MLflow stores and of a PostgreSQL server."""

from postgres_server import server, url  # noqa: F401
from stores import made_store, root  # noqa: F401
