"""Learning over populations: selectors, evolution, and learners as parts of environments."""
