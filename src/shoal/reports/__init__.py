"""Reports: self-contained HTML pages about runs, comparisons, populations and studies, made from their folders."""
