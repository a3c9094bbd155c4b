//! A small backend: the example of docs/writing-a-backend.md.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, Error, Fencing, FencingToken, Grant, Holder, IfBusy,
    Liveness, LockName, Moment, Owner, Release, Renew, Renewal, Result, TtlRange, Wake, async_trait,
};
use lockyard_conformance::{Client, Fault, Harness, NoHarness, Runner};

#[derive(Debug, Default)]
struct Server {
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    held: HashMap<LockName, Row>,
    last_token: u64,
}

#[derive(Debug, Clone)]
struct Row {
    owner: Owner,
    token: FencingToken,
    ttl: Duration,
    started: Moment,
}

impl Row {
    fn ends(&self) -> Moment {
        self.started.plus(self.ttl)
    }
}

#[derive(Debug)]
struct TableLock {
    server: Arc<Server>,
    clock: Clock,
}

const POLL: Duration = Duration::from_millis(20);

impl TableLock {
    fn promises() -> Capabilities {
        let ttl = TtlRange::new(Duration::from_millis(10), Duration::from_secs(86_400), Duration::from_millis(1));
        let mut promises = Capabilities::new("table", ttl);
        promises.fencing = Fencing::Volatile;
        promises.expires_hung = true; // the server ends a lease whatever its holder does
        promises.slack = Duration::ZERO; // and at once
        promises.recheck = POLL;
        promises.inspect = true;
        promises
    }

    /// The rows, without what has ended.
    fn rows(&self) -> MutexGuard<'_, Rows> {
        let mut rows = self.server.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        rows.held.retain(|_, row| now < row.ends());
        rows
    }
}

#[async_trait]
impl DistributedLock for TableLock {
    fn capabilities(&self) -> Capabilities {
        Self::promises()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let promises = Self::promises();
        promises.ttl.check(claim.ttl)?; // 14: refused before any traffic
        promises.check_kind(claim.kind)?;
        if claim.renew == Renew::Never {
            return Err(Error::unsupported("the table has no fixed leases"));
        }
        let valid_from = self.clock.now();
        let mut rows = self.rows();
        let token = match rows.held.get(&claim.name) {
            Some(row) if row.owner == claim.owner => row.token, // 3
            // 4: `Leave` leaves nothing. Without a queue a waiter leaves nothing either: it will ask again.
            Some(_) if claim.if_busy == IfBusy::Leave => return Ok(Attempt::Busy),
            Some(_) => return Ok(Attempt::Queued),
            None => {
                rows.last_token += 1; // 6
                FencingToken::from_server(rows.last_token)?
            }
        };
        let ttl = promises.ttl.round_up(claim.ttl); // 7: never less than asked for
        let row = Row { owner: claim.owner, token, ttl, started: self.clock.now() };
        rows.held.insert(claim.name.clone(), row);
        Ok(Attempt::Granted(Grant::new(Some(token), valid_from, Liveness::Lease { ttl })))
    }

    async fn wait(&self, _claim: &Claim) -> Result<Wake> {
        self.clock.sleep(POLL).await; // 12
        Ok(Wake::Retry)
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let valid_from = self.clock.now();
        let mut rows = self.rows();
        match rows.held.get_mut(&claim.name) {
            Some(row) if row.owner == claim.owner => {
                row.started = self.clock.now();
                Ok(Renewal::Renewed { ttl: row.ttl, valid_from })
            }
            _ => Ok(Renewal::Lost), // 8: the server has said so; a server that does not answer is an `Err`
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let mut rows = self.rows();
        match rows.held.get(&claim.name) {
            Some(row) if row.owner == claim.owner => {
                rows.held.remove(&claim.name);
                Ok(Release::Released)
            }
            _ => Ok(Release::NotHeld), // 5: idempotent, and only ever its owner's
        }
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let now = self.clock.now();
        Ok(self.rows().held.get(name).map(|row| {
            let mut holder = Holder::new(); // 16: what is not known stays empty
            holder.owner = Some(row.owner);
            holder.token = Some(row.token);
            holder.expires_in = Some(row.ends().since(now));
            holder
        }))
    }
}

#[derive(Debug, Default)]
struct TableHarness {
    server: Arc<Server>,
}

#[async_trait]
impl Harness for TableHarness {
    async fn connect(&self) -> Result<Client> {
        Ok(Client::new(TableLock { server: Arc::clone(&self.server), clock: Clock::system() }))
    }

    async fn revoke(&self, claim: &Claim) -> Fault {
        self.server.rows.lock().unwrap_or_else(PoisonError::into_inner).held.remove(&claim.name);
        Fault::Done
    }

    async fn entries(&self, name: &LockName) -> Option<usize> {
        let rows = self.server.rows.lock().unwrap_or_else(PoisonError::into_inner);
        Some(usize::from(rows.held.contains_key(name)))
    }

    async fn last_token(&self, _name: &LockName) -> Option<u64> {
        Some(self.server.rows.lock().unwrap_or_else(PoisonError::into_inner).last_token)
    }
}

fn main() -> ExitCode {
    Runner::new("table", || async { Ok::<_, NoHarness>(TableHarness::default()) }).run()
}
