"""The one exception that users are meant to see."""


class AssentError(Exception):
    """Something outside the program is wrong: a file, a column, a value, a setting.

    The message is one line that names the place (file, row, column) and what would be accepted.
    The command line prints it alone, without a traceback, and leaves with exit code 2.
    """
