"""The script's own variables: found, compared, undone, and handed to newcomers."""
