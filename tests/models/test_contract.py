"""Every recommender of assent keeps the contract."""

from assent.models import MODELS
from assent.testing import RecommenderContract

for kind in MODELS.values():
    globals()[f"Test{kind.__name__}"] = type(f"Test{kind.__name__}", (RecommenderContract,), {"model": kind})
