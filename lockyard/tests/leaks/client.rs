//! What a client uses in this process.

use std::collections::BTreeMap;

/// One reading.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meters {
    pub(crate) tasks: usize,
    pub(crate) files: usize,
    /// Resident bytes.
    pub(crate) memory: usize,
    /// What the server has for the clients.
    pub(crate) left: BTreeMap<&'static str, u64>,
}

impl Meters {
    pub(crate) fn read(left: BTreeMap<&'static str, u64>) -> Self {
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let files = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"));
        let kilobytes: usize = resident.and_then(|text| text.trim().parse().ok()).unwrap_or_default();
        Self { tasks, files, memory: kilobytes << 10, left }
    }

    /// Whether no watch is left: an idle one is kept for a while, which must not pass for the usual state.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.left.get("watches").is_none_or(|watches| *watches == 0)
    }

    /// Whether nothing but the memory has changed.
    pub(crate) fn same(&self, other: &Self) -> bool {
        (self.tasks, self.files, &self.left) == (other.tasks, other.files, &other.left)
    }

    /// Whether nothing but the memory has grown by more than `reserve` connections, and so many tasks.
    pub(crate) fn at_most(&self, before: &Self, reserve: usize, tasks: usize) -> bool {
        let left = self.left.iter().all(|(what, count)| {
            let more = if *what == "connections" { reserve as u64 } else { 0 };
            before.left.get(what).is_some_and(|before| *count <= before + more)
        });
        left && self.tasks <= before.tasks + tasks && self.files <= before.files + reserve
    }
}
