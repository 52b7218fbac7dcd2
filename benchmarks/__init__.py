"""How fast is it, beside others?

`make bench` measures; nothing in the book or its tests hangs on a clock.
"""
