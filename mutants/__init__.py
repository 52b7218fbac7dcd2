"""Right and wrong attention, to prove that `attention_nb.checks` tells them apart: `make mutants`."""
