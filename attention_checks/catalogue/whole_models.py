"""What is wrong with a whole model: padding that counts, layers that break a promise."""

from attention_checks.explaining.pipeline import Bug, bugs_of_lines

BUGS: list[Bug] = bugs_of_lines(
    """
padding.left: padding on the left changes real tokens: hide it with the mask in each layer
padding.right: padding on the right changes real tokens: hide it with the mask in each layer
padding.memory: padding of the encoder's sequence changes the decoder's tokens: hide it from
    cross-attention
padding.counted: padding on the {side} changes real tokens, though what it holds does not matter: it
    is counted, in positions, a length or a mean
padding.nan: padding gives NaN: a query that may attend to nothing must give zero
promise.scale: the scores are multiplied by {found}, but the config promises {promised}
"""
)
