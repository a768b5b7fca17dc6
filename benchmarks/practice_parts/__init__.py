"""The benchmark of practice, one idea per file: tables, prepare, cases, networks, recipes, trained, rivals, ours."""
