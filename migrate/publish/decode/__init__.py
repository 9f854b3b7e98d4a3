"""Row events to values and messages: table maps, column codecs, JSON."""
