//! The claims of one session, and what the server's list of the session's nodes says about them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lockyard_api::{FencingToken, Owner, SessionWatch};

use crate::node;

/// A node of ours that the server has created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) path: String,
    /// The transaction that created it: the fencing token.
    pub(crate) czxid: i64,
}

/// What is known of one claim.
#[derive(Debug, Clone)]
pub(crate) enum State {
    /// A create is about to be sent, or its fate is unknown.
    Creating,
    /// It waits; `ahead` is the name of the next contender before it.
    Queued { node: Node, ahead: String },
    /// It holds the lock.
    Held { node: Node, hold: Hold },
    /// It is being undone: whatever it has may be deleted at any time.
    Leaving { node: Option<Node> },
}

/// A hold as it was granted.
#[derive(Debug, Clone)]
pub(crate) struct Hold {
    pub(crate) token: FencingToken,
    pub(crate) watch: SessionWatch,
    /// The last heartbeat that had been sent before the grant: only a later one must list the node.
    pub(crate) after_beat: u64,
}

/// Armed before the first byte leaves, forgotten when the server has proved that nothing is left.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<Owner, State>>);

impl Claims {
    /// Arms the undo of a new claim; of a known one, what is known.
    pub(crate) fn arm(&self, owner: Owner) -> Option<State> {
        let mut claims = self.lock();
        match claims.get(&owner) {
            Some(state) => Some(state.clone()),
            None => {
                claims.insert(owner, State::Creating);
                None
            }
        }
    }

    pub(crate) fn get(&self, owner: Owner) -> Option<State> {
        self.lock().get(&owner).cloned()
    }

    pub(crate) fn contains(&self, owner: Owner) -> bool {
        self.lock().contains_key(&owner)
    }

    /// Changes what is known of a claim, unless it was forgotten or is being undone meanwhile.
    pub(crate) fn set(&self, owner: Owner, state: State) {
        if let Some(slot) = self.lock().get_mut(&owner)
            && !matches!(slot, State::Leaving { .. })
        {
            *slot = state;
        }
    }

    /// Marks a claim as being undone and returns what it was; `None` when nothing is known of it.
    pub(crate) fn leave(&self, owner: Owner) -> Option<State> {
        let mut claims = self.lock();
        let slot = claims.get_mut(&owner)?;
        let node = match slot {
            State::Creating => None,
            State::Queued { node, .. } | State::Held { node, .. } => Some(node.clone()),
            State::Leaving { node } => node.clone(),
        };
        Some(std::mem::replace(slot, State::Leaving { node }))
    }

    pub(crate) fn forget(&self, owner: Owner) {
        self.lock().remove(&owner);
    }

    /// The owners of all claims, which are forgotten.
    pub(crate) fn drain(&self) -> Vec<Owner> {
        self.lock().drain().map(|(owner, _)| owner).collect()
    }

    /// Compares the claims with the nodes that the server says this session has, in answer to heartbeat number `beat`.
    pub(crate) fn audit(&self, listed: &[String], beat: u64) -> Audit {
        let mut audit = Audit::default();
        let claims = self.lock();
        let mut seen: HashMap<Owner, Vec<&str>> = HashMap::with_capacity(listed.len());
        for path in listed {
            let Some(owner) = node::owner_in(path) else { continue };
            seen.entry(owner).or_default().push(path);
            let stray = match claims.get(&owner) {
                None | Some(State::Leaving { .. }) => true,
                Some(State::Creating) => false,
                Some(State::Queued { node, .. } | State::Held { node, .. }) => node.path != *path,
            };
            if stray {
                audit.strays.push(path.clone());
            }
        }
        for (owner, state) in claims.iter() {
            if let State::Held { node, hold } = state
                && hold.after_beat < beat
                && !seen.get(owner).is_some_and(|paths| paths.contains(&node.path.as_str()))
            {
                audit.lost.push(hold.watch.clone());
            }
        }
        audit
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a heartbeat found.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    /// Holds whose node is gone.
    pub(crate) lost: Vec<SessionWatch>,
    /// Nodes of this session that belong to no live claim.
    pub(crate) strays: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use lockyard_api::{Clock, LostReason, Session};

    fn path(owner: Owner, sequence: u32) -> String {
        format!("/lockyard/job/_c_{owner}-lock-{sequence:010}")
    }

    fn node(owner: Owner, sequence: u32) -> Node {
        Node { path: path(owner, sequence), czxid: i64::from(sequence) }
    }

    fn held(owner: Owner, after_beat: u64) -> State {
        let session = Session::new(Clock::manual().now(), Duration::from_secs(1));
        let token = FencingToken::from_server(1).expect("small");
        State::Held { node: node(owner, 1), hold: Hold { token, watch: session.watch(), after_beat } }
    }

    #[test]
    fn a_missing_hold_is_lost_unless_it_is_younger_than_the_heartbeat() {
        let claims = Claims::default();
        let owner = Owner::random();
        claims.arm(owner);
        claims.set(owner, held(owner, 4));
        assert!(claims.audit(&[], 4).lost.is_empty());
        assert!(claims.audit(&[path(owner, 1)], 5).lost.is_empty());
        let audit = claims.audit(&[path(owner, 2)], 5);
        assert_eq!(audit.lost.len(), 1);
        audit.lost[0].revoke();
        let Some(State::Held { hold, .. }) = claims.get(owner) else { panic!("held") };
        assert_eq!(hold.watch.lost(), Some(LostReason::Revoked));
    }

    #[test]
    fn nodes_of_no_live_claim_are_strays() {
        let claims = Claims::default();
        let (holder, waiter, unknown, leaving) = (Owner::random(), Owner::random(), Owner::random(), Owner::random());
        for owner in [holder, waiter, leaving] {
            claims.arm(owner);
        }
        claims.set(holder, held(holder, 0));
        claims.set(leaving, State::Queued { node: node(leaving, 3), ahead: String::new() });
        claims.leave(leaving);
        let listed = [path(holder, 1), path(holder, 2), path(waiter, 7), path(unknown, 4), path(leaving, 3)];
        let strays = claims.audit(&listed, 1).strays;
        // The second node of the holder came from a create whose reply was lost (B17), the waiter's is on its way.
        assert_eq!(strays, [path(holder, 2), path(unknown, 4), path(leaving, 3)]);
    }

    #[test]
    fn a_claim_that_is_being_undone_is_not_brought_back() {
        let claims = Claims::default();
        let owner = Owner::random();
        assert!(claims.arm(owner).is_none() && claims.arm(owner).is_some());
        assert!(matches!(claims.leave(owner), Some(State::Creating)));
        claims.set(owner, held(owner, 0));
        assert!(matches!(claims.get(owner), Some(State::Leaving { node: None })));
        claims.forget(owner);
        claims.set(owner, held(owner, 0));
        assert!(claims.get(owner).is_none() && claims.leave(owner).is_none());
    }
}
