"""The results of ``benchmarks.do_no_harm``, and their page."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import stats

from benchmarks.loss_gaps import LossGap

PROMISED = 0.05  # largest share of clients that lose more than 2%
FEWEST = 20  # rows of a client, in one setting of each set


@dataclass(frozen=True)
class Outcome:
    """What one draw gave.

    Attributes:
        clients: number of clients.
        gain: relative gain of the best alternative on held-out rows.
        harmed: share of clients with a higher test loss than their own model has.
        harmed_2: share that loses more than 2%.
        loss: mean test loss, relative to the own models.
        paired_harmed_2: the same share for the paired test of whole models.
        paired_loss: the mean test loss with this test.
    """

    clients: int
    gain: float
    harmed: float
    harmed_2: float
    loss: float
    paired_harmed_2: float
    paired_loss: float


@dataclass(frozen=True)
class Result:
    """The means of a set's draws.

    Attributes:
        name: name of the set.
        samples: rows of a client for training and choice.
        new: whether the rule was made without this set.
        outcome: means over draws.
        gap: of these draws.
        further: of further draws, if the loss is higher than the one of the paired test.
    """

    name: str
    samples: int
    new: bool
    outcome: Outcome
    gap: LossGap
    further: LossGap | None

    @property
    def harmed(self) -> float:
        """Number of clients that lose more than 2%, mean over draws."""
        return self.outcome.harmed_2 * self.outcome.clients

    @property
    def limit(self) -> float:
        """Upper 95% limit of the share of clients that lose more than 2%."""
        return upper_limit(self.harmed, self.outcome.clients)

    @property
    def line(self) -> str:
        """The result as a row of the page."""
        one = self.outcome
        return (
            f"| {self.name} | {self.samples} | {one.clients} | {one.gain:+.0%} "
            f"| {one.harmed:.1%} | {one.harmed_2:.1%} | {self.limit:.1%} | {one.loss:.3f} "
            f"| {one.paired_harmed_2:.1%} | {one.paired_loss:.3f} |"
        )


def upper_limit(harmed: float, clients: int) -> float:
    """The exact one-sided upper 95% limit of a share of clients (Clopper and Pearson).

    The clients of one draw are the sample: other draws have the same clients, so they add none. If
    no client is harmed, the limit is above 0: 5% for 59 clients.

    Args:
        harmed: number of harmed clients of a draw; a mean over draws need not be whole.
        clients: number of clients of a draw.
    """
    if harmed >= clients:
        return 1.0
    return float(stats.beta.ppf(0.95, harmed + 1, clients - harmed))


HEAD = (
    "| set | rows | clients | gain | worse | worse by > 2% | upper limit | loss | paired: > 2% | "
    "paired: loss |\n|---|---|---|---|---|---|---|---|---|---|"
)


def compared_losses(results: list[Result]) -> str:
    """In how many settings the mean loss is at most the one of the paired test, and by how much it
    is higher in the others, with the standard error over draws."""
    higher = [one for one in results if one.gap.mean > 0]
    at_most = len(results) - len(higher)
    text = f"The mean loss is at most the one of the paired test in {at_most} of {len(results)}"
    if not higher:
        return f"{text} settings."
    text += " settings.\nIt is higher on the following, with the standard error over draws:"
    for one in higher:
        text += f"\n\n* {one.name} with {one.samples} rows: {one.gap}"
        if one.further is not None:
            text += f";\n  in {one.further.draws} further draws: {one.further}"
    return text


def promise(results: list[Result]) -> str:
    """In how many settings the promise held, what their clients can show, and what those of all
    sets can show together."""
    kept = [one for one in results if one.outcome.harmed_2 <= PROMISED]
    broken = [one for one in results if one.outcome.harmed_2 > PROMISED]
    shown = [one for one in results if one.limit <= PROMISED]
    least = min(n for n in range(1, 1000) if upper_limit(0, n) <= PROMISED)
    text = f"In the mean over draws it held in {len(kept)} of {len(results)} settings"
    text += f" (at most {max(one.outcome.harmed_2 for one in results):.1%})."
    if broken:
        names = ", ".join(f"{one.name} with {one.samples} rows" for one in broken)
        text += f" It did not hold on {names}."
    text += f"\nThe upper limit is at most {PROMISED:.0%} in {len(shown)} of {len(results)}: "
    text += f"fewer than {least} clients cannot show it,\neven if none of them loses."
    few = [one for one in results if one.samples == FEWEST]
    harmed = sum(one.harmed for one in few)
    clients = sum(one.outcome.clients for one in few)
    if clients:
        text += f" Of the {clients} clients of all sets with {FEWEST} rows,\n"
        text += f"{harmed / clients:.1%} lose more than 2% "
        text += f"(upper limit {upper_limit(harmed, clients):.1%})."
    return text


def page(results: list[Result], draws: int) -> str:
    """The page of results."""
    known = "\n".join(one.line for one in results if not one.new)
    new = "\n".join(one.line for one in results if one.new)
    return f"""# Measured: do no harm

This page is written by `python -m benchmarks.do_no_harm --write`. The promise of the rule is that
at most 5% of clients lose more than 2% against their own model.
{promise(results)}

Each client has a few random rows for everything: its own model, the shared models and the choice.
All its other rows measure the truth. Models are linear and fitted exactly. There are {draws} draws.
The upper limit is the exact one-sided 95% limit of a share (Clopper and Pearson), as if the clients
of one draw were a sample of others.

Tables are encoded and scaled as fedkin does: columns of 0 and 1 are not scaled. In an earlier
measurement of the same draws they had standard deviation 1, so the penalty was smaller for them.
Then 4.5% of the clients of exam with 20 rows lost more than 2%.

* *gain*: relative gain of the best half-and-half mixture on held-out rows; the gate opens at 10%.
* *worse*: share of clients with a higher test loss than their own model has.
* *loss*: mean test loss, relative to the own models.
* *paired*: the same numbers if each client takes the best of the two whole models by its own paired
  t-test.

{compared_losses(results)}

## Sets on which the rule was made

{HEAD}
{known}

## Other sets

{HEAD}
{new}

## Next

* [Do clusters help here?](do-clusters-help.md#do-no-harm): the rule, and how to use it.
* [Data sets and models](data-sets.md#natural-federations): where these federations come from.
"""
