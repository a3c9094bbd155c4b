//! The trait that every backend implements, its contract, and the front end that people use.
//!
//! [`DistributedLock`] is for authors of backends: six short methods. [`Locker`] is for everybody else.

mod attempt;
mod breaker;
mod builder;
mod capabilities;
mod claim;
mod clock;
mod error;
mod event;
mod front;
mod garbage;
mod guard;
mod lease;
mod lock;
mod locker;
mod loss;
#[cfg(feature = "metrics")]
pub mod metrics;
mod name;
mod observed;
mod owner;
mod reentrant;
mod register;
mod request;
mod session;
mod several;
mod token;
mod url;

pub use async_trait::async_trait;
pub use attempt::{Attempt, Grant, Holder, Liveness, Release, Renewal, Wake};
pub use breaker::{CircuitBreaker, CircuitChange, CircuitOpen};
pub use builder::LockerBuilder;
pub use capabilities::{Capabilities, Fencing, LivenessKind, Queueing, TtlRange, Waking};
pub use claim::{Claim, IfBusy, Kind, Renew};
pub use clock::{Clock, Moment};
pub use error::{Error, ErrorKind, Operation, Outcome, Result};
pub use event::{Event, Observer};
pub use garbage::{Collected, GarbageCollect, Unused};
pub use guard::{Guard, Lost};
pub use lease::Drift;
pub use lock::DistributedLock;
pub use locker::Locker;
pub use loss::LostReason;
pub use name::{LockName, Namespace};
pub use observed::ObservedRegister;
pub use owner::Owner;
pub use reentrant::{ReentrantGuard, ReentrantLocker};
pub use register::{Fenced, FencedRegister, Version, Write};
pub use request::LockRequest;
pub use session::{Session, SessionWatch};
pub use several::{Guards, LockAllRequest};
pub use token::FencingToken;
pub use url::{Host, LockUrl, Options, TlsFiles};
