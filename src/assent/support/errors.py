"""The one exception that users are meant to see."""


class AssentError(Exception):
    """Something outside the program is wrong: a file, a column, a value, a setting.

    The message is one line. It names the place (file, row, column), the value and what would be accepted.
    """
