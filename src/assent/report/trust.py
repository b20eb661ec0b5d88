"""How far the decision can be trusted, one sentence per fact of its certificate."""

from collections.abc import Mapping, Sequence

from assent.report.data import ReportData
from assent.report.html import Html, bullets, tag
from assent.report.numbers import listed, number, percent, plural


def trust_section(data: ReportData) -> Html:
    """The certificate in words; nothing where there is none."""
    facts = certificate_facts(data.certificate)
    return tag("section", tag("h2", "How far to trust the decision"), bullets(facts)) if facts else Html("")


def certificate_facts(certificate: Mapping[str, object]) -> list[str]:
    """What the certificate says, in sentences; figures that it lacks are left out."""
    figures = {key: value for key, value in certificate.items() if isinstance(value, int | float)}
    facts = []
    if "largest_gain" in figures:
        share = (
            f" ({percent(figures['largest_gain_share'], 2)} of the mean reward)"
            if "largest_gain_share" in figures
            else ""
        )
        facts.append(
            f"Nobody could gain more than {number(figures['largest_gain'])} loss units by deciding otherwise "
            f"alone{share}; on average {number(figures['mean_gain'])}."
        )
    if "anarchy_cost" in figures:
        facts.append(_anarchy(figures))
    rounds = certificate.get("rounds_nearest")
    if isinstance(rounds, Sequence) and len(rounds) > 1:
        counts = [f"{count} for anchor {t}" for t, count in enumerate(rounds, 1) if count]
        facts.append(
            f"Anchor {certificate['nearest_anchor']} is the nearest to what was decided. Of "
            f"{plural(sum(rounds), 'round')}, so many ended nearest to each: {listed(counts)}."
        )
    if "true_reward" in figures:
        facts.append(_rewards(figures))
    if figures.get("floors_missed"):
        users = plural(int(figures["floors_missed"]), "user")
        facts.append(
            f"Of {users} fewer interactions are disclosed than the floor asks for: their budgets leave no "
            "room for more, or they have no more."
        )
    if figures.get("budgets_exceeded"):
        facts.append(f"{plural(int(figures['budgets_exceeded']), 'budget')} of single users are exceeded.")
    return facts


def _anarchy(figures: Mapping[str, float]) -> str:
    ratio = f", {number(figures['price_of_anarchy'])} times the cost" if "price_of_anarchy" in figures else ""
    return (
        f"If each decides for herself, all together lose {number(figures['anarchy_cost'])} of predicted "
        f"reward per person against the best for all{ratio} (the price of anarchy)."
    )


def _rewards(figures: Mapping[str, float]) -> str:
    true = f"The true reward after training is {number(figures['true_reward'])} per person"
    if "predicted_reward" not in figures:
        return f"{true}; nothing was predicted."
    off = f", {percent(figures['prediction_error'], 1)} off" if "prediction_error" in figures else ""
    return f"{true}; {number(figures['predicted_reward'])} was predicted{off}."
