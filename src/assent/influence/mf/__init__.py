"""Influence for matrix factorisation, whose derivatives have a closed form: the same figures, sooner."""
