"""The disclosure game: each person decides which interactions to disclose. No module here knows a model.

Read in this order:

1. `estimates`: what the game is played with: unwillingness, and the value of every interaction at T anchors.
2. `players`: who plays, their limits, and their best responses; `prices`: break-even prices and the path
   of selections that they give; `budget`: how much of it all may be disclosed.
3. `nearest`: which anchor predicts for a selection, and how much a player could gain by changing that alone.
4. `solve`: equilibria at a price or within a budget; with the help of `steering` (hold a selection near an
   anchor, let players answer one after the other).
5. `certificate`: how far a solution can be trusted; `reasons`: what decided on each interaction.

`paper` has the paper's own strategies (tables over all selections of a player) and its Algorithms 1 to 3.
"""
