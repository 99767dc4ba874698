"""Runs before anything is planned: the agent and the environment by value, what varies, and the options."""
