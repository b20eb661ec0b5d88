"""Table of the appendix: precision, NDCG and MRR of the overall comparison."""

from collections.abc import Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce.base import Findings
from assent.experiments.reproduce.cells import Record
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.overall import Overall
from assent.experiments.reproduce.plan import Plan


class MoreMetrics(Overall):
    """The cells of Overall, other figures of them."""

    name: ClassVar[str] = "more-metrics"
    title: ClassVar[str] = "Overall comparison, more metrics"
    where: ClassVar[str] = "Appendix, overall comparison with more performance evaluation"
    about: ClassVar[str] = "The models of the overall comparison, judged by precision, NDCG and MRR at 5."

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table, NDCG as charts, the paper's table beside it."""
        table = grid(
            self.name,
            f"{self.title}, price 1, at 5",
            records,
            labels=m.METHOD_LABEL,
            columns=[m.PRECISION, m.NDCG, m.MRR],
            reference=m.REFERENCE,
        )
        charts = m.charts_by_model(table, "ndcg", "NDCG@5 %", factor=100)
        return Findings([table], charts, m.beside_table(plan, table, "more_metrics"), [table.legend])
