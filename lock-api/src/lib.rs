//! The trait every backend implements, its contract, and the front end people use.
