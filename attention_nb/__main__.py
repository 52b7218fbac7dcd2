"""`python -m attention_nb`: the command `attention-nb`. Kept by hand, since nbdev makes no such module."""
import importlib
import sys

import attention_nb
from attention_nb_command import main, parsed

if __name__ == "__main__":
    prog = "python -m attention_nb"
    if parsed(sys.argv[1:], prog).command != "explain":  # help and errors come before PyTorch
        importlib.reload(attention_nb)  # now with all its names, which need PyTorch
    sys.exit(main(prog=prog))
