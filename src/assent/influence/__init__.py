"""What each interaction is worth: its effect on validation losses, without retraining."""
