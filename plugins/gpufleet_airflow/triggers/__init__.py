"""What the triggerer runs. Triggers only read; the one exception is `on_kill`, which writes a cancel."""
