"""Decides what each part's gradient is multiplied by, so that those of all parts add up to the batch's.

Replicas agree once on what the n-th loss of a batch is. Each of them looks at every loss again. Where one sees
another kind than was agreed, all do that batch again and agree anew.
A *trial* tells what the graph does not: the batch is done again as a whole, and compared with its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ..collective.group import Group
from .loss_kind import Kind, Term, agreed, summary
from .loss_pieces import Piece, add_up, chosen_by_place, piece_of
from .loss_terms import Unclear, fits, samples_meet, terms_of

WHOLE_BATCHES = (
    "the loss is no sum over the samples of a batch, as far as its graph and its values show; every replica "
    "computes whole batches, so that more replicas do not make a step faster. Where it is a mean over samples, "
    'say coadapt.prepare(…, loss="mean"); where it is one over n items, coadapt.weight(n) before each backward'
)
# At most so many batches are done twice to find out what a loss is.
MOST_TRIALS = 8
# After so many times that a loss was of another kind than was agreed, its batches are no longer divided.
MOST_DISAGREEMENTS = 16
_LEAST_COUNT = 1e-12  # stands for no item at all
_OPAQUE = -1  # the number of terms of a loss that cannot be looked into


class Plan(Protocol):
    """What is asked of a part (`part_plan.PartPlan`)."""

    @property
    def samples(self) -> int: ...

    @property
    def batch(self) -> int: ...

    @property
    def copies(self) -> int: ...

    @property
    def merged(self) -> int: ...

    @property
    def visible(self) -> bool: ...

    @property
    def last(self) -> bool:
        """Whether it is the last pass of its batch."""


class Again(Exception):
    """Raised where this part has to be done again, as a whole batch or in one pass."""


@dataclass(frozen=True)
class Share:
    """What a part's gradients are multiplied by.

    root: the factor of the gradient of the loss.
    weight: what this part adds to a sum that is 1 in the end, or is brought to 1.
    terms: nodes of the loss's graph, each with the factor of its gradient.
    counted: the node of a mean over what is counted, where `root` is on a GPU and may be 0.
    """

    root: Any = 1.0
    weight: Any = 0.0
    terms: Sequence[tuple[Any, Any]] = ()
    counted: Any = None


@dataclass(frozen=True)
class Agreed:
    """What all replicas take a loss for.

    divisors: constants that sums were divided by. items: per sample.
    partial: samples may be left out.
    pieces: backwards that are a part together; 0 where each is all of it.
    """

    kind: Kind
    terms: tuple[Kind, ...] = ()
    divisors: tuple[float | None, ...] = ()
    items: float = 1.0
    partial: bool = False
    pieces: int = 0


@dataclass(frozen=True)
class Told:
    """What one replica says of a loss.

    kinds: None where the loss cannot be looked into.
    pieces: -1 where the loss is one of several backwards of a part that were not all seen yet.
    """

    kinds: tuple[Kind, ...] | None
    counts: tuple[float | None, ...]
    sure: bool
    only_whole: bool
    samples: int
    known: Mapping[int, Agreed]
    partial: bool = False
    pieces: int = 0
    factors: tuple[float | None, ...] = ()
    may_be_piece: bool = False  # it may be one of equal pieces of the whole batch, as large as this part or larger

    @property
    def key(self) -> int:
        return _OPAQUE if self.kinds is None else len(self.kinds)


@dataclass
class LossWeights:
    """Knows what the losses of a script are, and gives each backward its share.

    given: what the script says of its losses.
    whole: only whole batches give the right gradient.
    trial: the next batch is computed as a whole, to find out.
    counted: weights are added up over all replicas before each backward, so a batch takes one pass.
    """

    tell: Callable[[str], None]
    given: Kind = Kind.UNKNOWN
    trial: bool = False
    counted: bool = False
    new: bool = True  # no batch was trained on yet
    stale: Any = 0.0  # of the running backward: not 0 where what was agreed does not hold; may be on a GPU
    whole: bool = False
    _unlike: Any = 0.0  # not 0 where counts on a GPU differ that were taken for one
    _weight: Tensor | float | None = None  # of the running part, as the script said
    _agreed: dict[int, dict[int, Agreed]] = field(default_factory=dict)  # by backward, by number of terms
    _shared: set[int] = field(default_factory=set)  # backwards that this group has agreed on
    # by backward: samples and losses of parts
    _tried: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    # by backward: what parts were seen to be, while there is a trial
    _told: dict[int, Told] = field(default_factory=dict)
    _trials: int = 0
    _disagreements: int = 0
    # by backward: factors of losses in an earlier pass
    _factors: dict[int, Sequence[float | None]] = field(default_factory=dict)
    _missed: dict[int, list[Told]] = field(default_factory=dict)  # by backward: what did not fit what was agreed
    _seen: list[Piece] = field(default_factory=list)  # of the running part's backwards
    _records: dict[int, list[Piece]] = field(default_factory=dict)  # by samples of a part: all its backwards
    _in_pieces: bool = False  # the script makes several backwards, each of some samples of its part
    _may_be_piece: bool = False  # the first loss may be a piece of the batch, as far as parts show

    def __post_init__(self) -> None:
        self.whole = self.given is Kind.BATCH

    @property
    def undivided(self) -> bool:
        """Whether a batch has to be one pass on each replica."""
        return self.whole or self.trial or self.counted

    @property
    def sums(self) -> bool:
        """Whether the first loss of a batch is a sum over samples."""
        kinds = {entry.kind for entry in self._agreed.get(0, {}).values()}
        return self.given is Kind.SUM or kinds == {Kind.SUM}

    @property
    def kinds(self) -> list[Kind]:
        """What the losses of a batch are taken for so far, in the order of their backwards."""
        if self.whole:
            return [Kind.BATCH]
        if self.given is not Kind.UNKNOWN:
            return [self.given]
        return [entry.kind for _, entries in sorted(self._agreed.items()) for entry in entries.values()]

    @property
    def learned(self) -> tuple[bool, bool, bool]:
        """What holds from now on, for those who come later."""
        return self.whole, self.counted, self._in_pieces

    def learn(self, whole: bool, counted: bool, in_pieces: bool = False) -> None:
        self.whole, self.counted = self.whole or whole, self.counted or counted
        self._in_pieces |= in_pieces

    def regrouped(self) -> None:
        """Agree anew on each loss, because new replicas may know nothing of what was agreed."""
        self._shared, self._tried, self._told, self._missed, self.trial = set(), {}, {}, {}, False
        self._disagreements = 0
        self._may_be_piece = False

    def disagreed(self, ordinal: int) -> None:
        """Note that some replica saw another kind than was agreed; all replicas know, and count alike."""
        self._shared.discard(ordinal)
        self._disagreements += 1
        if self._disagreements > MOST_DISAGREEMENTS:
            self.only_whole(WHOLE_BATCHES)

    def begin_part(self, before: Plan | None = None, backwards: int = 0) -> None:
        """Begin a part; `before` is the part that is over, with so many backwards."""
        if before is not None and self._seen and len(self._seen) == backwards:
            self._records[before.samples] = self._seen
            self._in_pieces |= any(piece.rows < before.samples for piece in self._seen)
        self._weight, self._seen = None, []

    def take_doubt(self) -> bool:
        """Return whether a part's only loss may be a piece of the batch, as the whole batch would show; once."""
        doubt, self._may_be_piece = self._may_be_piece, False
        return doubt

    def looks_at(self, plan: Plan) -> bool:
        """Return whether a backward that needs no share is looked at: those of the first whole batch are."""
        unseen = plan.batch not in self._records
        return plan.samples == plan.batch > 1 and unseen and self.given is Kind.UNKNOWN

    def look(self, losses: Sequence[Tensor], plan: Plan) -> Piece:
        """See what a backward is of, and remember it."""
        self._seen.append(piece_of(losses, plan.samples, plan.batch))
        return self._seen[-1]

    def weigh(self, weight: Tensor | float) -> None:
        """Take the loss of this part for a mean over `weight` items."""
        self._weight = weight

    def first_term(self, losses: Sequence[Tensor], plan: Plan) -> Term | None:
        """Return the first term of a loss over samples; None where it cannot be seen."""
        if self._weight is not None:
            return Term(None, Kind.WEIGHTED, self._weight)
        try:
            terms = terms_of(losses, plan.samples, plan.batch)
        except Unclear:
            return None
        return next((term for term in terms if term.kind is not Kind.CONSTANT), None)

    def of(self, losses: Sequence[Tensor], plan: Plan, ordinal: int, group: Group | None) -> Share:
        """Return the share of one backward. Raises `Again`, and GroupBroken."""
        self.stale = 0.0
        even = 1.0 / (plan.copies * plan.merged)
        if self.trial and ordinal in self._told:
            self._conclude(losses, plan, ordinal, group)
        if plan.samples == plan.batch:  # all parts are alike, and the mean of their gradients is taken at the end
            return Share(1.0 / plan.merged, 1.0 / plan.merged)
        if self.whole:
            raise Again
        if self.given in (Kind.MEAN, Kind.SUM) and self._weight is None:
            return _share_of(Agreed(self.given), [], plan)
        terms, told = self._see(losses, plan, ordinal)
        if told.only_whole and ordinal in self._shared:
            self.only_whole(WHOLE_BATCHES)
            raise Again
        if ordinal not in self._shared:
            self._agree(losses, told, plan, ordinal, group)
        if ordinal in self._told:
            self._try(losses, plan, ordinal, group)
            return Share(even, even)
        entry = self._agreed[ordinal].get(told.key)
        if entry is None or not _holds(entry, told):
            if told.pieces >= 0:
                self._missed.setdefault(ordinal, []).append(told)
            self.stale = 1.0
            return Share(even, even)
        self.stale = self._unlike_means(entry, terms)
        if entry.kind is Kind.MIXED:
            return self._mixed(entry, terms, plan, group)
        return _share_of(entry, terms, plan)

    # --- what is seen ---------------------------------------------------------------------------------------

    def _see(self, losses: Sequence[Tensor], plan: Plan, ordinal: int) -> tuple[list[Term], Told]:
        known = self._agreed.get(ordinal, {})
        if self._weight is not None:
            terms = [Term(None, Kind.WEIGHTED, self._weight)]
            return terms, Told((Kind.WEIGHTED,), (_as_float(self._weight),), True, False, plan.samples, known)
        new = ordinal not in self._shared
        if new or self._in_pieces:
            piece = self.look(losses, plan)
            if self._in_pieces or piece.rows < plan.samples:
                return [Term(None, piece.kind)], self._told_of_piece(piece, plan, known)
        try:
            terms = terms_of(losses, plan.samples, plan.batch)
        except Unclear as unclear:
            return [], Told(None, (), False, not unclear.opaque, plan.samples, known)
        partial = any(term.partial for term in terms)
        only_whole = new and (
            samples_meet(terms, plan.samples)
            or (partial and chosen_by_place(terms, plan.samples))
            or any(term.kind is Kind.MEAN and not _is_of_all(term) for term in terms)
        )
        terms = self._with_one_count(terms, ordinal)
        kinds = tuple(_now(term, known.get(len(terms)), i) for i, term in enumerate(terms))
        several = len([kind for kind in kinds if kind is not Kind.CONSTANT]) > 1
        if not several:  # a single term counts its targets for nothing
            kinds = tuple(term.kind for term in terms)
        counts = tuple(_as_float(term.weight) for term in terms)
        sure = all(term.sure for term in terms)
        factors = tuple(_factor_of(term, plan.samples) for term in terms)
        only_whole |= self._other_factors(factors, plan, ordinal)
        doubt = self.new and not ordinal and may_be_piece(terms, plan)
        told = Told(
            kinds, counts, sure, only_whole, plan.samples, known, partial, factors=factors, may_be_piece=doubt
        )
        return terms, told

    def _other_factors(self, factors: Sequence[float | None], plan: Plan, ordinal: int) -> bool:
        """Return whether a loss is multiplied by another number than in an earlier pass of this batch."""
        before = self._factors.pop(ordinal, factors)
        if not plan.last:
            self._factors[ordinal] = factors
        return _differ([before, factors])

    def _told_of_piece(self, piece: Piece, plan: Plan, known: Mapping[int, Agreed]) -> Told:
        record = self._records.get(plan.samples, [])
        add = not record or (add_up(record, plan.samples) and piece.kind is record[0].kind)
        return Told((piece.kind,), (None,), True, not add, plan.samples, known, pieces=len(record) or -1)

    def _with_one_count(self, terms: list[Term], ordinal: int) -> list[Term]:
        """Merge terms that are all means over the same count, as those of a smoothed cross entropy are."""
        counted = [term for term in terms if term.kind is not Kind.CONSTANT]
        weights = [term.weight for term in counted]
        if len(counted) < 2 or any(term.weight is None or term.partial for term in counted):
            return terms
        on_gpu = [weight for weight in weights if isinstance(weight, Tensor) and weight.is_cuda]
        if not on_gpu or ordinal not in self._shared:
            values = [float(weight) for weight in weights if weight is not None]
            if max(values) - min(values) > 1e-5 * max(map(abs, values)):
                return terms
        elif 1 not in self._agreed.get(ordinal, {}):
            return terms
        else:
            self._unlike = torch.stack([(weight - on_gpu[0]).abs() for weight in on_gpu]).sum()
        return [Term(None, Kind.WEIGHTED, weights[0])]

    def _unlike_means(self, entry: Agreed, terms: Sequence[Term]) -> Any:
        """Return a value that is not 0 where targets were left out of what is taken for a mean over all."""
        found, self._unlike = self._unlike, 0.0
        for kind, term in zip(entry.terms, terms, strict=False):
            if kind is Kind.MEAN and term.all_items is not None and isinstance(term.weight, Tensor):
                unlike = (term.weight != term.all_items).float()
                found = found + (unlike if unlike.is_cuda else float(unlike))
        return found

    # --- agreeing -------------------------------------------------------------------------------------------

    def _agree(self, losses: Sequence[Tensor], told: Told, plan: Plan, ordinal: int, group: Group | None) -> None:
        everyone = [one for mine in _gathered([told, *self._missed.pop(ordinal, [])], group) for one in mine]
        if any(one.pieces for one in everyone):
            self._agree_on_pieces(everyone)
        self._shared.add(ordinal)
        entries = self._agreed.setdefault(ordinal, {})
        for one in everyone:
            for key, entry in one.known.items():
                entries.setdefault(key, entry)
        if all(one.key in entries and _holds(entries[one.key], one) for one in everyone):
            self._note(entries)
            return
        if any(one.kinds is None for one in everyone):  # some see less than others while code is compiled
            told, everyone = _unseen(told), [_unseen(one) for one in everyone]
        alike = len({one.key for one in everyone}) == 1 and not _differ([one.factors for one in everyone])
        if any(one.only_whole for one in everyone) or not alike:
            self.only_whole(WHOLE_BATCHES)
            raise Again
        entry = decided(everyone, entries.get(told.key))
        self._may_be_piece |= all(one.may_be_piece for one in everyone)
        if entry is None:
            self._told[ordinal] = told
            return
        entries[told.key] = entry
        self._note(entries)
        if self.counted and len(entries) > 1:
            self.only_whole(WHOLE_BATCHES)
            raise Again
        if self.counted and not plan.visible:
            raise Again

    def _agree_on_pieces(self, everyone: Sequence[Told]) -> None:
        """Raise `Again` unless all parts have as many pieces, and these add up to the part."""
        self._in_pieces = True
        if any(one.only_whole for one in everyone):
            self.only_whole(WHOLE_BATCHES)
            raise Again
        if any(one.pieces < 1 for one in everyone):  # the part is gone through for nothing, to see all its pieces
            raise Again
        if len({(one.pieces, one.kinds) for one in everyone}) > 1:
            self.only_whole(WHOLE_BATCHES)
            raise Again

    def _note(self, entries: Mapping[int, Agreed]) -> None:
        self.counted |= any(e.kind is Kind.MIXED and Kind.WEIGHTED in e.terms for e in entries.values())

    def only_whole(self, why: str) -> None:
        """Divide batches no longer: only whole ones give what the script gives alone. Tell the user why."""
        self.whole, self.trial = True, False
        self._tried, self._told, self._missed = {}, {}, {}
        self.tell(why)

    # --- trials ---------------------------------------------------------------------------------------------

    def _try(self, losses: Sequence[Tensor], plan: Plan, ordinal: int, group: Group | None) -> None:
        """Keep what this part's loss is. Raises `Again` after the last part: the whole batch is done next."""
        value = float(losses[0].detach()) if len(losses) == 1 and losses[0].numel() == 1 else float("nan")
        mine = self._tried.setdefault(ordinal, [])
        mine.append((plan.samples, value))
        if not plan.last:
            return
        everyone = _gathered(mine, group)
        self._tried[ordinal] = [part for parts in everyone for part in parts] if plan.copies == 1 else []
        self.trial = True
        raise Again

    def _conclude(self, losses: Sequence[Tensor], plan: Plan, ordinal: int, group: Group | None) -> None:
        """Conclude a trial after the batch was done as a whole: what the loss is, as rank 0 sees it."""
        _, whole = self._see(losses, plan, ordinal)
        value = float(losses[0].detach()) if len(losses) == 1 and losses[0].numel() == 1 else float("nan")
        whole, value = _gathered((whole, value), group)[0]
        told, tried = self._told.pop(ordinal), self._tried.pop(ordinal, [])
        self.trial = False
        self._trials += 1
        entries = self._agreed.setdefault(ordinal, {})
        if told.kinds is not None and whole.kinds is not None and len(whole.kinds) == len(told.kinds):
            entries[told.key] = _told_by_whole(told, whole)
            self._note(entries)
        elif (kind := fits(value, tried)) is not Kind.UNKNOWN:
            entries[_OPAQUE] = Agreed(kind)
        elif self._trials < MOST_TRIALS:
            self._shared.discard(ordinal)  # another batch may tell
        else:
            self.only_whole(WHOLE_BATCHES)

    # --- shares ---------------------------------------------------------------------------------------------

    def _mixed(self, entry: Agreed, terms: Sequence[Term], plan: Plan, group: Group | None) -> Share:
        """Return a share for each term."""
        even, of_samples = 1.0 / (plan.copies * plan.merged), plan.samples / plan.batch
        counts = [
            _count_of(term, plan.samples)
            for kind, term in zip(entry.terms, terms, strict=True)
            if kind is Kind.WEIGHTED
        ]
        totals = iter(_totals(counts, plan.copies, group))
        weighted = iter(counts)
        shares = []
        for kind, term in zip(entry.terms, terms, strict=True):
            if kind is Kind.SUM:
                share: Any = even
            elif kind is Kind.WEIGHTED:
                share = next(weighted) / next(totals) * even
            else:
                share = of_samples * even
            shares.append((term.node, share))
        return Share(1.0, of_samples * even, shares)


def decided(everyone: Sequence[Told], before: Agreed | None) -> Agreed | None:
    """Return what replicas take a loss for in which they see as many terms; None where their parts do not tell."""
    if any(one.kinds is None for one in everyone):
        return None
    sure = all(one.sure for one in everyone)
    kinds: list[Kind] = []
    divisors: list[float | None] = []
    columns = zip(_columns(everyone, "kinds"), _columns(everyone, "counts"), strict=True)
    for i, (seen, counts) in enumerate(columns):
        earlier = () if before is None else (before.terms[i],)
        if set(seen) == {Kind.SUM}:
            values = {*counts, *(() if before is None else (before.divisors[i],))}
            moved = len(values) > 1
            if not moved and not sure and before is None:
                return None
            kinds.append(Kind.WEIGHTED if moved or Kind.WEIGHTED in earlier else Kind.SUM)
            divisors.append(None if moved else counts[0])
        else:
            mixed = Kind.SUM in seen and Kind.MEAN in seen  # a count that equals one part's samples by chance
            kinds.append(Kind.WEIGHTED if mixed else agreed([*seen, *earlier]))
            divisors.append(None)
    found = _agreed_on(kinds, divisors, everyone[0])
    partial = any(one.partial for one in everyone) or (before is not None and before.partial)
    return replace(found, partial=partial, pieces=everyone[0].pieces)


def _told_by_whole(parts: Told, whole: Told) -> Agreed:
    """Return what a trial shows: a divisor that the whole batch has, too, is a constant, any other a count."""
    assert parts.kinds is not None
    kinds = [
        Kind.WEIGHTED if kind is Kind.SUM and parts.counts[i] != whole.counts[i] else kind
        for i, kind in enumerate(parts.kinds)
    ]
    constants = [count if kind is Kind.SUM else None for kind, count in zip(kinds, parts.counts, strict=True)]
    return _agreed_on(kinds, constants, parts)


def _agreed_on(kinds: Sequence[Kind], divisors: Sequence[float | None], one: Told) -> Agreed:
    kind = summary([Term(None, kind) for kind in kinds])
    items = 1.0
    if kind is Kind.WEIGHTED:
        count = next(c for c, k in zip(one.counts, kinds, strict=True) if k is Kind.WEIGHTED)
        items = max(count or one.samples, 1.0) / one.samples
    return Agreed(kind, tuple(kinds), tuple(divisors), items)


def _now(term: Term, before: Agreed | None, place: int) -> Kind:
    """Return a term's kind as it is now: a mean over targets is a plain one as long as none is left out."""
    if term.all_items is None or (before is not None and before.terms[place] is Kind.WEIGHTED):
        return term.kind
    weight = term.weight
    if isinstance(weight, Tensor) and weight.is_cuda:
        known = before is not None and before.terms[place] is Kind.MEAN
        return Kind.MEAN if known or float(weight) == term.all_items else Kind.WEIGHTED
    return Kind.MEAN if float(weight or 0.0) == term.all_items else Kind.WEIGHTED


def _holds(entry: Agreed, told: Told) -> bool:
    """Return whether what was agreed still fits what one replica sees."""
    if told.pieces != entry.pieces or (told.partial and not entry.partial):
        return False
    if told.kinds is None:
        return True
    for i, (agreed_kind, kind) in enumerate(zip(entry.terms, told.kinds, strict=True)):
        if agreed_kind is Kind.WEIGHTED:
            if kind not in (Kind.WEIGHTED, Kind.MEAN, Kind.SUM):
                return False
        elif agreed_kind is not kind or (kind is Kind.SUM and entry.divisors[i] != told.counts[i]):
            return False
    return True


def _share_of(entry: Agreed, terms: Sequence[Term], plan: Plan) -> Share:
    """Return the share of a loss that is of one kind."""
    even, of_samples = 1.0 / (plan.copies * plan.merged), plan.samples / plan.batch
    if entry.kind is Kind.SUM:
        return Share(even, of_samples * even)
    if entry.kind is not Kind.WEIGHTED:
        return Share(of_samples * even, of_samples * even)
    counted = next(term for kind, term in zip(entry.terms, terms, strict=True) if kind is Kind.WEIGHTED)
    share = _count_of(counted, plan.samples) / (entry.items * plan.batch) * even
    if isinstance(share, Tensor) and not share.is_cuda:
        share = float(share)
    return Share(share, share, counted=counted.node)


def _factor_of(term: Term, samples: int) -> float | None:
    """Return what a mean over samples is multiplied by in its loss; None where unknown, and for other terms."""
    is_mean = term.kind in (Kind.MEAN, Kind.WEIGHTED) and not term.partial
    return term.per_row * samples if is_mean and term.per_row is not None else None


def may_be_piece(terms: Sequence[Term], plan: Plan) -> bool:
    """Return whether a loss is divided by a number of pieces, each of which holds all samples of this part."""
    factors = {_factor_of(term, plan.samples) for term in terms if term.kind is not Kind.CONSTANT}
    factor = factors.pop() if len(factors) == 1 else None
    if not factor:
        return False
    pieces = round(1.0 / abs(factor))
    return pieces > 1 and abs(pieces * abs(factor) - 1.0) < 1e-6 and plan.samples * pieces <= plan.batch


def _differ(told: Sequence[Sequence[float | None]]) -> bool:
    """Return whether parts multiply their losses by different numbers, so that these are no loss of one batch."""
    for values in zip(*told, strict=False):
        known = [value for value in values if value is not None]
        if known and max(known) - min(known) > 1e-6 * max(map(abs, known)):
            return True
    return False


def _unseen(told: Told) -> Told:
    """Return the same for a loss that cannot be looked into."""
    return replace(told, kinds=None, counts=(), sure=False)


def _count_of(term: Term, samples: int) -> Any:
    if term.weight is None:
        return float(samples) if term.items is None else term.items
    return term.weight


def _is_of_all(term: Term) -> bool:
    """Return whether no target was left out of a mean over all of them."""
    return term.all_items is None or float(term.weight or 0.0) == term.all_items


def _totals(counts: Sequence[Any], copies: int, group: Group | None) -> list[Any]:
    """Return the counts of all parts together."""
    if not counts:
        return []
    if group is None or group.world_size == 1:
        return [_at_least(count) for count in counts]
    total = torch.stack([torch.as_tensor(c, dtype=torch.float32, device=group.device) for c in counts]) / copies
    with group.collective():
        group.wait(group.all_reduce(total), total)
    return list(total.clamp_(min=_LEAST_COUNT))


def _at_least(count: Any) -> Any:
    return count.clamp(min=_LEAST_COUNT) if isinstance(count, Tensor) else max(count, _LEAST_COUNT)


def _as_float(weight: Tensor | float | None) -> float | None:
    """Return a count as a number; None where that would wait for a GPU."""
    if weight is None or (isinstance(weight, Tensor) and weight.is_cuda):
        return None
    return float(weight)


def _columns(everyone: Sequence[Told], name: str) -> list[tuple[Any, ...]]:
    return list(zip(*(getattr(one, name) for one in everyone), strict=True))


def _gathered(mine: Any, group: Group | None) -> list[Any]:
    return [mine] if group is None else group.gather_objects(mine)
