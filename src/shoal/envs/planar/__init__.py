"""Environments in a plane: a robot arm, a swimmer among urchins, and Pong in pixels."""
