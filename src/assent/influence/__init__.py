"""The influence of each interaction on validation losses, without retraining."""
