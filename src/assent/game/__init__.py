"""The game that users play: rewards, strategies, best responses, prices. It knows no model."""
