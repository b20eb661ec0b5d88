"""Runs, comparisons, frontiers and LDS."""
