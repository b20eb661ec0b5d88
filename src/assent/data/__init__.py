"""From a log to a problem: readers, unwillingness, wishes, splits, simulated and named data sets."""
