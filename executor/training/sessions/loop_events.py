"""What a way to run can add at each point of the script's loops; by default nothing is added."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ..checks.batch_watch import Kept, Rows
from ..data.batches import Unit
from ..data.units import Part


class LoopEvents:
    """The points of a loop at which `torchrun`, managed and profiled runs differ."""

    # --- batches and their parts ----------------------------------------------------------------------------

    def read_on(self) -> Generator[Any, None, bool]:
        """Yield batches to the end of the loop; returns whether what follows has to be read anew."""
        return False
        yield

    def control_point(self) -> bool:
        """Do what the ranks agree on before the next batch. True when group, plan or position changed."""
        return False

    def enter_loop(self, unit: Unit) -> Generator[Any, None, Unit]:
        """Prepare the script for the first batch of a loop, perhaps in its midst; returns that batch."""
        return unit
        yield

    def arrive(self) -> None:
        """The script is where the training is, and should have its variables as they are there."""

    def open_unit(self, unit: Unit) -> None:
        """The script is given a batch next."""

    def before_part(self, part: Part) -> None:
        """The script is given a part of a batch next."""

    def part_over(self) -> None:
        """The script asks for more, or has left its loop: it does nothing more with the part it has."""

    def after_part(self, part: Part) -> None:
        """The script is done with a part, and nothing of it has to be done again."""

    def after_loop(self) -> None:
        """A loop over the data is over; what follows, such as a validation, sees the same model everywhere."""

    # --- steps ----------------------------------------------------------------------------------------------

    def measures_noise(self) -> bool:
        """Return whether the gradient noise of the step that begins is measured."""
        return False

    def step_undone(self) -> None:
        """All batches of the running step have to be done again."""

    def script_step_begins(self) -> None:
        """A step of a loop in steps begins, with nothing kept back from the one before."""

    def script_step_again(self) -> None:
        """A step of a loop in steps begins again."""

    # --- what the checks of a batch ask ---------------------------------------------------------------------

    def found_out(self) -> None:
        """Something about the script was found out that whoever starts it again should know."""

    def kept_beside(self) -> Sequence[Kept]:
        """Return what else the script changes with each batch, as it is now."""
        return ()

    def mark_rows(self) -> Rows:
        """Return tensors of the script that may hold something of each sample."""
        return ()
