"""A table for each package: which classes and functions are tried,
how they are made, called and declared.
"""
