"""The documentation as a site, and the pages that are generated from the code."""
