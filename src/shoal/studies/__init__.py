"""Many runs from one request: studies with Optuna, sweeps, suites, evolution, bsuite, trackers, and throughput."""
