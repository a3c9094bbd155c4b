//! Advisory mode: session-level advisory locks, many on one session.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Error, ErrorKind, Fencing, FencingToken, Grant, Holder, IfBusy, Liveness, LivenessKind,
    LockName, Queueing, Release, Renew, Renewal, Result, Wake, Waking,
};
use sqlx::Row;
use sqlx::postgres::PgRow;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::classes::{RANGE, class_of};
use crate::config::PostgresConfig;
use crate::control::{Control, ServerFacts, column};
use crate::error;
use crate::fleet::Fleet;
use crate::keeper::{before_the_end, keep};
use crate::key::Key;
use crate::opener::{Opener, Purpose};
use crate::registry::{Entry, Held, Place, Registry, Wanted};
use crate::schema::Schema;
use crate::session::{Line, LockSession};
use crate::statements::Advisory as Sql;
use crate::waiter::{Stage, Tools, Waiter, confirm, heartbeat, wait_in_queue};

/// The client in advisory mode.
pub(crate) struct Advisory {
    config: PostgresConfig,
    control: Arc<Control>,
    opener: Arc<Opener>,
    fleet: Arc<Fleet>,
    registry: Registry,
    sql: Arc<Sql>,
    /// A session that waited, and is kept for the next wait.
    spare: Mutex<Option<Arc<LockSession>>>,
    runtime: Handle,
}

/// What a try found.
enum Tried {
    Granted(Grant),
    Busy,
}

impl Advisory {
    pub(crate) async fn connect(config: PostgresConfig, control: Arc<Control>, facts: ServerFacts) -> Result<Arc<Self>> {
        let sql = Arc::new(Sql::new(&Schema::from(&config)));
        let opener = Arc::new(Opener::new(&config, Arc::clone(&control), facts));
        let fleet = Fleet::new(Arc::clone(&opener), Arc::clone(&sql), config.sessions);
        RANGE.check(config.options.ttl)?;
        drop(fleet.choose(class_of(config.options.ttl)).await?);
        let (registry, spare, runtime) = (Registry::default(), Mutex::new(None), Handle::current());
        Ok(Arc::new(Self { config, control, opener, fleet, registry, sql, spare, runtime }))
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

    fn op_timeout(&self) -> Duration {
        self.config.options.op_timeout
    }

    pub(crate) async fn try_acquire(self: &Arc<Self>, claim: &Claim) -> Result<Attempt> {
        let key = self.key(&claim.name);
        let place = self.registry.book().find(key, claim.owner);
        match place {
            None => {}
            Some(Place::Outlived) => return Err(error::session_changed()),
            Some(Place::Shared(entry)) => {
                if let Some(answer) = self.repeat_shared(key, entry).await? {
                    return Ok(answer);
                }
            }
            Some(Place::Own(waiter)) => {
                if let Some(answer) = self.repeat_own(&waiter).await? {
                    return Ok(answer);
                }
            }
        }
        if claim.renew == Renew::Never {
            return self.start_own(Wanted::new(key, claim), claim, true).await;
        }
        match self.try_shared(key, claim).await? {
            Tried::Granted(grant) => Ok(Attempt::Granted(grant)),
            Tried::Busy if claim.if_busy == IfBusy::Leave => Ok(Attempt::Busy),
            Tried::Busy => self.start_own(Wanted::new(key, claim), claim, false).await,
        }
    }

    /// One statement on a shared session, unless this client itself has the key.
    async fn try_shared(self: &Arc<Self>, key: Key, claim: &Claim) -> Result<Tried> {
        // A session may end between choosing and using it; a fresh one is opened then.
        const MOVES: usize = 3;
        for _ in 0..MOVES {
            if self.registry.book().is_taken(key) {
                return Ok(Tried::Busy);
            }
            let chosen = self.fleet.choose(class_of(claim.ttl)).await?;
            let Some(line) = self.line(chosen.session()).await.map_err(Error::not_applied)? else { continue };
            if !self.registry.book().begin(key, claim.owner, chosen.session()) {
                return Ok(Tried::Busy);
            }
            let wanted = Wanted::new(key, claim);
            let op = try_on(line, wanted, self.registry.clone(), Arc::clone(&self.sql));
            return self.driven(chosen.session(), "trying", op).await?;
        }
        Err(Error::new(ErrorKind::Unreachable, "the sessions of this client end as soon as they are opened").not_applied())
    }

    /// A line within the operation timeout; `None` when the session is over.
    async fn line(&self, session: &Arc<LockSession>) -> Result<Option<Line>> {
        let line = timeout(self.op_timeout(), session.line()).await;
        line.map_err(|_| error::no_answer("waiting for an earlier statement of this session"))
    }

    /// Drives what was sent for at most the operation timeout; past it a task goes on with it, so that its outcome is known
    /// when the session answers again.
    async fn driven<T: Send + 'static>(
        &self,
        session: &Arc<LockSession>,
        doing: &str,
        op: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let mut op = Box::pin(op);
        if let Ok(answer) = timeout(self.op_timeout(), &mut op).await {
            return Ok(answer);
        }
        let session = Arc::clone(session);
        self.runtime.spawn(async move { before_the_end(&session, op).await.map(drop) });
        Err(error::no_answer(doing))
    }

    /// `None`: it has nothing any more and may try anew.
    async fn repeat_shared(&self, key: Key, entry: Entry) -> Result<Option<Attempt>> {
        // Waits for a try that is still under way.
        let Some(line) = self.line(&entry.session).await? else { return Err(error::session_changed()) };
        drop(line);
        let Some(Place::Shared(entry)) = self.registry.book().find(key, entry.owner) else { return Ok(None) };
        let Some(held) = entry.held else { return Ok(None) };
        self.repeat(&entry.session, key, &held).await.map(Some)
    }

    async fn repeat(&self, session: &Arc<LockSession>, key: Key, held: &Held) -> Result<Attempt> {
        self.confirmed(session).await?;
        if session.is_over() || !session.holds_key(key) {
            return Err(error::session_changed());
        }
        let (valid_from, _) = held.watch.lease();
        Ok(Attempt::Granted(Grant::new(Some(held.token), valid_from, Liveness::Session(held.watch.clone()))))
    }

    /// One heartbeat now.
    async fn confirmed(&self, session: &Arc<LockSession>) -> Result<()> {
        let (session, sql) = (Arc::clone(session), Arc::clone(&self.sql));
        let kept = Arc::clone(&session);
        self.driven(&kept, "confirming", async move { confirm(&session, &sql).await.map(drop) }).await.map(drop)
    }

    async fn repeat_own(&self, waiter: &Arc<Waiter>) -> Result<Option<Attempt>> {
        match waiter.stage() {
            Stage::Starting | Stage::Queued => Ok(Some(Attempt::Queued)),
            Stage::Won(grant) => {
                if waiter.fixed() && !waiter.session.is_over() {
                    return Ok(Some(Attempt::Granted(grant)));
                }
                let Some(held) = waiter.held() else { return Err(error::session_changed()) };
                self.repeat(&waiter.session, waiter.wanted.key, &held).await.map(Some)
            }
            // A limit of the server may have passed; what was lost with its connection is lost.
            Stage::Failed(ErrorKind::Capacity, _) => {
                self.registry.book().forget(waiter.wanted.key, waiter.wanted.owner);
                Ok(None)
            }
            Stage::Failed(..) | Stage::GivenUp | Stage::Vanished => Err(error::session_changed()),
        }
    }

    /// A session for this claim alone: to wait on, or because its lease is fixed.
    async fn start_own(self: &Arc<Self>, wanted: Wanted, claim: &Claim, fixed: bool) -> Result<Attempt> {
        let session = self.own_session(class_of(claim.ttl), wanted.key, fixed).await?;
        let waiter = Waiter::new(wanted, session, fixed);
        self.registry.book().wait(claim.owner, Arc::clone(&waiter));
        if claim.if_busy == IfBusy::Leave {
            return self.try_own(&waiter).await;
        }
        self.runtime.spawn(wait_in_queue(Arc::clone(&waiter), self.tools()));
        let started = timeout(self.op_timeout(), waiter.until(|stage| !matches!(stage, Stage::Starting))).await;
        match started.map_err(|_| error::no_answer("queueing"))? {
            Stage::Queued => {
                self.in_the_queue(&waiter).await?;
                Ok(Attempt::Queued)
            }
            Stage::Won(grant) => Ok(Attempt::Granted(grant)),
            Stage::Failed(kind, message) => {
                self.registry.book().forget(waiter.wanted.key, waiter.wanted.owner);
                Err(Error::new(kind, &*message))
            }
            Stage::Starting | Stage::GivenUp | Stage::Vanished => Err(error::session_changed()),
        }
    }

    fn tools(&self) -> Tools {
        let slice = self.config.wait_slice;
        let slice_limit = (!slice.is_zero()).then(|| slice.mul_f64(1.2) + self.op_timeout());
        let (sql, control) = (Arc::clone(&self.sql), Arc::clone(&self.control));
        Tools { sql, control, op_timeout: self.op_timeout(), slice_limit }
    }

    /// Where the order of arrival is promised, `Queued` is answered only when the server has the wait in its queue.
    async fn in_the_queue(&self, waiter: &Waiter) -> Result<()> {
        while self.config.wait_slice.is_zero() && matches!(waiter.stage(), Stage::Queued) {
            let row = self.control.row(self.sql.is_waiting(waiter.session.backend.pid), "queueing").await?;
            if row.map(|row| column::<bool>(&row, 0)).transpose()?.unwrap_or(false) {
                break;
            }
        }
        Ok(())
    }

    async fn try_own(&self, waiter: &Arc<Waiter>) -> Result<Attempt> {
        let Some(line) = self.line(&waiter.session).await? else { return Err(error::session_changed()) };
        let op = crate::waiter::try_once(Arc::clone(waiter), Arc::clone(&self.sql), line);
        let granted = self.driven(&waiter.session, "trying", op).await??;
        if let Some(grant) = granted {
            return Ok(Attempt::Granted(grant));
        }
        self.registry.book().forget(waiter.wanted.key, waiter.wanted.owner);
        waiter.session.close();
        Ok(Attempt::Busy)
    }

    async fn own_session(&self, class: Duration, key: Key, fixed: bool) -> Result<Arc<LockSession>> {
        if !fixed && let Some(session) = self.take_spare(class) {
            return Ok(session);
        }
        let session = self.opener.open(class, Purpose::Wait, &self.sql.for_waits(key)).await?;
        self.runtime.spawn(keep(Arc::clone(&session), heartbeat(&self.sql, fixed), true));
        Ok(session)
    }

    fn take_spare(&self, class: Duration) -> Option<Arc<LockSession>> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        if spare.class == class && !spare.is_over() && !spare.is_retiring() {
            return Some(spare);
        }
        spare.close();
        None
    }

    fn put_spare(&self, session: &Arc<LockSession>) {
        let before = self.spare.lock().unwrap_or_else(PoisonError::into_inner).replace(Arc::clone(session));
        if let Some(before) = before {
            before.close();
        }
    }

    pub(crate) async fn wait(&self, claim: &Claim) -> Result<Wake> {
        let key = self.key(&claim.name);
        let Some(Place::Own(waiter)) = self.registry.book().find(key, claim.owner) else { return Ok(Wake::Retry) };
        match waiter.until(|stage| !matches!(stage, Stage::Starting | Stage::Queued)).await {
            Stage::Won(grant) => Ok(Wake::Granted(grant)),
            Stage::Failed(kind, message) => Err(Error::new(kind, &*message)),
            _ => Ok(Wake::Retry),
        }
    }

    pub(crate) async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let key = self.key(&claim.name);
        let place = self.registry.book().find(key, claim.owner);
        let (session, fixed) = match place {
            Some(Place::Shared(entry)) => (entry.session, false),
            Some(Place::Own(waiter)) => (Arc::clone(&waiter.session), waiter.fixed()),
            Some(Place::Outlived) | None => return Ok(Renewal::Lost),
        };
        if !fixed {
            self.confirmed(&session).await?;
        }
        if session.is_over() || !session.holds_key(key) {
            return Ok(Renewal::Lost);
        }
        let valid_from = session.deadline().minus(session.class);
        Ok(Renewal::Renewed { ttl: session.class, valid_from })
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Result<Release> {
        let key = self.key(&claim.name);
        let place = self.registry.book().find(key, claim.owner);
        match place {
            Some(Place::Shared(entry)) => self.unlock(&entry.session, key, claim).await,
            Some(Place::Own(waiter)) => self.release_own(&waiter, key, claim).await,
            Some(Place::Outlived) | None => {
                self.registry.book().forget(key, claim.owner);
                Ok(Release::NotHeld)
            }
        }
    }

    async fn unlock(&self, session: &Arc<LockSession>, key: Key, claim: &Claim) -> Result<Release> {
        let line = self.line(session).await?;
        let Some(line) = line.filter(|_| session.holds_key(key)) else {
            self.surely_over(session).await?;
            self.registry.book().forget(key, claim.owner);
            return Ok(Release::NotHeld);
        };
        let op = unlock_on(line, key, claim.owner, self.registry.clone(), Arc::clone(&self.sql));
        self.driven(session, "unlocking", op).await?
    }

    /// A session that was given up for want of an answer may live on at the server, with what was sent on it: nothing is
    /// released until the server has ended it.
    async fn surely_over(&self, session: &LockSession) -> Result<()> {
        if session.is_over() && self.control.is_ghost(session.backend) {
            self.control.end_ghosts().await?;
        }
        Ok(())
    }

    async fn release_own(&self, waiter: &Arc<Waiter>, key: Key, claim: &Claim) -> Result<Release> {
        waiter.give_up();
        let ended = waiter.until(|stage| !matches!(stage, Stage::Starting | Stage::Queued));
        match timeout(self.op_timeout(), ended).await.map_err(|_| error::no_answer("cancelling a wait"))? {
            Stage::Won(_) => {
                let released = self.unlock(&waiter.session, key, claim).await;
                if released.is_ok() && !waiter.fixed() && !waiter.session.is_over() {
                    self.put_spare(&waiter.session);
                } else if released.is_ok() {
                    waiter.session.close();
                }
                released
            }
            Stage::Vanished => {
                self.surely_over(&waiter.session).await?;
                self.registry.book().forget(key, claim.owner);
                Ok(Release::Released)
            }
            Stage::GivenUp => {
                self.registry.book().forget(key, claim.owner);
                Ok(Release::Released)
            }
            Stage::Failed(..) | Stage::Starting | Stage::Queued => {
                self.surely_over(&waiter.session).await?;
                self.registry.book().forget(key, claim.owner);
                Ok(Release::NotHeld)
            }
        }
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
        Ok(holder.map(|mut holder| {
            holder.waiters = Some(waiters);
            holder
        }))
    }

    fn describe(&self, key: Key, row: &PgRow) -> Result<Holder> {
        let pid: i32 = column(row, 1)?;
        let program = column::<Option<String>>(row, 2)?.unwrap_or_default();
        let address = column::<Option<String>>(row, 3)?.map(|address| format!(" at {address}")).unwrap_or_default();
        let mut holder = Holder::new();
        holder.origin = Some(format!("process {pid} of {program:?}{address}"));
        self.registry.book().describe(key, pid, self.config.options.clock.now(), &mut holder);
        Ok(holder)
    }
}

impl Drop for Advisory {
    fn drop(&mut self) {
        self.fleet.close();
        if let Some(spare) = self.spare.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            spare.close();
        }
        for waiter in self.registry.book().waiters() {
            waiter.give_up();
            waiter.session.close();
        }
    }
}

/// The statement of a try, and what follows from its answer.
async fn try_on(mut line: Line, wanted: Wanted, registry: Registry, sql: Arc<Sql>) -> Result<Tried> {
    let Wanted { key, owner, label } = wanted;
    let answer = line.fetch(sql.try_lock(key)).await.and_then(|row| row.try_get::<Option<i64>, _>(0));
    match answer {
        Ok(None) => {
            registry.book().forget(key, owner);
            Ok(Tried::Busy)
        }
        Ok(Some(number)) => {
            let session = Arc::clone(line.session());
            let watch = session.hold(key);
            let token = FencingToken::from_server(u64::try_from(number).unwrap_or(u64::MAX))?;
            let (valid_from, _) = watch.lease();
            let held = Held { token, watch: watch.clone(), since: session.clock.now(), label };
            registry.book().granted(key, owner, held);
            Ok(Tried::Granted(Grant::new(Some(token), valid_from, Liveness::Session(watch))))
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

async fn unlock_on(
    mut line: Line,
    key: Key,
    owner: lockyard_api::Owner,
    registry: Registry,
    sql: Arc<Sql>,
) -> Result<Release> {
    let answer = line.fetch(sql.unlock(key)).await.and_then(|row| row.try_get::<bool, _>(0));
    match answer {
        Ok(true) => {
            line.session().drop_hold(key);
            registry.book().forget(key, owner);
            Ok(Release::Released)
        }
        Ok(false) => {
            tracing::error!(%key, pid = line.session().backend.pid, "the server does not know a lock of this session: closing it");
            registry.book().forget(key, owner);
            line.distrust();
            Ok(Release::NotHeld)
        }
        Err(failed) => Err(error::driver(failed, "unlocking")),
    }
}
