//! The clients of a run, their ways to the server, and what they say.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lockyard_conformance::history::Event;
use lockyard_testbed::Proxy;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::puppet::Puppet;
use super::record::Record;
use super::site::Site;

/// One client after another, on one way to the server.
pub(super) struct Slot {
    pub(super) proxy: Option<Proxy>,
    pub(super) puppet: AsyncMutex<Puppet>,
    url: String,
    tell: UnboundedSender<Event>,
}

/// A running workload's surroundings.
pub(super) struct Stage {
    // Dropped in this order: the clients are killed before their place is removed.
    pub(super) slots: Vec<Slot>,
    pub(super) site: Site,
    /// Who breaks the server just now.
    pub(super) at_server: AsyncMutex<()>,
    pub(super) record: Arc<Record>,
    registers: TempDir,
    processes: AtomicU32,
}

/// What the clients of one slot say, as it comes.
pub(super) type Ear = UnboundedReceiver<Event>;

impl Stage {
    /// Starts so many clients.
    pub(super) async fn set(site: Site, clients: usize) -> io::Result<(Self, Vec<Ear>)> {
        let registers = tempfile::tempdir()?;
        let processes = AtomicU32::new(0);
        let (mut slots, mut ears) = (Vec::new(), Vec::new());
        for _ in 0..clients {
            let (url, proxy) = site.way().await?;
            let (tell, ear) = unbounded_channel();
            let puppet = start(&url, &processes, registers.path(), &tell)?;
            slots.push(Slot { proxy, puppet: AsyncMutex::new(puppet), url, tell });
            ears.push(ear);
        }
        let record = Arc::default();
        Ok((Self { slots, site, at_server: AsyncMutex::new(()), record, registers, processes }, ears))
    }

    /// Kills the client of a slot; another takes its place.
    pub(super) async fn replace(&self, slot: usize) -> io::Result<()> {
        let slot = &self.slots[slot];
        let next = start(&slot.url, &self.processes, self.registers.path(), &slot.tell)?;
        let last = std::mem::replace(&mut *slot.puppet.lock().await, next);
        last.kill().await
    }

    /// The client that is in a slot now.
    pub(super) async fn process_in(&self, slot: usize) -> u32 {
        self.slots[slot].puppet.lock().await.process()
    }

    /// The process id of a client, while it is in a slot.
    pub(super) async fn pid_of(&self, process: u32) -> Option<u32> {
        for slot in &self.slots {
            let puppet = slot.puppet.lock().await;
            if puppet.process() == process {
                return Some(puppet.pid());
            }
        }
        None
    }
}

fn start(url: &str, processes: &AtomicU32, registers: &Path, tell: &UnboundedSender<Event>) -> io::Result<Puppet> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env("LOCKYARD_URL", url).stderr(Stdio::inherit());
    Puppet::start(command, processes.fetch_add(1, Ordering::Relaxed) + 1, registers, tell.clone())
}
