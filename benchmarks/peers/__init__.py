"""fieldcal beside QuaPy, mlquantify, quantificationlib and scikit-learn, on the same scores in one run.

`data` says what a table is, `methods` who takes part, one module per table what is measured, `page` how it is shown,
`run` is the command. The peers are imported where they are called, so that one that is missing or fails is reported in
its row and the run goes on.
"""
