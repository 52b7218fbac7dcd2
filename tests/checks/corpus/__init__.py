"""Right and wrong attention, to prove that `attention_checks` tells them apart: `make corpus`."""
