"""The report: one HTML file that opens offline, and the Data Docs."""
