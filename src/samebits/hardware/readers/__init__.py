"""One module a format, each written from the format's own rules: from text or bytes to a Network, or a refusal."""
