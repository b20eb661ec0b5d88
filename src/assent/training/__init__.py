"""Train a recommender on disclosed interactions, save it and load it."""

from assent.training.disclosed import Disclosed, disclose
from assent.training.stored import Trained
from assent.training.trainer import (
    BatchUnit,
    Kept,
    Schedule,
    Settings,
    TrainingSettings,
    Tune,
    defaults_of,
    train,
)

__all__ = [
    "BatchUnit",
    "Disclosed",
    "Kept",
    "Schedule",
    "Settings",
    "Trained",
    "TrainingSettings",
    "Tune",
    "defaults_of",
    "disclose",
    "train",
]
