"""Figures and animations, made from files and states."""
