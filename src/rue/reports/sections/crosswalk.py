"""A table of where to find the topics of four regulatory frameworks: orientation, not legal advice."""

from rue.reports.blocks import Section, section, table, text
from rue.reports.case import Case

COLUMNS = {
    "section": ("Section of this report", "text"),
    "annex": ("EU AI Act, Annex IV", "text"),
    "tripod": ("TRIPOD+AI", "text"),
    "fda": ("FDA draft guidance, January 2025", "text"),
    "risk": ("Model-risk guidance, SR 26-2", "text"),
}
NONE = "no direct counterpart"
# Annex IV of Regulation (EU) 2024/1689 by its points 1 to 9; TRIPOD+AI (Collins et al., BMJ 2024) by its 27 items; the
# FDA's draft of 7 January 2025 and SR 26-2 of 17 April 2026 by topic only.
ROWS = (
    (
        "Identity and provenance",
        "point 1 (general description: version) and 6 (changes through the lifecycle)",
        "item 18 (open science), item 22 (model specification)",
        "device description; model description and development",
        "development and documentation; inventory",
    ),
    (
        "Intended use and what the score means",
        "point 1 (intended purpose)",
        "items 3 (background) and 4 (objectives), 15 (model output)",
        "device description; user interface and labeling",
        "governance: purpose of the model",
    ),
    (
        "Method, damping and why",
        "point 2 (elements and development process)",
        "item 12 (analytical methods)",
        "model description and development",
        "development",
    ),
    (
        "Fitness checks",
        "point 2 (validation and testing) and 3 (functioning and control)",
        "item 12 (analytical methods)",
        "validation: performance validation",
        "validation",
    ),
    (
        "Performance and calibration",
        "point 4 (appropriateness of the performance metrics) and 3 (expected accuracy)",
        "item 23 (model performance)",
        "validation: performance validation, with uncertainty",
        "validation: outcomes",
    ),
    (
        "Does the score find errors?",
        "point 3 (human oversight: which outputs to look at)",
        "item 15 (model output), item 23 (model performance)",
        "validation; risk assessment",
        "validation: challenge by benchmarks",
    ),
    (
        "Subgroups",
        "point 3 (accuracy for specific persons or groups) and 2 (discriminatory effects)",
        "item 14 (fairness), item 23 (performance in subgroups)",
        "data management and validation: subgroups, bias",
        "validation: limits of use",
    ),
    (
        "Shift",
        "point 3 (limits of performance) and 2 (data)",
        "items 5 and 6 (data, participants), 16 (training versus evaluation)",
        "data management: representative data",
        "monitoring",
    ),
    (
        "Predictions",
        "point 3 (interpretation of outputs)",
        "item 27 (usability of the model)",
        "user interface and labeling: transparency",
        "use",
    ),
    (
        "Limitations",
        "point 3 (capabilities and limitations) and 5 (risk management, in part)",
        "item 26 (limitations)",
        "risk assessment; labeling",
        "development and validation: limitations",
    ),
    (
        "Thresholds and sign-off",
        "point 3 (human oversight)",
        "item 27 (usability of the model)",
        "risk assessment",
        "governance",
    ),
    (
        "Monitoring plan",
        "point 9 (post-market monitoring) and 6 (changes)",
        "item 27 (use and future steps)",
        "device performance monitoring",
        "monitoring",
    ),
    (
        "Not in this report",
        "points 7 (standards) and 8 (declaration of conformity)",
        "items 17 and 19 (ethics, involvement)",
        "cybersecurity; public submission summary",
        "vendor and model inventory",
    ),
)


def crosswalk(_: Case) -> Section:
    """A table of topics."""
    held = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    return section(
        "crosswalk",
        "Crosswalk",
        "Where to look in this report for what four frameworks ask. Orientation, not legal advice.",
        [
            text(
                "crosswalk-notes",
                "This table gives orientation and is not legal advice; a row does not say that a requirement is met, "
                "and whether a framework applies is for others to decide. The text of each framework counts.\n\n"
                "EU AI Act: Regulation (EU) 2024/1689, Annex IV. TRIPOD+AI: the statement of 2024 with 27 items, for "
                "clinical prediction models. FDA: the draft guidance of January 2025, Artificial Intelligence-Enabled "
                "Device Software Functions: Lifecycle Management and Marketing Submission Recommendations, mapped by "
                "topic. Model risk: SR 26-2, which replaced SR 11-7, mapped by topic only.",
            ),
            table("crosswalk-table", "Sections of this report beside four frameworks, by topic", COLUMNS, held),
        ],
    )
