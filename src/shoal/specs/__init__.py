"""What a run is, before anything is planned: its agent and environment by value, what varies, and its options."""
