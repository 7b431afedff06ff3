"""Who may do what: one table of all routes, and a pure function over it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from ..core.api_settings import ApiSettings
from ..core.identity import Identity, Reader, Role


@dataclass(frozen=True)
class Rule:
    """What a route asks of who calls it.

    role: the least that is needed; None: nobody is asked.
    of_job: whether it is about one job, which has an owner.
    by_team: whether who sees a job may do it, too, as all users of its team do.
    changes: whether it changes something. A viewer never does.
    verb: what the audit log calls the change; "": by its method and path.
    page: whether it answers a person's browser, also with what is wrong.
    scraped: whether `reads_metrics` says who may use it beside those with the role.
    """

    role: Role | None
    of_job: bool = False
    by_team: bool = False
    changes: bool = False
    verb: str = ""
    page: bool = False
    scraped: bool = False


_READ, _READ_JOB = Rule(Role.VIEWER), Rule(Role.VIEWER, of_job=True)
_PAGE, _JOB_PAGE = Rule(Role.VIEWER, page=True), Rule(Role.VIEWER, of_job=True, page=True)


def _change(verb: str) -> Rule:
    return Rule(Role.USER, changes=True, verb=verb)


def _change_job(verb: str) -> Rule:
    return Rule(Role.USER, of_job=True, changes=True, verb=verb)


def _operate(verb: str) -> Rule:
    return Rule(Role.OPERATOR, changes=True, verb=verb)


# (method, path) -> rule. A route that is not here is not served.
RULES: Mapping[tuple[str, str], Rule] = {
    ("GET", "/healthz"): Rule(None),
    ("GET", "/readyz"): Rule(None),
    ("GET", "/metrics"): Rule(Role.VIEWER, scraped=True),
    ("GET", "/static/{path:path}"): Rule(None),
    ("GET", "/sign-in"): Rule(None, page=True),
    ("POST", "/sign-in"): Rule(None, changes=True, verb="session.begin", page=True),
    ("POST", "/sign-out"): Rule(Role.VIEWER, changes=True, verb="session.end"),
    ("POST", "/v1/page-keys"): Rule(Role.VIEWER, changes=True, verb="session.key"),
    ("GET", "/"): _PAGE,
    ("GET", "/jobs"): _PAGE,
    ("GET", "/jobs/{job_id}"): _JOB_PAGE,
    ("GET", "/timeline"): _PAGE,
    ("GET", "/rounds"): _PAGE,
    ("GET", "/teams"): _PAGE,
    ("GET", "/nodes"): _PAGE,
    ("GET", "/what-if"): _PAGE,
    ("GET", "/audit"): Rule(Role.OPERATOR, page=True),
    ("GET", "/tokens"): Rule(Role.USER, page=True),
    ("GET", "/v1/health"): _READ,
    ("GET", "/v1/me"): _READ,
    ("GET", "/v1/settings"): _READ,
    ("GET", "/v1/settings/rows"): _READ,
    ("PATCH", "/v1/settings"): _operate("settings.change"),
    ("POST", "/v1/backups"): _operate("backup.write"),
    ("GET", "/v1/backups/{name}"): Rule(Role.OPERATOR),
    ("POST", "/v1/prune"): _operate("store.prune"),
    ("GET", "/v1/jobs"): _READ,
    ("POST", "/v1/jobs"): _change("job.submit"),
    ("GET", "/v1/jobs/{job_id}"): _READ_JOB,
    ("POST", "/v1/jobs/{job_id}/cancel"): _change_job("job.cancel"),
    ("POST", "/v1/jobs/{job_id}/pause"): _change_job("job.pause"),
    ("POST", "/v1/jobs/{job_id}/resume"): _change_job("job.resume"),
    ("POST", "/v1/jobs/{job_id}/requeue"): _change_job("job.requeue"),
    ("POST", "/v1/jobs/{job_id}/fork"): Rule(Role.USER, of_job=True, by_team=True, changes=True, verb="job.fork"),
    ("POST", "/v1/jobs/{job_id}/priority"): _change_job("job.priority"),
    ("POST", "/v1/jobs/{job_id}/weight"): _change_job("job.weight"),
    ("POST", "/v1/jobs/{job_id}/hold"): _change_job("job.hold"),
    ("POST", "/v1/jobs/{job_id}/release"): _change_job("job.release"),
    ("POST", "/v1/jobs/{job_id}/bump"): _change_job("job.bump"),
    ("POST", "/v1/jobs/{job_id}/extend"): _change_job("job.extend"),
    ("POST", "/v1/jobs/{job_id}/keep"): _change_job("job.keep"),
    ("GET", "/v1/jobs/{job_id}/explain"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/options"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/resizes"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/timeline"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/events"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/metrics"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/logs"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/log-place"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/log-sources"): _READ_JOB,
    ("GET", "/v1/jobs/{job_id}/outputs"): _READ_JOB,
    ("POST", "/v1/jobs/{job_id}/outputs/contents"): _READ_JOB,
    ("POST", "/v1/jobs/{job_id}/outputs/part"): _READ_JOB,
    ("GET", "/v1/studies"): Rule(Role.USER),
    ("POST", "/v1/studies"): _change("study.begin"),
    ("GET", "/v1/studies/{study}"): Rule(Role.USER),
    ("POST", "/v1/studies/{study}/cancel"): _change("study.cancel"),
    ("GET", "/v1/events"): _READ,
    ("GET", "/v1/timeline"): Rule(Role.VIEWER),
    ("GET", "/v1/trace"): Rule(Role.OPERATOR),
    ("GET", "/v1/cluster"): _READ,
    ("GET", "/v1/machines"): _READ,
    ("GET", "/v1/rounds"): _READ,
    ("POST", "/v1/whatif"): _READ,
    ("POST", "/v1/deadline"): _READ,
    ("GET", "/v1/prices"): _READ,
    ("POST", "/v1/machines/{machine}/{verb}"): _operate("node.{verb}"),
    ("POST", "/v1/nodes/{node}/cordon"): _operate("node.cordon"),
    ("POST", "/v1/nodes/{node}/drain"): _operate("node.drain"),
    ("POST", "/v1/nodes/{node}/uncordon"): _operate("node.uncordon"),
    ("GET", "/v1/windows"): _READ,
    ("POST", "/v1/windows"): _operate("window.add"),
    ("DELETE", "/v1/windows/{window}"): _operate("window.remove"),
    ("GET", "/v1/packages/{name}"): Rule(Role.USER),
    ("PUT", "/v1/packages/{name}"): _change("package.put"),
    ("GET", "/v1/usage"): _READ,
    ("GET", "/v1/teams"): _READ,
    ("PUT", "/v1/teams"): _operate("teams.apply"),
    ("GET", "/v1/audit"): Rule(Role.OPERATOR),
    ("GET", "/v1/secrets"): Rule(Role.USER),
    ("PUT", "/v1/secrets/{secret}"): _change("secret.set"),
    ("DELETE", "/v1/secrets/{secret}"): _change("secret.remove"),
    ("POST", "/v1/secrets/rekey"): _operate("secret.rekey"),
    ("GET", "/v1/webhooks"): Rule(Role.USER),
    ("POST", "/v1/webhooks"): _change("webhook.add"),
    ("POST", "/v1/webhooks/{webhook}/test"): _change("webhook.test"),
    ("DELETE", "/v1/webhooks/{webhook}"): _change("webhook.remove"),
    ("GET", "/pictures/{job_id}.png"): Rule(None),
    ("GET", "/v1/users"): Rule(Role.OPERATOR),
    ("PUT", "/v1/users/{user}"): _operate("user.put"),
    ("GET", "/v1/tokens"): Rule(Role.USER),
    ("POST", "/v1/tokens"): _change("token.issue"),
    ("DELETE", "/v1/tokens/{token_id}"): _change("token.revoke"),
}


def may(who: Identity, rule: Rule) -> bool:
    """Return whether a role is high enough for a route, whoever owns the job."""
    return rule.role is None or who.role.rank >= rule.role.rank


def sees(who: Identity, owner: str, team: str = "") -> bool:
    """Return whether a job is there for somebody. Viewers and operators see all jobs, and others their teams'."""
    return who.role is not Role.USER or Reader(who.user, who.teams).may_read(owner, team)


def changes(who: Identity, owner: str) -> bool:
    """Return whether somebody may change a job of an owner."""
    return who.role is Role.OPERATOR or (who.role is Role.USER and owner == who.user)


def reads_metrics(settings: ApiSettings, peer: str, passed_on: bool, token: str) -> bool:
    """Return whether somebody without a user's token may read metrics: who scrapes them, or all on a laptop.

    Args:
        peer: the address of who asks.
        passed_on: whether a proxy says that it asks for somebody else.
        token: what was sent as a token.
    """
    if (secret := settings.metrics_token()) is not None:
        return bool(token) and hmac.compare_digest(secret.encode(), token.encode("utf-8", "surrogateescape"))
    alone = ip_address(settings.host).is_loopback and not settings.trusted_proxies
    return alone and not passed_on and _is_loopback(peer)


def _is_loopback(peer: str) -> bool:
    try:
        return ip_address(peer).is_loopback
    except ValueError:
        return False
