"""Kernels of our own, where XLA cannot get there."""
