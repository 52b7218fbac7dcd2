"""Released packages held against attention_checks.api:
what is tried, what was found, and how it was read.
"""
