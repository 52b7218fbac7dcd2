"""Released packages held against attention_nb.checks: what is tried, what was found, and how it was read."""
