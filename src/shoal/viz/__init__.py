"""Figures and animations, made from the files of a run and from environment states."""
