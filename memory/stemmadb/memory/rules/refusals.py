"""Why an operation on memory is refused. Interfaces translate these; nothing else decides what they mean."""

from __future__ import annotations


class Refusal(Exception):
    """An operation was refused and wrote nothing."""


class InvalidRequest(Refusal):
    """The request can never succeed as it is. `field` names the part that is wrong, if there is one."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NoSuchNamespace(Refusal):
    """The namespace does not exist, is expired, or is being deleted."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no namespace {name!r}. Create it with PUT /v1/namespaces/{name}.")
        self.name = name


class NoSuchMemory(Refusal):
    """The memory does not exist where the caller may look."""

    def __init__(self, memory: str) -> None:
        super().__init__(f"There is no memory {memory}.")
        self.memory = memory


class NotAllowed(Refusal):
    """The caller may not do this to that memory."""


class PermissionDenied(Refusal):
    """The caller's secret gives a lower role than this needs."""

    def __init__(self, needs: str, has: str) -> None:
        super().__init__(
            f"Permission Denied: this needs the role {needs}, and the caller has the role {has}. "
            f"Make a secret with 'stemmadb memory secret new {needs}' and put it into AGENT_MEMORY_SECRET."
        )


class IsolationViolation(NotAllowed):
    """An agent may not change what a person wrote."""

    def __init__(self, memory: str) -> None:
        super().__init__(f"Isolation Violation: a person wrote {memory}, and only the role admin may change it.")


class KeyReused(Refusal):
    """An idempotency key came again with other arguments."""

    def __init__(self) -> None:
        super().__init__("This idempotency key was used with other arguments. Use a new key for a new request.")


class Busy(Refusal):
    """Other writers were faster each time; the caller may try again."""

    def __init__(self) -> None:
        super().__init__("Other writers changed the same memories each time. Try again.")


class UnknownMoment(Refusal):
    """The version, time or tag does not exist, or lies on another branch than main."""


class TargetTaken(Refusal):
    """The target has an active decision already."""

    def __init__(self, target: str, active: str) -> None:
        super().__init__(
            f"The target {target!r} has the active decision {active}. "
            f"Call supersede_decision with old_decision_ids [{active}] to replace it."
        )
        self.active = active


class NotTheActive(Refusal):
    """The decisions that a caller would supersede are not the active ones of the target."""

    def __init__(self, target: str, active: str | None) -> None:
        there = "no active decision" if active is None else f"one active decision: {active}"
        advice = "Call record_decision." if active is None else "Give exactly this id in old_decision_ids."
        super().__init__(f"The target {target!r} has {there}. {advice}")
        self.active = active


class RateLimitExceeded(Refusal):
    """The caller wrote a moment ago."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Rate Limit Exceeded: wait {seconds:.1f} s before the next write.")
        self.seconds = seconds


class ReviewWindow(Refusal):
    """The proposal is too young to be accepted."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"PI1 Violation: the review window of this proposal ends in {seconds} s. Accept it then.")
        self.seconds = seconds


class NotEnoughEvidence(Refusal):
    """The memory server wants more evidence for a proposal."""

    def __init__(self, has: int, wanted: int) -> None:
        super().__init__(f"Not enough evidence: {has} of {wanted}. Propose it again with more evidence.")


class AlreadyReviewed(Refusal):
    """The proposal was accepted or rejected before."""

    def __init__(self, proposal: str, status: str, decision: str | None) -> None:
        became = "" if decision is None else f" as decision {decision}"
        super().__init__(f"Proposal {proposal} is already {status}{became}.")


class NoSuchProposal(NoSuchMemory):
    """The proposal does not exist where the caller may look."""

    def __init__(self, proposal: str) -> None:
        super().__init__(proposal)
        self.args = (f"There is no proposal {proposal}.",)
