"""Attention as stages, and which bugs of the catalogue give the numbers that were seen.

pipeline.py     the stages of attention; a bug replaces one or more of them
reach.py        which keys a query may attend to: windows, sinks, documents
search.py       the simplest bugs of the catalogue that give those numbers
fitting.py      bugs with a number that is not known beforehand, such as a wrong scale
changed_step.py a change of one step in a declared function, or a factor of it
cache_steps.py  of a step with a cache: what is wrong in it
"""
