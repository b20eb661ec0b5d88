"""`python -m assent` is the command `assent`."""

from assent.cli import main

if __name__ == "__main__":
    main()
