"""Reports of a run in progress: typed events, and the sinks that receive them (terminal, files, trackers)."""
