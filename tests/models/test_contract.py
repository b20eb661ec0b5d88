"""Every recommender of assent keeps the contract."""

from assent.models import MODELS
from assent.testing import RecommenderContract

TINY = {"dimension": 3, "layers": (3,), "hidden": (3,), "attention": 2}
"""For dense matrices; a model takes of these what it has."""

for kind in MODELS.values():
    tiny = TINY if kind.name != "lightgcn" else {"dimension": 3}
    members = {"model": kind, "tiny": tiny}
    globals()[f"Test{kind.__name__}"] = type(f"Test{kind.__name__}", (RecommenderContract,), members)
