//! The clients of a run, their ways to the server, and what they say.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockyard_conformance::history::{Event, FaultKind, FaultWindow, What};
use lockyard_testbed::Proxy;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::puppet::{Puppet, now};
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
    pub(super) site: Site,
    pub(super) slots: Vec<Slot>,
    /// Who breaks the server just now.
    pub(super) at_server: AsyncMutex<()>,
    registers: TempDir,
    processes: AtomicU32,
    events: Mutex<Vec<Event>>,
    faults: Mutex<Vec<FaultWindow>>,
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
        let (events, faults) = (Mutex::default(), Mutex::default());
        Ok((Self { site, slots, at_server: AsyncMutex::new(()), registers, processes, events, faults }, ears))
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

    /// Keeps what a client said.
    pub(super) fn note(&self, event: Event) {
        lock(&self.events).push(event);
    }

    /// Keeps what was broken, from `from` to now.
    pub(super) fn broke(&self, fault: FaultKind, from: u64, process: Option<u32>) {
        lock(&self.faults).push(FaultWindow::new(fault, from, now(), process));
    }

    /// The owner that holds a name, as far as its clients have said.
    pub(super) fn holder(&self, name: &str) -> Option<(u32, String)> {
        let events = lock(&self.events);
        let last = events.iter().rev().find(|event| {
            event.name == name && matches!(event.what, What::Granted { .. } | What::Release | What::Lost { .. })
        });
        match last {
            Some(Event { process, what: What::Granted { owner, .. }, .. }) => Some((*process, owner.clone())),
            _ => None,
        }
    }

    /// All that was said and broken.
    pub(super) fn record(&self) -> (Vec<Event>, Vec<FaultWindow>) {
        (lock(&self.events).clone(), lock(&self.faults).clone())
    }
}

fn start(url: &str, processes: &AtomicU32, registers: &Path, tell: &UnboundedSender<Event>) -> io::Result<Puppet> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env("LOCKYARD_URL", url).stderr(Stdio::inherit());
    Puppet::start(command, processes.fetch_add(1, Ordering::Relaxed) + 1, registers, tell.clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
