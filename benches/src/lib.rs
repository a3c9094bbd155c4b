//! Scenarios, floors, statistics and the report of the comparison.
