//! Scheduled jobs that run once across replicas.
//!
//! Every replica has the same schedule; the lock service decides which of them runs a slot. **The promise: at most one run
//! at a time while the lease holds, at most one start per scheduled slot, and the job must still be idempotent.** A
//! run can be cut short by a crash, and then its slot counts as used; a replica that was paused for longer than its lease can
//! act late, and only a resource that checks the fencing token refuses it. At most one start holds where fencing is
//! [`Durable`](lockyard_api::Fencing::Durable): a failover of Redis can lose the record of the slots.
//!
//! [`Job`] runs one tick, for who has timers already; [`Scheduler`] runs jobs by their schedules; [`Shards`] spreads fixed
//! items over the replicas that live; [`Slots`] claims slots under a lock of its caller; [`JobControl`] pauses, resumes and triggers by hand.

mod builder;
mod catalogue;
mod claim;
mod context;
mod control;
mod decide;
mod document;
mod error;
mod event;
mod hash;
mod item;
mod job;
mod lane;
mod least;
mod ledger;
mod members;
#[cfg(feature = "metrics")]
pub mod metrics;
mod names;
mod outcome;
mod pacer;
mod policy;
mod rank;
mod record;
mod run;
mod schedule;
mod scheduler;
mod shards;
mod slot;
mod slots;
mod supervise;
mod ticks;
mod validate;
mod wall_time;
mod work;

pub use builder::JobBuilder;
pub use catalogue::{Catalogue, Listed};
pub use context::RunContext;
pub use control::JobControl;
pub use error::{Invalid, JobError, RecordError, Result};
pub use event::{BreakerCause, JobEvent, JobObserver};
pub use item::Item;
pub use job::Job;
pub use outcome::{Outcome, Skipped};
pub use policy::{Backoff, Jitter, Misfire, OnConflict, OnCrash};
pub use record::{Entry, Pause, Record, Run, Status, Trigger};
pub use schedule::Schedule;
pub use scheduler::Scheduler;
pub use shards::Shards;
pub use slots::{ClaimedSlot, SlotClaim, Slots};
pub use ticks::Ticks;
pub use wall_time::WallTime;
pub use work::RunWork;
