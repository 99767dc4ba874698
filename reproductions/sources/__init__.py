"""One file per reproduction. Each registers one `Reproduction`; all are imported when the first is looked up."""
