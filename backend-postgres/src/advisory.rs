//! Advisory mode: session-level advisory locks, many on one session.

use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Error, ErrorKind, Fencing, FencingToken, Grant, Holder, IfBusy, LivenessKind,
    LockName, Owner, Queueing, Release, Renew, Renewal, Result, Wake, Waking,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::runtime::Handle;

use crate::classes::{RANGE, class_of};
use crate::config::PostgresConfig;
use crate::control::{Control, ServerFacts, column};
use crate::driven::{driven, line_within};
use crate::error;
use crate::fleet::Fleet;
use crate::keeper::{Heartbeat, beat};
use crate::key::Key;
use crate::locking::Locking;
use crate::opener::Opener;
use crate::own::Own;
use crate::registry::{Held, Place, Registry, Wanted};
use crate::schema::Schema;
use crate::session::{Line, LockSession};
use crate::statements::Advisory as Sql;

/// The client in advisory mode.
pub(crate) struct Advisory {
    config: PostgresConfig,
    control: Arc<Control>,
    fleet: Arc<Fleet>,
    registry: Registry,
    own: Own,
    sql: Arc<Sql>,
    runtime: Handle,
}

/// What a try on a shared session found.
enum Tried {
    Granted(Grant),
    Busy,
}

impl Advisory {
    pub(crate) async fn connect(
        config: PostgresConfig,
        control: Arc<Control>,
        facts: ServerFacts,
    ) -> Result<Arc<Self>> {
        RANGE.check(config.options.ttl)?;
        let sql = Arc::new(Sql::new(&Schema::from(&config)));
        // One session that has waited is kept for the next wait.
        let opener = Arc::new(Opener::new(&config, Arc::clone(&control), facts, 1));
        let fleet = Fleet::new(Arc::clone(&opener), Arc::clone(&sql), config.sessions);
        drop(fleet.choose(class_of(config.options.ttl)).await?);
        let heartbeat = Heartbeat::Advisory(Arc::clone(&sql));
        let own = Own::new(&config, opener, Arc::clone(&control), heartbeat);
        let (registry, runtime) = (Registry::default(), Handle::current());
        Ok(Arc::new(Self { config, control, fleet, registry, own, sql, runtime }))
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("postgres-advisory", RANGE);
        capabilities.queue = if self.config.wait_slice.is_zero() { Queueing::Fifo } else { Queueing::Unordered };
        capabilities.wake = Waking::Pushed;
        capabilities.liveness = LivenessKind::Session;
        capabilities.fencing = Fencing::Durable;
        capabilities.expires_hung = true;
        capabilities.slack = Duration::from_secs(1);
        capabilities.fixed_lease = true;
        capabilities.inspect = true;
        capabilities
    }

    fn key(&self, name: &LockName) -> Key {
        Key::of(&self.config.options.namespace, name)
    }

    fn driven<'a, T: Send + 'static>(
        &'a self,
        session: &'a Arc<LockSession>,
        doing: &'a str,
        op: impl Future<Output = T> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send + 'a {
        driven(&self.runtime, self.config.options.op_timeout, session, doing, op)
    }

    async fn line(&self, session: &Arc<LockSession>) -> Result<Option<Line>> {
        line_within(self.config.options.op_timeout, session).await
    }

    pub(crate) async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        let key = self.key(&claim.name);
        let place = self.registry.book().look(key, claim.owner);
        // Boxed, all but the try: what seldom runs should not be carried about by every acquire.
        let repeated = match &place {
            Place::Own(session) => Box::pin(self.repeat_shared(key, claim.owner, session)).await?,
            Place::Outlived => return Err(error::session_changed()),
            Place::Taken | Place::Free => match self.own.find(claim.owner) {
                Some(waiter) => Box::pin(self.own.repeat(&waiter)).await?,
                None => None,
            },
        };
        if let Some(answer) = repeated {
            return Ok(answer);
        }
        if claim.renew == Renew::Never || self.own.is_crowded(claim) {
            return Box::pin(self.start(key, claim)).await;
        }
        let tried = if matches!(place, Place::Taken) { Tried::Busy } else { self.try_shared(key, claim).await? };
        match tried {
            Tried::Granted(grant) => Ok(Attempt::Granted(grant)),
            Tried::Busy if claim.if_busy == IfBusy::Leave => Ok(Attempt::Busy),
            Tried::Busy => {
                self.own.found_held(claim);
                Box::pin(self.start(key, claim)).await
            }
        }
    }

    /// On a session that the claim has for itself.
    async fn start(&self, key: Key, claim: &Claim) -> Result<Attempt> {
        self.own.start(claim, Locking::Advisory(Arc::clone(&self.sql), key), false).await
    }

    /// The answer to a claim that has asked before. `None` when it has nothing any more.
    async fn repeat_shared(&self, key: Key, owner: Owner, session: &Arc<LockSession>) -> Result<Option<Attempt>> {
        // Waits for a try that is still under way.
        let Some(line) = self.line(session).await? else { return Err(error::session_changed()) };
        drop(line);
        let Some(held) = self.registry.book().held(key, owner) else { return Ok(None) };
        match self.confirmed(session, key).await? {
            Renewal::Renewed { .. } => Ok(Some(Attempt::Granted(held.grant()))),
            _ => Err(error::session_changed()),
        }
    }

    /// One heartbeat now, and how the hold stands after it.
    async fn confirmed(&self, session: &Arc<LockSession>, key: Key) -> Result<Renewal> {
        let (kept, heartbeat) = (Arc::clone(session), Heartbeat::Advisory(Arc::clone(&self.sql)));
        self.driven(session, "confirming", async move { beat(&kept, &heartbeat).await.map(drop) }).await?;
        Ok(session.renewal(key))
    }

    /// One statement on a shared session, unless this client itself has the key.
    async fn try_shared(&self, key: Key, claim: &Claim) -> Result<Tried> {
        // A session may end between being chosen and being used; another one is opened then.
        const MOVES: usize = 3;
        for _ in 0..MOVES {
            let chosen = self.fleet.choose(class_of(claim.ttl)).await?;
            let Some(line) = self.line(chosen.session()).await.map_err(Error::not_applied)? else { continue };
            if !self.registry.book().begin(key, claim.owner, chosen.session()) {
                return Ok(Tried::Busy);
            }
            let op = try_on(line, key, Wanted::new(claim), self.registry.clone(), Arc::clone(&self.sql));
            return self.driven(chosen.session(), "trying", op).await?;
        }
        Err(error::lost_before_use())
    }

    pub(crate) async fn wait(&self, claim: &Claim) -> Result<Wake> {
        self.own.wait(claim.owner).await
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let key = self.key(&claim.name);
        let place = self.registry.book().look(key, claim.owner);
        match place {
            Place::Own(session) => self.confirmed(&session, key).await,
            Place::Outlived => Ok(Renewal::Lost),
            Place::Taken | Place::Free => match self.own.find(claim.owner) {
                Some(waiter) => self.own.renew(&waiter).await,
                None => Ok(Renewal::Lost),
            },
        }
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Result<Release> {
        let key = self.key(&claim.name);
        let place = self.registry.book().look(key, claim.owner);
        match place {
            Place::Own(session) => self.unlock(&session, key, claim.owner).await,
            Place::Outlived => {
                self.registry.book().forget(key, claim.owner);
                Ok(Release::NotHeld)
            }
            Place::Taken | Place::Free => match self.own.find(claim.owner) {
                Some(waiter) => Box::pin(self.own.release(&waiter)).await,
                None => Ok(Release::NotHeld),
            },
        }
    }

    async fn unlock(&self, session: &Arc<LockSession>, key: Key, owner: Owner) -> Result<Release> {
        let line = self.line(session).await?;
        let Some(line) = line.filter(|_| session.has(key)) else {
            Box::pin(self.control.surely_over(session)).await?;
            self.registry.book().forget(key, owner);
            return Ok(Release::NotHeld);
        };
        let op = unlock_on(line, key, owner, self.registry.clone(), Arc::clone(&self.sql));
        self.driven(session, "unlocking", op).await?
    }

    pub(crate) async fn inspect(self: &Arc<Self>, name: &LockName) -> Result<Option<Holder>> {
        let (client, key) = (Arc::clone(self), self.key(name));
        // On a task: the side connection must not wait for a caller who keeps this future without polling it.
        let looked = self.runtime.spawn(async move { client.look(key).await }).await;
        looked.map_err(|failed| Error::new(ErrorKind::Shutdown, "the runtime is shutting down").with_source(failed))?
    }

    async fn look(&self, key: Key) -> Result<Option<Holder>> {
        let rows = self.control.rows(self.sql.inspect(key), "inspecting").await?;
        let mut holder = None;
        let mut waiters = 0;
        for row in &rows {
            if column::<bool>(row, 0)? {
                holder = Some(self.describe(key, row)?);
            } else {
                waiters += 1;
            }
        }
        Ok(holder.map(|mut holder: Holder| {
            holder.waiters = Some(waiters);
            holder
        }))
    }

    fn describe(&self, key: Key, row: &PgRow) -> Result<Holder> {
        let pid: i32 = column(row, 1)?;
        let mut holder = Holder::new();
        holder.origin = Some(origin(pid, column(row, 2)?, column(row, 3)?));
        let ours = self.registry.book().held_by(key, pid).or_else(|| self.own.held_by(key.into(), pid));
        if let Some((owner, held)) = ours {
            held.describe(owner, self.config.options.clock.now(), &mut holder);
        }
        Ok(holder)
    }
}

impl Drop for Advisory {
    fn drop(&mut self) {
        self.fleet.close();
    }
}

/// Where a hold comes from, as the server shows it.
pub(crate) fn origin(pid: i32, program: Option<String>, address: Option<String>) -> String {
    let program = program.unwrap_or_default();
    match address {
        Some(address) => format!("process {pid} of {program:?} at {address}"),
        None => format!("process {pid} of {program:?}"),
    }
}

/// The statement of a try, and what follows from its answer.
async fn try_on(mut line: Line, key: Key, wanted: Wanted, registry: Registry, sql: Arc<Sql>) -> Result<Tried> {
    let owner = wanted.owner;
    let answer = line.fetch(sql.try_lock(key)).await.and_then(|row| row.try_get::<Option<i64>, _>(0));
    match answer {
        Ok(None) => {
            registry.book().forget(key, owner);
            Ok(Tried::Busy)
        }
        Ok(Some(number)) => {
            let watch = line.session().hold(key);
            let token = FencingToken::from_server(u64::try_from(number).unwrap_or(u64::MAX))?;
            let held = Held { token, watch, since: line.session().clock.now(), label: wanted.label };
            let grant = held.grant();
            registry.book().granted(key, owner, held);
            Ok(Tried::Granted(grant))
        }
        Err(failed) if error::session_survives(&failed) => {
            // A session-level lock outlives the failure of the statement that took it.
            line.fetch(sql.unlock(key)).await.map_err(|failed| error::driver(failed, "undoing a try"))?;
            registry.book().forget(key, owner);
            Err(error::driver(failed, "trying").not_applied())
        }
        Err(failed) => Err(error::driver(failed, "trying")),
    }
}

async fn unlock_on(mut line: Line, key: Key, owner: Owner, registry: Registry, sql: Arc<Sql>) -> Result<Release> {
    let answer = line.fetch(sql.unlock(key)).await.and_then(|row| row.try_get::<bool, _>(0));
    match answer {
        Ok(true) => {
            line.session().drop_hold(key);
            registry.book().forget(key, owner);
            Ok(Release::Released)
        }
        Ok(false) => {
            line.unknown_to_server(key);
            registry.book().forget(key, owner);
            Ok(Release::NotHeld)
        }
        Err(failed) if error::session_was_ended(&failed) => {
            line.distrust();
            registry.book().forget(key, owner);
            Ok(Release::NotHeld)
        }
        Err(failed) => Err(error::driver(failed, "unlocking")),
    }
}
