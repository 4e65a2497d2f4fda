"""The scikit-learn contract around the four verbs; no formulas."""
