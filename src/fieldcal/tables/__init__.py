"""The verbs on tables of pandas, polars, pyarrow, DuckDB and PySpark, on files, and as SQL.

Each verb is a statement, which DuckDB or Spark runs where the table is: ``count`` is one GROUP BY, ``recalibrate`` one
join with a small table of weights. Only groups × bins numbers come to Python. Columns of predicted quantiles are read
into memory.
"""

from fieldcal.tables.change_prevalence import change_prevalence, change_prevalence_file
from fieldcal.tables.count import count, pairs
from fieldcal.tables.count_table import read_counts
from fieldcal.tables.decide import decide, decide_file
from fieldcal.tables.learn import learn
from fieldcal.tables.recalibrate import recalibrate, recalibrate_file
from fieldcal.tables.rows_to_label import read_labelled, rows_to_label
from fieldcal.tables.sql import change_prevalence_statement as sql_change_prevalence
from fieldcal.tables.sql import count_statement as sql_count
from fieldcal.tables.sql import decide_statement as sql_decide
from fieldcal.tables.sql import recalibrate_statement as sql_recalibrate

__all__ = [
    "change_prevalence",
    "change_prevalence_file",
    "count",
    "decide",
    "decide_file",
    "learn",
    "pairs",
    "read_counts",
    "read_labelled",
    "recalibrate",
    "recalibrate_file",
    "rows_to_label",
    "sql_change_prevalence",
    "sql_count",
    "sql_decide",
    "sql_recalibrate",
]
