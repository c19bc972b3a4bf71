"""Records to tables, figures, findings and a page. A report never measures."""
