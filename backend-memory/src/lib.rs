//! In-process backend: the reference for every check of the conformance suite.
