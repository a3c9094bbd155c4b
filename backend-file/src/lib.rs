//! Kernel file locks on one host: no server needed.
