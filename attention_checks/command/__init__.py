"""The commands: `attention-nb check` and `attention-nb audit`, and how they find what is named."""
