//! An item that a member owns.

use std::sync::Arc;

use lockyard_api::{FencingToken, Guard, LockName, LostReason};

/// An item that this member owns. It is not given back while an `Item` of it exists; it can be lost.
#[derive(Debug, Clone)]
#[must_use = "the item is in use while this exists"]
pub struct Item {
    index: u32,
    guard: Arc<Guard>,
}

impl Item {
    pub(crate) const fn new(index: u32, guard: Arc<Guard>) -> Self {
        Self { index, guard }
    }

    /// Which item, from 0 on.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Whether it is owned, by the clock and at this call.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    /// The number that resources check, so that an owner that was paused too long cannot write late.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.guard.fencing_token()
    }

    /// Ends when the item is lost, and says why.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn lost(&self) -> LostReason {
        self.guard.lost().await
    }
}

impl AsRef<LockName> for Item {
    fn as_ref(&self) -> &LockName {
        self.guard.name()
    }
}

/// Gives an item back; one that is in use when its last user is done, by the drop of the guard.
pub(crate) async fn release(guard: Arc<Guard>) {
    if let Some(guard) = Arc::into_inner(guard)
        && let Err(error) = guard.release().await
    {
        // Repeated in the background; the lease ends it.
        tracing::warn!(%error, "an item is not given back yet");
    }
}
