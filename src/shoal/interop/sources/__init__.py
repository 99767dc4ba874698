"""Environments of other libraries, one module for each: `brax/ant` is the environment `ant` of `brax.py`."""
