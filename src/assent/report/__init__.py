"""The report of a run: one offline HTML file, and its words for single decisions."""
