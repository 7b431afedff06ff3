"""The study of a trace: who ran what, when and how it ended, as Helios (SC'21, section 2.3) asks it."""
