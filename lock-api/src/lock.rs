//! The trait that a backend implements, and its contract.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Attempt, Capabilities, Claim, Holder, LockName, Release, Renewal, Result, Wake};

/// What a backend implements: six short methods over names, owners and tokens.
///
/// There are no guards, no loops and no background policy here: waiting, cancellation, renewal, drop, deadlines and the
/// local queue are written once, in [`Locker`](crate::Locker), which is what people use.
///
/// # Contract
///
/// Each line is a group of checks in the conformance suite; a check's name starts with the word in brackets.
///
/// 1. \[`exclusion`\] A name has one holder at a time.
/// 2. \[`owner`\] Exclusion is by owner: two claims exclude each other also inside one client and one session, and also when
///    no local queue stands in front.
/// 3. \[`repeat`\] Within a session, repeating `try_acquire` with the same claim returns the same token and a fresh lease;
///    in a later session it answers `SessionChanged`. A repeat by a queued owner refreshes its place and finds a grant
///    whose message was lost.
/// 4. \[`leave`\] `IfBusy::Leave` leaves nothing on the server when the name is held.
/// 5. \[`release`\] `release` touches only its owner's claim. It works for a hold, for a place in the queue and for
///    nothing at all; a request that arrives after its undo leaves nothing for longer than the ttl.
/// 6. \[`token`\] Tokens rise strictly per name, across a restart where fencing is `Durable`. A waiter draws none.
///    \[`register`\] Where the backend keeps a [`FencedRegister`](crate::FencedRegister), that refuses who comes late.
/// 7. \[`lease`\] A lease ends at the server no earlier than the granted ttl and no later than it plus `slack`.
/// 8. \[`loss`\] The loss of a session ends all its holds and is signalled; the loss of one hold is signalled for it.
/// 9. \[`stale`\] A grant never rests on an entry of an earlier session.
/// 10. \[`fifo`\] `Queueing::Fifo` is the order in which `Queued` was answered.
/// 11. \[`wait`\] A dropped `wait` harms nobody, and a waiter does not block the holder's own work on the server.
/// 12. \[`wake`\] No wake-up is lost for longer than `recheck`.
/// 13. \[`name`\] Names that differ, and namespace and name pairs that differ, are different locks.
/// 14. \[`outcome`\] An error says `NotApplied` only if that is certain.
/// 15. \[`hung`\] A holder that hangs loses the lock within its granted ttl plus `slack` (`expires_hung`).
/// 16. \[`inspect`\] `inspect` tells the truth and takes nothing.
///
/// # Rules for authors
///
/// - `try_acquire`, `renew`, `release` and `inspect` are writes: they end by themselves within the operation timeout, and
///   the front end drives them to their end even when their caller has gone.
/// - Only `wait` is dropped half-way, at any await. It writes nothing that matters.
/// - Outside a write, no lock, connection or permit that others need is held across an await: a caller may keep a
///   future without polling it.
/// - `valid_from` is the clock read just before the request was sent.
/// - No method panics, on any reply.
#[async_trait]
pub trait DistributedLock: fmt::Debug + Send + Sync + 'static {
    /// What this backend promises. Does not change during the life of the client.
    fn capabilities(&self) -> Capabilities;

    /// Takes the name for this claim, or a place in its queue.
    ///
    /// Short and writing. Repeated by the present owner it restarts the lease in full and answers with the same token;
    /// repeated by a queued owner it refreshes its place and finds a grant whose message was lost.
    ///
    /// # Errors
    /// `SessionChanged` when the claim belongs to a session that has ended; otherwise what the server or the network did.
    /// Unless the outcome is `NotApplied`, the claim must be released.
    ///
    /// # Cancel safety
    /// Not to be dropped before its end: the front end sees to that.
    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt>;

    /// Listens until the claim is granted or should be tried again. Only after `Queued`.
    ///
    /// # Errors
    /// What happened to the connection; the claim stays as it is and may be tried again or released.
    ///
    /// # Cancel safety
    /// May be dropped at any await; the claim keeps its place until it is released.
    async fn wait(&self, claim: &Claim) -> Result<Wake>;

    /// Extends a lease, or confirms that a session-bound hold still stands.
    ///
    /// # Errors
    /// An error means unknown, not lost.
    ///
    /// # Cancel safety
    /// As `try_acquire`.
    async fn renew(&self, claim: &Claim) -> Result<Renewal>;

    /// Undoes whatever this owner has on this name: a hold, a place in the queue, or nothing. Idempotent.
    ///
    /// # Errors
    /// An error means that the claim may still be there; the call may be repeated.
    ///
    /// # Cancel safety
    /// As `try_acquire`.
    async fn release(&self, claim: &Claim) -> Result<Release>;

    /// Tells who holds the name: since when, until when, who waits. `None` when nobody does. Never acquires.
    ///
    /// # Errors
    /// `Unsupported` where the backend cannot tell; otherwise what the server or the network did.
    ///
    /// # Cancel safety
    /// May be dropped at any await.
    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>>;
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<T: DistributedLock + ?Sized> DistributedLock for Arc<T> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        (**self).try_acquire(claim).await
    }

    async fn wait(&self, claim: &Claim) -> Result<Wake> {
        (**self).wait(claim).await
    }

    async fn renew(&self, claim: &Claim) -> Result<Renewal> {
        (**self).renew(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        (**self).release(claim).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        (**self).inspect(name).await
    }
}
