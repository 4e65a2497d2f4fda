"""fieldcal inside other people's tools: each module needs an extra of its name, and loads it when it is called."""
