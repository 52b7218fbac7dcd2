"""`python -m attention_nb`: the command of nbs/86_command_line.ipynb. Kept by hand, since nbdev makes no such module."""
import sys

from attention_nb.command_line import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m attention_nb"))
