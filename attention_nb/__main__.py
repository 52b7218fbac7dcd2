"""`python -m attention_nb`: the command `attention-nb`. Kept by hand, since nbdev makes no such module."""
import sys

from attention_nb_command import main

if __name__ == "__main__":
    sys.exit(main(prog="python -m attention_nb"))
