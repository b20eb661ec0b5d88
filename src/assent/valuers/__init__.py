"""What the game is played with: anchors, and what interactions are worth at them."""

from assent.valuers.base import AtPlace, Valuer
from assent.valuers.pooling import Pooling
from assent.valuers.single import AtEachAnchor

__all__ = ["AtEachAnchor", "AtPlace", "Pooling", "Valuer"]
