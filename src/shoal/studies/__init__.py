"""Many runs from one request: training with pictures, sweeps, suites, bsuite and throughput measurements."""
