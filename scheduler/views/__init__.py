"""From records to what users and operators are shown."""
