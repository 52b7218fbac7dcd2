"""`python -m attention_nb`: the command of nbs/checks/command_line.ipynb. Kept by hand, since nbdev makes no such module."""
import sys

from attention_nb.checks.command_line import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m attention_nb"))
