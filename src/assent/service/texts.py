"""The texts of all pages, one catalogue per language; English first. Plain words, as in a newspaper.

Another language is a second catalogue with the same keys, entered in `CATALOGUES`; tests compare the keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from assent.service.interactions import Row

PROMISES: Final = {
    "Never is never.": "An interaction of unwillingness 1 is turned away at the door: adding, changing or removing "
    'it changes no byte of any model, decision, figure or recommendation of anybody. Its owner still sees it '
    'listed as "never used".',
    "Withheld stays out of the model.": "Given the decisions, a withheld interaction changes no byte of the model "
    "that is served.",
    "Closed above a limit.": "With closed={closed} interactions of unwillingness above {closed} are not looked at to "
    "decide either: they are withheld unread, and promise 1 holds for them end to end.",
}
"""The promises, word for word as in README. They are not translated: they are what tests hold assent to."""

ENGLISH: Final[Mapping[str, str]] = {
    "skip": "Skip to the content",
    "brand": "{platform}: your say",
    "leave": "Leave",
    "nav": "Pages",
    "nav.overview": "Overview",
    "nav.entries": "What is known",
    "nav.categories": "Categories",
    "nav.recommendations": "Recommended",
    "nav.history": "History",
    "nav.data": "Your data",
    "nav.operator": "Overview",
    "nav.models": "Models",
    "nav.frontier": "Frontier",
    "nav.jobs": "Queue",
    "nav.audit": "Audit",
    "footer.promises": "What is promised, and what the words mean",
    "footer.quiet": "This page loads nothing from anywhere else, and works without scripts.",
    "save": "Save",
    "unsaved.one": "1 change is not saved yet",
    "unsaved.other": "{n} changes are not saved yet",
    "pages.first": "Back to the latest",
    "pages.next": "Older",
    # The five choices
    "choice.0": "Use freely",
    "choice.0.hint": "It may be used whenever it helps.",
    "choice.1": "I mind a little",
    "choice.1.hint": "It is used if it helps more than a little.",
    "choice.2": "I mind",
    "choice.2.hint": "It is used only if it helps clearly.",
    "choice.3": "I mind a lot",
    "choice.3.hint": "It is used only if it helps very much.",
    "choice.4": "Never",
    "choice.4.hint": "It is turned away at the door. No model ever sees it.",
    "choice.none": "No choice of its own",
    "choice.between": "Mind it at {number}, on a scale from 0 (use freely) to 1 (never)",
    "choice.as": "As for the rest: {choice}",
    # What became of an interaction
    "state.used": "Used",
    "state.withheld": "Not used",
    "state.never": "Never used",
    "state.closed": "Not looked at",
    "state.undecided": "Not decided yet",
    "why.worth": "It helps recommendations more than you mind its use.",
    "why.cost": "It would help, but less than you mind.",
    "why.no help": "It would not help recommendations.",
    "why.category.used": "It was decided together with its category, which helps more than you mind.",
    "why.category.withheld": "It was decided together with its category, which helps less than you mind.",
    "why.floor": "Alone it would not be used. It is needed for the least that you allowed.",
    "why.own budget": "It would help, but it would exceed the limit that you set.",
    "why.budget.used": "There was room for it within the limit for everybody.",
    "why.budget.withheld": "It would help, but the limit for everybody was used up.",
    "why.lot": "Chance decided, as this way of deciding has it.",
    "why.search": "Its use depends on what else is used. This was the best found for all together.",
    "why.used": "The way of deciding that is set up here uses it.",
    "why.withheld": "The way of deciding that is set up here leaves it out.",
    "why.never": "You said never. It is turned away at the door, and no model sees it.",
    "why.never.unsaid": "Nobody has asked you yet. Until you choose, it is not used.",
    "why.closed": "You mind it more than the limit above which nothing is looked at. It is left out unread.",
    "why.undecided": "It is newer than the model in service. The next model decides.",
    "why.changed": "You changed your mind since. The next model decides again.",
    "why.changed.never": "You said never since. It is already left out of what you are recommended, and the next "
    "model is trained without it.",
    # Who said so
    "source.item": "You said so of this entry.",
    "source.category": "You said so of the category {category}.",
    "source.everything": "You said so of everything.",
    "source.platform": "{platform} brought this from what you told them.",
    "source.unsaid": "Nothing was said, so that this is what {platform} assumes.",
    # Steps of a wish
    "step.requested": "stored",
    "step.decided": "decided",
    "step.trained": "trained as you wish",
    "step.served": "in service as you wish",
    "step.open": "(not yet)",
    "wish.everything": "Everything",
    "wish.withdrawal": "Everything withdrawn",
    "wish.category": "Category {target}",
    "wish.from": "You changed this from “{before}” to “{to}”.",
    "wish.first": "You chose “{to}”.",
    "wish.back": "You took back “{before}”.",
    "wish.withdrew": "You withdrew everything. Nothing of yours is used.",
    "wish.taken": "taken back",
    # Before a visit
    "welcome.title": "Recommendations that ask first",
    "welcome.lede": "Here people see what {platform} knows of them, what is used to recommend things, and say what they "
    "mind.",
    "welcome.come": "How to come in",
    "welcome.how": "{platform} gives you a personal link. It works once, for a few minutes, so that nobody else can use it. "
    "There is no password.",
    "welcome.demo": "This is a demo with simulated people. Anybody may come in.",
    "welcome.demo_person": "Come in as a person",
    "welcome.demo_operator": "Come in as the operator",
    "welcome.operator": "For operators",
    "enter.title": "Welcome",
    "enter.lede": "This link opens your own pages at {platform}.",
    "enter.once": "It works once. When you leave, ask for a new one.",
    "enter.go": "Open my pages",
    "operator_enter.title": "For operators",
    "operator_enter.lede": "Operators come in with a key of the scope admin.",
    "operator_enter.key": "Key",
    "operator_enter.go": "Come in",
    # Promises
    "promises.title": "What is promised",
    "promises.lede": "Tests compare these promises with the bytes of models, decisions and recommendations.",
    "promises.three": "Three promises",
    "promises.looked": "The decisions do depend on withheld interactions that are not closed, because they are looked at "
    "to decide.",
    "promises.words": "What the words mean",
    "promises.choices": "Your five choices",
    "promises.number": "As a number: {number}",
    "word.interaction": "Interaction, entry",
    "word.interaction.means": "One thing that you did, such as watching a film, with its time.",
    "word.unwillingness": "Unwillingness",
    "word.unwillingness.means": "How much you mind that an interaction is used, from 0 (use freely) to 1 (never).",
    "word.used": "Used, disclosed",
    "word.used.means": "The model learnt from it.",
    "word.withheld": "Not used, withheld",
    "word.withheld.means": "It was looked at to decide, and the model did not learn from it.",
    "word.never": "Never used",
    "word.never.means": "It was turned away at the door and not looked at.",
    "word.closed": "Not looked at, closed",
    "word.closed.means": "It is minded more than a limit that the operator set, and left out unread.",
    "word.model": "Model in service",
    "word.model.means": "What recommendations come from at present.",
    "word.receipt": "Receipt",
    "word.receipt.means": "A proof of what you said and when, which you can keep and check yourself.",
    # Errors
    "error.back": "Back to the first page",
    "error.400": "That could not be read",
    "error.400.detail": "Something in the form was not as expected. Go back and try again.",
    "error.401": "Please come in first",
    "error.401.detail": "There is no visit, it has ended, or the link was used. Ask the platform for a new link.",
    "error.403": "This is not open to you",
    "error.403.detail": "The form may be from an earlier visit. Go back, load the page again, and repeat what you did.",
    "error.404": "There is no such page",
    "error.404.detail": "The address is wrong, or what it named is gone.",
    "error.405": "That is not possible here",
    "error.405.detail": "Go back to the first page and try from there.",
    "error.409": "That does not fit",
    "error.409.detail": "What you asked for does not fit what is there now. Load the page again to see what changed.",
    "error.413": "That is too large",
    "error.413.detail": "The form has more in it than is accepted.",
    "error.422": "That was not accepted",
    "error.422.detail": "What was sent does not name something of yours, or is not one of the choices. Nothing was stored.",
    "error.429": "Please wait a minute",
    "error.429.detail": "There were too many attempts in a short time.",
    "error.500": "Something went wrong",
    "error.500.detail": "It is not your fault. Try again in a while.",
    "error.503": "Please try again",
    "error.503.detail": "The service is busy. Nothing was stored.",
    # Overview
    "overview.title": "Your data, your say",
    "overview.lede": "{platform} recommends things from what you did. Here you see what is known, what is used, and "
    "you decide what you mind.",
    "overview.known": "entries are known of you",
    "overview.used": "are used by the model in service",
    "overview.withheld": "were looked at and are not used",
    "overview.never": "are never used or not looked at",
    "overview.waiting": "are newer and not decided yet",
    "overview.empty": "Nothing is known of you so far. What you do at {platform} will appear here.",
    "overview.see": "See all that is known",
    "overview.everything": "One choice for everything",
    "overview.everything.about": "This counts for every entry, now and later, unless you choose something else for an "
    "entry or its category.",
    "overview.legend": "How may all that you do be used?",
    "overview.unsaid": "What you told {platform} before counts, or else: {choice}.",
    "overview.honoured": "How your wishes are honoured",
    "overview.honoured.about": "“Never” works in recommendations from the moment it is stored. All else follows with the next "
    "model.",
    "overview.honoured.none": "You have said nothing yet. When you do, this shows how far it is.",
    "overview.history": "All that you said",
    "overview.model": "The model in service",
    "overview.model.about": "It was put into service on {when}.",
    "overview.model.hash": "Its fingerprint",
    "overview.model.none": "There is no model in service yet, so that nothing of yours is used.",
    "said.saved": "Saved. It is stored for good, and you have a receipt under History.",
    "said.same": "Nothing changed, so that nothing was stored.",
    "said.withdrawn": "Everything is withdrawn. Nothing of yours is used for recommendations from now on.",
    "said.left": "You have left. Ask for a new link to come back.",
    # Entries
    "entries.title": "What is known of you",
    "entries.lede": "The latest come first. Change what you mind, then save.",
    "entries.search": "Search",
    "entries.category": "Category",
    "entries.state": "What became of it",
    "entries.all": "All",
    "entries.find": "Find",
    "entries.caption": "Your entries: what they are, what the model in service did with them, and your choice",
    "entries.what": "Entry",
    "entries.model": "In the model in service",
    "entries.choice": "Your choice",
    "entries.label": "How may “{name}” be used?",
    "entries.empty": "Nothing is known of you so far.",
    "entries.nothing": "Nothing fits this search.",
    # One entry
    "entry.back": "All that is known",
    "entry.model": "In the model in service",
    "entry.figures": "The figures behind it",
    "entry.figures.about": "They are estimates, in units of a loss: the larger, the more it matters to recommendations.",
    "entry.value": "What it is worth",
    "entry.cost": "What its use costs you",
    "entry.price": "The price of one unit of unwillingness",
    "entry.worth_owner": "Worth to your own recommendations",
    "entry.worth_everybody": "Worth to everybody’s",
    "entry.together": "Entries decided together",
    "entry.choice": "Your choice",
    "entry.now": "At present: {choice}. {source}",
    "entry.legend": "How may this be used?",
    "entry.inherited": "What you said of its category or of everything counts.",
    "entry.of": "{day}, {categories}",
    # Categories
    "categories.title": "By category",
    "categories.lede": "A choice for a category counts for all its entries, now and later, unless an entry has its own.",
    "categories.caption": "Your categories and your choice for each",
    "categories.what": "Category",
    "categories.model": "Entries",
    "categories.label": "How may the category “{name}” be used?",
    "categories.empty": "{platform} has not put anything of yours into a category.",
    # Recommendations
    "recommendations.title": "What is recommended to you",
    "recommendations.lede": "And why. What you have had is not shown, and what you withhold speaks for nothing.",
    "recommendations.list": "Your list at present",
    "recommendations.none": "Nothing is recommended at present.",
    "recommendations.own": "This list comes from what you disclose.",
    "recommendations.general": "You disclose nothing that this model knows, so that you get what most people like.",
    "recommendations.because": "Because of {items}",
    "recommendations.and": "and",
    "recommendations.popular": "Many people disclose it",
    "recommendations.change": "To change it, say what you mind:",
    "mark.gone": "would go",
    "mark.new": "would be new",
    # Preview
    "preview.ask": "See what it would change",
    "preview.title": "What it would change",
    "preview.supposed": "If you choose “{choice}” for {what}:",
    "preview.supposed.none": "If you take back your choice for {what}:",
    "preview.everything": "everything",
    "preview.category": "the category {target}",
    "preview.same": "your recommendations would stay the same.",
    "preview.differ": "{gone} of {all} recommendations would change.",
    "preview.order": "the same things would be recommended, in another order.",
    "preview.how": "The model in service computes both lists at once. When the next model is trained, it may learn more or "
    "less of you than this shows.",
    "preview.now": "Now",
    "preview.then": "Then",
    "preview.nothing": "Nothing is stored yet.",
    "preview.save": "Save this choice",
    "preview.back": "Go back",
    # History
    "history.title": "All that you said",
    "history.lede": "Each wish goes four steps, and you get a receipt for each.",
    "history.receipts": "Receipts:",
    "history.empty": "You have said nothing yet.",
    # Receipts
    "receipt.title": "Receipt",
    "receipt.back": "All that you said",
    "receipt.requested": "What you said was stored.",
    "receipt.decided": "It was decided as you wished.",
    "receipt.trained": "A model was trained as you wished.",
    "receipt.served": "A model that honours your wish was put into service.",
    "receipt.good": "Checked just now: this receipt is what was written, and the ledger has it.",
    "receipt.bad": "This receipt does not fit the ledger. Keep it, and tell the operator.",
    "receipt.facts": "What it says",
    "receipt.about": "About",
    "receipt.said": "You said",
    "receipt.when": "When",
    "receipt.id": "Number",
    "receipt.leaf": "Place in the ledger",
    "receipt.download": "Keep it (JSON)",
    "receipt.offline": "Anybody can check it without this service:",
    # Your data
    "data.title": "Your data",
    "data.take": "Take it with you",
    "data.take.about": "All that is known of you in one file: entries, wishes, decisions, receipts.",
    "data.take.go": "Download (JSON)",
    "data.receipts": "Your receipts",
    "data.receipts.about": "Each proves what you said, when, and how far it was honoured.",
    "data.receipts.none": "None yet: you get one with your first wish.",
    "data.withdraw": "Withdraw everything",
    "data.withdraw.about": "Say never to all that is known of you, now and later, in one step.",
    "data.withdraw.go": "Withdraw everything…",
    "withdraw.title": "Withdraw everything?",
    "withdraw.lede": "From the moment you confirm, nothing of yours is used to recommend anything.",
    "withdraw.one": "All {n} entries become “Never”, and so does all that comes later.",
    "withdraw.two": "Choices that you made for entries and categories end.",
    "withdraw.three": "The next model is trained without anything of yours. You get receipts for each step.",
    "withdraw.four": "You can choose again at any time. {platform} goes on to store the entries themselves.",
    "withdraw.go": "Yes, withdraw everything",
    "withdraw.back": "No, go back",
    # Operator
    "operator.title": "Operation",
    "operator.lede": "Counts and figures. No rows of people are shown here.",
    "operator.people": "people",
    "operator.interactions": "interactions",
    "operator.never": "never used",
    "operator.wishes": "wishes in force",
    "operator.open": "wishes not yet in service",
    "operator.receipts": "receipts",
    "operator.model": "The model in service",
    "operator.no_model": "None yet. Start a training.",
    "operator.published": "Into service",
    "operator.trained": "Trained",
    "operator.hash": "Fingerprint",
    "operator.violation": "Violation, share of All’s",
    "operator.quality": "Quality",
    "operator.disclosed": "Disclosed",
    "operator.disclosed.of": "{some} of {all}",
    "operator.times": "Time to honour",
    "operator.times.about": "From the moment a wish is stored, over the last 30 days.",
    "operator.times.caption": "Time from request to each state",
    "operator.state": "State",
    "operator.count": "Wishes",
    "operator.median": "Median",
    "operator.worst": "Worst",
    "operator.waiting": "Waiting",
    "operator.never_served": "Never and withdrawals are left out of recommendations from the moment they are stored.",
    "operator.queue": "Queue",
    "operator.queue.counts": "{queued} waiting, {running} running, {done} done, {failed} failed.",
    "operator.failed": "{n} jobs failed: see the queue.",
    "models.title": "Models",
    "models.lede": "Every model that was trained, and what became of it.",
    "models.violation": "Violation over models",
    "models.quality": "Quality over models",
    "models.caption": "Models, latest first",
    "models.id": "Model",
    "models.kind.train": "trained anew",
    "models.kind.update": "updated",
    "models.in_service": "In service",
    "models.publish": "Put into service",
    "models.publish.label": "Put model {n} into service",
    "models.back": "Roll back to the model before",
    "models.back.about": "A model that used what people have since said never to is refused.",
    "models.none": "No model yet. Start a training under Queue.",
    "said.published": "Model {n} is in service.",
    "frontier.title": "The frontier",
    "frontier.lede": "How good recommendations are for each share of what people mind.",
    "frontier.picture": "Quality against the violation, as a share of All’s; the operating point is marked",
    "frontier.none": "The run of the model in service has not measured a frontier. Set budgets as `frontier` in the service’s "
    "settings, and train.",
    "frontier.caption": "What moving the operating point would do, as measured by the run of the model in service",
    "frontier.budget": "Violation",
    "frontier.quality": "Quality",
    "frontier.disclosed": "Disclosed",
    "frontier.moving": "Moving there",
    "frontier.here": "The operating point",
    "frontier.move": "quality {quality}, violation {violation}",
    "frontier.axis.x": "violation, share of All’s",
    "frontier.axis.y": "quality",
    "jobs.title": "Queue",
    "jobs.lede": "Workers take these jobs one after the other.",
    "jobs.start": "Start",
    "jobs.train": "Train anew",
    "jobs.update": "Update the model",
    "jobs.start.about": "An equal job that waits already is not added twice.",
    "jobs.caption": "Jobs, latest first",
    "jobs.id": "Job",
    "jobs.state": "State",
    "jobs.created": "Asked",
    "jobs.took": "Took",
    "jobs.attempts": "Attempts",
    "jobs.error": "What happened",
    "jobs.none": "No jobs yet.",
    "jobs.state.queued": "waiting",
    "jobs.state.running": "running",
    "jobs.state.done": "done",
    "jobs.state.failed": "failed",
    "said.started": "Job {n} waits for a worker.",
    "audit.title": "Audit",
    "audit.lede": "Every event is a leaf of an append-only ledger, sealed in batches. Leaves hold no personal data.",
    "audit.heads": "Heads",
    "audit.heads.about": "Keep a head elsewhere: from then on, no leaf before it can be changed unnoticed.",
    "audit.heads.caption": "Seals, latest first",
    "audit.number": "Seal",
    "audit.leaves": "Leaves",
    "audit.at": "When",
    "audit.head": "Head",
    "audit.events": "Events",
    "audit.events.caption": "Events, latest first",
    "audit.event": "Event",
    "audit.facts": "Facts",
    "audit.none": "Nothing yet.",
    "audit.download": "Download the ledger",
    "audit.offline": "Check it without this service:",
}
CATALOGUES: Final[Mapping[str, Mapping[str, str]]] = {"en": ENGLISH}
_MONTHS = "January February March April May June July August September October November December".split()


@dataclass(frozen=True)
class Choice:
    """One of the five choices."""

    value: str
    """The unwillingness, as forms send it."""
    label: str
    hint: str


class Texts:
    """The texts of one language, and how it writes numbers and times."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._catalogue = CATALOGUES[language]
        self.choices = tuple(
            Choice(value, self(f"choice.{place}"), self(f"choice.{place}.hint"))
            for place, value in enumerate(UNWILLINGNESS)
        )
        self._labels = {float(choice.value): choice.label for choice in self.choices}

    def __call__(self, key: str, /, **values: object) -> str:
        """Return a text with its values."""
        text = self._catalogue[key]
        return text.format(**values) if values else text

    def choice(self, unwillingness: float) -> str:
        """Return an unwillingness in words."""
        return self._labels.get(unwillingness) or self("choice.between", number=f"{unwillingness:g}")

    def number(self, value: int) -> str:
        """Return a whole number as people write it."""
        return f"{value:,}"

    def iso(self, moment: float) -> str:
        """Return a moment as machines read it."""
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")

    def day(self, moment: float) -> str:
        """Return the day of a moment."""
        at = datetime.fromtimestamp(moment, UTC)
        return f"{at.day} {_MONTHS[at.month - 1]} {at.year}"

    def when(self, moment: float) -> str:
        """Return a moment to the minute."""
        return f"{self.day(moment)}, {datetime.fromtimestamp(moment, UTC):%H:%M} UTC"

    def duration(self, seconds: float | None) -> str:
        """Return a time span."""
        if seconds is None:
            return "–"
        for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
            if seconds >= 2 * size:
                return f"{seconds / size:.1f} {unit}"
        return f"{seconds:.1f} s"

    def why(self, row: Row) -> str:
        """Return why an interaction is used or not, in words."""
        decided = row.decided_unwillingness
        if decided is not None and decided != row.unwillingness:
            return self("why.changed.never" if row.unwillingness == 1 else "why.changed")
        if row.state == "never" and row.source == "unsaid":
            return self("why.never.unsaid")
        if row.state in ("never", "closed", "undecided"):
            return self(f"why.{row.state}")
        for key in (f"why.{row.reason}.{row.state}", f"why.{row.reason}", f"why.{row.state}"):
            if key in self._catalogue:
                return self(key)
        return ""

    def source(self, row: Row, platform: str) -> str:
        """Return who said how an interaction may be used."""
        return self(f"source.{row.source}", category=row.source_target, platform=platform)

    def promises(self, closed: float | None) -> list[tuple[str, str]]:
        """Return the promises, the last with the limit that is set, or as an example."""
        limit = "0.8" if closed is None else f"{closed:g}"
        return [(name, text.replace("{closed}", limit)) for name, text in PROMISES.items()]


UNWILLINGNESS: Final = ("0", "0.25", "0.5", "0.75", "1")
"""The five choices as forms send them, from "use freely" to "never"."""
_TEXTS: Final = {language: Texts(language) for language in CATALOGUES}


def texts_for(accepted: str) -> Texts:
    """Return the texts of the first accepted language that there is; English otherwise."""
    for part in accepted[:200].split(","):
        language = part.partition(";")[0].strip().lower().partition("-")[0]
        if language in _TEXTS:
            return _TEXTS[language]
    return _TEXTS["en"]
