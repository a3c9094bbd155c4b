//! `lockyard chaos-client`: takes locks as it is told, and tells what happens.

mod register;
mod task;

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use lockyard::{Clock, ErrorKind, Locker};
use lockyard_conformance::history::{Event, What};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::puppet::{Do, Order, now};
use crate::args::ChaosClientArgs;
use crate::exit::{Exit, Failure};
use crate::output::Voice;
use register::Register;

/// How long the end may take: what is not given back by then is left to its lease.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long after a failed connection the next is tried.
const AGAIN: Duration = Duration::from_millis(100);

/// Where this client says what it does.
#[derive(Debug)]
struct Told {
    process: u32,
    register: Option<PathBuf>,
}

impl Told {
    /// Tells of something that happened at this time. A reader that is gone is nobody's trouble: the input ends as well.
    fn tell(&self, at: u64, op: u64, name: &str, what: What) {
        let event = Event::new(at, self.process, op, name, what);
        if let Ok(line) = serde_json::to_string(&event) {
            let mut out = io::stdout().lock();
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    }

    fn failed(&self, op: u64, name: &str, operation: &str, error: &lockyard::Error) {
        let unknown = error.outcome() != lockyard::Outcome::NotApplied;
        let (operation, kind) = (operation.to_owned(), error.kind().as_str().to_owned());
        self.tell(now(), op, name, What::Failed { operation, kind, unknown });
    }
}

/// Takes orders until the input ends.
pub(crate) async fn serve(args: ChaosClientArgs) -> Result<Exit, Failure> {
    // However its parent dies: a stopped client does not see its input end.
    set_pdeathsig(Signal::SIGKILL).map_err(|error| Failure::internal(format!("no parent-death signal: {error}")))?;
    let source = args.source.without_settings().resolve(None, Voice::new(true, 0))?;
    let told = Arc::new(Told { process: args.process, register: args.register });
    let (sender, mut orders) = unbounded_channel();
    let reader = read_orders(sender);
    let work = async {
        let mut clients = Vec::new();
        for _ in 0..args.clients {
            clients.push(connect(source.url(), &told).await?);
        }
        let mut tasks = obey(&clients, &told, &mut orders).await;
        // Each task gives its hold back when its orders end.
        let farewell = async {
            while tasks.join_next().await.is_some() {}
            for locks in &clients {
                let _ = locks.shutdown().await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
        Ok(Exit::Success)
    };
    tokio::pin!(work);
    tokio::select! {
        ended = &mut work => ended,
        // Not connected yet: there is nothing to give back.
        () = reader => tokio::time::timeout(FAREWELL * 2, work).await.unwrap_or(Ok(Exit::Success)),
    }
}

/// Reads orders on a thread of its own; ends with the input.
async fn read_orders(to: UnboundedSender<Order>) {
    let (at_end, ended) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _at_end = at_end;
        for line in io::stdin().lock().lines() {
            let Some(order) = line.ok().and_then(|line| serde_json::from_str(&line).ok()) else { return };
            if to.send(order).is_err() {
                return;
            }
        }
    });
    let _dropped_at_the_end = ended.await;
}

/// Connects, however often that takes: the server may be broken just now. Only what no server can mend ends it.
async fn connect(url: &str, told: &Told) -> Result<Locker, Failure> {
    let label = format!("chaos client {}", told.process);
    loop {
        match lockyard::connect_with(url, |builder| builder.label(label.as_str())).await {
            Ok(locks) => return Ok(locks),
            Err(error) if matches!(error.kind(), ErrorKind::Config | ErrorKind::Unsupported | ErrorKind::Auth) => {
                return Err(error.into());
            }
            Err(error) => told.failed(0, "", "connect", &error),
        }
        Clock::system().sleep(AGAIN).await;
    }
}

async fn obey(clients: &[Locker], told: &Arc<Told>, orders: &mut UnboundedReceiver<Order>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let mut running: HashMap<u64, UnboundedSender<Do>> = HashMap::new();
    while let Some(order) = orders.recv().await {
        running.retain(|_, task| !task.is_closed());
        match &order.what {
            Do::Acquire { name, .. } | Do::Try { name } | Do::Race { name, .. } => {
                let Some(locks) = whose(clients, order.op) else { continue };
                let (sender, steps) = unbounded_channel();
                running.insert(order.op, sender);
                let register = told.register.as_ref().map(|folder| Register::new(folder, name));
                let task = task::Acquisition::new(order.op, name.clone(), Arc::clone(told), register);
                tasks.spawn(task.run(locks.clone(), order.what, steps));
            }
            // An acquisition that is over has nothing left to do.
            _ => drop(running.get(&order.op).map(|task| task.send(order.what))),
        }
    }
    tasks
}

/// The client that an order is for.
fn whose(clients: &[Locker], op: u64) -> Option<&Locker> {
    let number = op.checked_rem(u64::try_from(clients.len()).ok()?)?;
    clients.get(usize::try_from(number).ok()?)
}
