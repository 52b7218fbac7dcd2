"""What one call of a layer computed: its queries, keys and values, and all ways to read them."""

from attention_checks.trace.tracing import Trace, trace_layer

__all__ = ["Trace", "trace_layer"]
