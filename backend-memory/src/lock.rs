//! The client of a memory server.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Capabilities, Claim, Clock, DistributedLock, Error, ErrorKind, Grant, Holder, Liveness, LockName, Moment,
    Namespace, Owner, Release, Renew, Renewal, Result, Session, Wake, async_trait,
};
use tokio::runtime::Handle;

use crate::link::MemoryLink;
use crate::options::{MemoryLiveness, MemoryOptions};
use crate::server::MemoryServer;
use crate::session::{Open, Sessions, heartbeat};
use crate::table::{Held, Key, Place, SessionOver, Table, Tried};

/// One client of a [`MemoryServer`]: a session of its own. Clones are the same client.
///
/// Where holds rest on sessions, a heartbeat keeps the session while the client lives; it needs a tokio runtime. When the
/// last clone is dropped, the session ends.
#[derive(Debug, Clone)]
pub struct MemoryLock {
    client: Arc<Client>,
}

#[derive(Debug)]
pub(crate) struct Client {
    server: MemoryServer,
    namespace: Namespace,
    link: Arc<MemoryLink>,
    sessions: Sessions,
}

impl MemoryLock {
    pub(crate) fn new(server: MemoryServer, namespace: Namespace) -> Self {
        let link = Arc::new(MemoryLink::new());
        Self { client: Arc::new(Client { server, namespace, link, sessions: Sessions::default() }) }
    }

    /// The way between this client and the server, to disturb it.
    #[must_use]
    pub fn link(&self) -> &Arc<MemoryLink> {
        &self.client.link
    }

    /// Ends this client's session at the server, as an operator would. Nothing happens where holds have leases.
    pub fn end_session(&self) {
        if let Some(open) = self.client.sessions.current() {
            self.client.server.end_session(open.id);
        }
    }

    /// The session to send a request by, opened when there is none. `None` where holds have leases.
    async fn session(&self) -> Result<Option<Open>> {
        let client = &self.client;
        if client.options().liveness == MemoryLiveness::Lease {
            return Ok(None);
        }
        if let Some(open) = client.sessions.current() {
            return Ok(Some(open));
        }
        let sent = client.now();
        let id = client.call(|table, now| table.open_session(now)).await?;
        let open = client.sessions.adopt(Open { id, session: Session::new(sent, client.options().session_ttl) });
        if open.id != id {
            client.server.end_session(id);
        }
        if client.sessions.start_beating()
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(heartbeat(Arc::downgrade(client)));
        }
        Ok(Some(open))
    }

    /// A claim that was never sent before belongs to no earlier session: when the session turns out to be over, it is tried
    /// once more, by a new one.
    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        let client = &self.client;
        let Some(open) = self.session().await? else { return client.try_by(claim, None).await };
        let noted = client.sessions.note(claim.owner, open.id);
        if noted.is_some_and(|id| id != open.id) {
            return Err(SessionOver.into());
        }
        let answer = client.try_by(claim, Some(&open)).await;
        match &answer {
            Err(error) if error.kind() == ErrorKind::SessionChanged && noted.is_none() => {}
            _ => return answer,
        }
        client.sessions.forget(claim.owner);
        let Some(open) = self.session().await? else { return answer };
        client.sessions.note(claim.owner, open.id);
        client.try_by(claim, Some(&open)).await
    }
}

impl Client {
    /// Tries by this session, or by none where holds have leases.
    async fn try_by(&self, claim: &Claim, open: Option<&Open>) -> Result<Attempt> {
        let (sent, owner, key) = (self.now(), claim.owner, self.key(&claim.name));
        let (claim, id) = (claim.clone(), open.map(|open| open.id));
        let tried = self
            .call(move |table, now| {
                table.touch(id, now)?;
                table.try_acquire(&key, &claim, id, now)
            })
            .await?;
        let tried = self.heard(open, sent, tried)?;
        Ok(match tried {
            Tried::Busy => {
                self.sessions.forget(owner);
                Attempt::Busy
            }
            Tried::Queued => Attempt::Queued,
            Tried::Held(held) => Attempt::Granted(self.grant(owner, open, &held, sent)),
        })
    }

    /// A request was answered: the session lives, or it is over.
    fn heard<T>(&self, open: Option<&Open>, sent: Moment, answer: Result<T>) -> Result<T> {
        let Some(open) = open else { return answer };
        match &answer {
            Err(error) if error.kind() == ErrorKind::SessionChanged => self.sessions.over(open),
            _ => open.session.confirm(sent, self.options().session_ttl),
        }
        answer
    }

    /// The grant of a hold that stood when a request sent at `sent` arrived.
    fn grant(&self, owner: Owner, open: Option<&Open>, held: &Held, sent: Moment) -> Grant {
        let valid_from = if held.fixed { held.lease_from.min(sent) } else { sent };
        let liveness = match open {
            None => Liveness::Lease { ttl: held.ttl },
            Some(open) => Liveness::Session(self.sessions.watch(owner, open)),
        };
        Grant::new(Some(held.token), valid_from, liveness)
    }

    fn look(&self, claim: &Claim) -> Place {
        self.server.table().place(&self.key(&claim.name), claim.owner, self.now())
    }

    /// The grant that a listening waiter was told of.
    fn told(&self, owner: Owner, held: &Held) -> Result<Grant> {
        if self.options().liveness == MemoryLiveness::Lease {
            return Ok(self.grant(owner, None, held, held.lease_from));
        }
        // The session may have ended since: then its hold has too.
        let open = self.sessions.current().ok_or(SessionOver)?;
        Ok(self.grant(owner, Some(&open), held, open.session.lease().0))
    }

    pub(crate) fn beat_interval(&self) -> (Clock, Duration) {
        (self.options().clock.clone(), self.options().session_ttl / 3)
    }

    /// One heartbeat: confirms the session, and compares what the client believes to hold with what it holds.
    pub(crate) async fn beat(&self) {
        let Some(open) = self.sessions.current() else { return };
        let (sent, believed, id) = (self.now(), self.sessions.believed(), open.id);
        let answer = self
            .call(move |table: &mut Table, now| {
                table.touch(Some(id), now)?;
                Ok::<HashSet<Owner>, SessionOver>(table.holds_of(id))
            })
            .await;
        // Without an answer nothing is known: the watch's deadline goes by, and the next heartbeat may be answered.
        match answer {
            Ok(Ok(held)) => {
                open.session.confirm(sent, self.options().session_ttl);
                self.sessions.compare(&believed, &held);
            }
            Ok(Err(SessionOver)) => self.sessions.over(&open),
            Err(_) => {}
        }
    }

    async fn call<T: Send + 'static>(
        &self,
        request: impl FnOnce(&mut Table, Moment) -> T + Send + 'static,
    ) -> Result<T> {
        let server = self.server.clone();
        let arrive = move || {
            let now = server.options().clock.now();
            request(&mut server.table(), now)
        };
        self.link.call(&self.options().clock, self.options().op_timeout, arrive).await
    }

    /// Checks before the first byte leaves.
    fn check(&self, claim: &Claim) -> Result<()> {
        let capabilities = self.options().capabilities();
        capabilities.ttl.check(claim.ttl)?;
        capabilities.check_kind(claim.kind)?;
        if claim.renew == Renew::Never && !capabilities.fixed_lease {
            return Err(Error::unsupported("a hold that rests on its session has no lease of its own to be fixed"));
        }
        Ok(())
    }

    fn options(&self) -> &MemoryOptions {
        self.server.options()
    }

    fn now(&self) -> Moment {
        self.options().clock.now()
    }

    fn key(&self, name: &LockName) -> Key {
        Key { namespace: self.namespace.clone(), name: name.clone() }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A client that is cut off cannot say good-bye.
        if let Some(open) = self.sessions.current().filter(|_| !self.link.is_silent()) {
            self.server.end_session(open.id);
            open.session.end();
        }
    }
}

#[async_trait]
impl DistributedLock for MemoryLock {
    fn capabilities(&self) -> Capabilities {
        self.client.options().capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        self.client.check(claim)?;
        self.attempt(claim).await
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        let client = &self.client;
        let recheck = client.now().plus(MemoryOptions::recheck(claim.ttl));
        let mut link = client.link.watch();
        let cuts = link.borrow().cuts;
        loop {
            let state = *link.borrow_and_update();
            if state.cuts != cuts {
                return Ok(Wake::Retry);
            }
            // On such a link no message comes; the timer below is the client's own.
            let (notify, until) = match (state.silent || state.keeps_pushes, client.look(claim)) {
                (true, _) => (Arc::default(), recheck),
                (false, Place::Held(held)) => return client.told(claim.owner, &held).map(Wake::Granted),
                (false, Place::Ask) => return Ok(Wake::Retry),
                (false, Place::Waiting { notify, holder_until }) => (notify, holder_until.min(recheck)),
            };
            tokio::select! {
                () = notify.notified() => {}
                _ = link.changed() => {}
                () = client.options().clock.sleep_until(until) => return Ok(Wake::Retry),
            }
        }
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        let client = &self.client;
        let open = self.session().await?;
        let (sent, owner, key) = (client.now(), claim.owner, client.key(&claim.name));
        let id = open.as_ref().map(|open| open.id);
        let answer = client
            .call(move |table, now| {
                table.touch(id, now)?;
                Ok::<_, SessionOver>(table.renew(&key, owner, now))
            })
            .await?;
        // When the session is over, every hold of it is.
        let held = client.heard(open.as_ref(), sent, answer.map_err(Error::from)).unwrap_or_default();
        Ok(held.map_or(Renewal::Lost, |held| {
            let ttl = if open.is_some() { client.options().session_ttl } else { held.ttl };
            let valid_from = if held.fixed { held.lease_from } else { sent };
            Renewal::Renewed { ttl, valid_from }
        }))
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let client = &self.client;
        let (owner, key) = (claim.owner, client.key(&claim.name));
        let release = client.call(move |table, now| table.release(&key, owner, now)).await?;
        client.sessions.forget(owner);
        Ok(release)
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let key = self.client.key(name);
        self.client.call(move |table, now| table.inspect(&key, now)).await
    }
}
