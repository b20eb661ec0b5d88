"""The paper's own strategies (`tables`) and Algorithms 1 to 3 on them (`algorithms`)."""
