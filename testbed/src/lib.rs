//! Starts real servers on free ports, breaks them, and ends them.
