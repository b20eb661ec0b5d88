"""From files to a problem: readers, splits, the simulator."""
