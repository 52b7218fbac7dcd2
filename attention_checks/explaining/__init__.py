"""Attention as stages, and which bugs of the catalogue give the numbers that were seen.

pipeline.py     the stages of attention; a bug replaces one or more of them
reach.py        which keys a query may attend to: windows, sinks, documents
search.py       the simplest bugs of the catalogue that give those numbers
fitting.py      bugs with a number that is not known beforehand, such as a wrong scale
one_step.py     a change of one step in a declared function; one_factor.py: a factor of it
callers.py      the line of a declared function in which that step stands
cache_steps.py  of a step with a cache: what is wrong in it
"""
