"""Runs to look at and models to talk to, in a browser or by an OpenAI client: `samebits serve`."""
