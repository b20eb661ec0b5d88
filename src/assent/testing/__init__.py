"""Tests for an own recommender: subclass one class, name the model, run pytest.

    class TestMine(assent.testing.RecommenderContract):
        model = Mine

No other part of assent needs pytest.
"""

try:
    import pytest
except ImportError:
    raise ImportError("assent.testing needs pytest; install it with: pip install pytest") from None

pytest.register_assert_rewrite("assent.testing.contract")

from assent.testing.contract import RecommenderContract  # noqa: E402

__all__ = ["RecommenderContract"]
