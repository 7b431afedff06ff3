"""A run goes on, and is compared, only under the code that decides what it gives."""

from coadapt.simulator.results.identity import ROOMS

from tests.support.layout import ROOMS as MAY_IMPORT


def test_the_digest_of_the_project_covers_every_room_that_a_simulation_uses() -> None:
    assert set(ROOMS) == MAY_IMPORT["simulator"] | {"simulator"}
