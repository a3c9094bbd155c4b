//! Who takes part: a list in the register, and a lock a member that shows whether it lives.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use lockyard_api::{FencedRegister, Guard, LockName, Locker, Owner};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::document::Document;
use crate::ledger::Ledger;
use crate::{JobError, Result, names};

/// The members of a group, seen by one of them.
#[derive(Debug)]
pub(crate) struct Members {
    group: String,
    own: String,
    ttl: Duration,
    locks: Locker,
    list: Ledger<List>,
    /// The lock that shows that this member lives.
    life: Mutex<Option<Guard>>,
}

/// Those who have joined and were not seen dead.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct List {
    members: BTreeSet<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

impl Document for List {}

impl Members {
    pub(crate) fn new(
        group: &str,
        ttl: Duration,
        locks: &Locker,
        register: Arc<dyn FencedRegister>,
    ) -> Result<Self, lockyard_api::Error> {
        let own = Owner::random().to_string();
        // Checked here: the names of other members are as long.
        names::member(group, &own)?;
        let list = Ledger::new(register, locks.clock().clone(), group, names::members(group)?);
        Ok(Self { group: group.to_owned(), own, ttl, locks: locks.clone(), list, life: Mutex::default() })
    }

    pub(crate) fn own(&self) -> &str {
        &self.own
    }

    /// The members that live, this one among them. `None` when this one had not joined and has by this call.
    pub(crate) async fn look(&self) -> Result<Option<Vec<String>>> {
        self.live().await?;
        let listed = self.list.read().await?.record.members;
        let mut dead = BTreeSet::new();
        for member in listed.iter().filter(|member| **member != self.own) {
            let name = names::member(&self.group, member).map_err(|error| self.error(error))?;
            let holder = self.locks.inspect(name.as_str()).await.map_err(|error| self.error(error))?;
            if holder.is_none() {
                dead.insert(member.clone());
            }
        }
        let joined = listed.contains(&self.own);
        if !joined || !dead.is_empty() {
            let change = |list: &mut List| {
                let before = list.members.len();
                list.members.retain(|member| !dead.contains(member));
                list.members.insert(self.own.clone()) || list.members.len() < before
            };
            self.list.edit(change).await?;
        }
        Ok(joined.then(|| listed.difference(&dead).cloned().collect()))
    }

    /// Takes this member off the list.
    pub(crate) async fn leave(&self) -> Result<()> {
        self.list.edit(|list| list.members.remove(&self.own)).await?;
        if let Some(life) = self.life.lock().await.take() {
            life.release().await.map_err(|error| self.error(error))?;
        }
        Ok(())
    }

    /// Holds the lock that shows that this member lives.
    async fn live(&self) -> Result<()> {
        let mut life = self.life.lock().await;
        if life.as_ref().is_some_and(|guard| guard.lost_reason().is_none()) {
            return Ok(());
        }
        let name: LockName = names::member(&self.group, &self.own).map_err(|error| self.error(error))?;
        let taken = self.locks.lock(&name).ttl(self.ttl).try_acquire().await.map_err(|error| self.error(error))?;
        // Nobody else takes it: busy is what this member has lost and the server still has.
        if taken.is_some() {
            *life = taken;
        }
        Ok(())
    }

    fn error(&self, error: lockyard_api::Error) -> JobError {
        JobError::lock(&self.group, error)
    }
}
