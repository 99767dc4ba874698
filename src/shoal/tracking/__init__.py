"""What a run reports while it goes, and who hears it: typed events, and sinks for terminals and files."""
