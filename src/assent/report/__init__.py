"""The report: one offline HTML file, its words for single decisions, pictures of frontiers and rewards."""

from assent.report.data import ReportData
from assent.report.examples import in_words
from assent.report.figures import frontier_svg
from assent.report.lines import frontier_lines
from assent.report.page import build_report
from assent.report.rewards import rewards_svg
from assent.report.trust import certificate_facts

__all__ = [
    "ReportData",
    "build_report",
    "certificate_facts",
    "frontier_lines",
    "frontier_svg",
    "in_words",
    "rewards_svg",
]
