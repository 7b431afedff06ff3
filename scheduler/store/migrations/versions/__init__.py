"""One file per version. A file is never changed once its version was released."""
