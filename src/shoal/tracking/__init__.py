"""Sinks for records: lines in a file, lines on a terminal."""
