"""assent: recommendation that asks before it uses."""
