"""The version of this distribution, kept free of imports so that `--version` costs nothing."""

__version__ = "0.1.0"
