"""Whole jobs: a run, a frontier, a score of the estimators. Each is resumable."""
