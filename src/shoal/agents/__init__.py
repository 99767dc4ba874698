"""Learners. One readable file each, registered by a decorator."""
