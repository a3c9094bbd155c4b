//! What each operation sends, and what the answers mean.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{
    Attempt, Claim, Clock, Error, ErrorKind, FencingToken, Holder, IfBusy, LockName, Release, Renew, Renewal, Result,
};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::claims::{Claims, Entry, Phase};
use crate::classes::Sessions;
use crate::error::Failure;
use crate::keys::{KeySpace, owner_of};
use crate::listing::{Contender, Entered, Listing, Own};
use crate::rpc::Rpc;
use crate::watch::{Passage, Watches};

/// How long a request may wander in the network after its sender gave it up.
const WANDERING: Duration = Duration::from_secs(7);

/// Everything behind a client: its connection, its claims, its sessions and its watches.
pub(crate) struct Operations {
    pub(crate) servers: String,
    pub(crate) keys: KeySpace,
    pub(crate) rpc: Rpc,
    pub(crate) clock: Clock,
    pub(crate) op_timeout: Duration,
    pub(crate) claims: Arc<Claims>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) watches: Arc<Watches>,
    /// Who we are, for people who inspect a lock.
    pub(crate) origin: String,
    /// Tasks end when it is dropped.
    pub(crate) _open: watch::Sender<()>,
}

impl Operations {
    pub(crate) fn leases(&self) -> Vec<i64> {
        self.sessions.leases()
    }

    /// Everything that one operation sends, within its time.
    pub(crate) async fn within<T>(
        &self,
        what: &str,
        sent: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let answer = timeout(self.op_timeout, sent).await;
        answer.unwrap_or_else(|_| Err(Failure::timed_out(what, self.op_timeout)))
    }

    /// The claim's entry; the first call finds it a session.
    pub(crate) async fn entry(&self, claim: &Claim) -> Result<Arc<Entry>> {
        let entry = match self.claims.find(claim) {
            Some(entry) => entry,
            None => {
                let session = self.sessions.of(claim.ttl).await?;
                self.claims.enter(claim, self.keys.lock(&claim.name), session)
            }
        };
        if entry.session.is_ended() { Err(session_changed()) } else { Ok(entry) }
    }

    pub(crate) async fn attempt(&self, claim: &Claim, entry: &Arc<Entry>) -> Result<Attempt, Failure> {
        let passage = self.watches.depart(&claim.name);
        let value = self.value(claim);
        let lease = entry.session.id();
        if claim.if_busy == IfBusy::Queue {
            let entered = self.rpc.enqueue(&entry.keys, &entry.key, &value, lease).await?;
            return self.entered(claim, entry, entered, passage).await;
        }
        let entered = self.rpc.enter_if_free(&entry.keys, &entry.key, &value, lease).await?;
        if entered.own.is_none() && !entered.listing.contenders.is_empty() {
            self.claims.remove(claim);
            return Ok(Attempt::Busy);
        }
        let entered = match entered.own {
            Some(_) => entered,
            // Something that is no contender lies in the range, so that it is never empty.
            None => self.rpc.enqueue(&entry.keys, &entry.key, &value, lease).await?,
        };
        let attempt = self.entered(claim, entry, entered, passage).await?;
        if !matches!(attempt, Attempt::Queued) {
            return Ok(attempt);
        }
        entry.leaving();
        self.watches.leave(&claim.name, entry);
        self.rpc.delete(&entry.key).await?;
        self.claims.remove(claim);
        Ok(Attempt::Busy)
    }

    /// What the key's place in the queue means.
    async fn entered(
        &self,
        claim: &Claim,
        entry: &Arc<Entry>,
        entered: Entered,
        passage: Option<Passage>,
    ) -> Result<Attempt, Failure> {
        let own = entered.own.ok_or_else(|| Failure::nonsense("entering the queue"))?;
        if !entry.is_ours(own.lease) {
            return Err(Failure::session_changed());
        }
        let ahead = self.ahead(entry, own, entered.listing).await?;
        if ahead.is_empty() {
            entry.hold(own.revision);
            if claim.renew == Renew::Never {
                self.fix(claim, entry, own.revision).await?;
            } else if let Some(passage) = passage {
                passage.guard(entry);
            }
        } else {
            entry.queued(own.revision);
            self.watches.enter(&claim.name, entry, own.revision, ahead, passage);
        }
        match entry.phase() {
            Phase::Queued(_) => Ok(Attempt::Queued),
            Phase::Held(_) => Ok(Attempt::Granted(entry.grant().map_err(Failure::from_api)?)),
            // Deleted at the server while the answer was on its way; `wait` says Retry.
            Phase::Unknown => Ok(Attempt::Queued),
        }
    }

    /// The contenders whose keys are older than the own one.
    async fn ahead(&self, entry: &Entry, own: Own, mut listing: Listing) -> Result<Vec<Contender>, Failure> {
        self.rpc.complete(&entry.keys, &mut listing).await?;
        listing.contenders.retain(|one| one.revision < own.revision);
        Ok(listing.contenders)
    }

    /// Gives a hold its own lease, which nobody keeps alive; a repeat gives it a new one.
    async fn fix(&self, claim: &Claim, entry: &Entry, revision: i64) -> Result<(), Failure> {
        let before = entry.fixed();
        let lease = self.rpc.grant(claim.ttl, &self.clock).await?;
        if !self.rpc.attach(&entry.key, &self.value(claim), revision, lease.id).await? {
            entry.gone(revision);
            return Err(Failure::session_changed());
        }
        entry.set_fixed(lease);
        if let Some(before) = before {
            // Without keys it is of no more use. If it stays, it runs out.
            let _ = self.rpc.revoke(before.id).await;
        }
        Ok(())
    }

    /// Reads the own key, and has the session confirmed by a keep-alive sent now.
    pub(crate) async fn confirm(&self, entry: &Entry) -> Result<Renewal, Failure> {
        let Phase::Held(revision) = entry.phase() else { return Ok(Renewal::Lost) };
        let asked = self.clock.now();
        let (own, ()) = tokio::join!(self.rpc.own(&entry.key), entry.session.confirm_after(asked));
        let stands = own?.is_some_and(|own| own.revision == revision && entry.is_ours(own.lease));
        if !stands {
            entry.gone(revision);
        }
        if !stands || entry.session.is_ended() {
            return Ok(Renewal::Lost);
        }
        let (valid_from, ttl) = entry.session.api().lease();
        Ok(Renewal::Renewed { ttl, valid_from })
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<Release, Failure> {
        Ok(if self.rpc.delete(key).await? { Release::Released } else { Release::NotHeld })
    }

    pub(crate) async fn leave(&self, entry: &Entry) -> Result<Release, Failure> {
        let release = self.delete(&entry.key).await?;
        if let Some(lease) = entry.fixed() {
            // Without its key it is of no more use. If it stays, it runs out.
            let _ = self.rpc.revoke(lease.id).await;
        }
        Ok(release)
    }

    pub(crate) async fn look(&self, name: &LockName) -> Result<Option<Holder>, Failure> {
        let keys = self.keys.lock(name);
        let range = self.rpc.oldest(&keys).await?;
        let contenders: Vec<_> = range.kvs.iter().filter(|kv| keys.is_contender(&kv.key)).collect();
        let Some(first) = contenders.first() else { return Ok(None) };
        let unread = u64::try_from(range.count).unwrap_or(0).saturating_sub(range.kvs.len() as u64);
        let mut holder = Holder::new();
        holder.owner = owner_of(&first.key);
        holder.token = u64::try_from(first.create_revision).ok().and_then(|n| FencingToken::from_server(n).ok());
        holder.waiters = Some(contenders.len() as u64 - 1 + unread);
        // Only a key of ours has a value of ours.
        if holder.owner.is_some()
            && let Ok(value) = std::str::from_utf8(&first.value)
        {
            let (origin, label) = value.split_once('\n').map_or((value, None), |(origin, label)| (origin, Some(label)));
            holder.origin = Some(origin.to_owned()).filter(|origin| !origin.is_empty());
            holder.label = label.map(Arc::from);
        }
        holder.expires_in = match first.lease {
            0 => None,
            lease => self.rpc.remaining(lease).await?,
        };
        Ok(Some(holder))
    }

    /// What stands in the claim's key: the origin, and after a line feed the label.
    fn value(&self, claim: &Claim) -> String {
        match &claim.label {
            None => self.origin.clone(),
            Some(label) => format!("{}\n{label}", self.origin),
        }
    }

    /// The error of an attempt, and what it leaves to do.
    pub(crate) fn failed(&self, claim: &Claim, entry: &Entry, first: bool, failure: Failure) -> Error {
        if failure.lease_is_gone() {
            entry.session.end();
            return session_changed().with_source(failure.into_error());
        }
        if !first {
            // An earlier request may have been applied, whatever became of this one.
            self.expect_strays(entry);
            return failure.into_error();
        }
        if failure.is_refused() {
            self.claims.remove(claim);
        } else {
            self.expect_strays(entry);
        }
        failure.into_first_error()
    }

    fn expect_strays(&self, entry: &Entry) {
        entry.session.expect_strays_until(self.clock.now().plus(2 * self.op_timeout + WANDERING));
    }
}

/// Nothing of the claim is on the server, nor will be: its lease is gone.
pub(crate) fn session_changed() -> Error {
    Error::new(ErrorKind::SessionChanged, "the session of this claim has ended: its lease is gone at the server")
        .not_applied()
}

/// Host and process.
pub(crate) fn origin() -> String {
    let host =
        ["/proc/sys/kernel/hostname", "/etc/hostname"].iter().find_map(|file| std::fs::read_to_string(file).ok());
    format!("{}:{}", host.as_deref().map_or("?", str::trim), std::process::id())
}
