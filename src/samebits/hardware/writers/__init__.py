"""One module a format. The readers share nothing with these, or a mistake made twice would go unseen."""
