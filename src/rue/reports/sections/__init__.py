"""The sections of a report, one file each under the name of the section."""
