//! Distributed locks behind one trait: choose the backend by URL.
