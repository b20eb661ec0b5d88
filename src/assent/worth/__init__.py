"""What an interaction is worth, with how far that can be trusted (docs/value.md)."""
