"""The scheduler service: the actor, its parts, and what each desk is given of them."""

from .actor import SchedulerService as SchedulerService
