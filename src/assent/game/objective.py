"""Whose reward an interaction is weighed by."""

from enum import StrEnum


class Objective(StrEnum):
    """What a player maximises."""

    NASH = "nash"
    """Her own reward: the paper's equilibrium (eq. 2)."""
    WELFARE = "welfare"
    """The sum of all rewards: what she does for others counts in full."""
