"""`python -m assent` is the command `assent`."""

import os
import sys
from pathlib import Path

# `python -m` looks for modules in the current directory first. Nothing is to be imported from there.
if sys.path[:1] == [os.getcwd()] and Path(__file__).parents[1] != Path.cwd():
    del sys.path[0]

from assent.cli import main

if __name__ == "__main__":
    main()
