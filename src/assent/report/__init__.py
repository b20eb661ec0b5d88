"""The report: one offline HTML file."""
