"""fieldcal.mlflow: labs and estimates as artefacts of a run, and a model with its recalibration as one model."""
