"""The report: one offline HTML file, and its words for single decisions."""

from assent.report.data import ReportData
from assent.report.examples import in_words
from assent.report.page import build_report

__all__ = ["ReportData", "build_report", "in_words"]
