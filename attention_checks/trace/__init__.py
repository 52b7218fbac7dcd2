"""What one call of a layer computed: its queries, keys and values, and all ways to read them.

How a check finds that the split into heads of a layer is wrong (`split.viewed`):

1. roles.py tells by names, or by `roles=`, which parts of the layer project: `q_proj` gives
   queries. recording.py calls the layer once, and keeps what went in and out of each.
2. own_stages.py makes steps of what was declared, such as `softcap=` or `gate=`. One that may be
   meant in several ways gives several `RightStep`s, each with the bugs in its place.
3. input_projections.py reads what they gave, and tracing.py puts all this together as a `Trace`,
   a frozen value. What follows only reads it: the layer is not called again.
4. readings.py splits the projections into heads in every way that papers use, each a `_Reading`.
   With the stages it becomes a `Start`: a `Case`, from which the right output is computed; the bugs
   that this reading assumes, such as `project.untransposed`; and bugs that only it may have.
5. comparing.py goes through the starts, those without bugs first. Where one gives the output of
   the layer, its bugs are the answer: `()` says that the layer is right. Here none does.
6. Then explaining/search.py replaces stages by those of known bugs: a start whose `split` is that
   of `split.viewed` gives the output. Had it not, fitting.py would try numbers such as a scale;
   changed_step.py, changes in a declared function. `None` says that nothing known fits.
7. subjects/diagnosis.py does this for the layer as declared and, if it does not fit, for what its
   names suggest (guesses.py), and for rotations that were not declared (rotating.py).

own_norms.py holds the stages of norms, tables.py finds cosines and sines that rotate, and
token_order.py is for layers whose parts see the tokens in another order than the layer.
"""

from attention_checks.trace.tracing import Trace, trace_layer

__all__ = ["Trace", "trace_layer"]
