//! One claim on its way to the head of its queue.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use lockyard_api::{Attempt, Claim, FencingToken, Grant, IfBusy, Liveness, Result, Wake};
use zookeeper_client::{Acls, CreateMode, CreateSequence, Error as Driver, Stat};

use crate::claims::{Hold, Node, State};
use crate::error;
use crate::node::{self, Place, Standing};
use crate::session::Live;

/// What an acquisition needs to know: the session, the claim, and where its node lies.
pub(crate) struct Contender<'a> {
    pub(crate) live: &'a Live,
    pub(crate) claim: &'a Claim,
    pub(crate) place: &'a Place,
    /// The directory that all locks lie in.
    pub(crate) base: &'a str,
    pub(crate) acls: Acls<'static>,
    /// What the node holds, for people who look.
    pub(crate) data: &'a [u8],
}

/// A node of ours and everybody who is there, as one answer tells it.
struct Seen {
    node: Node,
    standing: Standing,
}

impl Contender<'_> {
    /// Takes a place in the queue, or finds the one that the claim has, and says what it is worth.
    pub(crate) async fn attempt(&self, known: Option<State>) -> Result<Attempt> {
        if matches!(known, Some(State::Held { .. }))
            && let Some(seen) = self.find().await?
        {
            // Whoever stands before it now, by a counter that wrapped or a node made by hand: it was first.
            return self.grant(seen.node).map(Attempt::Granted);
        }
        let mut doubtful = known.is_some();
        // Whether a refusal would mean that nothing of this claim was ever made.
        let mut clean = !doubtful;
        loop {
            let seen = if doubtful { self.find().await? } else { self.create(clean).await? };
            clean = false;
            doubtful = match seen {
                Some(seen) => match self.ahead(&seen).await? {
                    Some(ahead) => return self.busy(seen.node, ahead).await,
                    None => return self.grant(seen.node).map(Attempt::Granted),
                },
                // Searched and not there: create. Created and not seen: search, it may have been deleted by hand.
                None => !doubtful,
            };
        }
    }

    /// Waits for the contender before this one to go, until nobody is before it.
    ///
    /// # Cancel safety
    /// May be dropped at any await: the node stays, its watch is taken back.
    pub(crate) async fn wait(&self, mut ahead: String) -> Result<Wake> {
        loop {
            // A node that is gone already leaves no watch behind, as an exists-watch would.
            match self.live.client.get_and_watch_data(&self.place.child(&ahead)).await {
                Ok((_, _, gone)) => {
                    // The driver panics when its task is gone, as after the end of its runtime.
                    if AssertUnwindSafe(gone.changed()).catch_unwind().await.is_err() {
                        self.live.session.end();
                        return Err(error::session_changed());
                    }
                }
                Err(Driver::NoNode) => {}
                Err(error) => self.passing(error, "watching").await?,
            }
            match self.find().await? {
                None => return Ok(Wake::Retry),
                Some(seen) => match self.ahead(&seen).await? {
                    None => return self.grant(seen.node).map(Wake::Granted),
                    Some(next) => {
                        self.queue(seen.node, next.clone());
                        ahead = next;
                    }
                },
            }
        }
    }

    /// Creates the node and lists the directory, in one flight. `None` when that must be looked into again.
    async fn create(&self, clean: bool) -> Result<Option<Seen>> {
        self.live.claims.set(self.claim.owner, State::Creating);
        let (mut created, mut listed) = self.pair(false).await?;
        while matches!(created, Err(Driver::NoNode)) {
            (created, listed) = self.pair(true).await?;
        }
        match (created, listed) {
            (Ok((stat, sequence)), Ok(children)) => {
                let node = Node { path: format!("{}{sequence}", self.place.prefix()), czxid: stat.czxid };
                Ok(self.seen(node, &children))
            }
            (Err(error), _) if clean && error::is_refusal(&error) => {
                Err(self.failed(error, "creating a node in").not_applied())
            }
            (Err(error), _) | (_, Err(error)) => {
                self.passing(error, "creating a node in").await?;
                self.find().await
            }
        }
    }

    /// One flight: create and list, behind the creation of the directory when it is known to be missing.
    async fn pair(
        &self,
        directory: bool,
    ) -> Result<(Result<(Stat, CreateSequence), Driver>, Result<Vec<String>, Driver>)> {
        let (client, place) = (&self.live.client, self.place);
        let container = CreateMode::Container.with_acls(self.acls);
        // Requests leave in the order in which the methods are called.
        let parent = directory.then(|| client.create(place.directory(), &[], &container));
        let create = client.create(place.prefix(), self.data, &CreateMode::EphemeralSequential.with_acls(self.acls));
        let list = client.list_children(place.directory());
        let parent = match parent {
            Some(parent) => parent.await.map(|_| ()),
            None => Ok(()),
        };
        let (created, listed) = (create.await, list.await);
        match parent {
            Err(Driver::NoNode) => self.make_base().await?,
            // What keeps the directory from being made is why there is no node in it.
            Err(error) if error != Driver::NodeExists && created == Err(Driver::NoNode) => {
                return Ok((Err(error), listed));
            }
            _ => {}
        }
        Ok((created, listed))
    }

    /// Looks for the node that this claim may have.
    async fn find(&self) -> Result<Option<Seen>> {
        loop {
            let (client, place) = (&self.live.client, self.place);
            let (known, queued) = match self.live.claims.get(self.claim.owner) {
                Some(State::Queued { node, .. }) => (Some(node), true),
                Some(State::Held { node, .. }) => (Some(node), false),
                _ => (None, false),
            };
            // A list that is old shows too many ahead, and never too few. Everything else is asked of the leader.
            let sync = (!queued).then(|| client.sync(place.directory()));
            let list = client.list_children(place.directory());
            let synced = match sync {
                Some(sync) => sync.await,
                None => Ok(()),
            };
            let children = match (synced, list.await) {
                (Ok(()), Ok(children)) => children,
                (Ok(()), Err(Driver::NoNode)) => {
                    self.missing();
                    return Ok(None);
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.passing(error, "listing").await?;
                    continue;
                }
            };
            if let Some(node) = known {
                let seen = self.seen(node, &children);
                if seen.is_none() {
                    self.missing();
                }
                return Ok(seen);
            }
            let Some(own) = place.own(&children) else { return Ok(None) };
            let path = place.child(own);
            match client.check_stat(&path).await {
                // Only a node of this session may be adopted: one of an earlier session dies with it.
                Ok(Some(stat)) if stat.ephemeral_owner == client.session_id().0 => {
                    return Ok(self.seen(Node { path, czxid: stat.czxid }, &children));
                }
                Ok(Some(_)) => return Err(error::session_changed()),
                Ok(None) => {}
                Err(error) => self.passing(error, "adopting").await?,
            }
        }
    }

    fn seen(&self, node: Node, children: &[String]) -> Option<Seen> {
        let standing = node::standing(children, self.place.name(&node.path));
        (standing != Standing::Missing).then_some(Seen { node, standing })
    }

    /// The name of the next contender before this one, if there is one.
    async fn ahead(&self, seen: &Seen) -> Result<Option<String>> {
        let tied = match &seen.standing {
            Standing::First | Standing::Missing => return Ok(None),
            Standing::Behind(ahead) => return Ok(Some(ahead.clone())),
            Standing::Tied(tied) => tied,
        };
        let mut last: Option<(i64, &String)> = None;
        for child in tied {
            let stat = self.live.client.check_stat(&self.place.child(child)).await;
            let Some(stat) = stat.map_err(|error| self.failed(error, "comparing"))? else { continue };
            if stat.czxid < seen.node.czxid && last.is_none_or(|(czxid, _)| czxid < stat.czxid) {
                last = Some((stat.czxid, child));
            }
        }
        Ok(last.map(|(_, child)| child.clone()))
    }

    fn grant(&self, node: Node) -> Result<Grant> {
        let hold = match self.live.claims.get(self.claim.owner) {
            Some(State::Held { node: held, hold }) if held == node => hold,
            _ => {
                let number = u64::try_from(node.czxid).unwrap_or(u64::MAX);
                Hold {
                    token: FencingToken::from_server(number)?,
                    watch: self.live.session.watch(),
                    after_beat: self.live.beats(),
                }
            }
        };
        let grant = Grant::new(Some(hold.token), hold.watch.lease().0, Liveness::Session(hold.watch.clone()));
        self.live.claims.set(self.claim.owner, State::Held { node, hold });
        Ok(grant)
    }

    async fn busy(&self, node: Node, ahead: String) -> Result<Attempt> {
        if self.claim.if_busy == IfBusy::Queue {
            self.queue(node, ahead);
            return Ok(Attempt::Queued);
        }
        // The answer is known, whatever becomes of the node: what is not deleted now is swept by the heartbeat.
        self.live.claims.set(self.claim.owner, State::Leaving { node: Some(node.clone()) });
        match self.live.client.delete(&node.path, None).await {
            Ok(()) | Err(Driver::NoNode) => {}
            Err(error) => {
                self.live.note(&error);
                self.live.sweep_soon();
            }
        }
        self.live.claims.forget(self.claim.owner);
        Ok(Attempt::Busy)
    }

    fn queue(&self, node: Node, ahead: String) {
        self.live.claims.set(self.claim.owner, State::Queued { node, ahead });
    }

    /// The known node is gone: deleted by hand, since nothing else deletes it while the session lives.
    fn missing(&self) {
        if let Some(State::Held { hold, .. }) = self.live.claims.get(self.claim.owner) {
            hold.watch.revoke();
        }
        self.live.claims.set(self.claim.owner, State::Creating);
    }

    /// The namespace or the chroot was deleted by hand.
    async fn make_base(&self) -> Result<()> {
        let mode = CreateMode::Persistent.with_acls(self.acls);
        match self.live.client.mkdir(self.base, &mode).await {
            Ok(()) => Ok(()),
            Err(error) => self.passing(error, "creating the namespace").await,
        }
    }

    /// Waits until the driver is connected again, if that can mend the error.
    async fn passing(&self, error: Driver, doing: &str) -> Result<()> {
        self.live.note(&error);
        if self.live.session.is_ended() || !error::is_passing(&error) {
            return Err(self.failed(error, doing));
        }
        tracing::debug!(%error, doing, directory = self.place.directory(), "will try again when connected");
        self.live.online().await
    }

    fn failed(&self, error: Driver, doing: &str) -> lockyard_api::Error {
        error::of_driver(error, &format!("{doing} {}", self.place.directory()))
    }
}
