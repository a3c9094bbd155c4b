//! The lockyard command.
fn main() {}
