"""Tables in files, through DuckDB: CSV, parquet, and what may stand where."""
