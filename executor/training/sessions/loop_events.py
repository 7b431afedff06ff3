"""What a way to run can add at each point of the script's loops. By default nothing is added."""

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
        """Do what the ranks agree on before the next batch. Returns whether group, plan or position changed."""
        return False

    def enter_loop(self, unit: Unit) -> Generator[Any, None, Unit]:
        """Prepare the script for the first batch of a loop, perhaps in its midst; returns that batch."""
        return unit
        yield

    def arrive(self) -> None:
        """Give the script its variables as they are where the training is, which it has reached."""

    def open_unit(self, unit: Unit) -> None:
        """Note that the script is given a batch next."""

    def before_part(self, part: Part) -> None:
        """Note that the script is given a part of a batch next."""

    def part_over(self) -> None:
        """Note that the script is done with the part it has: it asks for more, or has left its loop."""

    def after_part(self, part: Part) -> None:
        """Note that the script is done with a part, and nothing of it has to be done again."""

    def after_loop(self) -> None:
        """End a loop over the data. What follows, such as a validation, sees the same model everywhere."""

    # --- steps ----------------------------------------------------------------------------------------------

    def measures_noise(self) -> bool:
        """Return whether the gradient noise of the step that begins is measured."""
        return False

    def step_undone(self) -> None:
        """Go back to where the running step began, all of whose batches have to be done again."""

    def script_step_begins(self) -> None:
        """Begin a step of a loop in steps, with nothing kept back from the one before."""

    def script_step_again(self) -> None:
        """Begin a step of a loop in steps again."""

    # --- what the checks of a batch ask ---------------------------------------------------------------------

    def found_out(self) -> None:
        """Keep what was found out about the script, for whoever starts it again."""

    def kept_beside(self) -> Sequence[Kept]:
        """Keep what else the script changes with each batch, as it is now."""
        return ()

    def mark_rows(self) -> Rows:
        """Mark tensors of the script that may hold something of each sample."""
        return ()
