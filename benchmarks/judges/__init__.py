"""True shares from the verdicts of a judge and a few human labels: fieldcal beside truescore, judgy, ppi-python, GLIDE.

`trial` says what every method is given, `peers` and `ours` who takes part, one module per part what is measured,
`tally` what becomes of an answer, `page` how it is shown, `command` is the command line. A peer that is not installed
is left out, and it is said.
"""
