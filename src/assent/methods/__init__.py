"""Ways to choose what is disclosed, behind one interface."""
